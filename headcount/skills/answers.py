r"""Answers: which heads fetch what a needle means where the question shares no word with it.

$$\phi_h(t, j) = A_h(t, j) \; u_{y_t} \cdot W_O^h v_j, \qquad
\mathrm{locos}_h = \overline{\sum_{j \in N} \phi_h(t, j) - \frac{|N|}{|R_t|} \sum_{j \in R_t}
\phi_h(t, j)}, \qquad \mathrm{answers}_h = \overline{\mathrm{locos}_h /
\textstyle\sum_g |\mathrm{locos}_g|}$$

$y_t$ are the answer's tokens, each with the query that produces it, $u$ their rows of the
unembedding, N the needle's tokens, and $R_t$ all others that the query may see. The first mean is
over the answer's tokens, the second over the needles that were answered. The range is [-1, 1]: a
head's share of what all heads add to the answer from the needle more than from elsewhere. One
forward pass scores all heads on a needle. The null takes, in the same pass, as many tokens of the
text elsewhere in place of the needle's.

Reference: LOCOS (Gema et al., 2026), https://arxiv.org/abs/2607.01002; needles whose question
shares no word with them: NoLiMa (Modarressi et al., 2025), https://arxiv.org/abs/2502.05167
Departure: the share of all heads, since logits before the final norm have no scale of their own. A
needle counts if every token of its answer is the likeliest, so that the answer that is read is the
one that would be generated. Needles that are answered without the text are left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headcount.core import LayerId, ModelError, Progress, Steps, amount, silent_steps, spread
from headcount.models import Loaded, Removal, last_logits, running
from headcount.skills.indirect import IndirectNeedle
from headcount.skills.removals import Asked, Score, every_second, twice
from headcount.skills.result import AnswerRow
from headcount.tap import AttentionLayer, Block, input_device, without_cache


@final
@dataclass(frozen=True)
class Replied:
    """What a model makes of a needle that is asked in other words."""

    likeliest: tuple[int, ...]
    """The likeliest token in place of each of the answer's, behind those before it."""
    share_2H: Float[np.ndarray, "2 head"] | None
    """The score of every head, and that of its null; None if not listened."""


def reply(
    loaded: Loaded,
    needles: Sequence[IndirectNeedle],
    removal: Removal | None = None,
    is_heard: bool = False,
    steps: Steps = silent_steps,
) -> list[Replied]:
    """Ask for needles in other words, in one forward pass each.

    Args:
        loaded: a causal language model.
        needles: the needles.
        removal: heads that are removed.
        is_heard: whether heads are scored.
        steps: called with the number of needles so far, and of all.

    Raises:
        ModelError: if heads are scored and the model lacks what their outputs are read with.
    """

    def of_needle(needle: IndirectNeedle) -> Replied:
        listener = Added(loaded, needle) if is_heard else None
        with running(loaded, listener, removal):
            likeliest = _likeliest(loaded, needle.ids, needle.answer)
        return Replied(likeliest, None if listener is None else listener.shares())

    return [*spread(of_needle, needles, "needles", steps)]


def guessed(loaded: Loaded, needles: Sequence[IndirectNeedle]) -> list[bool]:
    """Whether the model answers each needle from the text without it."""

    def of_needle(needle: IndirectNeedle) -> bool:
        with running(loaded):
            return _likeliest(loaded, needle.without, needle.answer) == needle.answer

    return [*spread(of_needle, needles, "texts without needles")]


def _likeliest(loaded: Loaded, ids: Sequence[int], answer: Sequence[int]) -> tuple[int, ...]:
    model: Any = loaded.model
    ids_1N = torch.tensor([[*ids, *answer[:-1]]], device=input_device(model))
    last = last_logits(model, len(answer))
    logits_NV = model(input_ids=ids_1N, **without_cache(model), **last).logits[0]
    return tuple(logits_NV[-len(answer) :].argmax(-1).tolist())


