"""`headcount demo`: the main jobs on the translation model and treebank that we ship."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from headcount import analysis, importance, models, reports, results, tasks
from headcount.cli.arguments import TrustArguments, check_model
from headcount.cli.console import plain_console, shown
from headcount.cli.frame import Command
from headcount.core import DATA, ResumePolicy
from headcount.corpora import Corpus

SMALLER = {"headcount:en-de": "headcount:en-de-36"}
"""The shipped model pruned from a shipped model, by name."""
PAIRS = 60
"""Number of sentence pairs to score on: every head is ablated on its own within a minute."""


@dataclass(frozen=True)
class Demo(TrustArguments, Command):
    """Analyse our English-German model on our sample, offline."""

    HAS_TABLES = True

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")] = "headcount:en-de"
    """The shipped model, or another English-German encoder-decoder."""
    out: Path = Path("headcount-demo")
    """Folder for the results; an earlier demo in it is replaced."""

    def run(self) -> int:
        """Analyse and score every head, and print the story they make."""
        check_model(self.model)
        results.claim(self.out, ResumePolicy.OVERWRITE)
        loaded = models.load(self.model, trust_remote_code=self.trust_remote_code)
        corpus = Corpus(source=DATA / "sample.conllu", target=DATA / "sample.de")
        task = tasks.Translation(
            loaded, str(DATA / "sample.tsv"), {"source": "0", "target": "1"}, limit=PAIRS
        )
        results.start_over(self.out)
        # Scores of every head and every site, without the slowest one.
        chosen = importance.Options(("gradient", "relevance", "ablation", "norm"), one_left=False)
        with shown() as progress:
            options = analysis.Options(null=True)
            analyzed = analysis.analyze(loaded, corpus, options, self.out, progress)
            analyzed.write(self.out)
            assessment = importance.assess(loaded, task, chosen, self.out, progress)
        importance.write_assessment(assessment, loaded.heads, self.out)
        smaller = SMALLER.get(self.model)
        pruned = None if smaller is None else Path(models.place_of(smaller))
        report = reports.write_report(self.out, pruned)
        console = plain_console()
        given = reports.Given(self.model, str(self.out))
        for line in reports.story(results.read_run(self.out, pruned), given):
            console.print(line)
        console.print(f"Report: {report}")
        return 0
