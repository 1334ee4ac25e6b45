"""`headcount reproduce PAPER`: a paper's tables and figures, our numbers beside them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from headcount.cli.analyze import Analyze
from headcount.cli.importance import Importance
from headcount.corpora import Corpus
from headcount.errors import InputError
from headcount.importance.folder import claim_importance, read_assessment
from headcount.reproduce import write_michel2019, write_voita2019
from headcount.tasks.hub import HUB

TaskName = Literal["translation", "classification", "causal-lm", "masked-lm", "similarity"]


@dataclass(frozen=True)
class Michel2019:
    """Are Sixteen Heads Really Better than One? Tables 1 to 3, figures 1 and 2."""

    model: tyro.conf.Positional[str]
    """A Hugging Face name, a folder, or headcount:en-de."""
    task: TaskName = field(kw_only=True)
    """What the model is to be good at."""
    data: tuple[str, ...] = field(kw_only=True)
    """Files: .tsv, .csv, .jsonl, .txt; or hf://NAME."""
    out: Path = field(kw_only=True)
    """Folder of the results."""
    other_data: tuple[str, ...] = ()
    """A second data set of the same task: for figure 2; heads that are left alone in a layer are
    chosen on --data and measured on it."""
    columns: tuple[str, ...] = ()
    """Columns as ROLE=NAME, or ROLE=NUMBER (from 0) where the file has no header."""
    metric: str | None = None
    """The task's score where it has several, e.g. accuracy, f1, matthews; bleu, chrf."""
    quantity: Literal["loss", "score"] = "score"
    """What changes are taken of; the paper's is the score, a beam search a head in translation."""
    samples: int | None = None
    """Resamples of the bootstrap; the paper takes 1000."""
    limit: int | None = None
    """At most so many examples of each data set."""
    resume: bool = False
    """Go on with an interrupted run in --out."""
    overwrite: bool = False
    """Replace an earlier run in --out."""
    max_tokens: int = 4096
    """Padded tokens in a batch."""
    device: str = "cpu"
    """Where to run, e.g. cuda."""

    def run(self) -> int:
        """Ablate on both data sets, write the document."""
        other = self.out / "other" if self.other_data else None
        self._refuse_early(other)
        if other is not None:
            self._assess(self.other_data, other)
        self._assess(self.data, self.out, against=other)
        path = write_michel2019(self.out, other)
        Console(highlight=False).print(f"Paper beside ours: {path}", soft_wrap=True)
        return 0

    def _refuse_early(self, other: Path | None) -> None:
        """Before the first sweep, what would only come up before the second."""
        for folder in (self.out, *([] if other is None else [other])):
            claim_importance(folder, self.resume, self.overwrite)
        for file in (*self.data, *self.other_data):
            if not file.startswith(HUB) and not Path(file).exists():
                raise InputError(f"a file with data was expected, {file} does not exist")

    def _assess(self, data: tuple[str, ...], out: Path, against: Path | None = None) -> None:
        Importance(
            self.model, task=self.task, data=data, out=out, methods=("ablation",),
            against=against, columns=self.columns, metric=self.metric, quantity=self.quantity,
            limit=self.limit, samples=self.samples, resume=self.resume, overwrite=self.overwrite,
            max_tokens=self.max_tokens, device=self.device,
        ).run()  # fmt: skip


@dataclass(frozen=True)
class Voita2019:
    """Analyzing Multi-Head Self-Attention: table 1, figures 1, 2, 3 and 5."""

    model: tyro.conf.Positional[str]
    """A Hugging Face name, a folder, or headcount:en-de."""
    treebank: tuple[Path, ...] = field(kw_only=True)
    """CoNLL-U files of the source language, or folders with some."""
    task: TaskName = field(kw_only=True)
    """What relevance is taken of."""
    data: tuple[str, ...] = field(kw_only=True)
    """The task's files: .tsv, .csv, .jsonl, .txt; or hf://NAME."""
    out: Path = field(kw_only=True)
    """Folder of the results."""
    columns: tuple[str, ...] = ()
    """Columns as ROLE=NAME, or ROLE=NUMBER (from 0) where the file has no header."""
    frequencies: Path | None = None
    """Lines `word count` that say what is rare; counted on the treebank itself if not given."""
    limit: int | None = None
    """At most so many sentences, and so many examples."""
    resume: bool = False
    """Go on with an interrupted run in --out."""
    overwrite: bool = False
    """Replace an earlier run in --out."""
    max_tokens: int = 4096
    """Padded tokens in a batch."""
    device: str = "cpu"
    """Where to run, e.g. cuda."""

    def run(self) -> int:
        """Analyse the treebank, measure relevance, write the document."""
        self._refuse_other_scores()
        treebank = tuple(file for path in self.treebank for file in _treebank_files(path))
        Analyze(
            self.model, treebank, out=self.out, limit=self.limit,
            frequencies=self.frequencies, resume=self.resume, overwrite=self.overwrite,
            max_tokens=self.max_tokens, device=self.device,
        ).run()  # fmt: skip
        Importance(
            self.model, task=self.task, data=self.data, out=self.out, methods=("relevance",),
            columns=self.columns, limit=self.limit, overwrite=True, max_tokens=self.max_tokens,
            device=self.device,
        ).run()  # fmt: skip
        path = write_voita2019(self.out, Corpus(treebank, limit=self.limit))
        Console(highlight=False).print(f"Paper beside ours: {path}", soft_wrap=True)
        return 0

    def _refuse_other_scores(self) -> None:
        """A sweep of hours is not to be replaced by relevance."""
        if self.overwrite or not (self.out / "importance.json").exists():
            return
        _, record = read_assessment(self.out, "relevance")
        if record["methods"] != ["relevance"]:
            raise InputError(
                f"{self.out} holds an assessment by {', '.join(record['methods'])}, which "
                "relevance alone would replace: name another folder, or give --overwrite"
            )


def _treebank_files(path: Path) -> list[Path]:
    """The CoNLL-U files of a folder, in the order of their names; or the file itself."""
    if not path.is_dir():
        return [path]
    if not (files := sorted(path.glob("*.conllu"))):
        raise InputError(f"a folder with .conllu files was expected, {path} has none")
    return files


@dataclass(frozen=True)
class Reproduce:
    """Print a paper's tables and figures, our numbers beside the published ones."""

    paper: tyro.conf.OmitArgPrefixes[
        tyro.conf.OmitSubcommandPrefixes[
            Annotated[Michel2019, tyro.conf.subcommand("michel2019")]
            | Annotated[Voita2019, tyro.conf.subcommand("voita2019")]
        ]
    ]

    def run(self) -> int:
        """Run the paper's own command."""
        return self.paper.run()
