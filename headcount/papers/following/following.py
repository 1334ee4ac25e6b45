"""Follow: importance, roles, confidence and prunability at each checkpoint of a training.

When is the importance of heads determined? Importance is measured on two halves of the data, so
that its agreement with the last checkpoint has a ceiling: what the halves agree on there.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), section 7, https://arxiv.org/abs/1905.10650
"""  # noqa: E501

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import final

import numpy as np
from jaxtyping import Float

from headcount.analysis import Options as AnalysisOptions
from headcount.analysis import analyze
from headcount.core import (
    MAX_TOKENS,
    Head,
    Heads,
    InputError,
    Kept,
    Progress,
    make_folder,
    remove_state,
    rising,
    signed_origins,
    silent,
)
from headcount.corpora import Columns, Corpus, Data, Sentence
from headcount.importance import SCORES, Scores, correlation, scores
from headcount.models import Loaded, check_has_heads, load, signature, versions
from headcount.papers.following.checkpoint_list import (
    Checkpoint,
    Load,
    check_same_architecture,
    checkpoints_of,
    load_checkpoint,
)
from headcount.papers.following.document import sentences_of
from headcount.papers.following.prunability import HALVES, half_of, prunability
from headcount.papers.following.record import (
    Followed,
    FollowedCheckpoint,
    FollowedHead,
    FollowOptions,
    FollowRecord,
)
from headcount.results import Correlation
from headcount.tasks import Task, check_examples_fit, columns_of, evaluate, read_examples


def texts_of(
    task: str, data: Data, columns: Columns | None = None, limit: int | None = None
) -> Corpus:
    """The image or first text of every example; for translation, with the second as its target.

    Args:
        task: name of the task.
        data: the task's data.
        columns: the task's name of a column, mapped to its name or number in the data.
        limit: largest number of examples.

    Raises:
        CorpusError: if the data can't be read.
    """
    table = read_examples(task, data, columns, limit)
    if task == "translation":
        rows = zip(table["source"], table["target"], table.origins, strict=True)
        return Corpus.from_sentences([Sentence(s, target=t, origin=at) for s, t, at in rows])
    if task == "image-classification":
        return Corpus(table["image"])
    return Corpus.from_sentences(table.sentences(next(iter(columns_of(task)))))


_NUMBERS = "numbers"
"""Name of the one unit of a checkpoint, which has a key of its own."""

Build = Callable[[Loaded], Task]
"""Makes the task for a model."""


def follow(
    checkpoints: Sequence[str | Path],
    build: Build,
    corpus: Corpus,
    *,
    options: FollowOptions | None = None,
    out: str | Path | None = None,
    progress: Progress = silent,
    read: Load = load,
    max_tokens: int = MAX_TOKENS,
) -> Followed:
    """Measure the heads at each checkpoint of a training.

    >>> followed = follow(folders, lambda one: Translation(one, "dev.tsv"), text)  # doctest: +SKIP
    >>> [each.correlation.rho for each in followed.record.checkpoints]  # doctest: +SKIP

    Args:
        checkpoints: folders of models of one architecture, sorted by their steps if they carry any.
        build: makes the task for a model, whose tokenizer is that of the training.
        corpus: texts on which roles and confidence are measured.
        options: what is measured and how.
        out: the folder of the run. Finished checkpoints are kept in `out/state`, and a run that
            finds some there resumes. `Followed.write` writes the results.
        progress: called with the stage and the progress.
        read: loads a checkpoint, e.g. onto another device.
        max_tokens: largest number of padded tokens in a batch.

    Raises:
        InputError: for fewer than two checkpoints, one that does not exist, two of one step, or a
            task with fewer than two examples.
        ModelError: if a checkpoint has another architecture or another tokenizer than the first.
    """
    found = checkpoints_of(checkpoints)
    check_same_architecture(found, read)
    with TemporaryDirectory() as temporary:
        state = Path(temporary) if out is None else Path(out) / "state"
        make_folder(state)
        settings = (options or FollowOptions(), state, progress, read, max_tokens)
        return _Run(build, corpus, *settings).followed(found)


def forget_followed(out: Path) -> None:
    """Delete the finished parts of a run."""
    remove_state(out / "state")


