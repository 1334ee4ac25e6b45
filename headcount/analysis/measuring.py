"""Measuring: the sums of a corpus, and the numbers of some measures, your own among them.

An analysis keeps the sums of each unit of a corpus in a file, so that a killed one resumes, and
processes share the units.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import final

from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from headcount.analysis.tables import head_table
from headcount.core import (
    MAX_TOKENS,
    HeadTable,
    KernelName,
    UnitFiles,
    check_everyone_lives,
    forget,
    shared,
    sound,
    spread,
    together,
    told_once,
)
from headcount.corpora import Batch, Batches, Corpus, take_census
from headcount.measures import (
    REGISTRY,
    Measuring,
    Sums,
    Totals,
    load_state,
    measures_of,
    run,
    save_state,
)
from headcount.models import Loaded, as_loaded, check_memory, encoder_of, reader_of
from headcount.tap import Anatomy, Kernel, chosen


def measure(
    model: Loaded | PreTrainedModel,
    corpus: Corpus,
    measures: Sequence[str | type[Sums]] | None = None,
    tokenizer: Tokenizer | None = None,
    windows: bool = False,
    window: int | None = None,
    kernel: KernelName = "auto",
) -> HeadTable:
    """Take measures, including your own, in one pass; gives numbers only, no roles.

    Args:
        model: the result of `load`, or a plain model together with its tokenizer.
        corpus: what to measure on; encoder-decoders need parallel text.
        measures: the measures to take, or names of plug-ins' ones; by default all that fit the
            model, and sentences or images.
        tokenizer: the tokenizer of a plain model.
        windows: whether to read texts that are too long in windows instead of truncating them.
        window: the length of windows in tokens; by default as many as the model takes.
        kernel: what computes attention, see `Options.kernel`.
    """
    loaded = reader_of(as_loaded(model, tokenizer), corpus)
    if measures is None:
        taken = measures_of(loaded.anatomy, corpus.inputs, has_pictures=corpus.has_pictures)
    else:
        taken = tuple(map(REGISTRY.find, measures))
    found = totals(loaded, corpus, taken, windows, window, kernel)
    return head_table(loaded.heads, found, taken)


def totals(
    loaded: Loaded,
    corpus: Corpus,
    measures: Sequence[type[Sums]],
    windows: bool = False,
    window: int | None = None,
    kernel: KernelName = "auto",
) -> Totals:
    """The sums of some measures in every layer, which `measure` divides; arguments are its own."""
    encoder = encoder_of(loaded, corpus, windows=windows, window=window)
    census = take_census(corpus, encoder)
    check_memory(loaded, census.longest, census.num_rows, MAX_TOKENS, measured=True)
    work = Batches(corpus, encoder, census).units()
    its = chosen(kernel, loaded.model, loaded.anatomy, census.longest).kernel
    of_unit = partial(run, loaded.model, loaded.anatomy, measures=measures, kernel=its)
    return sum(spread(of_unit, work, "parts of the corpus"), start=Totals())


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
        progress: called with the amounts that this process has read.

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
        progress: Callable[[Totals], None],
    ) -> None:
        listener = Measuring(model, anatomy, measures)
        self._run = partial(
            run, model, anatomy, measures=measures, kernel=kernel, listener=listener
        )
        self._load = partial(load_state, run_key=run_key, measures=measures)
        self._save = partial(save_state, run_key=run_key)
        self._files = UnitFiles(file, self._load, self._save)
        self._save_every, self._progress = save_every, progress
        self._read = Totals()
        nothing = Totals()
        self._done = sum((self._files[each].beyond(nothing) for each in self._files), nothing)

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
        return totals, sum(told_once(self._read), Totals())

    def _begun(self, name: str) -> Path:
        """The file of the sums so far of a unit that is measured."""
        return self._files.place(name).with_suffix(".begun")

    def _measured(self, name: str, batches: Iterator[Batch]) -> Totals:
        begun, saved = self._begun(name), monotonic()
        # What has one model takes the same batches, wherever each process was stopped
        goes_on = begun.exists() and together() == 1
        latest = resumed = (sound(begun, self._load) if goes_on else None) or Totals()

        def after_batch(totals: Totals) -> None:
            nonlocal latest, saved
            latest = totals
            self._progress(self._done + totals.beyond(Totals()))
            check_everyone_lives()
            if monotonic() - saved >= self._save_every:
                self._save(begun, totals)
                saved = monotonic()

        try:
            totals = self._run(batches, totals=latest, after_batch=after_batch).on_cpu()
        except BaseException:  # Ctrl-C too
            self._save(begun, latest)
            raise
        self._done += totals.beyond(Totals())
        self._read += totals.beyond(resumed)
        return totals
