"""Evolving: every quantity of every model, layer by layer; a killed run resumes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import final

from transformers import PreTrainedModel

from headcount.core import Kept, Progress, amount, make_folder, own_folder, remove_state, silent
from headcount.corpora import Corpus
from headcount.models import Loaded, as_loaded, signature, versions
from headcount.papers.evolution.distances import (
    between_layers,
    between_models,
    change_rows,
    influence_rows,
)
from headcount.papers.evolution.mutual_information import (
    CLUSTERS,
    STATES_A_CLUSTER,
    clusters_of,
    default_clusters,
    information,
    information_by_position,
)
from headcount.papers.evolution.pictures import neighbour_rows, picture_points
from headcount.papers.evolution.record import (
    Evolution,
    EvolutionOptions,
    EvolutionPoint,
    EvolutionRecord,
    EvolutionRow,
)
from headcount.papers.evolution.stores import (
    OUTPUT,
    PICTURES,
    REPLACED,
    SENTENCES,
    TEXT,
    Stores,
    has_output,
)
from headcount.papers.evolution.subjects import Subject, subjects_of

Found = Iterator[EvolutionRow | EvolutionPoint]


@final
@dataclass(frozen=True)
class Part:
    """What one unit of the work found."""

    rows: tuple[EvolutionRow, ...] = ()
    points: tuple[EvolutionPoint, ...] = ()

    @classmethod
    def of(cls, measure: Callable[[], Found]) -> "Part":
        """What is measured, by its type."""
        found = [*measure()]
        rows = tuple(each for each in found if isinstance(each, EvolutionRow))
        return cls(rows, tuple(each for each in found if isinstance(each, EvolutionPoint)))


def evolve(
    models: Sequence[Loaded | PreTrainedModel],
    corpus: Corpus,
    options: EvolutionOptions | None = None,
    out: str | Path | None = None,
    progress: Progress = silent,
) -> Evolution:
    """Measure what every layer of some models keeps of a token and of what stands around it.

    >>> evolution = evolve([load("MODEL")], Corpus("text.txt"))  # doctest: +SKIP
    >>> evolution.curves("mi", "input")  # doctest: +SKIP

    Args:
        models: results of `load`; of encoder-decoders the encoder is read.
        corpus: texts; targets of parallel text are not read.
        options: what is measured and how.
        out: the folder of the run. States and finished parts are kept in `out/state`, and a run
            that finds some there resumes. `Evolution.write` writes the results. Processes of
            torchrun share the parts, and each makes the states that it reads.
        progress: called with the stage and the progress.

    Raises:
        CorpusError: if the corpus is too small, or lacks what a quantity needs.
        InputError: if the disk is too small.
        ModelError: if a model's hidden states can't be observed.
    """
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) if out is None else Path(out) / "state"
        make_folder(folder)
        return _Run(
            [*map(as_loaded, models)], corpus, options or EvolutionOptions(), folder, progress
        ).run()


def forget_evolution(out: Path) -> None:
    """Delete the states and finished parts of a run."""
    remove_state(out / "state")


@final
class _Run:
    """The parts of one run and what they share."""

    def __init__(
        self,
        models: Sequence[Loaded],
        corpus: Corpus,
        options: EvolutionOptions,
        folder: Path,
        progress: Progress,
    ) -> None:
        self.subjects, self.corpus, self.options = subjects_of(models), corpus, options
        self.progress, own = progress, own_folder(folder)
        make_folder(own)
        self.stores = Stores(self.subjects, corpus, options, own, progress)
        self.key = self._key()
        what = "the finished parts of a run"
        self.kept = Kept(folder / "done.json", self.key, what, Part)

    def run(self) -> Evolution:
        """Run every part that is not done, in order."""
        self.stores.check()
        units = [(name, partial(Part.of, measure)) for name, measure in self.units()]
        parts = list(self.kept.results(units))
        self.stores.release()
        rows = tuple(row for part in parts for row in part.rows)
        points = tuple(point for part in parts for point in part.points)
        return Evolution(self.record(rows), rows, points)

    def units(self) -> Iterator[tuple[str, Callable[[], Found]]]:
        """The units of the work by name, in order."""
        for subject in self.subjects:
            for name, unit in self._units_of(subject):
                yield f"{subject.label}: {name}", unit
        if "distance" in self.options.measure:
            yield "distance between models", self._between

    def _units_of(self, subject: Subject) -> Iterator[tuple[str, Callable[[], Found]]]:
        """The parts of one model; those that read one view follow each other."""
        measure = self.options.measure
        if "information" in measure:
            yield "information, input", partial(self._information, subject, TEXT)
        if "neighbours" in measure:
            yield "neighbours", partial(self._neighbours, subject)
        if "pictures" in measure:
            yield "pictures", partial(self._pictures, subject)
        if "information" in measure and has_output(subject):
            yield "information, output", partial(self._information, subject, OUTPUT)
        if REPLACED in self.stores.views(subject):
            yield "information, replaced", partial(self._information, subject, REPLACED)
        if "distance" in measure:
            yield "distance", partial(self._distance, subject)
        if "influence" in measure:
            yield "change", partial(self._change, subject)
            yield "influence", partial(self._influence, subject)

    def _neighbours(self, subject: Subject) -> Found:
        store = self.stores.get(subject, TEXT, self.key)
        for layer in range(store.shape[0]):
            for measured in neighbour_rows(store, self.options, layer):
                yield subject.row(layer, measured)
            self.progress(f"{subject.label}, neighbours: layers", layer + 1, store.shape[0])

    def _pictures(self, subject: Subject) -> Found:
        store, states = self.stores.get(subject, PICTURES, self.key), self.stores.pictured(subject)
        self.progress(f"{subject.label}, pictures", 0, 1)
        yield from picture_points(subject, store, states, self.options.seed)
        self.progress(f"{subject.label}, pictures", 1, 1)

    def _distance(self, subject: Subject) -> Found:
        store = self.stores.get(subject, SENTENCES, self.key)
        yield from between_layers(subject, store, self.options.seed)

    def _change(self, subject: Subject) -> Found:
        store = self.stores.get(subject, SENTENCES, self.key)
        yield from change_rows(subject, self.stores.tokens_of(subject), store, self.options)

    def _influence(self, subject: Subject) -> Found:
        tokens = self.stores.tokens_of(subject)
        chosen = self.stores.occurrences(subject, SENTENCES)
        yield from influence_rows(subject, tokens, chosen, self.options, self.progress)

    def _between(self) -> Found:
        yield from between_models(
            self.subjects,
            lambda subject: self.stores.get(subject, SENTENCES, self.key),
            self.options.seed,
            lambda done, total: self.progress("distances between models: layers", done, total),
        )

    def _information(self, subject: Subject, view: str) -> Found:
        store = self.stores.get(subject, view, self.key)
        chosen, seed = store.occurrences, self.options.seed
        tokens = {
            TEXT: {"input": chosen.token_S},
            OUTPUT: {"output": chosen.token_S},
            REPLACED: {
                "replaced input": chosen.replacements(seed),
                "replaced output": chosen.token_S,
            },
        }[view]
        # The same seed would shuffle right tokens into the false ones that were read.
        shuffles = seed + 1 if view == REPLACED else seed
        num_clusters = self.options.clusters or default_clusters(len(chosen))
        stage, layers = f"{subject.label}, clusters ({view}): layers", store.shape[0]
        for layer in range(layers):
            cluster_S = clusters_of(store.layer(layer), num_clusters, seed)
            for against, token_S in tokens.items():
                everywhere = information(token_S, cluster_S, against, shuffles)
                by_position = information_by_position(
                    token_S, cluster_S, chosen.position_S, against, shuffles
                )
                for measured in chain(everywhere, by_position):
                    yield subject.row(layer, measured)
            self.progress(stage, layer + 1, layers)

    def _key(self) -> str:
        options = self.options
        models = "+".join(signature(each.loaded, "") for each in self.subjects)
        corpus = f"corpus:{self.corpus.sha256()[:12]}|limit:{self.corpus.limit}"
        return f"{models}|{corpus}|{self.corpus.signed}|{options}"

    def record(self, rows: Sequence[EvolutionRow]) -> EvolutionRecord:
        """Facts about the run that found some rows."""
        options, facts = self.options, self.stores.facts
        first = self.subjects[0].loaded
        states = max((each.states for each in facts if each.view == TEXT), default=0)
        changed = {
            name: value
            for name, value in asdict(options).items()
            if value != getattr(EvolutionOptions(), name)
        }
        changed = {**self.corpus.signed, **changed}
        return EvolutionRecord(
            signature=signature(first, self.corpus.sha256(), models=len(self.subjects), **changed),
            models=tuple(each.name for each in self.subjects),
            corpora=self.corpus.names,
            stores=tuple(facts),
            clusters=options.clusters or default_clusters(states),
            peak_bytes=self.stores.peak_bytes,
            warnings=tuple(self._warnings(rows)),
            timings=self.kept.seconds,
            versions=versions(),
        )

    def _warnings(self, rows: Sequence[EvolutionRow]) -> Iterator[str]:
        yield from _of_clusters(rows, self.options.clusters)
        for tokens in self.stores.tokens.values():
            if tokens.truncated:
                yield (
                    f"sentences longer than the model's limit, cut off: {tokens.truncated:,} of "
                    f"{tokens.num_sentences:,}"
                )
        if self.stores.tokens:
            yield from next(iter(self.stores.tokens.values())).misread.warnings()
        if len(self.stores.tokens) > 1:
            yield (
                "the models have different tokenizers, so each was measured on its own tokens and "
                "no distances between them were measured"
            )


def _of_clusters(rows: Sequence[EvolutionRow], wanted: int | None) -> Iterator[str]:
    """Warnings of clusters without states, and of clusters with too few."""
    found = [row for row in rows if row.quantity == CLUSTERS and " at " not in row.against]
    for row in found:
        if row.value < (number := wanted or default_clusters(row.cases)):
            yield (
                f"clusters without states: {number - row.value:,.0f} of {number:,} at layer "
                f"{row.layer} of {row.label} ({row.against}), since too few states there differ"
            )
    least = min((row.cases // (wanted or default_clusters(row.cases)) for row in found), default=0)
    if found and least < STATES_A_CLUSTER:
        yield (
            f"mutual information has {amount(least, 'state')} for each cluster, fewer than "
            f"{STATES_A_CLUSTER}, so its estimates are far apart. Lower --clusters, or raise "
            "--occurrences"
        )