@final
@dataclass(frozen=True)
class _TaskFacts:
    """What was measured on."""

    name: str
    metric: str
    examples: int


@final
@dataclass(frozen=True, kw_only=True)
class _Measured:
    """The numbers of one checkpoint by themselves, in the order of the heads."""

    loss: float
    score: float
    halves: tuple[tuple[float, ...], ...]
    """Importance on each half of the data."""
    confidence: tuple[float, ...]
    roles: tuple[tuple[str, ...], ...]
    tendencies: tuple[tuple[str, ...], ...]
    share: float
    low: float
    high: float
    losses: Mapping[int, float]
    signature: str
    task: _TaskFacts
    heads: Mapping[str, tuple[int, ...]]
    warnings: tuple[str, ...]

    @property
    def halves_2H(self) -> Float[np.ndarray, "half head"]:
        """Importance on each half of the data."""
        return np.array(self.halves, dtype=float)


@final
@dataclass(frozen=True)
class _Run:
    """What the checkpoints of one run share."""

    build: Build
    corpus: Corpus
    options: FollowOptions
    state: Path
    progress: Progress
    read: Load
    max_tokens: int

    def followed(self, checkpoints: Sequence[Checkpoint]) -> Followed:
        """Measure every checkpoint that is not done, in order, and compare each with the last."""
        measured, timings = list[_Measured](), dict[str, float]()
        for number, checkpoint in enumerate(checkpoints):
            self.progress("checkpoints", number, len(checkpoints))
            found, timings[checkpoint.name] = self._measured_once(number, checkpoint)
            measured.append(found)
        self.progress("checkpoints", len(checkpoints), len(checkpoints))
        last, rows, points = measured[-1], list[FollowedHead](), list[FollowedCheckpoint]()
        for place, (checkpoint, each) in enumerate(zip(checkpoints, measured, strict=True)):
            rows += _rows(checkpoint, place, Heads(last.heads), each)
            points.append(_point(checkpoint, each, last))
        return Followed(self._record(tuple(points), measured, timings), tuple(rows))

    def _measured_once(self, number: int, checkpoint: Checkpoint) -> tuple[_Measured, float]:
        """The numbers of a checkpoint, and the seconds that they took; measured only once."""
        loaded = load_checkpoint(checkpoint, self.read)
        check_has_heads(loaded)
        task = self.build(loaded)
        signed = self._signature(loaded, task)
        how = f"batches:{self.max_tokens}|limit:{self.corpus.limit}|pruned on the other half"
        key = f"{signed}|{self.options}|{how}"
        file = self.state / f"checkpoint-{number}.json"
        kept = Kept(file, key, "the numbers of a checkpoint", _Measured)
        found = kept.once(_NUMBERS, partial(self._measure, loaded, task))
        return found, kept.seconds[_NUMBERS]

    def _measure(self, loaded: Loaded, task: Task) -> _Measured:
        options = self.options
        if task.num_examples < 2:
            raise InputError(
                "Expected at least 2 examples, since importance is measured on two halves, got "
                f"{task.num_examples}. Give more data."
            )
        check_examples_fit(loaded, task, self.max_tokens)
        base = evaluate(loaded.model, task, self.max_tokens, texts=options.scores)
        halves_2H = self._halves(loaded, task)
        first, second = (least_first(loaded.heads, score_H) for score_H in halves_2H)
        how = (options.within, options.seed, self.max_tokens)
        pruned = prunability(loaded, task, (first, second), base, *how)
        measures = AnalysisOptions(max_tokens=self.max_tokens, thresholds=options.thresholds)
        analysis = analyze(loaded, self.corpus, measures)
        frame = analysis.heads.frame
        scored = options.scores or not task.writes
        return _Measured(
            loss=base.loss,
            score=task.score(base) if scored else float("nan"),
            halves=tuple(map(tuple, halves_2H.tolist())),
            confidence=tuple(map(float, frame["confidence"])),
            roles=tuple(map(tuple, frame["roles"])),
            tendencies=tuple(map(tuple, frame["tendencies"])),
            share=pruned.share,
            low=pruned.low,
            high=pruned.high,
            losses=pruned.losses,
            signature=self._signature(loaded, task),
            task=_TaskFacts(task.name, task.metric, task.num_examples),
            heads=loaded.heads.counts,
            warnings=(*task.warnings(), *analysis.record.warnings),
        )

    def _halves(self, loaded: Loaded, task: Task) -> Float[np.ndarray, "half head"]:
        """Importance of every head on the examples with even and on those with odd numbers."""
        heads, found = loaded.heads, []
        for half in HALVES:
            part = task.some(half_of(task.num_examples, half))
            scores = self._scores(loaded, part)
            found.append([float(scores[head.layer_id][head.index]) for head in heads])
        return np.array(found)

    def _scores(self, loaded: Loaded, task: Task) -> Scores:
        """Importance of every head by the method, with its default options."""
        return scores(SCORES[self.options.method](), loaded, task, self.max_tokens)

    def _signature(self, loaded: Loaded, task: Task) -> str:
        options = self.options
        return signature(
            loaded,
            self.corpus.sha256(),
            **self.corpus.signed,
            task=task.name,
            data=task.sha256[:12],
            n=task.num_examples,
            metric=task.signature if options.scores else None,
            method=options.method,
            within=options.within,
            seed=options.seed,
            plugins=signed_origins([SCORES.origin(options.method)]),
        )

    def _record(
        self,
        points: tuple[FollowedCheckpoint, ...],
        measured: Sequence[_Measured],
        timings: Mapping[str, float],
    ) -> FollowRecord:
        last, options = measured[-1], self.options
        warnings = dict.fromkeys(warning for each in measured for warning in each.warnings)
        if points[0].step is None:
            unknown = "not every folder carries a step, so checkpoints are in the order given"
            warnings = {unknown: None} | warnings
        return FollowRecord(
            task=last.task.name,
            metric=last.task.metric,
            method=options.method,
            within=options.within,
            num_examples=last.task.examples,
            heads=last.heads,
            corpora=self.corpus.names,
            checkpoints=points,
            signature=last.signature,
            sentences=tuple(sentences_of(points, options.within)),
            warnings=tuple(warnings),
            timings=timings,
            versions=versions(),
        )


