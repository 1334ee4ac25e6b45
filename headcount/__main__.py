"""Entry point of `headcount` and `python -m headcount`; torchrun can start it too."""

import os
import signal
import sys
from types import FrameType


def _stop(number: int, _: FrameType | None) -> None:
    """End at once: while modules are imported, nothing is being written."""
    os.write(2, b"headcount: stopped\n")
    os._exit(128 + number)


def main() -> None:
    """Run the command, and exit with its status."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    from headcount import commands  # imports libraries, which takes a moment

    commands.plain_warnings()
    sys.exit(commands.main())


if __name__ == "__main__":
    main()
