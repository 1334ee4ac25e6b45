"""Probing: features of two treebanks, then every probe with its controls and baselines."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import final

from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from headcount.core import (
    Kept,
    Progress,
    amount,
    by_one,
    is_main_process,
    make_folder,
    name_of,
    own_folder,
    remove_state,
    silent,
    size_in_words,
)
from headcount.measures import probe_heads
from headcount.models import Loaded, as_loaded, check_has_heads, signature, versions
from headcount.probing.extraction import TEST, TRAIN, FeatureSets
from headcount.probing.result import PROBES, Probed, ProbeOptions, ProbeRecord, ProbeRow, ProbeTree
from headcount.probing.treebank import check_no_overlap, overlap, read_treebank
from headcount.probing.units import UnitResult, Units
from headcount.probing.vectors import check_vectors
from headcount.statistics import few_clusters


def probe(
    model: Loaded | PreTrainedModel,
    train: Sequence[str | Path],
    test: Sequence[str | Path],
    options: ProbeOptions | None = None,
    out: str | Path | None = None,
    progress: Progress = silent,
    tokenizer: Tokenizer | None = None,
) -> Probed:
    """Train probes on the sentences of some treebanks and measure them on others.

    >>> probed = probe(loaded, ["train.conllu"], ["dev.conllu"])  # doctest: +SKIP
    >>> probed.find(probe="attention", variant="trained", metric="uas")  # doctest: +SKIP

    Args:
        model: the result of `load`, or a plain model together with its tokenizer.
        train: CoNLL-U files to train on.
        test: CoNLL-U files to measure on.
        options: the probes and how they are run.
        out: the folder of the run. Features and finished probes are kept in `out/state/probes`, and
            a run that finds some there resumes. `Probed.write` writes the results. Processes of
            torchrun share the probes, and each makes the features that it reads.
        progress: called with the stage and the progress.
        tokenizer: the tokenizer of a plain model.

    Raises:
        CorpusError: if a treebank lacks what a probe needs, or training and test overlap.
        InputError: if the disk is too small for the features, or vectors can't be read.
    """
    options = options or ProbeOptions()
    check_vectors(options.vectors)
    loaded = as_loaded(model, tokenizer)
    check_has_heads(loaded)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) if out is None else Path(out) / "state" / "probes"
        return _Probing(loaded, (train, test), options, folder, progress).run()


def forget_probes(out: Path) -> None:
    """Delete the features and finished probes of an unfinished run."""
    remove_state(out / "state" / "probes")


@final
class _Probing:
    """The steps of one run and what they share."""

    def __init__(
        self,
        loaded: Loaded,
        files: tuple[Sequence[str | Path], Sequence[str | Path]],
        options: ProbeOptions,
        folder: Path,
        progress: Progress,
    ) -> None:
        self.loaded, self.options = loaded, options
        self.folder, self.progress = folder, progress
        encoder = loaded.source_encoder()
        self.train = read_treebank(files[0], encoder, options, options.train_limit)
        self.test = read_treebank(files[1], encoder, options, options.test_limit)
        if not options.allow_overlap:
            check_no_overlap(self.train, self.test)
        self.signature = self._signature()
        self.key = (
            f"{self.signature}|ranks:{options.ranks}|layers:{options.layers}"
            f"|min_cases:{options.min_cases}|tokens:{options.max_tokens}"
        )
        sides = {TRAIN: self.train, TEST: self.test}
        own = own_folder(folder)
        self.features = FeatureSets(loaded, sides, options, own, self.key, progress)
        self.units = Units(self.features)

    def run(self) -> Probed:
        """Run every unit that is not done, in order."""
        named = self.units.named()
        make_folder(self.features.folder)
        self.features.check_disk()
        size = size_in_words(self.features.num_bytes())
        self.progress(f"word-level features take {size} on disk", 1, 1)
        what = "the finished probes of a run"
        kept = Kept(self.folder / "done.json", self.key, what, UnitResult)
        so_far = list[ProbeRow]()
        for last in (False, True):
            names = [name for name in named if self.units.follows(name) == last]
            for each in kept.results((name, partial(named[name], so_far)) for name in names):
                so_far += each.rows
        found = [kept[name] for name in named]
        record = self._record([tree for each in found for tree in each.trees], kept.seconds)
        if not is_main_process():  # whose folder is removed once the results are written
            remove_state(self.features.folder)
        rows = tuple(row for each in found for row in each.rows)
        return Probed(record, rows, tuple(weight for each in found for weight in each.weights))

    def _signature(self) -> str:
        """Everything that the numbers depend on."""
        options = self.options
        return signature(
            self.loaded,
            self.train.sha256,
            test=self.test.sha256[:12],
            n=f"{len(self.train.sentences)}+{len(self.test.sentences)}",
            **self.test.reading,
            max_words=options.max_words,
            vectors=options.vectors,
            subtypes=options.subtypes or None,
            normalize=options.normalize or None,
            samples=options.samples,
            seed=options.seed,
        )

    def _record(self, trees: Sequence[ProbeTree], timings: Mapping[str, float]) -> ProbeRecord:
        """Facts about the run."""
        options, shared = self.options, len(overlap(self.train, self.test))
        heads = probe_heads(self.loaded)
        vectors = self.units.vectors if "words" in options.probes else None
        return ProbeRecord(
            signature=self.signature,
            model=name_of(self.loaded.name),
            model_type=self.loaded.model.config.model_type,
            probes=tuple(name for name in PROBES if name in options.probes),
            train=self.train.names,
            test=self.test.names,
            train_sentences=len(self.train.sentences),
            train_words=self.train.num_words,
            test_sentences=len(self.test.sentences),
            test_words=self.test.num_words,
            overlap=shared,
            vectors=vectors and vectors.name,
            vectors_found=vectors and vectors.share_found(self.test.sentences),
            min_cases=options.min_cases,
            layers=len({head.layer for head in heads}),
            heads=len(heads),
            feature_bytes=self.features.num_bytes(),
            trees=tuple(trees),
            warnings=tuple(self._warnings(shared)),
            timings=timings,
            versions=versions(),
        )

    def _warnings(self, shared: int) -> list[str]:
        found = [*self.train.warnings("training"), *self.test.warnings("test")]
        found += few_clusters(len(self.test.sentences), "test sentence")
        if shared:
            found.append(
                f"{shared:,} of {amount(len(self.test.sentences), 'test sentence')} are also among "
                "the training sentences"
            )
        if "structure" in self.options.probes:
            if too_large := sorted(set(self.options.ranks) - set(self.units.ranks)):
                found.append(
                    f"ranks above the width of a hidden state were left out: "
                    f"{', '.join(map(str, too_large))}"
                )
            if not self.options.normalize and (massive := by_one(self.units.massive_states)):
                found.append(
                    f"words of {amount(len(massive), 'hidden state')} "
                    f"({', '.join(map(str, massive))}) have norms of up to "
                    f"{max(massive.values()):.0f} times the median, which hide all others from a "
                    "structural probe: try --normalize"
                )
        return found