@final
class Added:
    """Listens to what every head adds to the answer's logits: from the needle, and elsewhere.

    Args:
        loaded: the model.
        needle: the needle whose prompt it reads, with the answer but its last token.

    Raises:
        ModelError: if the model has no unembedding that reads what its heads write.
    """

    def __init__(self, loaded: Loaded, needle: IndirectNeedle) -> None:
        self._loaded, size = loaded, len(needle.answer)
        unembedding = loaded.model.get_output_embeddings()
        if unembedding is None:
            raise ModelError(
                f"Expected a model with an unembedding to score answers, got {loaded.name} without "
                "one. Use the score retrieval."
            )
        weight_VM: Tensor = unembedding.weight  # type: ignore[assignment]
        self._towards_TM = weight_VM[[*needle.answer]].detach().float()
        last = len(needle.ids) - 1
        self._queries = range(last, last + size)
        signs = [
            _signs(each, needle.size, self._queries) for each in (needle.place, needle.elsewhere)
        ]
        self._sign_KC = torch.cat(signs).T
        self.added: dict[LayerId, Float[np.ndarray, "head column"]] = {}
        """What every head of a layer adds to the logit of each of the answer's tokens."""

    def begin(
        self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int
    ) -> Float[Tensor, "batch head key column"]:
        """The part of each value that is the answer's, signed by where it is read."""
        weight_HDM = layer.output_weight(self._loaded.model).float()
        if weight_HDM.shape[-1] != self._towards_TM.shape[-1]:
            raise ModelError(
                f"Expected an unembedding of {weight_HDM.shape[-1]} dimensions, as wide as what "
                f"heads write, got {self._towards_TM.shape[-1]} in {self._loaded.name}. Use the "
                "score retrieval."
            )
        reads_HDT = weight_HDM @ self._towards_TM.to(weight_HDM.device).T
        read_BHKT = value_BHKD.float() @ reads_HDT.to(value_BHKD.device)
        self.added[layer.layer_id] = np.zeros((value_BHKD.shape[1], self._sign_KC.shape[1]))
        both_BHKC = torch.cat([read_BHKT, read_BHKT], dim=-1)
        return (both_BHKC * self._sign_KC.to(value_BHKD.device)).to(value_BHKD.dtype)

    def block(self, block: Block) -> None:
        """Keep what the queries that produce the answer read."""
        added_HC = self.added[block.layer.layer_id]
        for t, query in enumerate(self._queries):
            if block.queries.start <= query < block.queries.stop:
                masses_HC = block.masses_BHQC[0, :, query - block.queries.start].double().cpu()
                for column in (t, t + len(self._queries)):
                    added_HC[block.heads, column] = masses_HC[:, column]

    def end(self, layer: AttentionLayer) -> None:
        """Finish the layer."""

    def shares(self) -> Float[np.ndarray, "2 head"]:
        """Each head's share of what all heads add, and the share of its null."""
        layers = range(len(self._loaded.heads.counts["decoder.self"]))
        added = [self.added[LayerId("decoder.self", number)] for number in layers]
        locos_2H = np.concatenate(added).T.reshape(2, len(self._queries), -1).mean(1)
        whole_21 = np.abs(locos_2H).sum(1, keepdims=True)
        return locos_2H / np.where(whole_21 > 0, whole_21, 1.0)


def _signs(place: int, size: int, queries: range) -> Float[Tensor, "token key"]:
    """The sign of each key that a query reads: 1 in the needle, else its weight among others."""
    key_K = torch.arange(queries.stop)
    inside_K = (key_K >= place) & (key_K < place + size)
    others_T1 = torch.tensor([query + 1 - size for query in queries])[:, None]
    return torch.where(inside_K, 1.0, -size / others_T1)


HALF, FEWEST_KINDS = 0.5, 2
"""Least share of the needles of a kind that a model answers if the kind counts, and least number
of such kinds."""


