"""Libraries that labelled data stand on; see ``ctfa.core.libraries``."""

from ctfa.core.libraries import need

__all__ = ["need"]
