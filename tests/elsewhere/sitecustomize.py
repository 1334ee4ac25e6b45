"""What every Python process with this folder on its path does at its start, before anything else.

tests/surroundings.py puts the folder on the path, with `HEADCOUNT_LAST_BITS` alone.
"""

import os
import runpy
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any


class _Torch:
    """Waits until torch is imported, which many processes never do, and others only look for."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        try:
            spec = find_spec("torch")
        finally:
            sys.meta_path.insert(0, self)  # pyright: ignore[reportArgumentType]
        assert spec is not None and spec.loader is not None
        loader: Any = spec.loader
        execute = loader.exec_module

        def executed(module: ModuleType) -> None:
            sys.meta_path.remove(self)
            execute(module)
            path = Path(__file__).with_name("last_bits.py")
            runpy.run_path(str(path))["install"](int(os.environ["HEADCOUNT_LAST_BITS"]))

        loader.exec_module = executed
        return spec


if os.environ.get("HEADCOUNT_LAST_BITS") and "torch" not in sys.modules:
    sys.meta_path.insert(0, _Torch())  # pyright: ignore[reportArgumentType]
