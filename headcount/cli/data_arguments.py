"""Arguments that commands for training and pruning share: a model, its task, its data sets."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headcount import models, pruning, tasks
from headcount.cli.task_arguments import TaskArguments, check_data, named_columns
from headcount.core import InputError, check_seed
from headcount.pruning import CALIBRATION, uses_examples

Tasks = tuple["tasks.Task", "tasks.Task", "tasks.Task | None"]
"""The tasks to choose on, to measure on, and held out (None without held-out files)."""

Site = Literal["encoder.self", "decoder.self", "decoder.cross"]


@dataclass(frozen=True)
class LearningArguments(TaskArguments):
    """Data to learn from or to choose heads on, and data to measure on."""

    dev: tuple[str, ...] = field(kw_only=True)
    """Files to measure the new model on; `prune` also makes choices on them (a searched budget,
    compensation for pruned heads), so report --test."""
    test: tuple[str, ...] = ()
    """Held-out files to measure on; nothing is chosen on them."""
    seed: int = 0
    """Seed of random orders, gates, batches, dropout, examples to score on, and the masks of
    masked language modelling."""

    def check(self) -> None:
        """Check everything that needs no model.

        Raises:
            InputError: If the seed is negative, or another argument can't be used.
        """
        check_seed(self.seed)
        super().check()
        check_data((*self.dev, *self.test))

    def files(self) -> list[Path]:
        """Every local file or folder that the run reads."""
        return [
            Path(place)
            for place in (models.place_of(self.model), *self.data, *self.dev, *self.test)
        ]

    def tasks(self, loaded: "models.Loaded") -> Tasks:
        """The tasks to choose on, to measure on, and held out (None without held-out files)."""
        more = {"seed": self.seed} if self.task == "masked-lm" else {}
        test = self.built(loaded, self.test, **more) if self.test else None
        train, dev = (self.built(loaded, each, **more) for each in (self.data, self.dev))
        return train, dev, test

    def signature(self, loaded: "models.Loaded", tasks: Tasks, **more: object) -> str:
        """The signature of everything that the numbers depend on."""
        train, dev, test = tasks
        return models.signature(
            loaded,
            train.sha256,
            dev=dev.sha256[:12],
            test=None if test is None else test.sha256[:12],
            task=self.task,
            metric=dev.metric,
            beams=self.num_beams if self.task == "translation" else None,
            tok=self.tokenize if dev.metric == "bleu" else None,
            **more,
            seed=self.seed,
        )

    def warnings(self, sets: Tasks) -> list[str]:
        """A sentence for every two data sets that share examples, and each task's own warnings."""
        files = {"--data": self.data, "--dev": self.dev, "--test": self.test}
        lost = [
            f"{name}: {sentence}"
            for name, task in zip(files, sets, strict=True)
            if task is not None
            for sentence in task.warnings()
        ]
        columns = named_columns(self.columns)
        read = {
            name: tasks.DataSet(self.task, each, columns, self.limit)
            for name, each in files.items()
            if each
        }
        pairs = [("--data", "--dev"), ("--data", "--test"), ("--dev", "--test")]
        found = [tasks.warning(read[a], read[b], (a, b)) for a, b in pairs if b in read]
        return [*(sentence for sentence in found if sentence is not None), *lost]


@dataclass(frozen=True)
class TrialArguments(LearningArguments):
    """Data to choose heads on and to measure on, and the heads that may be pruned."""

    site: tuple[Site, ...] = ()
    """Sites whose heads may be pruned; all by default."""
    groups: bool = True
    """Prune heads that share keys and values in whole groups; else equally many of each group."""
    calibration: int = CALIBRATION
    """Number of examples drawn from --data for scoring heads, folding and rescaling; training uses
    all."""

    def check(self) -> None:
        """Check everything that needs no model.

        Raises:
            InputError: If the number of examples or another argument can't be used.
        """
        if self.calibration < 1:
            raise InputError(f"Expected --calibration of at least 1, got {self.calibration}.")
        super().check()

    def units(self, loaded: "models.Loaded") -> "pruning.Units":
        """The units that may be pruned."""
        return pruning.Units.of(loaded.anatomy, self.site or None, self.groups)

    def signature(self, loaded: "models.Loaded", tasks: Tasks, **more: object) -> str:
        """The signature of everything that the numbers depend on, sites and groups included."""
        sites = "+".join(self.site) or None
        return super().signature(
            loaded, tasks, sites=sites, groups=self.groups, calibration=self.calibration, **more
        )


def check_calibration(calibration: int, methods: Iterable[str]) -> None:
    """Raise an error if --calibration was set and no method scores heads on examples.

    Raises:
        InputError: If --calibration would have no effect.
    """
    if calibration != CALIBRATION and not any(map(uses_examples, methods)):
        raise InputError(
            "--calibration only affects scores of heads, folding and rescaling, and this run has "
            "none of them. Leave it out."
        )
