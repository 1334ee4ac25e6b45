"""`headcount sensitivity`: how the loss reacts to attention on kinds of tokens."""

from dataclasses import dataclass

from headcount import importance, models, results
from headcount.cli.arguments import TaskArguments
from headcount.cli.console import Report
from headcount.cli.folder_arguments import OutArguments
from headcount.cli.frame import ResultCommand
from headcount.core import check_seed


@dataclass(frozen=True)
class SensitivityCommand(
    OutArguments, TaskArguments, ResultCommand["models.Loaded", "results.Sensitivity"]
):
    """Measure how the loss reacts to attention on separators."""

    RESULT = results.Sensitivity

    samples: int = 1000
    """Number of resamples of the examples, for intervals."""
    seed: int = 0
    """Seed of the resamples; masked language modelling also draws masks with it."""

    def check(self) -> None:
        """Check everything that needs no model."""
        check_seed(self.seed)
        super().check()

    def measure(self, read: "models.Loaded", progress: Report) -> "results.Sensitivity":
        """Measure attention and reactions."""
        return importance.sensitivity(
            read,
            self.built(read, self.data, self.seed),
            max_tokens=self.max_tokens,
            samples=self.samples,
            seed=self.seed,
            progress=progress,
        )
