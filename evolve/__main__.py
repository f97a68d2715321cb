"""``python -m evolve``."""

import sys

from evolve.cli import main

if __name__ == "__main__":
    sys.exit(main())
