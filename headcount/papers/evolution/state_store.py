"""State store: the hidden states of chosen tokens in every layer, on disk.

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
from pathlib import Path
from typing import final

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from headcount.core import Float16File, Kept, ModelError, Steps, fill
from headcount.corpora import groups_by_length, padded, present
from headcount.models import CUT, check_memory
from headcount.papers.evolution.subjects import CAUSAL, MASKED, Subject
from headcount.papers.evolution.tokens import Occurrences, Tokens
from headcount.tap import StateId, evaluating, heard, input_device, without_cache

SHARE_MASKED = 0.15
"""Largest share of the tokens of a sentence that are masked at once, but at least one token."""


@final
class StateStore(Float16File):
    """The states of some tokens in every layer.

    Args:
        path: the file.
        num_layers: number of hidden states of a token, one more than there are layers.
        occurrences: the tokens.
        width: size of a state.
    """

    def __init__(self, path: Path, num_layers: int, occurrences: Occurrences, width: int) -> None:
        super().__init__(path, num_layers, len(occurrences), width)
        self.occurrences = occurrences

    def layer(
        self, layer: int, numbers: Int64[np.ndarray, " some"] | None = None
    ) -> Float32[np.ndarray, "some width"]:
        """A copy of the states of a layer, all or some."""
        found = self.numbers[layer]
        return (found if numbers is None else found[numbers]).astype(np.float32)


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
    if view == "replaced":
        stand_in_S = occurrences.replacements(seed)
    elif view == "output" and subject.objective != CAUSAL:
        stand_in_S = np.full(len(occurrences), subject.mask_id)
    else:
        stand_in_S = None
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
        run(subject, [row.ids for row in batch])

    with heard(subject.loaded.model, subject.loaded.anatomy, hidden_states=writer):
        fill(kept, batches, write, store.flush, lambda seen: steps(seen, len(rows)))


def run(
    subject: Subject,
    rows: Sequence[Int64[np.ndarray, " token"]],
    is_seen_BN: Tensor | None = None,
) -> None:
    """Run the model over a batch, for those who listen.

    Args:
        subject: the model.
        rows: token ids of the batch.
        is_seen_BN: tokens that others may attend to; all but padding by default.
    """
    body, loaded = subject.body, subject.loaded
    ids_BN = torch.from_numpy(padded([row.tolist() for row in rows], subject.encoder.pad_id))
    is_token_BN = torch.from_numpy(present([row.tolist() for row in rows]))
    is_seen_BN = is_token_BN if is_seen_BN is None else is_seen_BN
    options = without_cache(body)
    device = input_device(loaded.model)
    with evaluating(loaded.model), torch.inference_mode():
        mask_BN = is_seen_BN.long().to(device)
        body(input_ids=ids_BN.to(device), attention_mask=mask_BN, **options)


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
