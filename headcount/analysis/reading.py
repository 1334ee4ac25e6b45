"""What one analysis reads, and how: corpus, measures, kernel, halves, and a signature of them."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, final

from headcount.analysis.options import Options
from headcount.core import OURS, ChangedModelError, Origin, PluginError, Progress, is_alone
from headcount.corpora import (
    FIRST_TOKENS,
    AnyEncoder,
    Batch,
    Batches,
    Corpus,
    Encoder,
    Frequencies,
    SoundEncoder,
    check_batch_sizes,
    halves_of,
    sentences_within,
    take_census,
    with_baselines,
)
from headcount.measures import (
    REGISTRY,
    TRAIT_CLASSES,
    Confidence,
    Sums,
    Trait,
    confidence_variant,
    entries_of,
    further_measures,
    measure_of_traits,
    measure_origin,
    measures_of,
)
from headcount.models import (
    Loaded,
    check_has_heads,
    check_memory,
    encoder_of,
    signature,
    translated,
)
from headcount.results import FewTexts
from headcount.tap import check_not_split, chosen
from headcount.vocabulary import LinkWords, words_of_link


@final
@dataclass(frozen=True)
class Given:
    """What is measured, and what plug-ins add to it."""

    corpus: Corpus
    measures: tuple[type[Sums], ...]
    traits: tuple[type[Trait], ...]
    failed: tuple[str, ...] = ()
    """A sentence for each thing of a plug-in that failed and is left out."""

    def without(self, error: PluginError) -> "Given":
        """What is left without the thing that failed, or if some changed the model, without any.

        Raises:
            PluginError: The same, if the model is still changed, it is not known what failed, or
                other processes had to agree.
        """
        out, is_changed = [error.thing], isinstance(error, ChangedModelError)
        if isinstance(error, ChangedModelError) and error.is_restored:
            out, is_changed = [thing for thing, _ in self._others], False
        if None in out or is_changed or not is_alone():
            raise error
        corpus = self.corpus
        for each in out:
            corpus = corpus.without_links(each)
        left = "It is left out." if len(out) == 1 else "All of them are left out."
        return Given(
            corpus,
            tuple(each for each in self.measures if each not in out),
            tuple(each for each in self.traits if each not in out),
            (*self.failed, f"{error} {left}"),
        )

    @property
    def _others(self) -> list[tuple[object, Origin]]:
        """Everything of plug-ins, and where it is from."""
        named = [
            *((each, measure_origin(each)) for each in self.measures),
            *((each, TRAIT_CLASSES.origin_of(each)) for each in self.traits),
            *self.corpus.link_sources,
        ]
        return [(thing, origin) for thing, origin in named if origin != OURS]

    @property
    def origin(self) -> Origin:
        """Which plug-ins may not change the model."""
        found = dict.fromkeys(str(origin) for _, origin in self._others)
        return Origin(" or ".join(found)) if found else OURS


@final
class Reading:
    """A corpus with what a pass over it takes.

    Args:
        loaded: the model.
        given: the corpus, and what is measured on it.
        options: how to run.
        out: the folder of the run.
        progress: called with the stage and the progress of the pass.
    """

    def __init__(
        self,
        loaded: Loaded,
        given: Given,
        options: Options,
        out: Path,
        progress: Progress,
    ) -> None:
        self.loaded, self.options, corpus = loaded, options, given.corpus
        self.out, self.progress = out, progress
        self.timings: dict[str, float] = {}
        self.prepared: tuple[str, ...] = ()
        sharpness = confidence_variant(options.exclude_keys, options.exclude_queries)
        self.anatomy = loaded.anatomy
        measures = measures_of(self.anatomy, corpus.inputs, given.measures, corpus.has_pictures)
        self.traits = [kind(loaded.tokenizer) for kind in given.traits]
        self.further = entries_of(self.traits)
        measures = (*measures, measure_of_traits(self.traits)) if self.traits else measures
        self.measures = tuple(sharpness if each is Confidence else each for each in measures)
        options.check_fit(corpus.inputs)
        check_has_heads(loaded)
        if options.null:
            check_not_split(loaded.model, "a copy with random weights")
        check_batch_sizes(options.max_tokens, options.pool)
        read = (options.strict, options.windows, options.window, options.language)
        self.encoder = encoder_of(loaded, corpus, *read)
        self.grid, self.frame_ms = self.encoder.grid, None
        if isinstance(self.encoder, SoundEncoder):
            self.frame_ms = self.encoder.frame_ms
            corpus, self.prepared = self.encoder.usable(corpus, progress)
        if (limit := options.limit_tokens) is not None:
            corpus = corpus.within(sentences_within(corpus, self.encoder, limit))
        self.corpus = self.timed("translate", lambda: self._with_targets(corpus))
        count = partial(take_census, self.corpus, self.encoder)
        if self.frame_ms is None:  # recordings are read already
            count = partial(count, reading=lambda n: progress("reading", n, 0))
        self.census = self.timed("census", count)
        longest = self.census.longest
        check_memory(loaded, longest, self.census.num_rows, options.max_tokens, measured=True)
        self.chosen = chosen(options.kernel, loaded.model, self.anatomy, longest)
        self.frequencies = None
        if options.frequencies is not None and isinstance(self.encoder, Encoder):
            self.frequencies = Frequencies.from_file(options.frequencies, self.encoder)
        self.halves = halves_of(
            self.corpus,
            self.encoder,
            self.frequencies or self.census.source_frequencies,
            is_causal="encoder.self" not in self.anatomy.heads.counts,
        )
        if self.halves.segments and (self.census.relations or self.census.links):
            self.census = with_baselines(self.census, self.corpus, self.encoder, self.halves)
        self.signature = self._signature()

    def _with_targets(self, corpus: Corpus) -> Corpus:
        """The corpus, with the model's own translations if an encoder-decoder lacks targets."""
        encoder = self.encoder
        if encoder.start_id is None:
            return corpus
        if next(iter(corpus)).target is not None:
            return corpus
        return translated(
            self.loaded.model,
            encoder,
            corpus,
            path=self.out / "targets.txt",
            state=self.out / "state",
            save_every=self.options.save_every,
            progress=lambda done: self.progress("translating", done, 0),
        )

    @cached_property
    def link_words(self) -> dict[str, LinkWords]:
        """What every kind of link is called."""
        known = self.corpus.link_words
        names = self.census.links
        found = {name: known.get(name, words_of_link(name)) for name in names}
        for name in names[len(names) - self.census.num_narrowed :]:
            found[name] = replace(found[name], candidate=found[name].candidate or "candidate")
        return found

    def timed(self, name: str, step: Callable[[], Any]) -> Any:
        """What a step returns, whose seconds are kept."""
        start = time.perf_counter()
        result = step()
        self.timings[f"{name}_s"] = round(time.perf_counter() - start, 3)
        return result

    def batches(self, corpus: Corpus, encoder: AnyEncoder, max_tokens: int) -> Batches:
        """The batches of some texts."""
        return Batches(
            corpus,
            encoder,
            self.census,
            max_tokens=max_tokens,
            pool=self.options.pool,
            frequencies=self.frequencies,
        )

    def units(self) -> Iterator[Iterator[Batch]]:
        """The batches of each unit of the corpus."""
        every = self.batches(self.corpus, self.encoder, self.options.max_tokens)
        return replace(every, halves=self.halves).units()

    def _signature(self) -> str:
        options = self.options
        rare = None if self.frequencies is None else self.frequencies.sha256[:12]
        return signature(
            self.loaded,
            self.census.sha256,
            n=self.census.counts.sentences,
            max_length=self.encoder.max_length,
            pairs=self.corpus.pairs or None,
            **self.corpus.signed,
            links=self._signed_links,
            further=self._signed_further,
            windows=self.encoder.windows or None,
            language=options.language,
            frequencies=rare,
            seed=options.seed if options.null else None,
            special=options.special,
            first=None if self.grid else FIRST_TOKENS,
            units=None if self.halves.segments is None else self.halves,
            sums=None if self.chosen.kernel.name == "blocks" else self.chosen.kernel.name,
        )

    @property
    def _signed_further(self) -> str | None:
        """Names of measures and traits of plug-ins, with the versions of these."""
        kinds = (
            *((REGISTRY, each) for each in further_measures(self.measures)),
            *((TRAIT_CLASSES, type(each)) for each in self.traits),
        )
        named = (f"{kind.name or kind.__name__} ({its.origin_of(kind)})" for its, kind in kinds)
        return "+".join(named) or None

    @property
    def _signed_links(self) -> str | None:
        """The links and what found them: names, plug-ins with versions, and a hash of all links."""
        if self.census.links_sha256 is None:
            return None
        named = (f"{name} ({each.origin})" for name, each in self.corpus.link_words.items())
        return "+".join([*named, self.census.links_sha256[:12]])

    @property
    def run_key(self) -> str:
        """What two runs must share for one to resume from the other's sums."""
        options = self.options
        batches = f"{options.max_tokens}/{options.pool}"
        measures = "+".join(measure.__name__ for measure in self.measures)
        return f"{self.signature}|measures:{measures}|batches:{batches}"

    @property
    def few_texts(self) -> FewTexts | None:
        """The texts that findings hold for, if these are few."""
        halves = self.halves
        if halves.segments is None:
            return None
        return FewTexts(
            texts=halves.num_texts,
            tokens=halves.num_tokens,
            short=halves.num_short,
            missing=halves.missing,
        )
