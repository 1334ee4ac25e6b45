"""Analysis, the main job: from a model and a corpus to numbers, roles, examples of every head."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import final

import pandas as pd
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from headcount.analysis.examples import DRAWN_TOKENS, NUM_EXAMPLES, candidates, find_examples
from headcount.analysis.images import image_examples
from headcount.analysis.measuring import CorpusUnits
from headcount.analysis.options import Options
from headcount.analysis.places import place_examples
from headcount.analysis.profiles import RelationNames, profile_table, with_rows
from headcount.analysis.reading import Given, Reading
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
    HeadTable,
    ModelError,
    PluginError,
    Progress,
    is_begun,
    name_of,
    processes,
    silent,
    start_over,
    together,
)
from headcount.corpora import (
    SECONDS,
    Corpus,
    Encoder,
    ImageEncoder,
    PictureEncoder,
    check_is_corpus,
)
from headcount.measures import REGISTRY, TRAIT_CLASSES, Sums, Totals, Trait, further_columns
from headcount.models import Loaded, as_loaded, random_copy, reader_of, unchanged, versions
from headcount.results import Analysis, ColumnWords, Example, Roles, RunRecord, Untested


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
        model: the result of `load`, or a plain model together with its tokenizer. Of a model of
            texts and pictures that is given images alone, the vision tower is analysed.
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
    loaded = reader_of(as_loaded(model, tokenizer), corpus)
    folder = None if out is None else Path(out)
    others = [TRAIT_CLASSES.find(each) for each in traits]
    others = [each for each in others if each.name not in TRAIT_CLASSES.own]  # ours are measured
    given = Given(corpus, (*map(REGISTRY.find, measures),), (*others,))
    with TemporaryDirectory() as temporary:  # for the state of a run without a folder
        place = folder or Path(temporary)
        while True:
            try:
                with unchanged(loaded, given.origin, restores=True):
                    reads = Reading(loaded, given, options or Options(), place, progress)
                    return _Analyzing(reads, given.failed).analysis()
            except PluginError as error:
                given = given.without(error)
                if is_begun(place / "state"):
                    start_over(place / "state")


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

    def __init__(self, reads: Reading, failed: tuple[str, ...]) -> None:
        self.reads, self.failed = reads, failed
        self.read = Totals()
        self.no_induction: str | None = None

    def analysis(self) -> Analysis:
        """Run every step in order."""
        reads = self.reads
        measuring = partial(self._measure, reads.loaded, "measuring")
        totals, self.read = reads.timed("measure", measuring)
        repeated = reads.timed("induction", lambda: self._repeated(reads.loaded, "induction"))
        found = self._tables(totals, repeated)
        own = without_number(reads.anatomy.heads, found.heads.frame, totals, reads.measures)
        self.failed += (*own, *without_words(reads.measures))
        null = reads.timed("null", self._null) if reads.options.null else None
        return Analysis(
            heads=found.heads,
            relations=found.relations,
            links=found.links,
            profiles=found.profiles,
            offsets=offset_table(reads.anatomy.heads, totals, reads.frame_ms),
            examples=reads.timed("examples", lambda: self._examples(found.roles)),
            null_heads=None if null is None else null.heads,
            null_relations=None if null is None else null.relations,
            null_links=None if null is None else null.links,
            texts=pd.DataFrame({"text": reads.census.text_hashes}),
            record=self._record(found.roles, found.profiles),
        )

    def _repeated(self, loaded: Loaded, stage: str) -> pd.DataFrame | None:
        """Traits on repeated random tokens, for causal language models that take enough tokens."""
        reads = self.reads
        if set(reads.anatomy.heads.counts) != {"decoder.self"} or not reads.options.induction:
            return None
        try:
            return repeated_profiles(loaded, reads.options.seed, partial(reads.progress, stage))
        except ModelError as error:
            self.no_induction = str(error)
            return None

    def _tables(self, totals: Totals, repeated: pd.DataFrame | None = None) -> "_Tables":
        reads = self.reads
        heads, named = (
            head_table(reads.anatomy.heads, totals, reads.measures, reads.frame_ms),
            self._named,
        )
        profiles = profile_table(reads.anatomy.heads, totals, named, reads.grid, reads.frame_ms)
        if repeated is not None:
            profiles = with_rows(profiles, repeated)
        profiles = judged(profiles, reads.options.thresholds, reads.further)
        roles = {str(head): [] for head in reads.anatomy.heads}
        roles |= find_roles(profiles, reads.options.thresholds, reads.link_words, reads.further)
        names = [[role.role for role in roles[head]] for head in heads.frame["head"]]
        tended = tendencies(profiles)
        tends = [tended.get(head, []) for head in heads.frame["head"]]
        return _Tables(
            HeadTable(heads.frame.assign(roles=names, tendencies=tends)),
            relation_table(reads.anatomy.heads, totals, named),
            link_table(reads.anatomy.heads, totals, named),
            profiles,
            roles,
        )

    @property
    def _named(self) -> RelationNames:
        reads = self.reads
        return RelationNames(reads.census.relations, reads.census.links, reads.further)

    @property
    def _further_columns(self) -> dict[str, ColumnWords]:
        """What the columns of further measures say."""
        columns = further_columns(self.reads.measures)
        return {key: ColumnWords.of(each) for key, each in columns.items()}

    def _measure(self, loaded: Loaded, stage: str) -> tuple[Totals, Totals]:
        """The sums over the corpus, and the amounts that this run read, of all processes."""
        reads = self.reads
        sharing, counts = processes().num_processes // together(), reads.census.counts
        bar, in_all = stage, reads.census.num_rows
        if reads.frame_ms is not None:
            bar, in_all = f"{stage}, {SECONDS}", counts.tokens * reads.frame_ms / 1000

        def report(read: Totals) -> None:
            done = read.num_sentences
            if reads.frame_ms is not None:
                done = read.num_measured * reads.frame_ms / 1000
            # Other processes have got about as far as this one, close enough for a progress bar
            reads.progress(bar, round(done), round(in_all / sharing))

        units = CorpusUnits(
            loaded.model,
            reads.anatomy,
            reads.measures,
            kernel=reads.chosen.kernel,
            file=reads.out / "state" / f"{stage}.safetensors",
            run_key=reads.run_key,
            save_every=reads.options.save_every,
            progress=report,
        )
        return units.measured(reads.units())

    def _null(self) -> "_Tables":
        reads = self.reads
        model = random_copy(reads.loaded.model, reads.options.seed)
        copy = replace(reads.loaded, model=model, name="null")
        return self._tables(self._measure(copy, "null")[0], self._repeated(copy, "null induction"))

    def _examples(self, roles: Roles) -> dict[str, list[Example]]:
        """Examples of every head, which one process chooses; the others draw maps for it."""
        reads = self.reads
        none: dict[str, list[Example]] = {head: [] for head in roles}
        chosen = candidates(reads.corpus)
        chooses = processes().is_main_process or together() > 1
        if not chosen:
            return none
        few, asked = Corpus.from_sentences(chosen), roles if chooses else {}
        reads.progress("examples", 0, len(asked))
        if isinstance(reads.encoder, ImageEncoder):
            if not chooses:
                return none
            batches = reads.batches(few, reads.encoder, reads.options.max_tokens)
            return image_examples(reads.loaded.model, reads.anatomy, reads.encoder, batches, roles)
        encoder = reads.encoder
        if isinstance(encoder, PictureEncoder):
            return none | self._beside_pictures(encoder, few, asked)
        if reads.frame_ms is not None:  # frames are drawn together, which hides their offsets
            asked = {
                head: [replace(each, offset=None) for each in its] if head[:3] == "enc" else its
                for head, its in asked.items()
            }
        if isinstance(encoder, Encoder):  # sentences that are shown are not cut into windows
            encoder = reads.loaded.encoder()
        batches = reads.batches(few, encoder, min(reads.options.max_tokens, DRAWN_TOKENS))
        steps = partial(reads.progress, "examples")
        return none | find_examples(
            reads.loaded.model, reads.anatomy, encoder, batches, asked, steps
        )

    def _beside_pictures(
        self, encoder: PictureEncoder, few: Corpus, asked: Roles
    ) -> dict[str, list[Example]]:
        """Examples over the picture, and one between words."""
        reads = self.reads
        model, anatomy = reads.loaded.model, reads.anatomy
        batches = reads.batches(few, encoder, min(reads.options.max_tokens, DRAWN_TOKENS))
        over = place_examples(model, anatomy, encoder, batches, asked)
        steps = partial(reads.progress, "examples")
        between = find_examples(model, anatomy, encoder, batches, asked, steps)
        left = {head: NUM_EXAMPLES - len(found) for head, found in over.items()}
        return {head: [*over[head], *between[head][: left[head]]] for head in asked}

    def _untested(self, profiles: pd.DataFrame) -> dict[str, Untested]:
        reads = self.reads
        conditions = Conditions(
            is_causal=set(reads.anatomy.heads.counts) == {"decoder.self"},
            inputs=reads.encoder.inputs,
            has_trees=bool(reads.census.relations),
            has_links=bool(reads.census.links),
            further=tuple(reads.further.values()),
            halves=reads.halves,
            thresholds=reads.options.thresholds,
            induction=reads.options.induction,
            no_induction=self.no_induction,
            truncated=0 if reads.census.counts.target_tokens else reads.census.counts.truncated,
        )
        return conditions.untested(profiles)

    def _record(self, roles: Roles, profiles: pd.DataFrame) -> RunRecord:
        reads = self.reads
        warnings = warnings_of(reads.census, reads.encoder.max_length, reads.anatomy)
        if (special := reads.options.special) is not None:
            warnings.append(
                f"special tokens count in confidence, as {special.replace('+', ' and ')}"
            )
        if reads.chosen.warning is not None:
            warnings.append(reads.chosen.warning)
        if left := reads.chosen.kernel.left:
            where = ", ".join(sorted(left))
            warnings.append(f"some layers or batches were computed in blocks, since {where}")
        warnings += (*reads.prepared, *self.failed)
        for name, words in reads.corpus.link_words.items():
            if name not in reads.census.links:
                origin = f" of the plug-in {words.origin}" if words.origin else ""
                warnings.append(f"no text has links of {name}{origin}")
        if self.no_induction is not None:
            warnings.append(f"induction was not tested: {self.no_induction}")
        return RunRecord(
            signature=reads.signature,
            model=name_of(reads.loaded.name),
            model_type=reads.loaded.model.config.model_type,
            corpora=tuple(reads.corpus.names),
            counts=reads.census.counts,
            grid=reads.grid,
            frame_ms=reads.frame_ms,
            sites=reads.anatomy.heads.counts,
            roles={head: tuple(found) for head, found in roles.items()},
            few_texts=reads.few_texts,
            untested=self._untested(profiles),
            links=reads.link_words,
            further=reads.further,
            columns=self._further_columns,
            thresholds=reads.options.thresholds,
            warnings=tuple(warnings),
            timings=timings_of(reads.timings, self.read),
            kernel=reads.chosen.kernel.name,
            versions=versions(reads.chosen.kernel.name),
        )