def least_first(heads: Heads, score_H: Float[np.ndarray, " head"]) -> list[Head]:
    """The heads by rising score; equal heads in the order of the grid."""
    grid = list(heads)
    return [grid[number] for number in rising(score_H)]


def across_halves(
    here_2H: Float[np.ndarray, "half head"], there_2H: Float[np.ndarray, "half head"]
) -> float:
    """Spearman's correlation of one half here with the other half there, mean of both ways."""
    pairs = ((here_2H[0], there_2H[1]), (here_2H[1], there_2H[0]))
    return float(np.mean([correlation(one, other).rho for one, other in pairs]))


def _point(checkpoint: Checkpoint, here: _Measured, last: _Measured) -> FollowedCheckpoint:
    quartiles = np.quantile(here.confidence, (0.25, 0.75))
    agreed: Correlation = correlation(here.halves_2H.mean(0), last.halves_2H.mean(0))
    return FollowedCheckpoint(
        name=checkpoint.name,
        step=checkpoint.step,
        loss=here.loss,
        score=here.score,
        correlation=agreed,
        across_halves=across_halves(here.halves_2H, last.halves_2H),
        confidence=float(np.mean(here.confidence)),
        confidence_low=float(quartiles[0]),
        confidence_high=float(quartiles[1]),
        prunable=here.share,
        prunable_low=here.low,
        prunable_high=here.high,
        losses=here.losses,
        roles=_counts(here.roles),
        tendencies=_counts(here.tendencies),
    )


def _counts(named: Sequence[Sequence[str]]) -> dict[str, int]:
    """Number of heads with each name."""
    return dict(sorted(Counter(name for names in named for name in {*names}).items()))


def _rows(checkpoint: Checkpoint, place: int, heads: Heads, here: _Measured) -> list[FollowedHead]:
    halves_2H = here.halves_2H
    return [
        FollowedHead(
            checkpoint=checkpoint.name,
            place=place,
            head=str(head),
            importance=float(halves_2H[:, number].mean()),
            first_half=float(halves_2H[0, number]),
            second_half=float(halves_2H[1, number]),
            confidence=here.confidence[number],
            roles=here.roles[number],
            tendencies=here.tendencies[number],
        )
        for number, head in enumerate(heads)
    ]
