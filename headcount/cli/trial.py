"""What commands that train or prune share: a model, its task, data to learn and to measure on."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headcount.cli.columns import named_columns
from headcount.cli.task_arguments import TaskArguments
from headcount.errors import InputError
from headcount.models.load import Loaded
from headcount.models.shipped import place_of
from headcount.options import refuse_negative
from headcount.pruning import Units
from headcount.pruning.method import Method, Setting
from headcount.pruning.overlap import DataSet, warning
from headcount.pruning.ranked import Ranked
from headcount.signature import signature
from headcount.tasks import Task

Site = Literal["encoder.self", "decoder.self", "decoder.cross"]


@dataclass(frozen=True)
class LearningArguments(TaskArguments):
    """Data to learn from or to choose heads with, and to measure on."""

    dev: tuple[str, ...] = field(kw_only=True)
    """Files that the new model is measured on. `prune` chooses on them too (a budget that is
    searched, what makes up for the heads that go), so report --test."""
    test: tuple[str, ...] = ()
    """Held-out files: measured on, and nothing is chosen on them."""
    seed: int = 0
    """Of what is drawn: random orders, gates, batches, dropout, examples to score on, the masks
    of masked language modelling."""

    def loaded(self) -> Loaded:
        """The model.

        Raises:
            InputError: for what no seed can be, and for several processes.
        """
        refuse_negative(self.seed)
        return super().loaded()

    def files(self) -> list[Path]:
        """Everything that is read, where it is a file or folder here."""
        return [Path(place) for place in (place_of(self.model), *self.data, *self.dev, *self.test)]

    def tasks(self, loaded: Loaded) -> tuple[Task, Task, Task | None]:
        """To choose with, to measure on, and held out if there is any."""
        more = {"seed": self.seed} if self.task == "masked-lm" else {}
        test = self.built(loaded, self.test, **more) if self.test else None
        train, dev = (self.built(loaded, each, **more) for each in (self.data, self.dev))
        return train, dev, test

    def signature(
        self, loaded: Loaded, tasks: tuple[Task, Task, Task | None], **more: object
    ) -> str:
        """What all numbers depend on."""
        train, dev, test = tasks
        return signature(
            loaded, train.sha256, dev=dev.sha256[:12],
            test=None if test is None else test.sha256[:12], task=self.task, metric=dev.metric,
            beams=self.num_beams if self.task == "translation" else None,
            tok=self.tokenize if dev.metric == "bleu" else None, **more, seed=self.seed,
        )  # fmt: skip

    def warnings(self, tasks: tuple[Task, Task, Task | None]) -> list[str]:
        """A sentence for every two data sets that share examples, and for what is not in one."""
        sets = {"--data": self.data, "--dev": self.dev, "--test": self.test}
        lost = [
            f"{name}: {sentence}"
            for name, task in zip(sets, tasks, strict=True)
            if task is not None
            for sentence in task.warnings()
        ]
        columns = named_columns(self.columns)
        read = {
            name: DataSet(self.task, files, columns, self.limit)
            for name, files in sets.items()
            if files
        }
        pairs = [("--data", "--dev"), ("--data", "--test"), ("--dev", "--test")]
        found = [warning(read[a], read[b], (a, b)) for a, b in pairs if b in read]
        return [*(sentence for sentence in found if sentence is not None), *lost]


@dataclass(frozen=True)
class TrialArguments(LearningArguments):
    """What may go, too."""

    site: tuple[Site, ...] = ()
    """Sites whose heads may go; all by default."""
    groups: bool = True
    """Where heads share keys and values they go in whole groups; else as many of every group."""
    calibration: int = Setting.calibration
    """Examples of --data, drawn, for what needs no training: scores of heads, folding, rescaling;
    trainings take all."""

    def loaded(self) -> Loaded:
        """The model.

        Raises:
            InputError: for what no seed or number of examples can be, and for several processes.
        """
        if self.calibration < 1:
            raise InputError(f"--calibration takes at least 1 example; came {self.calibration}")
        return super().loaded()

    def units(self, loaded: Loaded) -> Units:
        """What may go."""
        return Units.of(loaded.anatomy, self.site or None, self.groups)

    def signature(
        self, loaded: Loaded, tasks: tuple[Task, Task, Task | None], **more: object
    ) -> str:
        """What all numbers depend on."""
        sites = "+".join(self.site) or None
        return super().signature(
            loaded, tasks, sites=sites, groups=self.groups, calibration=self.calibration, **more
        )


def refuse_calibration(calibration: int, methods: Iterable[Method]) -> None:
    """Let one pass that is left alone, or is of methods that score heads on examples.

    Raises:
        InputError: for a --calibration that would do nothing.
    """
    scored = any(isinstance(each, Ranked) and each.ranking.uses_data for each in methods)
    if calibration != Setting.calibration and not scored:
        raise InputError(
            "--calibration is of scores of heads, of folding and of rescaling, and there is none "
            "of them here: leave it out"
        )
