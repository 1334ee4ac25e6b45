"""`headcount reproduce kobayashi2020`: what tokens contribute, by weights and by norms."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated

import tyro

from headcount import models, papers
from headcount.cli.arguments import CorpusArguments, ModelArguments, check_data, recorded
from headcount.cli.console import Report
from headcount.cli.folder_arguments import OutArguments
from headcount.cli.frame import PaperCommand
from headcount.corpora import Corpus


@dataclass(frozen=True)
class Kobayashi2020(CorpusArguments, OutArguments, ModelArguments, PaperCommand["models.Loaded"]):
    """Reproduce "Attention is Not Only a Weight": weights, norms, mixing ratios (2020 and 2021)."""

    RESULT = papers.ContributionTable

    corpus: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CORPUS ...")
    ] = ()
    """Files of texts or a treebank, as `headcount analyze` reads them."""
    limit: int | None = field(default=1000, kw_only=True)
    """Largest number of sentences to read; numbers of all their tokens are held in memory."""
    samples: int = field(default=1000, kw_only=True)
    """Number of resamples of the sentences, for intervals."""
    max_tokens: int = field(default=2048, kw_only=True)
    """Number of padded tokens in a batch; lower it if memory runs out."""
    masked: float = field(default=0.0, kw_only=True)
    """Share of the tokens that the model reads as its mask token; 0.12 in the code of 2021."""

    @cached_property
    def texts(self) -> Corpus:
        """The corpus."""
        return self.read(self.corpus, limit=self.limit)

    def check(self) -> None:
        """Check everything that needs no model, the corpus included."""
        super().check()
        check_data(self.corpus)
        self.texts  # noqa: B018

    def measure(self, read: "models.Loaded", progress: Report) -> Path:
        """Measure, and write the document."""
        return papers.reproduce_kobayashi2020(
            read,
            self.texts,
            self.out,
            samples=self.samples,
            max_tokens=self.max_tokens,
            share_masked=self.masked,
            arguments=recorded(self),
            progress=progress,
        )
