"""What `prune` and `curve` share: a model, its task, and data to choose with and to measure on."""

from dataclasses import dataclass, field
from typing import Any, Literal

import tyro
from rich.console import Console

from headcount.cli.columns import named_columns
from headcount.models.load import Loaded, load
from headcount.pruning import Units
from headcount.pruning.overlap import DataSet, warning
from headcount.signature import signature
from headcount.tasks import Task, build

Site = Literal["encoder.self", "decoder.self", "decoder.cross"]


@dataclass(frozen=True)
class TrialArguments:
    """A model, its task and its data."""

    model: tyro.conf.Positional[str]
    """A Hugging Face name, a folder, or headcount:en-de."""
    task: Literal["translation", "classification", "causal-lm", "masked-lm", "similarity"] = field(
        kw_only=True
    )
    """What the model is to be good at."""
    data: tuple[str, ...] = field(kw_only=True)
    """Files that heads are chosen with: .tsv, .csv, .jsonl, .txt; or hf://NAME."""
    dev: tuple[str, ...] = field(kw_only=True)
    """Files that the pruned model is measured on, and that a budget is searched on."""
    test: tuple[str, ...] = ()
    """Held-out files: measured on, and nothing is chosen on them."""
    columns: tuple[str, ...] = ()
    """Columns as ROLE=NAME, or ROLE=NUMBER (from 0) where the files have no header."""
    metric: str | None = None
    """The task's score where it has several: accuracy, f1, matthews; bleu, chrf."""
    num_beams: int = 4
    """Translation: beams of the search; 1 is greedy."""
    tokenize: str = "13a"
    """Translation: sacreBLEU's tokenizer of BLEU, e.g. zh, ja-mecab, intl."""
    prefix: str = ""
    """Translation: goes before every source, as T5 wants it."""
    limit: int | None = None
    """At most so many examples of each data set."""
    site: tuple[Site, ...] = ()
    """Sites whose heads may go; all by default."""
    groups: bool = True
    """Where heads share keys and values they go in whole groups; else one by one."""
    seed: int = 0
    """Of what is drawn: random orders, gates, the masks of masked language modelling."""
    max_tokens: int = 4096
    """Padded tokens in a batch."""
    device: str = "cpu"
    """Where to run, e.g. cuda."""
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    """Number format of the model."""

    def loaded(self) -> Loaded:
        """The model."""
        return load(self.model, self.device, self.dtype)

    def units(self, loaded: Loaded) -> Units:
        """What may go."""
        return Units.of(loaded.anatomy, self.site or None, self.groups)

    def built(self, loaded: Loaded, files: tuple[str, ...]) -> Task:
        """The task on some files."""
        columns = named_columns(self.columns)
        return build(self.task, loaded, files, columns, **self._options())

    def tasks(self, loaded: Loaded) -> tuple[Task, Task, Task | None]:
        """To choose with, to measure on, and held out if there is any."""
        test = self.built(loaded, self.test) if self.test else None
        return self.built(loaded, self.data), self.built(loaded, self.dev), test

    def signature(self, loaded: Loaded, tasks: tuple[Task, Task, Task | None]) -> str:
        """What all numbers depend on."""
        train, dev, test = tasks
        return signature(
            loaded.model, train.sha256, dev=dev.sha256[:12],
            test=None if test is None else test.sha256[:12], task=self.task, metric=dev.metric,
            beams=self.num_beams if self.task == "translation" else None,
            sites="+".join(self.site) or None, groups=self.groups, seed=self.seed,
        )  # fmt: skip

    def warnings(self) -> list[str]:
        """A sentence for every two data sets that share examples."""
        sets = {"--data": self.data, "--dev": self.dev, "--test": self.test}
        columns = named_columns(self.columns)
        read = {
            name: DataSet(self.task, files, columns, self.limit)
            for name, files in sets.items()
            if files
        }
        pairs = [("--data", "--dev"), ("--data", "--test"), ("--dev", "--test")]
        found = [warning(read[a], read[b], (a, b)) for a, b in pairs if b in read]
        return [sentence for sentence in found if sentence is not None]

    def _options(self) -> dict[str, Any]:
        given = {"metric": self.metric, "limit": self.limit}
        options: dict[str, Any] = {name: each for name, each in given.items() if each is not None}
        if self.task == "translation":
            options |= {
                "num_beams": self.num_beams, "tokenize": self.tokenize, "prefix": self.prefix
            }  # fmt: skip
        if self.task == "masked-lm":
            options["seed"] = self.seed
        return options


def print_warnings(sentences: list[str], console: Console) -> None:
    """Each on a line."""
    for sentence in sentences:
        console.print(f"warning: {sentence}", style="yellow", markup=False)
