"""`headcount reproduce kobayashi2020`: what tokens contribute, by weights and by norms."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from headcount import papers
from headcount.cli.arguments import (
    CorpusArguments,
    ModelArguments,
    check_data,
    check_model,
    recorded,
)
from headcount.cli.console import show_document, shown
from headcount.core import ResumePolicy, claim
from headcount.papers import ContributionTable


@dataclass(frozen=True)
class Kobayashi2020(CorpusArguments, ModelArguments):
    """Reproduce "Attention is Not Only a Weight": weights, norms, mixing ratios (2020 and 2021)."""

    corpus: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CORPUS ...")
    ] = ()
    """Files: .txt (an example per line), .jsonl, .csv or .parquet (text or messages), .conllu, .tsv
    (source<TAB>target), or hf://dataset?split=train."""
    out: Path = field(kw_only=True)
    """Folder for the results; must be new or empty unless --overwrite is given."""
    limit: int | None = field(default=1000, kw_only=True)
    """Largest number of sentences to read; numbers of all their tokens are held in memory."""
    samples: int = field(default=1000, kw_only=True)
    """Number of resamples of the sentences, for intervals."""
    max_tokens: int = field(default=2048, kw_only=True)
    """Number of padded tokens in a batch; lower it if memory runs out."""
    overwrite: bool = field(default=False, kw_only=True)
    """Replace an earlier run in --out."""

    def run(self) -> int:
        """Measure, and write the document."""
        check_model(self.model)
        check_data(self.corpus)
        policy = ResumePolicy.of(False, self.overwrite)
        corpus = self.read(self.corpus, limit=self.limit)
        claim(self.out, ContributionTable.files(), self.out / "state", policy, resumes=False)
        loaded = self.loaded()
        with shown() as progress:
            path = papers.reproduce_kobayashi2020(
                loaded,
                corpus,
                self.out,
                samples=self.samples,
                max_tokens=self.max_tokens,
                arguments=recorded(self),
                progress=progress,
            )
        return show_document(path)
