"""`headcount reproduce voita2019`: Voita et al. with our numbers beside theirs."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from headcount import pruning, reproduce, results
from headcount.cli.analyze import Analyze
from headcount.cli.data_arguments import check_calibration
from headcount.cli.importance import Importance
from headcount.cli.progress import shown
from headcount.cli.reproduce_pruning import Experiment, PaperArguments, show_document
from headcount.core import InputError, changed
from headcount.corpora import Corpus
from headcount.pruning import preset


@dataclass(frozen=True)
class Voita2019(PaperArguments):
    """Reproduce Analyzing Multi-Head Self-Attention: table 1, figures 1, 2, 3, 5; or table 2."""

    limit: int | None = None
    """Largest number of examples of each data set and of treebank sentences; all by default."""
    treebank: tuple[Path, ...] = ()
    """CoNLL-U files of the source language, or folders of them; required except for table 2."""
    table: Literal[2] | None = None
    """2: instead prune, and train the same heads from scratch."""
    scratch: tuple[str, ...] = ()
    """Table 2: set fields of training from scratch, as NAME=VALUE, e.g. updates=9000 peak=1e-3."""
    frequencies: Path | None = None
    """File of `word count` lines that defines rare words; by default counted on the treebank."""

    def run(self) -> int:
        """Analyse the treebank and measure relevance, or prune, and write the document."""
        if self.table is not None:
            return self._table2()
        self.check_no_pruning("--table 2")
        if self.scratch:
            raise InputError("--scratch only affects --table 2. Add --table 2, or leave it out.")
        self.check_not_given(("num_beams", "tokenize", "metric"), "maps and relevance")
        if not self.treebank:
            raise InputError("Expected a treebank, got none. Name CoNLL-U files with --treebank.")
        self.check()
        self._check_same_scores()
        treebank = tuple(file for path in self.treebank for file in _treebank_files(path))
        Analyze(
            self.model,
            treebank,
            out=self.out,
            limit=self.limit,
            frequencies=self.frequencies,
            resume=self.resume,
            overwrite=self.overwrite,
            max_tokens=self.max_tokens,
            device=self.device,
            dtype=self.dtype,
            languages=self.languages,
        ).run()
        Importance(**self.shared(), out=self.out, methods=("relevance",), overwrite=True).run()
        path = reproduce.write_voita2019(self.out, Corpus(treebank, limit=self.limit))
        show_document(path)
        return 0

    def _check_same_scores(self) -> None:
        """Raise an error before relevance replaces the scores of an hour-long sweep."""
        if self.overwrite or not (self.out / "importance.json").exists():
            return
        _, record = results.read_assessment(self.out, "relevance")
        if record.methods != ("relevance",):
            raise InputError(
                f"{self.out} holds an assessment by {', '.join(record.methods)}, which "
                "relevance alone would replace. Name another folder, or add --overwrite."
            )

    def _table2(self) -> int:
        self.check_pruning_only("--table 2", ("treebank", "frequencies"))
        way = preset("voita2019")
        fields = [f"tuning.{each}" for each in self.pruning.tune]
        chosen = pruning.method(way.method, [*way.of((), self.task), *fields])
        fresh = reproduce.FRESH
        if self.task == "similarity":
            fresh = replace(fresh, label_smoothing=0.0)
        scratch = changed(fresh, self.scratch)
        check_calibration(self.pruning.calibration, [chosen.name])
        experiment = Experiment.of(self, f"{chosen!r};{scratch!r}")
        keeps = self.pruning.keep or reproduce.paper_keeps(experiment.units)
        facts = experiment.facts
        with shown() as progress:
            trial, key = experiment.trial(progress), experiment.signed(repr(chosen))
            frame = reproduce.table2(trial, chosen, keeps, scratch, key)
        experiment.write(frame, {reproduce.TRAINED: chosen})
        text = reproduce.table2_document(
            frame, facts.metric, facts.higher_is_better, facts.signature, scratch
        )
        return experiment.reported("voita2019_table2.md", text)


def _treebank_files(path: Path) -> list[Path]:
    """The CoNLL-U files of a folder, sorted by name, or the file itself."""
    if not path.is_dir():
        return [path]
    if not (files := sorted(path.glob("*.conllu"))):
        raise InputError(f"Expected a folder with .conllu files, but {path} has none.")
    return files
