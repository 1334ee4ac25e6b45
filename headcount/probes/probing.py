"""Probing: features of two treebanks, then every probe with its controls and baselines."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import final

from headcount.analysis import versions
from headcount.core import (
    Progress,
    check_single_process,
    read_checkpoint,
    remove_state,
    silent,
    write_checkpoint,
)
from headcount.models import Loaded, as_loaded, check_has_heads, random_copy, signature
from headcount.probes.arc_probing import ArcTest, baseline_rows, head_weights, probe_arcs
from headcount.probes.attention_probe import ATTENTION, WORDS, ProbeData
from headcount.probes.distances import distance_data
from headcount.probes.extraction import extract, features_of, probe_encoder, probe_heads
from headcount.probes.features import Features, check_disk, in_words
from headcount.probes.intervals import Bootstrap
from headcount.probes.options import PROBES, ProbeOptions
from headcount.probes.treebank import Treebank, check_no_overlap, overlap, read_treebank
from headcount.probes.vectors import WordVectors, check_vectors, word_vectors
from headcount.results import Probed, ProbeRecord, ProbeRow, ProbeWeight

TRAINED, RANDOM_INIT = "trained", "random-init"

Unit = Callable[[], tuple[list[ProbeRow], list[ProbeWeight]]]
"""One part of the work, which a resumed run does not repeat."""


def probe(
    model: Loaded,
    train: Sequence[str | Path],
    test: Sequence[str | Path],
    options: ProbeOptions | None = None,
    out: str | Path | None = None,
    progress: Progress = silent,
) -> Probed:
    """Train probes on the sentences of some treebanks and measure them on others.

    >>> probed = probe(loaded, ["train.conllu"], ["dev.conllu"])  # doctest: +SKIP
    >>> probed.find(probe="attention", variant="trained", metric="uas")  # doctest: +SKIP

    Args:
        model: the result of `load`.
        train: CoNLL-U files to train on.
        test: CoNLL-U files to measure on.
        options: the probes and how they are run.
        out: the folder of the run. Features and finished probes are kept in `out/state/probes`, and
            a run that finds some there resumes. `Probed.write` writes the results.
        progress: called with the stage and the progress.

    Raises:
        CorpusError: if a treebank lacks what a probe needs, or training and test overlap.
        InputError: if the disk is too small for the features, or vectors can't be read.
    """
    check_single_process()
    options = options or ProbeOptions()
    check_vectors(options.vectors)
    loaded = as_loaded(model, None)
    check_has_heads(loaded)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) if out is None else Path(out) / "state" / "probes"
        return _Probing(loaded, tuple(train), tuple(test), options, folder, progress).run()


def forget_probes(out: Path) -> None:
    """Delete the features and finished probes of an unfinished run."""
    remove_state(out / "state" / "probes")


@final
class _Probing:
    """The steps of one run and what they share."""

    def __init__(
        self,
        loaded: Loaded,
        train: tuple[str | Path, ...],
        test: tuple[str | Path, ...],
        options: ProbeOptions,
        folder: Path,
        progress: Progress,
    ) -> None:
        self.loaded, self.options = loaded, options
        self.folder, self.progress = folder, progress
        self.timings: dict[str, float] = {}
        encoder = probe_encoder(loaded)
        self.train = read_treebank(train, encoder, options, options.train_limit)
        self.test = read_treebank(test, encoder, options, options.test_limit)
        if not options.allow_overlap:
            check_no_overlap(self.train, self.test)
        self.bootstrap = Bootstrap(len(self.test.sentences), options.samples, options.seed)
        self.num_bytes = 0

    def run(self) -> Probed:
        """Run every unit that is not done, in order."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._check_disk()
        checkpoint = self.folder / "done.json"
        done = read_checkpoint(checkpoint, self.key, "the finished probes of a run")
        rows, weights = list[ProbeRow](), list[ProbeWeight]()
        for name, unit in self.units().items():
            if name not in done:
                start = perf_counter()
                found, found_weights = unit()
                done[name] = {
                    "rows": [asdict(row) for row in found],
                    "weights": [asdict(weight) for weight in found_weights],
                    "seconds": round(perf_counter() - start, 1),
                }
                write_checkpoint(checkpoint, self.key, done)
            rows += [ProbeRow(**row) for row in done[name]["rows"]]
            weights += [ProbeWeight(**weight) for weight in done[name]["weights"]]
            self.timings[name] = done[name]["seconds"]
        return Probed(tuple(rows), tuple(weights), self.record())

    @cached_property
    def signature(self) -> str:
        """Everything that the numbers depend on."""
        options = self.options
        return signature(
            self.loaded,
            self.train.sha256,
            test=self.test.sha256[:12],
            n=f"{len(self.train.sentences)}+{len(self.test.sentences)}",
            max_words=options.max_words,
            vectors=options.vectors,
            subtypes=options.subtypes or None,
            samples=options.samples,
            seed=options.seed,
        )

    @property
    def key(self) -> str:
        """The signature of everything that a resumed run needs to be the same."""
        options = self.options
        return (
            f"{self.signature}|ranks:{options.ranks}|layers:{options.layers}"
            f"|min_cases:{options.min_cases}|tokens:{options.max_tokens}"
        )

    def units(self) -> dict[str, Unit]:
        """The parts of the work by name, in order."""
        found: dict[str, Unit] = {}
        for name in PROBES:
            if name in self.options.probes:
                found |= {f"{name} {part}": unit for part, unit in self._units_of(name).items()}
        return found

    def _units_of(self, name: str) -> dict[str, Unit]:
        if name == "attention":
            return {
                "baselines": lambda: (baseline_rows(self.train.sentences, self.arc_test), []),
                TRAINED: partial(self._arcs, "attention", TRAINED),
                RANDOM_INIT: partial(self._arcs, "attention", RANDOM_INIT),
            }
        if name == "words":
            return {
                variant: partial(self._arcs, "words", variant)
                for variant in (TRAINED, RANDOM_INIT, "distances")
            }
        return {}

    def _arcs(self, probe_name: str, variant: str) -> tuple[list[ProbeRow], list[ProbeWeight]]:
        with_words = probe_name == "words"
        vectors = self.vectors if with_words else None
        train, test = (
            distance_data(each.sentences, vectors)
            if variant == "distances"
            else self._maps(variant, side, vectors)
            for side, each in (("train", self.train), ("test", self.test))
        )
        training = WORDS if with_words else ATTENTION
        stage = f"{probe_name}, {variant}: epochs"
        rows, trained = probe_arcs(
            train,
            test,
            training,
            self.arc_test,
            names=(probe_name, variant),
            seed=self.options.seed,
            after_epoch=lambda epoch: self.progress(stage, epoch, training.epochs),
        )
        if with_words or variant != TRAINED:
            return rows, []
        return rows, head_weights(trained, test, probe_heads(self.loaded))

    def _maps(self, variant: str, side: str, vectors: WordVectors | None) -> ProbeData:
        features = self.features[variant, side]
        assert features.maps is not None
        return ProbeData.of(features.sentences, features.maps, vectors)

    @cached_property
    def arc_test(self) -> ArcTest:
        """How predicted arcs are measured."""
        return ArcTest(self.test.sentences, self.bootstrap, self.options.min_cases)

    @cached_property
    def vectors(self) -> WordVectors:
        """The vectors of all words of both treebanks."""
        sentences = [*self.train.sentences, *self.test.sentences]
        return word_vectors(self.options.vectors, self.loaded, sentences)

    @cached_property
    def features(self) -> "_FeatureSets":
        """The features of both models on both treebanks, each made when it is first needed."""
        return _FeatureSets(self)

    def _check_disk(self) -> None:
        """Check that all features fit on the disk, before any is made."""
        sets = [
            self.features.planned(variant, side)
            for variant in (TRAINED, RANDOM_INIT)
            for side in ("train", "test")
        ]
        self.num_bytes = sum(each.num_bytes for each in sets)
        there = sum(path.stat().st_size for path in self.folder.rglob("*.f16"))
        check_disk(self.folder, self.num_bytes - there)
        self.progress(f"word-level features take {in_words(self.num_bytes)} on disk", 1, 1)

    def record(self) -> ProbeRecord:
        """Facts about the run."""
        options, shared = self.options, len(overlap(self.train, self.test))
        heads = probe_heads(self.loaded)
        with_vectors = "words" in options.probes
        return ProbeRecord(
            signature=self.signature,
            model=self.loaded.name,
            model_type=self.loaded.model.config.model_type,
            probes=tuple(name for name in PROBES if name in options.probes),
            train=self.train.names,
            test=self.test.names,
            train_sentences=len(self.train.sentences),
            train_words=self.train.num_words,
            test_sentences=len(self.test.sentences),
            test_words=self.test.num_words,
            overlap=shared,
            vectors=self.vectors.name if with_vectors else None,
            vectors_found=(self.vectors.share_found(self.test.sentences) if with_vectors else None),
            min_cases=options.min_cases,
            layers=len({head.layer for head in heads}),
            heads=len(heads),
            feature_bytes=self.num_bytes,
            warnings=tuple(self._warnings(shared)),
            timings=self.timings,
            versions=versions(),
        )

    def _warnings(self, shared: int) -> list[str]:
        found = [*self.train.warnings("training"), *self.test.warnings("test")]
        if shared:
            found.append(
                f"{shared:,} of {len(self.test.sentences):,} test sentences are also among the "
                "training sentences"
            )
        return found


