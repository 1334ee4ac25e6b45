r"""Heads of causal models on repeated random tokens: induction, duplicate-token, previous-token.

A sequence is `BOS r r`, with r a text of n random tokens, no two of them equal. BOS is what the
tokenizer puts in front of a text; if that is nothing, its BOS token, if it has one, else a random
token. For the queries i of the second r, and attention A,

$$\text{previous token}: \overline{A_{i, i-1}}, \qquad \text{duplicate token}:
\overline{A_{i, i-n}}, \qquad \text{induction}: \overline{A_{i, i-n+1}},$$

so an induction head looks at the token that came after the earlier copy of its own. A random text
has no other structure, so what a head finds there is the copy. A head may also look that far back
whatever stands there: the same weight on `BOS r s`, where s shares no token with r, is the control.

Reference: In-context Learning and Induction Heads (Olsson et al., 2022),
https://arxiv.org/abs/2209.11895; the three patterns are those of TransformerLens's head detectors
Departure: a mean of weights, not the share of a head's mass on the pattern; the control.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headcount.core import HeadTable, InputError, LayerId, ModelError, Steps, silent_steps, spread
from headcount.corpora import Encoder
from headcount.models import Loaded, as_loaded, last_logits, running
from headcount.statistics import mean_interval
from headcount.tap import AttentionLayer, Block, input_device

PATTERNS = ("induction", "duplicate_token", "previous_token")
"""What a head is scored for; in the table, each with `_low`, `_high` and `_control`."""

SHORTEST = 8
"""Fewest tokens in r: fewer are no text."""

ROWS = 16
"""Number of sequences in a batch: a model gives logits for its whole vocabulary at each token."""

SEED = 0
"""Seed of the random tokens, unless another is given."""


@final
@dataclass(frozen=True)
class RepeatedTokens:
    """Sequences of random tokens, half of them repeated.

    Raises:
        InputError: for fewer than two sequences.
        ModelError: if the model takes too few tokens, or has too small a vocabulary.
    """

    ids_BN: Int64[Tensor, "batch token"]
    """Token ids: first all `BOS r r`, then `BOS r s` with the same r."""
    length: int
    """Number of tokens of r."""
    start: tuple[str, ...] = ()
    """What stands in front of r; nothing if it is one more random token."""

    @classmethod
    def draw(
        cls, loaded: Loaded, length: int, sequences: int, seed: int, first: str | None = None
    ) -> "RepeatedTokens":
        """Draw tokens that are not special, behind what texts begin with, or behind `first`."""
        if sequences < 2:
            raise InputError(
                f"Expected at least 2 sequences for an interval, got {sequences}. Draw more."
            )
        special, start, size = _vocabulary(loaded, first)
        ordinary = np.setdiff1d(np.arange(size), special)
        room = [len(ordinary) - 1]
        if loaded.max_length is not None:
            room.append(loaded.max_length - max(1, len(start)))
        length = min(length, min(room) // 2)
        if length < SHORTEST:
            raise ModelError(
                f"Expected texts of at least {SHORTEST} random tokens, twice in a sequence, got a "
                f"length of {length} (the model takes {loaded.max_length} tokens, of "
                f"{len(ordinary)} that are not special). Use a longer text or a larger model."
            )
        random = np.random.default_rng(seed)
        drawn = [random.choice(ordinary, 2 * length + 1, False) for _ in range(sequences)]
        starts, texts = np.split(np.stack(drawn), [1], axis=1)
        if start:
            starts = np.tile(start, (sequences, 1))
        once, other = np.split(texts, 2, axis=1)
        rows = [np.hstack([starts, once, second]) for second in (once, other)]
        tokenizer = loaded.tokenizer
        names = () if tokenizer is None else tokenizer.convert_ids_to_tokens([*start])
        return cls(torch.from_numpy(np.vstack(rows)), length, tuple(names))


def _vocabulary(loaded: Loaded, given: str | None) -> tuple[Sequence[int], tuple[int, ...], int]:
    """Special tokens, the tokens that begin a text, and the number of tokens."""
    tokenizer, size = loaded.tokenizer, int(loaded.model.config.get_text_config().vocab_size)
    if tokenizer is None:
        return (), (), size
    start, bos = Encoder(tokenizer).start_ids, tokenizer.bos_token_id
    if given is not None:
        if given not in (ids := tokenizer.get_vocab()):
            raise InputError(
                f"Expected a token of {loaded.name} to stand first, got {given!r}. Give one as its "
                "tokenizer writes it, such as its bos_token."
            )
        start = (ids[given],)
    elif not start and isinstance(bos, int):
        start = (bos,)
    return tokenizer.all_special_ids, start, min(size, len(tokenizer))


@final
class PatternMeans:
    """Listens to attention and keeps, for every sequence and head, the means of the patterns."""

    def __init__(self, length: int, first: int) -> None:
        self.length, self.first = length, first
        """Number of tokens of r, and where its second copy begins."""
        self.means: dict[LayerId, Float[Tensor, "pattern batch head"]] = {}

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        """Begin a layer with sums of 0."""
        batch, heads = value_BHKD.shape[:2]
        self.means[layer.layer_id] = value_BHKD.new_zeros(len(PATTERNS), batch, heads)

    def block(self, block: Block) -> None:
        """Add the weights of the block that lie on a pattern."""
        queries = range(max(self.first, block.queries.start), block.queries.stop)
        if not queries:
            return
        here = [query - block.queries.start for query in queries]
        for p, offset in enumerate((1 - self.length, -self.length, -1)):
            keys = [query + offset for query in queries]
            sums_BH = block.weights_BHQK[:, :, here, keys].sum(-1)
            self.means[block.layer.layer_id][p, block.rows, block.heads] += sums_BH / self.length

    def end(self, layer: AttentionLayer) -> None:
        """Finish the layer, whose sums are means already."""


def induction_scores(
    loaded: Loaded | PreTrainedModel,
    length: int = 60,
    sequences: int = 16,
    seed: int = SEED,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> HeadTable:
    """Score every head of a causal model on repeated random tokens.

    Args:
        loaded: a causal language model, as `load` gives it, or a plain one.
        length: number of tokens of r; as many as the model takes, if it takes fewer.
        sequences: number of texts r.
        seed: seed of the tokens.
        tokenizer: tokenizer of a plain model; special tokens are drawn, too, if there is none.

    Returns:
        One row per head. For each of `PATTERNS` the mean weight (0 to 1), the bounds of Student's
        95 % interval over the texts (`_low`, `_high`), and the same mean without a repetition
        (`_control`).

    Raises:
        InputError: for fewer than two sequences.
        ModelError: if the model has other heads than those of a causal decoder, takes too few
            tokens or has too small a vocabulary.
    """
    loaded = as_loaded(loaded, tokenizer)
    check_is_causal(loaded)
    tokens = RepeatedTokens.draw(loaded, length, sequences, seed)
    repeated_PBH, other_PBH = pattern_means(loaded, tokens)
    columns: dict[str, np.ndarray] = {}
    for p, pattern in enumerate(PATTERNS):
        low, mean, high = interval(repeated_PBH[p])
        columns |= {pattern: mean, f"{pattern}_low": low, f"{pattern}_high": high}
        columns[f"{pattern}_control"] = other_PBH[p].mean(0)
    return HeadTable.of(loaded.heads, columns)


def check_is_causal(loaded: Loaded) -> None:
    """Check that a model has the heads of a causal decoder alone.

    Raises:
        ModelError: if it has others.
    """
    if set(loaded.heads.counts) != {"decoder.self"}:
        raise ModelError(
            "Expected a causal language model, got one with heads of "
            f"{', '.join(loaded.heads.counts)}. Induction is a pattern of causal self-attention."
        )


def pattern_means(
    loaded: Loaded, tokens: RepeatedTokens, steps: Steps = silent_steps
) -> tuple[Float[np.ndarray, "pattern text head"], Float[np.ndarray, "pattern text head"]]:
    """The means of the patterns for each text r and all heads: on `BOS r r`, and on `BOS r s`.

    Args:
        loaded: a causal language model.
        tokens: the sequences.
        steps: called with the number of sequences so far, and of all.
    """
    places = [
        LayerId("decoder.self", layer) for layer in range(len(loaded.heads.counts["decoder.self"]))
    ]
    parts, done = list[Tensor](), 0
    steps(done, len(tokens.ids_BN))

    def of_batch(ids_BN: Tensor) -> Tensor:
        diagonals = PatternMeans(tokens.length, tokens.ids_BN.shape[1] - tokens.length)
        with running(loaded, diagonals):
            ids_BN = ids_BN.to(input_device(loaded.model))
            loaded.model(input_ids=ids_BN, use_cache=False, **last_logits(loaded.model))
        return torch.cat([diagonals.means[each].double().cpu() for each in places], dim=-1)

    for mean_PBH in spread(of_batch, tokens.ids_BN.split(ROWS), "batches"):
        parts.append(mean_PBH)
        steps(done := done + mean_PBH.shape[1], len(tokens.ids_BN))
    repeated_PBH, other_PBH = np.split(torch.cat(parts, dim=1).numpy(), 2, axis=1)
    return repeated_PBH, other_PBH


def interval(
    values_BH: Float[np.ndarray, "batch head"], least: float = 0.0, most: float = 1.0
) -> tuple[Float[np.ndarray, " head"], Float[np.ndarray, " head"], Float[np.ndarray, " head"]]:
    """Student's 95 % interval of a mean, with the mean in its middle, within two limits."""
    low_H, mean_H, high_H = mean_interval(values_BH)
    return low_H.clip(least, most), mean_H, high_H.clip(least, most)
