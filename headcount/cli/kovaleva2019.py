"""`headcount reproduce kovaleva2019`: attention maps before and after fine-tuning."""

from dataclasses import dataclass, field
from pathlib import Path

from headcount import papers
from headcount.cli.arguments import TaskArguments, check_corpus, check_model, recorded
from headcount.cli.console import Report
from headcount.cli.folder_arguments import OutArguments
from headcount.cli.frame import PaperCommand
from headcount.core import InputError
from headcount.corpora import named_columns


@dataclass(frozen=True)
class Kovaleva2019(OutArguments, TaskArguments, PaperCommand["papers.TunedCase"]):
    """Reproduce "Revealing the Dark Secrets of BERT": patterns, fine-tuning, disabled heads."""

    RESULT = papers.TunedMaps

    tuned: str = field(kw_only=True)
    """The same model fine-tuned on the task, as `headcount finetune` leaves it."""
    treebank: tuple[Path, ...] = field(default=(), kw_only=True)
    """CoNLL-U files with tags, for attention to classes of words; left out by default."""
    treebank_limit: int = field(default=500, kw_only=True)
    """Largest number of their sentences."""
    as_words: bool = field(default=False, kw_only=True)
    """Read the treebank's words joined by spaces ("did n't bark ,"), as papers do, instead of its
    text as it is written."""
    samples: int = field(default=1000, kw_only=True)
    """Number of resamples of the examples, for intervals."""

    def check(self) -> None:
        """Check everything that needs no model."""
        if self.task not in ("classification", "similarity"):
            raise InputError(
                f"Expected a task on texts or pairs of texts (classification, similarity), got "
                f"{self.task}. The paper fine-tunes encoders."
            )
        super().check()
        check_model(self.tuned)
        check_corpus(self.treebank)

    def prepare(self) -> "papers.TunedCase":
        """Load the model, the fine-tuned one and the task."""
        before, after = self.load(), self.load_model(self.tuned)
        return papers.TunedCase(
            before,
            after,
            self.task_on(after, self.data),
            self.data,
            columns=named_columns(self.columns),
            limit=self.limit,
            treebank=self.treebank,
            treebank_limit=self.treebank_limit,
            as_words=self.as_words,
            samples=self.samples,
            arguments=recorded(self),
        )

    def measure(self, read: "papers.TunedCase", progress: Report) -> Path:
        """Compare the models, and write the document."""
        tokens = min(self.max_tokens, 1024)
        return papers.reproduce_kovaleva2019(read, self.out, tokens, progress)
