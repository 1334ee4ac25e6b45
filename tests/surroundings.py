"""What tests and the processes that they start inherit from whoever started pytest: no choice.

The file is imported before anything that reads its surroundings at its import.
"""

import os
import signal
import time
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
ELSEWHERE = Path(__file__).with_name("elsewhere")

OURS = (
    "HEADCOUNT_LAST_BITS",  # seed of another processor, tests/elsewhere/last_bits.py
    "HEADCOUNT_THREADS",  # threads of torch in each process, 1 by default
    "HEADCOUNT_FUZZ",
    "HEADCOUNT_FAULTS",
    "HEADCOUNT_NOTEBOOKS",
)
"""Variables that choose what is tested."""

_FAMILIES = ("HEADCOUNT_", "HF_", "HUGGING", "TRANSFORMERS_", "ACCELERATE_", "LC_", "XDG_", "MPL")
_NAMES = (
    *("TZ", "LANG", "LANGUAGE", "TERM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"),
    *("CLICOLOR", "CLICOLOR_FORCE", "PAGER", "EDITOR", "BROWSER", "TOKENIZERS_PARALLELISM"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("PYTHONWARNINGS", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONCOERCECLOCALE", "PYTHONOPTIMIZE"),
    *("PYTHONUNBUFFERED", "PYTHONSAFEPATH", "PYTHONHASHSEED", "PYTHONNOUSERSITE"),
)


THREADS = int(os.environ.get("HEADCOUNT_THREADS") or 1)
"""Threads of torch: tensors are tiny, and a second one costs more than it does."""

_CACHE = TemporaryDirectory(prefix="headcount-tests-")
"""Models and code that transformers caches; the user's own decide nothing."""

LAST_BITS = os.environ.get("HEADCOUNT_LAST_BITS")


def _make_neutral() -> None:
    """Set variables, signals and the like to the same for everybody."""
    for name in [*os.environ]:
        if name not in OURS and (name in _NAMES or name.startswith(_FAMILIES)):
            del os.environ[name]
    path = [str(ROOT)]
    if LAST_BITS:
        path.insert(0, str(ELSEWHERE))
    os.environ |= {
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "HF_HOME": _CACHE.name,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": str(THREADS),
        "PYTHONPATH": os.pathsep.join(path),
    }
    time.tzset()
    os.umask(0o022)
    _hear_signals()


def _hear_signals() -> None:
    """Let processes that tests start inherit no signal that is ignored, as under `nohup`.

    This process goes on ignoring it: a handler is not inherited.
    """
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


_make_neutral()
