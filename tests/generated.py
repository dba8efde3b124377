"""How many examples a law is asked of: all in the long run, a part of them in the short one."""

from hypothesis import settings

#: Examples in the short run are this part of all.
PART = 4


def examples(number):
    """Examples of a law that asks for so many: none is asked fewer than five."""
    long = settings.get_profile("ctfa").max_examples == settings.get_profile("default").max_examples
    return number if long else max(number // PART, 5)
