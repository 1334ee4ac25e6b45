"""Stores of a run: which states each model needs, their size, and their making when asked for.

State store: the hidden states of chosen tokens in every layer, on disk.

One pass of the model writes them batch by batch into a memory map of float16 whose size is known
before: layers x states x width. A killed run resumes after the last batch that is on disk.

Five views of a model are stored:

- `text`: the text is read as it is; the state of each chosen token;
- `output`: the state that predicts each chosen token. For a causal language model, that is the
  state one position before; for a masked one, the token's own state while the token is masked;
- `replaced`, of masked models: the token's own state while the model reads another chosen token in
  its place, as it did for a tenth of the tokens that it learned to predict;
- `pictures`: the text is read as it is; the state of each token of a picture;
- `sentences`: the states of all tokens of some sentences, read as they are.

So the tokens are balanced in `text`, `output` and `replaced`.

Reference: The Bottom-up Evolution of Representations in the Transformer (Voita et al., 2019),
section 4, https://arxiv.org/abs/1909.01380
Departure: the paper masks 15 % of the tokens of every sentence. Here a chosen token is masked, with
other chosen tokens of its sentence up to 15 %. So every chosen token is predicted once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from headcount.core import (
    Kept,
    ModelError,
    Progress,
    Steps,
    check_disk,
    fill,
    forget,
    size_in_words,
)
from headcount.corpora import Corpus, groups_by_length
from headcount.models import CUT, check_memory
from headcount.papers.evolution.pictures import Pictured, pictured
from headcount.papers.evolution.record import EvolutionOptions, StoreFacts, check_clusters
from headcount.papers.evolution.subjects import (
    CAUSAL,
    MASKED,
    Occurrences,
    StateStore,
    Subject,
    Tokens,
    balanced,
    of_sentences,
)
from headcount.tap import StateId, heard

SHARE_MASKED = 0.15
"""Largest share of the tokens of a sentence that are masked at once, but at least one token."""


@final
@dataclass(frozen=True, eq=False)
class Row:
    """One input of the model and the states that are taken from it."""

    ids: Int64[np.ndarray, " token"]
    """Token ids that are fed."""
    numbers: Int64[np.ndarray, " some"]
    """Numbers of the states."""
    positions: Int64[np.ndarray, " some"]
    """Their positions in the input."""


def length(row: Row) -> int:
    """Number of tokens that are fed."""
    return len(row.ids)


def rows_of(
    subject: Subject, tokens: Tokens, occurrences: Occurrences, view: str, seed: int = 0
) -> Iterator[Row]:
    """The inputs of the model in a view, in the order of sentences.

    Args:
        subject: the model.
        tokens: the corpus.
        occurrences: the tokens whose states are taken.
        view: the view.
        seed: seed of what is read in place of replaced tokens.
    """
    match view:
        case "replaced":
            stand_in_S = occurrences.replacements(seed)
        case "output" if subject.objective != CAUSAL:
            stand_in_S = np.full(len(occurrences), subject.mask_id)
        case "text" | "output" | "sentences" | "pictures":
            stand_in_S = None
        case _:
            raise AssertionError(f"no states are stored in the view {view}")
    order = np.argsort(occurrences.sentence_S, kind="stable")
    in_order = occurrences.sentence_S[order]
    edges = np.flatnonzero(np.diff(in_order, prepend=-1, append=-1))
    for start, stop in zip(edges[:-1], edges[1:], strict=True):
        numbers = order[start:stop]
        ids = tokens.sentence(int(in_order[start]))
        positions = occurrences.position_S[numbers]
        if stand_in_S is not None:
            yield from _replaced(ids, numbers, positions, stand_in_S[numbers])
        else:
            yield Row(ids, numbers, positions - 1 if view == "output" else positions)


def _replaced(
    ids: Int64[np.ndarray, " token"],
    numbers: Int64[np.ndarray, " some"],
    positions: Int64[np.ndarray, " some"],
    stand_ins: Int64[np.ndarray, " some"],
) -> Iterator[Row]:
    """The sentence as often as it takes to replace every chosen token once, spread over it."""
    at_once = max(1, int(SHARE_MASKED * len(ids)))
    num_rows = -(-len(numbers) // at_once)
    for row in range(num_rows):
        taken = slice(row, None, num_rows)
        fed = ids.copy()
        fed[positions[taken]] = stand_ins[taken]
        yield Row(fed, numbers[taken], positions[taken])


def write_states(
    subject: Subject,
    store: StateStore,
    rows: Sequence[Row],
    key: str,
    max_tokens: int,
    steps: Steps,
) -> None:
    """Run the model over its inputs and write their states; resumes.

    Args:
        subject: the model.
        store: where the states are written.
        rows: the inputs.
        key: key of this run; a file of another key is refused.
        max_tokens: number of padded tokens in a batch.
        steps: called with the number of inputs so far, and of all.

    Raises:
        InputError: if the longest input does not fit into memory.
        ModelError: if a state is too large for float16.
    """
    kept = Kept(store.path.with_suffix(".json"), key, "the progress of a state store", int)
    longest = max(map(length, rows), default=0)
    check_memory(subject.loaded, longest, len(rows), max_tokens, CUT)
    batches = list(groups_by_length(rows, length, max_tokens))
    store.open()
    writer = _Writer(subject, store)

    def write(batch: Sequence[Row]) -> None:
        writer.start(batch)
        subject.loaded.read_sources([row.ids.tolist() for row in batch])

    with heard(subject.loaded.model, subject.loaded.anatomy, hidden_states=writer):
        fill(kept, batches, write, store.flush, lambda seen: steps(seen, len(rows)))


@final
class _Writer:
    """Writes what it hears of a batch."""

    def __init__(self, subject: Subject, store: StateStore) -> None:
        self._subject, self._store = subject, store
        self._layer = {state: number for number, state in enumerate(subject.states)}

    def start(self, group: Sequence[Row]) -> None:
        """Announce the batch of the next forward pass."""
        self._numbers = np.concatenate([row.numbers for row in group])
        rows = np.repeat(np.arange(len(group)), [len(row.numbers) for row in group])
        self._row_S = torch.from_numpy(rows)
        self._position_S = torch.from_numpy(np.concatenate([row.positions for row in group]))

    def __call__(self, state: StateId, state_BND: Tensor) -> None:
        """Hear one hidden state."""
        if (layer := self._layer.get(state)) is None:
            return
        row_S, position_S = (each.to(state_BND.device) for each in (self._row_S, self._position_S))
        found = state_BND[row_S, position_S].to(torch.float16).cpu()
        if not bool(found.isfinite().all()):
            raise ModelError(
                f"Expected states below 65,504, the largest float16, got larger ones in layer "
                f"{layer} of {self._subject.loaded.name}. Its states can't be stored."
            )
        self._store.numbers[layer, self._numbers] = found.numpy()


def has_output(subject: Subject) -> bool:
    """Whether a state of the model predicts a token, so that there is a view `output`."""
    return subject.objective in (CAUSAL, MASKED)


TEXT, OUTPUT, SENTENCES = "text", "output", "sentences"
REPLACED, PICTURES = "replaced", "pictures"

_NEEDED_BY = {
    TEXT: {"information", "neighbours"},
    OUTPUT: {"information"},
    REPLACED: {"information"},
    PICTURES: {"pictures"},
    SENTENCES: {"distance", "influence"},
}
"""The quantities that need a view."""


@final
class Stores:
    """The states of all models of a run; models with one tokenizer share their tokens.

    Args:
        subjects: the models.
        corpus: the texts.
        options: what is measured.
        folder: folder of the files.
        progress: called with the stage and the number of inputs.

    Raises:
        CorpusError: if the corpus has too few occurrences or states.
    """

    def __init__(
        self,
        subjects: Sequence[Subject],
        corpus: Corpus,
        options: EvolutionOptions,
        folder: Path,
        progress: Progress,
    ) -> None:
        self.options, self.folder, self.progress = options, folder, progress
        self.tokens: dict[str, Tokens] = {}
        self._chosen: dict[tuple[str, str, bool], Occurrences] = {}
        self._pictured: dict[str, Pictured] = {}
        self._open: dict[tuple[str, str], StateStore] = {}
        self.facts: list[StoreFacts] = []
        for subject in subjects:
            revision = subject.tokenizer_revision
            if revision not in self.tokens:
                self.tokens[revision] = Tokens.of(corpus, subject.encoder)
            for view in self.views(subject):
                store = self.planned(subject, view)
                self.facts.append(self._facts(subject, view, store))

    def views(self, subject: Subject) -> list[str]:
        """The views of a model that are stored."""
        needed = [name for name, by in _NEEDED_BY.items() if by & set(self.options.measure)]
        lacks = {OUTPUT: not has_output(subject), REPLACED: subject.objective != MASKED}
        return [name for name in needed if not lacks.get(name, False)]

    @property
    def peak_bytes(self) -> int:
        """Largest size on disk at a time: all sentences, and one model's other views."""
        kept = sum(each.num_bytes for each in self.facts if each.view == SENTENCES)
        passing = [each.num_bytes for each in self.facts if each.view != SENTENCES]
        return kept + max(passing, default=0)

    def check(self) -> None:
        """Say the size, and check it against the free disk.

        Raises:
            InputError: if the disk is too small.
        """
        there = sum(path.stat().st_size for path in self._stored())
        advice = "Name a folder on another disk with --out, or lower --occurrences or --types."
        check_disk(self.folder, self.peak_bytes - there, "hidden states", advice)
        if self.peak_bytes:
            self.progress(f"states take {size_in_words(self.peak_bytes)} on disk", 1, 1)

    def tokens_of(self, subject: Subject) -> Tokens:
        """The corpus as a model reads it."""
        return self.tokens[subject.tokenizer_revision]

    def planned(self, subject: Subject, view: str) -> StateStore:
        """A store before the model has run; nothing is written."""
        path = self.folder / subject.label / f"{view}.f16"
        chosen = self.occurrences(subject, view)
        return StateStore(path, len(subject.states), chosen, subject.width)

    def get(self, subject: Subject, view: str, key: str) -> StateStore:
        """The states of a model, from disk as far as they are there."""
        which = subject.label, view
        if which not in self._open:
            store = self.planned(subject, view)
            if view != SENTENCES:
                self.release(store.path)
            tokens, seed = self.tokens_of(subject), self.options.seed
            rows = list(rows_of(subject, tokens, store.occurrences, view, seed))
            steps = partial(self.progress, f"{subject.label}, states ({view}): inputs")
            write_states(subject, store, rows, key, self.options.max_tokens, steps)
            self._open[which] = store
        return self._open[which]

    def _stored(self) -> Iterator[Path]:
        """The files of states on this process's disk."""
        return self.folder.glob("*/*.f16")

    def release(self, wanted: Path | None = None) -> None:
        """Delete all states; or, if some are wanted, others that belong to one model alone."""
        for path in [*self._stored()]:
            if wanted is None or (path != wanted and path.stem != SENTENCES):
                self._open.pop((path.parent.name, path.stem), None)
                forget(path.with_suffix(".json"))  # before the numbers, which it says are there
                path.unlink()

    def occurrences(self, subject: Subject, view: str) -> Occurrences:
        """The tokens whose states are stored in a view."""
        if view == PICTURES:
            return self.pictured(subject).occurrences
        before = view == OUTPUT and subject.objective == CAUSAL
        which = subject.tokenizer_revision, SENTENCES if view == SENTENCES else TEXT, before
        if which not in self._chosen:
            self._chosen[which] = self._draw(self.tokens_of(subject), *which[1:])
        return self._chosen[which]

    def pictured(self, subject: Subject) -> Pictured:
        """The tokens in pictures."""
        revision = subject.tokenizer_revision
        if revision not in self._pictured:
            self._pictured[revision] = pictured(
                subject, self.tokens_of(subject), self.options.words, self.options.seed
            )
        return self._pictured[revision]

    def _draw(self, tokens: Tokens, view: str, before: bool) -> Occurrences:
        options = self.options
        if view == SENTENCES:
            return of_sentences(tokens, options.sentences, options.seed)
        found = balanced(
            tokens, options.occurrences, options.types, options.seed, first=int(before)
        )
        check_clusters(len(found), options.clusters or 0)
        return found

    def _facts(self, subject: Subject, view: str, store: StateStore) -> StoreFacts:
        return StoreFacts(
            *subject.named,
            view=view,
            occurrences=0 if view in (SENTENCES, PICTURES) else self.options.occurrences,
            types=store.occurrences.num_types,
            states=len(store.occurrences),
            num_bytes=store.num_bytes,
        )
