"""`headcount reproduce kovaleva2019`: attention maps before and after fine-tuning."""

from dataclasses import dataclass, field
from pathlib import Path

from headcount import models, papers
from headcount.cli.arguments import (
    TaskArguments,
    check_corpus,
    check_model,
    recorded,
)
from headcount.cli.console import plain_console, print_warnings, show_document, shown
from headcount.core import InputError, ResumePolicy, claim
from headcount.corpora import named_columns
from headcount.papers import TunedMaps


@dataclass(frozen=True)
class Kovaleva2019(TaskArguments):
    """Reproduce "Revealing the Dark Secrets of BERT": patterns, fine-tuning, disabled heads."""

    tuned: str = field(kw_only=True)
    """The same model fine-tuned on the task, as `headcount finetune` leaves it."""
    out: Path = field(kw_only=True)
    """Folder for the results; must be new or empty unless --overwrite is given."""
    treebank: tuple[Path, ...] = field(default=(), kw_only=True)
    """CoNLL-U files with tags, for attention to classes of words; left out by default."""
    treebank_limit: int = field(default=500, kw_only=True)
    """Largest number of their sentences."""
    as_words: bool = field(default=False, kw_only=True)
    """Read the treebank's words joined by spaces ("did n't bark ,"), as papers do, instead of its
    text as it is written."""
    samples: int = field(default=1000, kw_only=True)
    """Number of resamples of the examples, for intervals."""
    overwrite: bool = field(default=False, kw_only=True)
    """Replace an earlier run in --out."""

    def run(self) -> int:
        """Compare the models, and write the document."""
        if self.task not in ("classification", "similarity"):
            raise InputError(
                f"Expected a task on texts or pairs of texts (classification, similarity), got "
                f"{self.task}. The paper fine-tunes encoders."
            )
        self.check()
        check_model(self.tuned)
        check_corpus(self.treebank)
        policy = ResumePolicy.of(False, self.overwrite)
        claim(self.out, TunedMaps.files(), self.out / "state", policy, resumes=False)
        before, trusted = self.loaded(), self.trust_remote_code
        after = models.load(self.tuned, self.device, self.dtype, trust_remote_code=trusted)
        task = self.built(after, self.data)
        print_warnings(task.warnings(), plain_console())
        case = papers.TunedCase(
            before,
            after,
            task,
            self.data,
            columns=named_columns(self.columns),
            limit=self.limit,
            treebank=self.treebank,
            treebank_limit=self.treebank_limit,
            as_words=self.as_words,
            samples=self.samples,
            arguments=recorded(self),
        )
        with shown() as progress:
            path = papers.reproduce_kovaleva2019(
                case, self.out, min(self.max_tokens, 1024), progress
            )
        return show_document(path)
