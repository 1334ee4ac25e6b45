"""Analysis, the main job: from a model and a corpus to numbers, roles, examples of every head."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, final

import pandas as pd
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from headcount.analysis.examples import DRAWN_TOKENS, candidates, find_examples
from headcount.analysis.images import image_examples
from headcount.analysis.options import Options
from headcount.analysis.profiles import RelationNames, profile_table, with_rows
from headcount.analysis.roles import Conditions, find_roles, judged, repeated_profiles, tendencies
from headcount.analysis.tables import (
    head_table,
    link_table,
    offset_table,
    relation_table,
    timings_of,
    warnings_of,
    without_number,
    without_words,
)
from headcount.core import (
    OURS,
    ChangedModelError,
    HeadTable,
    ModelError,
    Origin,
    PluginError,
    Progress,
    is_alone,
    is_begun,
    name_of,
    processes,
    silent,
    start_over,
    together,
)
from headcount.corpora import (
    FIRST_TOKENS,
    SECONDS,
    AnyEncoder,
    Batch,
    Batches,
    Corpus,
    Encoder,
    Frequencies,
    ImageEncoder,
    SoundEncoder,
    check_batch_sizes,
    check_is_corpus,
    halves_of,
    sentences_within,
    take_census,
    with_baselines,
)
from headcount.measures import (
    REGISTRY,
    TRAIT_CLASSES,
    Confidence,
    CorpusUnits,
    Sums,
    Totals,
    Trait,
    confidence_variant,
    entries_of,
    further_columns,
    further_measures,
    measure_of_traits,
    measures_of,
)
from headcount.models import (
    Loaded,
    as_loaded,
    check_has_heads,
    check_memory,
    encoder_of,
    random_copy,
    signature,
    translated,
    unchanged,
    versions,
)
from headcount.results import Analysis, ColumnWords, Example, FewTexts, Roles, RunRecord, Untested
from headcount.tap import check_not_split, chosen
from headcount.vocabulary import LinkWords, words_of_link


def analyze(
    model: Loaded | PreTrainedModel,
    corpus: Corpus,
    options: Options | None = None,
    out: str | Path | None = None,
    progress: Progress = silent,
    tokenizer: Tokenizer | None = None,
    measures: Sequence[str | type[Sums]] = (),
    traits: Sequence[str | type[Trait]] = (),
) -> Analysis:
    """Measure every head of a model over a corpus in one pass, and assign roles.

    Under torchrun every process measures its share of the batches; all return the same numbers.

    Args:
        model: the result of `load`, or a plain model together with its tokenizer.
        corpus: what to measure on; if it has sources only, an encoder-decoder translates them.
        options: how to run.
        out: the folder of the run. The sums so far are kept in `out/state`, and a run that finds
            some there resumes. Write the results with its `write`.
        progress: called with the stage and the progress of the pass.
        tokenizer: the tokenizer of a plain model.
        measures: further measures beside those of headcount, your own or by a plug-in's name.
        traits: further traits with their roles, likewise; models of texts only.

    Raises:
        CorpusError: if the corpus can't be read, or not with this tokenizer.
        InputError: if no measure has a name that is given.
        ModelError: if the model's attention can't be observed, or is not finite.
    """
    check_is_corpus(corpus)
    loaded, folder = as_loaded(model, tokenizer), None if out is None else Path(out)
    given = _Given(corpus, (*map(REGISTRY.find, measures),), (*map(TRAIT_CLASSES.find, traits),))
    with TemporaryDirectory() as temporary:  # for the state of a run without a folder
        place = folder or Path(temporary)
        while True:
            try:
                run = _Analyzing(loaded, given, options or Options(), place, progress)
                return run.analysis()
            except PluginError as error:
                given = given.without(error)
                if is_begun(place / "state"):
                    start_over(place / "state")


@final
@dataclass(frozen=True)
class _Given:
    """What is measured, and what plug-ins add to it."""

    corpus: Corpus
    measures: tuple[type[Sums], ...]
    traits: tuple[type[Trait], ...]
    failed: tuple[str, ...] = ()
    """A sentence for each thing of a plug-in that failed and is left out."""

    def without(self, error: PluginError) -> "_Given":
        """What is left without the thing that failed.

        Raises:
            PluginError: The same, if it changed the model, or other processes had to agree.
        """
        thing = error.thing
        if thing is None or isinstance(error, ChangedModelError) or not is_alone():
            raise error
        return _Given(
            self.corpus.without_links(thing),
            tuple(each for each in self.measures if each is not thing),
            tuple(each for each in self.traits if each is not thing),
            (*self.failed, f"{error} It is left out."),
        )


@final
@dataclass(frozen=True)
class _Tables:
    """The tables of one pass, and the roles."""

    heads: HeadTable
    relations: pd.DataFrame | None
    links: pd.DataFrame | None
    profiles: pd.DataFrame
    roles: Roles


@final
class _Analyzing:
    """The steps of one analysis and the state they share."""

    def __init__(
        self,
        loaded: Loaded,
        given: _Given,
        options: Options,
        out: Path,
        progress: Progress,
    ) -> None:
        self.loaded, self.options, self.failed = loaded, options, given.failed
        corpus = given.corpus
        self.out, self.progress = out, progress
        self.timings: dict[str, float] = {}
        self.read = Totals()
        self.no_induction: str | None = None
        self.prepared: tuple[str, ...] = ()
        sharpness = confidence_variant(options.exclude_keys, options.exclude_queries)
        self.anatomy = loaded.anatomy
        measures = measures_of(self.anatomy, corpus.inputs, given.measures)
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
        self.corpus = self._timed("translate", lambda: self._with_targets(corpus))
        count = partial(take_census, self.corpus, self.encoder)
        if self.frame_ms is None:  # recordings are read already
            count = partial(count, reading=lambda n: progress("reading", n, 0))
        self.census = self._timed("census", count)
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

    def analysis(self) -> Analysis:
        """Run every step in order."""
        with self._watched():
            measuring = partial(self._measure, self.loaded, "measuring")
            totals, self.read = self._timed("measure", measuring)
        repeated = self._timed("induction", lambda: self._repeated(self.loaded, "induction"))
        found = self._tables(totals, repeated)
        own = without_number(self.anatomy.heads, found.heads.frame, totals, self.measures)
        self.failed += (*own, *without_words(self.measures))
        null = self._timed("null", self._null) if self.options.null else None
        return Analysis(
            heads=found.heads,
            relations=found.relations,
            links=found.links,
            profiles=found.profiles,
            offsets=offset_table(self.anatomy.heads, totals, self.frame_ms),
            examples=self._timed("examples", lambda: self._examples(found.roles)),
            null_heads=None if null is None else null.heads,
            null_relations=None if null is None else null.relations,
            null_links=None if null is None else null.links,
            texts=pd.DataFrame({"text": self.census.text_hashes}),
            record=self._record(found.roles, found.profiles),
        )

    def _repeated(self, loaded: Loaded, stage: str) -> pd.DataFrame | None:
        """Traits on repeated random tokens, for causal language models that take enough tokens."""
        if set(self.anatomy.heads.counts) != {"decoder.self"} or not self.options.induction:
            return None
        try:
            return repeated_profiles(loaded, self.options.seed, partial(self.progress, stage))
        except ModelError as error:
            self.no_induction = str(error)
            return None

    def _tables(self, totals: Totals, repeated: pd.DataFrame | None = None) -> "_Tables":
        heads, named = (
            head_table(self.anatomy.heads, totals, self.measures, self.frame_ms),
            self._named,
        )
        profiles = profile_table(self.anatomy.heads, totals, named, self.grid, self.frame_ms)
        if repeated is not None:
            profiles = with_rows(profiles, repeated)
        profiles = judged(profiles, self.options.thresholds, self.further)
        roles = {str(head): [] for head in self.anatomy.heads}
        roles |= find_roles(profiles, self.options.thresholds, self._link_words, self.further)
        names = [[role.role for role in roles[head]] for head in heads.frame["head"]]
        tended = tendencies(profiles)
        tends = [tended.get(head, []) for head in heads.frame["head"]]
        return _Tables(
            HeadTable(heads.frame.assign(roles=names, tendencies=tends)),
            relation_table(self.anatomy.heads, totals, named),
            link_table(self.anatomy.heads, totals, named),
            profiles,
            roles,
        )

    @property
    def _named(self) -> RelationNames:
        return RelationNames(self.census.relations, self.census.links, self.further)

    @property
    def _further_columns(self) -> dict[str, ColumnWords]:
        """What the columns of further measures say."""
        columns = further_columns(self.measures)
        return {key: ColumnWords.of(each) for key, each in columns.items()}

    @cached_property
    def _link_words(self) -> dict[str, LinkWords]:
        """What every kind of link is called."""
        known = self.corpus.link_words
        return {name: known.get(name, words_of_link(name)) for name in self.census.links}

    def _timed(self, name: str, step: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = step()
        self.timings[f"{name}_s"] = round(time.perf_counter() - start, 3)
        return result

    def _batches(self, corpus: Corpus, encoder: AnyEncoder, max_tokens: int) -> Batches:
        return Batches(
            corpus,
            encoder,
            self.census,
            max_tokens=max_tokens,
            pool=self.options.pool,
            frequencies=self.frequencies,
        )

    def _units(self) -> Iterator[Iterator[Batch]]:
        """The batches of each unit of the corpus."""
        every = self._batches(self.corpus, self.encoder, self.options.max_tokens)
        return replace(every, halves=self.halves).units()

    def _measure(self, loaded: Loaded, stage: str) -> tuple[Totals, Totals]:
        """The sums over the corpus, and the amounts that this run read, of all processes."""
        sharing, counts = processes().num_processes // together(), self.census.counts
        bar, in_all = stage, self.census.num_rows
        if self.frame_ms is not None:
            bar, in_all = f"{stage}, {SECONDS}", counts.tokens * self.frame_ms / 1000

        def report(read: Totals) -> None:
            done = read.num_sentences
            if self.frame_ms is not None:
                done = read.num_measured * self.frame_ms / 1000
            # Other processes have got about as far as this one, close enough for a progress bar
            self.progress(bar, round(done), round(in_all / sharing))

        units = CorpusUnits(
            loaded.model,
            self.anatomy,
            self.measures,
            kernel=self.chosen.kernel,
            file=self.out / "state" / f"{stage}.safetensors",
            run_key=self._run_key,
            save_every=self.options.save_every,
            progress=report,
        )
        return units.measured(self._units())

    def _watched(self) -> AbstractContextManager[None]:
        """A block in which plug-ins must leave the model as it is."""
        further = (*map(REGISTRY.origin_of, further_measures(self.measures)),)
        traits = (TRAIT_CLASSES.origin_of(type(each)) for each in self.traits)
        found = dict.fromkeys((*further, *traits, *self.corpus.link_origins))
        others = [str(each) for each in found if each != OURS]
        return unchanged(self.loaded, Origin(" or ".join(others)) if others else OURS)

    def _null(self) -> "_Tables":
        model = random_copy(self.loaded.model, self.options.seed)
        copy = replace(self.loaded, model=model, name="null")
        return self._tables(self._measure(copy, "null")[0], self._repeated(copy, "null induction"))

    def _examples(self, roles: Roles) -> dict[str, list[Example]]:
        """Examples of every head, which one process chooses; the others draw maps for it."""
        none: dict[str, list[Example]] = {head: [] for head in roles}
        chosen = candidates(self.corpus)
        chooses = processes().is_main_process or together() > 1
        if not chosen:
            return none
        few, asked = Corpus.from_sentences(chosen), roles if chooses else {}
        self.progress("examples", 0, len(asked))
        if isinstance(self.encoder, ImageEncoder):
            if not chooses:
                return none
            batches = self._batches(few, self.encoder, self.options.max_tokens)
            return image_examples(self.loaded.model, self.anatomy, self.encoder, batches, roles)
        encoder = self.encoder
        if self.frame_ms is not None:  # frames are drawn together, which hides their offsets
            asked = {
                head: [replace(each, offset=None) for each in its] if head[:3] == "enc" else its
                for head, its in asked.items()
            }
        if isinstance(encoder, Encoder):  # sentences that are shown are not cut into windows
            encoder = self.loaded.encoder()
        batches = self._batches(few, encoder, min(self.options.max_tokens, DRAWN_TOKENS))
        steps = partial(self.progress, "examples")
        return none | find_examples(self.loaded.model, self.anatomy, encoder, batches, asked, steps)

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
    def _run_key(self) -> str:
        """What two runs must share for one to resume from the other's sums."""
        options = self.options
        batches = f"{options.max_tokens}/{options.pool}"
        measures = "+".join(measure.__name__ for measure in self.measures)
        return f"{self.signature}|measures:{measures}|batches:{batches}"

    def _untested(self, profiles: pd.DataFrame) -> dict[str, Untested]:
        conditions = Conditions(
            is_causal=set(self.anatomy.heads.counts) == {"decoder.self"},
            inputs=self.encoder.inputs,
            has_trees=bool(self.census.relations),
            has_links=bool(self.census.links),
            further=tuple(self.further.values()),
            halves=self.halves,
            thresholds=self.options.thresholds,
            induction=self.options.induction,
            no_induction=self.no_induction,
            truncated=0 if self.census.counts.target_tokens else self.census.counts.truncated,
        )
        return conditions.untested(profiles)

    def _few_texts(self) -> FewTexts | None:
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

    def _record(self, roles: Roles, profiles: pd.DataFrame) -> RunRecord:
        warnings = warnings_of(self.census, self.encoder.max_length, self.anatomy)
        if (special := self.options.special) is not None:
            warnings.append(
                f"special tokens count in confidence, as {special.replace('+', ' and ')}"
            )
        if self.chosen.warning is not None:
            warnings.append(self.chosen.warning)
        if left := self.chosen.kernel.left:
            where = ", ".join(sorted(left))
            warnings.append(f"some layers or batches were computed in blocks, since {where}")
        warnings += (*self.prepared, *self.failed)
        for name, words in self.corpus.link_words.items():
            if name not in self.census.links:
                origin = f" of the plug-in {words.origin}" if words.origin else ""
                warnings.append(f"no text has links of {name}{origin}")
        if self.no_induction is not None:
            warnings.append(f"induction was not tested: {self.no_induction}")
        return RunRecord(
            signature=self.signature,
            model=name_of(self.loaded.name),
            model_type=self.loaded.model.config.model_type,
            corpora=tuple(self.corpus.names),
            counts=self.census.counts,
            grid=self.grid,
            frame_ms=self.frame_ms,
            sites=self.anatomy.heads.counts,
            roles={head: tuple(found) for head, found in roles.items()},
            few_texts=self._few_texts(),
            untested=self._untested(profiles),
            links=self._link_words,
            further=self.further,
            columns=self._further_columns,
            thresholds=self.options.thresholds,
            warnings=tuple(warnings),
            timings=timings_of(self.timings, self.read),
            kernel=self.chosen.kernel.name,
            versions=versions(self.chosen.kernel.name),
        )
