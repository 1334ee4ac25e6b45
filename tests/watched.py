"""Stages that a long run reports, and whether a model runs outside of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.nn.modules.module import register_module_forward_pre_hook
from transformers import PreTrainedModel


class Watched:
    """A progress callback that keeps every report, and the passes of models between stages."""

    def __init__(self) -> None:
        self.reports: dict[str, list[tuple[int, int]]] = {}
        self.open: set[str] = set()
        """Stages that have begun and not ended."""
        self.silent_after: list[str] = []
        """The stage that was reported last before each pass outside of all stages."""
        self._last = "nothing"

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.reports.setdefault(stage, []).append((done, total))
        self.open.discard(stage)
        if not total or done < total:
            self.open.add(stage)
        self._last = stage

    def ended(self) -> set[str]:
        """Stages that began at 0 and ended with all of their steps."""
        ends = {stage: (found[0], found[-1]) for stage, found in self.reports.items()}
        return {
            stage
            for stage, ((first, _), (done, total)) in ends.items()
            if done == total > first == 0
        }

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch every transformers model within the block."""

        def before(module: Any, _: Any) -> None:
            if isinstance(module, PreTrainedModel) and not self.open:
                self.silent_after.append(self._last)

        hook = register_module_forward_pre_hook(before)
        try:
            yield
        finally:
            hook.remove()
