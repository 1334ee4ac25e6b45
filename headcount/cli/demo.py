"""`headcount demo`: the main jobs on the translation model and treebank that we ship."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import tyro

from headcount.analysis import Options, analyze
from headcount.cli.console import plain_console
from headcount.cli.progress import shown
from headcount.corpora import Corpus
from headcount.importance import Methods, assess, write_assessment
from headcount.models import load
from headcount.reports import story, write_report
from headcount.results import claim, read_run, start_over, write_results
from headcount.tasks import Translation

DATA = Path(str(files("headcount") / "data"))
METHODS = Methods(("gradient", "relevance", "ablation", "norm"), one_left=False)
"""Scores of every head and every site, without the slowest one."""

PAIRS = 60
"""Number of sentence pairs to score on: every head is ablated on its own within a minute."""


@dataclass(frozen=True)
class Demo:
    """Analyse our English-German model on our own parallel treebank sample; needs no network."""

    model: tyro.conf.Positional[str] = "headcount:en-de"
    """The shipped model, or another English-German encoder-decoder."""
    out: Path = Path("headcount-demo")
    """Folder for the results; an earlier demo in it is replaced."""

    def run(self) -> int:
        """Analyse and score every head, and print the story they make."""
        claim(self.out, overwrite=True)
        loaded = load(self.model)
        corpus = Corpus(source=DATA / "sample.conllu", target=DATA / "sample.de")
        task = Translation(
            loaded, str(DATA / "sample.tsv"), {"source": "0", "target": "1"}, limit=PAIRS
        )
        start_over(self.out)
        with shown() as progress:
            analysis = analyze(loaded, corpus, Options(null=True), self.out, progress)
            write_results(analysis, self.out)
            assessment = assess(loaded, task, METHODS, self.out, progress)
        write_assessment(assessment, loaded.heads, self.out)
        report = write_report(self.out)
        console = plain_console()
        for line in story(read_run(self.out)):
            console.print(line)
        console.print(f"Report: {report}")
        return 0
