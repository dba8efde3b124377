"""``python -m ctfa`` is the command line."""

import sys

from ctfa.cli import main

sys.exit(main())
