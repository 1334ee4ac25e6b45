"""`python -m headcount`, which torchrun can start too."""

import sys

from headcount.cli import main

sys.exit(main())