@final
class Inferred:
    """What a model answers about needles that are asked in other words, and the heads that add it.

    Args:
        loaded: the model.
        needles: the needles.
        progress: called with the number of needles done.
    """

    def __init__(
        self, loaded: Loaded, needles: Sequence[IndirectNeedle], progress: Progress
    ) -> None:
        self._loaded, self._needles, self._failed = loaded, needles, list[str]()
        steps = partial(progress, "needles in other words")
        self._replied = reply(loaded, needles, steps=steps)
        right_N = np.array(
            [made.likeliest == each.answer for made, each in self._pairs(self._replied)]
        )
        self._guessed_N = np.array(guessed(loaded, needles))
        self._right_N, counts_N = right_N, ~self._guessed_N
        kinds = np.array([each.kind for each in needles])
        self.recalls = {
            kind: (int(right_N[here].sum()), int(here.sum()))
            for kind in dict.fromkeys(kinds.tolist())
            for here in [(kinds == kind) & counts_N]
        }
        """How many needles of each kind were answered, and of how many that were not guessed."""
        done = [kind for kind, (right, whole) in self.recalls.items() if right >= HALF * whole > 0]
        self._asked_N = counts_N & np.isin(kinds, done) & (len(done) >= FEWEST_KINDS)
        scored = [needles[n] for n in np.flatnonzero(self._asked_N & right_N).tolist()]
        share_N2H = self._shares(scored)
        cases = self._cases = np.flatnonzero(self._asked_N).tolist()
        in_second_C = every_second(len(cases))
        in_second_N = in_second_C[right_N[cases]][: len(share_N2H)]
        self.score = Score("answers", share_N2H[:, 0], in_second_N, least=-1.0)
        """Shares of answers that heads add, over the needles that were answered."""
        self.null = float(share_N2H[:, 1].mean(0).max()) if len(share_N2H) else None
        """Largest mean share of a head from elsewhere in the text."""
        asked = Asked("answers", self.score, twice(right_N[cases]), in_second_C, self._answers)
        self.asked: tuple[Asked, ...] = (asked,) if len(share_N2H) else ()
        """The needles of the kinds that the model does, with the heads that add the answers."""

    def _pairs(self, replied: Sequence[Replied]) -> Iterator[tuple[Replied, IndirectNeedle]]:
        return zip(replied, self._needles, strict=True)

    def _shares(self, needles: Sequence[IndirectNeedle]) -> Float[np.ndarray, "case 2 head"]:
        """The scores of all heads and of their null; none if the model can't be scored."""
        try:
            found = [each.share_2H for each in reply(self._loaded, needles, is_heard=True)]
        except ModelError as error:
            self._failed.append(str(error))
            found = []
        known = [share_2H for share_2H in found if share_2H is not None]
        return np.stack(known) if known else np.zeros((0, 2, len(self._loaded.heads)))

    def _answers(self, cases: Sequence[int], removal: Removal) -> Float[np.ndarray, "case 2"]:
        needles = [self._needles[self._cases[case]] for case in cases]
        replied = reply(self._loaded, needles, removal)
        pairs = zip(replied, needles, strict=True)
        return twice(np.array([made.likeliest == each.answer for made, each in pairs]))

    def warnings(self) -> Iterator[str]:
        """Which kinds are left out, and why there is no score."""
        yield from self._failed
        if guessed := int(self._guessed_N.sum()):
            yield (
                f"{amount(guessed, 'needle')} of {len(self._needles)} that are asked in other "
                "words were answered without the needle and are left out"
            )
        shares = {
            kind: f"{kind} ({right} of {whole})" for kind, (right, whole) in self.recalls.items()
        }
        left = [
            shares[kind]
            for kind, (right, whole) in self.recalls.items()
            if not right >= HALF * whole > 0
        ]
        if len(shares) - len(left) < FEWEST_KINDS:
            yield (
                "this model can't be asked for needles in other words than theirs: it answers at "
                f"least half in {len(shares) - len(left)} of {amount(len(shares), 'kind')}, and "
                f"{FEWEST_KINDS} are needed. It answered {', '.join(shares.values())}"
            )
        elif left:
            yield (
                "kinds of needles in other words that the model answers less than half right are "
                f"left out: {', '.join(left)}"
            )

    def rows(self) -> Iterator[AnswerRow]:
        """A row for each needle."""
        decode = self._loaded.encoder().tokenizer.decode
        for n, (made, needle) in enumerate(self._pairs(self._replied)):
            told, said = (str(decode(list(ids))).strip() for ids in (needle.answer, made.likeliest))
            flags = (bool(each[n]) for each in (self._right_N, self._guessed_N, self._asked_N))
            yield AnswerRow(needle.kind, needle.length, needle.depth, told, said, *flags)
