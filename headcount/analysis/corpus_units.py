"""Corpus units: a pass over a corpus whose sums are kept unit by unit, and shared by processes."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import final

from transformers import PreTrainedModel

from headcount.analysis.streaming import Measuring, Totals, load_state, run, save_state
from headcount.core import (
    UnitFiles,
    check_everyone_lives,
    forget,
    shared,
    sound,
    told_by_all,
    works_as_one,
)
from headcount.corpora import Batch
from headcount.measures import Sums
from headcount.tap import Anatomy, Kernel


@final
class CorpusUnits:
    """The sums of the units of a corpus, of which each has a file.

    Args:
        model: the model to run.
        anatomy: its attention layers.
        measures: the measures to take.
        kernel: computes attention.
        file: the name of the files, to which the number of a unit is added.
        run_key: what runs share that resume from each other's sums.
        save_every: seconds between two saves of the unit that is measured.
        progress: called with the number of sentences that this process has read.

    Raises:
        InputError: if the sums of another run are there.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        anatomy: Anatomy,
        measures: Sequence[type[Sums]],
        *,
        kernel: Kernel,
        file: Path,
        run_key: str,
        save_every: float,
        progress: Callable[[int], None],
    ) -> None:
        listener = Measuring(model, anatomy, measures)
        self._run = partial(
            run, model, anatomy, measures=measures, kernel=kernel, listener=listener
        )
        self._load = partial(load_state, run_key=run_key, measures=measures)
        self._save = partial(save_state, run_key=run_key)
        self._files = UnitFiles(file, self._load, self._save)
        self._save_every, self._progress = save_every, progress
        self._read, self._done = (
            Totals(),
            sum(self._files[each].num_sentences for each in self._files),
        )

    def measured(self, units: Iterator[Iterator[Batch]]) -> tuple[Totals, Totals]:
        """The sums over all units, and the amounts that this run read, of all processes.

        Args:
            units: the batches of each unit, of which only those are read that are not measured yet.
        """
        self._progress(self._done)
        every = (
            (str(number), partial(self._measured, str(number), unit))
            for number, unit in enumerate(units)
        )
        totals = Totals()
        for _, each in shared(every, self._files, lambda name: forget(self._begun(name))):
            totals += each
        return totals, sum([self._read] if works_as_one() else told_by_all(self._read), Totals())

    def _begun(self, name: str) -> Path:
        """The file of the sums so far of a unit that is measured."""
        return self._files.place(name).with_suffix(".begun")

    def _measured(self, name: str, batches: Iterator[Batch]) -> Totals:
        begun, saved = self._begun(name), monotonic()
        # What has one model takes the same batches, wherever each process was stopped
        goes_on = begun.exists() and not works_as_one()
        latest = resumed = (sound(begun, self._load) if goes_on else None) or Totals()

        def after_batch(totals: Totals) -> None:
            nonlocal latest, saved
            latest = totals
            self._progress(self._done + totals.num_sentences)
            check_everyone_lives()
            if monotonic() - saved >= self._save_every:
                self._save(begun, totals)
                saved = monotonic()

        try:
            totals = self._run(batches, totals=latest, after_batch=after_batch).on_cpu()
        except BaseException:  # Ctrl-C too
            self._save(begun, latest)
            raise
        self._done += totals.num_sentences
        self._read += totals.beyond(resumed)
        return totals
