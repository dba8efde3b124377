"""The commands of the command line, one a file: ``add_to(commands)`` and a function that runs."""
