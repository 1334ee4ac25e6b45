"""Entry point of `python -m headcount`; torchrun can start it too."""

import sys

from headcount.cli import main

sys.exit(main())
