"""``python -m evolve``."""

import os
import signal
import sys

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `stoppable` answers it, Ctrl-C ends this without a traceback
    if sys.path and not os.path.exists(os.path.join(sys.path[0], "evolve", "__main__.py")):
        del sys.path[0]  # the working folder: a seeds.py or numpy.py that lies there is not ours

try:
    from evolve.cli import main
except ModuleNotFoundError as problem:
    sys.exit(f"error: the package {problem.name} is missing. Run `uv sync`, or `pip install .`, and use that Python")
from evolve.streams import usable_streams

if __name__ == "__main__":
    usable_streams()
    sys.exit(main())
