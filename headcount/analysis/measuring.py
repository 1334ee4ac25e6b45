"""Measuring: the numbers of some measures, your own among them, without roles."""

from collections.abc import Sequence
from functools import partial

from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from headcount.analysis.tables import head_table
from headcount.core import MAX_TOKENS, HeadTable, KernelName, spread
from headcount.corpora import Batches, Corpus, take_census
from headcount.measures import REGISTRY, Sums, Totals, measures_of, run
from headcount.models import Loaded, as_loaded, check_memory, encoder_of, reader_of
from headcount.tap import chosen


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