@final
@dataclass(eq=False)
class _FeatureSets:
    """The features of the trained model and of its random-weight copy, on both treebanks."""

    run: _Probing

    def __post_init__(self) -> None:
        self._made: dict[tuple[str, str], Features] = {}
        self._models = {TRAINED: self.run.loaded}

    def planned(self, variant: str, side: str) -> Features:
        """The features before the model has run, with their size."""
        run, options = self.run, self.run.options
        treebank: Treebank = run.train if side == "train" else run.test
        folder = run.folder / variant / side
        needs = {"maps": options.needs_maps, "states": options.needs_states}
        return features_of(run.loaded, treebank, folder, **needs)

    def __getitem__(self, which: tuple[str, str]) -> Features:
        """The features of a variant and a side, from disk as far as they are there."""
        if which not in self._made:
            variant, side = which
            features = self.planned(variant, side)
            extract(
                self._model(variant),
                features,
                self.run.folder / variant / side,
                key=self.run.key,
                max_tokens=self.run.options.max_tokens,
                stage=f"features, {variant}, {side}: sentences",
                progress=self.run.progress,
            )
            self._made[which] = features
        return self._made[which]

    def _model(self, variant: str) -> Loaded:
        if variant not in self._models:
            loaded = self.run.loaded
            random = random_copy(loaded.model, self.run.options.seed)
            self._models[variant] = replace(loaded, model=random)
        return self._models[variant]
