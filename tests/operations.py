"""Operations that code of the package takes, counted, so that no clock decides what is slow."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, final

import headcount

PACKAGE = str(Path(headcount.__file__).parent)


@final
class Copied:
    """A Rust encoding, of which each property is a new list, whose items are counted."""

    def __init__(self, encoding: Any, count: Callable[[int], None]) -> None:
        self._encoding, self._count = encoding, count

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._encoding, name)
        self._count(len(found) if isinstance(found, list) else 1)
        return found


@final
class Operations:
    """The number of byte codes that functions of the package run, with what they copy."""

    def __init__(self) -> None:
        self.number = 0

    def add(self, number: int) -> None:
        self.number += number

    def of(self, run: Callable[[], object]) -> int:
        """The number that a call takes."""
        before, self.number = sys.gettrace(), 0
        sys.settrace(self._called)
        try:
            run()
        finally:
            sys.settrace(before)
        return self.number

    def _called(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._traced

    def _traced(self, frame: FrameType, event: str, _: object) -> Any:
        self.number += event == "opcode"
        return self._traced
