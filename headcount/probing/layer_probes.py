r"""Layers: how well a tag, or the relation of an arc, can be read from every hidden state.

A linear classifier of each hidden state gives a curve over layers. A scalar mix reads all of them:

$$h_i = \gamma \sum_l s_l \, h_i^{(l)}, \qquad s = \mathrm{softmax}(a), \qquad
\text{centre of gravity} = \sum_l l \, s_l$$

with a and gamma trained together with its classifier. A low centre of gravity means that the
lower layers hold what is asked. The tag is read from the word, the relation from the dependent
beside its head.

Reference: BERT Rediscovers the Classical NLP Pipeline (Tenney et al., 2019),
https://arxiv.org/abs/1905.05950
Departure: classifiers are linear, not MLPs over pooled spans; each dimension of each hidden state
is scaled to variance 1, so that s does not depend on the norms of layers.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch.nn import functional

from headcount.probing.attention_probe import fit_linear, words_with_heads
from headcount.probing.extraction import WordStates
from headcount.probing.result import ProbeRow
from headcount.probing.treebank import ProbeSentence
from headcount.statistics import Bootstrap

Asked = Literal["tag", "relation"]

MIX = "scalar-mix"
"""Variant of the probe that reads all hidden states at once."""

MIX_RATE, MIX_EPOCHS, MIX_BATCH = 5e-3, 10, 256


@final
@dataclass(frozen=True, eq=False)
class LayerCases:
    """What is asked about the words of a treebank, and where their states are."""

    states: WordStates
    word_NP: Int64[np.ndarray, "case place"]
    """Numbers of the words that are read, in `states`: the word, or the dependent and its head."""
    class_N: Int64[np.ndarray, " case"]
    """Index of the right class; -1 for one that training lacks."""
    sentence_N: Int64[np.ndarray, " case"]
    """Number of each case's sentence."""
    classes: Sequence[str]
    asked: Asked

    @classmethod
    def of(
        cls,
        sentences: Sequence[ProbeSentence],
        states: WordStates,
        asked: Asked,
        classes: Sequence[str] | None = None,
    ) -> "LayerCases":
        """The cases of a treebank; the classes are its own unless they are given."""
        rows, names = list[tuple[int, ...]](), list[str]()
        for number, sentence in enumerate(sentences):
            start = int(states.starts[number])
            if asked == "tag":
                rows += [(number, start + word) for word in range(len(sentence.words))]
                names += sentence.tags
                continue
            for word in words_with_heads(sentence.head_W, sentence.relations).tolist():
                rows.append((number, start + word, start + int(sentence.head_W[word])))
                names.append(sentence.relations[word])
        classes = sorted(set(names)) if classes is None else classes
        index_of = {name: index for index, name in enumerate(classes)}
        table = np.array(rows, dtype=np.int64)
        class_N = np.array([index_of.get(name, -1) for name in names], dtype=np.int64)
        return cls(states, table[:, 1:], class_N, table[:, 0], classes, asked)

    def features(self, state: int) -> Float[np.ndarray, "case feature"]:
        """One hidden state of the words that are read, side by side."""
        all_WD = self.states.of_all(state)
        parts = [all_WD[word_N].astype(np.float32) for word_N in self.word_NP.T]
        return np.concatenate(parts, 1)


def probe_layer(
    train: LayerCases, test: LayerCases, bootstrap: Bootstrap, state: int, seed: int
) -> ProbeRow:
    """Train a classifier of one hidden state of the trained model; returns its accuracy.

    Args:
        train: training cases.
        test: test cases.
        bootstrap: draws of the test sentences.
        state: number of the hidden state.
        seed: seed of training.
    """
    classifier = fit_linear(train.features(state), train.class_N, len(train.classes), seed)
    right_N = classifier.predict(test.features(state)) == test.class_N
    return _accuracy(test, right_N, bootstrap, "trained", state)


def probe_mix(
    train: LayerCases,
    test: LayerCases,
    bootstrap: Bootstrap,
    seed: int,
    after_epoch: Callable[[int], None],
) -> list[ProbeRow]:
    """Train a scalar mix; returns rows of its accuracy, its weights and its centre of gravity.

    Args:
        train: training cases.
        test: test cases.
        bootstrap: draws of the test sentences.
        seed: seed of training.
        after_epoch: called with the number of epochs so far.
    """
    mix = ScalarMix(train, seed)
    for epoch in range(MIX_EPOCHS):
        mix.train_epoch()
        after_epoch(epoch + 1)
    right_N = mix.predict(test) == test.class_N
    share_L = mix.shares().tolist()
    centre = sum(number * share for number, share in enumerate(share_L))
    return [
        _accuracy(test, right_N, bootstrap, MIX, None),
        _number(test, "centre-of-gravity", centre, None),
        *(_number(test, "weight", share, number) for number, share in enumerate(share_L)),
    ]


@final
class ScalarMix:
    """A classifier of a weighted sum of all hidden states, trained with Adam.

    Args:
        cases: training cases.
        seed: seed of the order of cases.
    """

    def __init__(self, cases: LayerCases, seed: int) -> None:
        self.cases = cases
        states = cases.states
        every = np.random.default_rng(seed).permutation(int(states.starts[-1]))[:20000]
        sample_SWD = np.stack(
            [states.of_all(state)[np.sort(every)] for state in range(states.num_states)]
        ).astype(np.float32)
        self._mean_S1D = torch.from_numpy(sample_SWD.mean(1, keepdims=True))
        self._scale_S1D = torch.from_numpy(sample_SWD.std(1, keepdims=True)).clamp_min(1e-6)
        width = states.width * cases.word_NP.shape[1]
        self.share_L = torch.zeros(states.num_states, requires_grad=True)
        self.gamma = torch.ones((), requires_grad=True)
        self.weight_FC = torch.zeros(width, len(cases.classes), requires_grad=True)
        self.bias_C = torch.zeros(len(cases.classes), requires_grad=True)
        trained = [self.share_L, self.gamma, self.weight_FC, self.bias_C]
        self._optimizer = torch.optim.Adam(trained, MIX_RATE)
        self._generator = np.random.default_rng(seed)

    def shares(self) -> Float[torch.Tensor, " state"]:
        """The weight of every hidden state; they add up to 1."""
        return self.share_L.detach().softmax(0)

    def train_epoch(self) -> None:
        """Take one pass over the training cases."""
        order = self._generator.permutation(len(self.cases.class_N))
        for at in range(0, len(order), MIX_BATCH):
            chosen = np.sort(order[at : at + MIX_BATCH])
            scores_NC = self._scores(self.cases, chosen)
            classes = torch.from_numpy(self.cases.class_N[chosen])
            loss = functional.cross_entropy(scores_NC, classes)
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()

    def predict(self, cases: LayerCases) -> Int64[np.ndarray, " case"]:
        """The class with the largest score of every case."""
        with torch.inference_mode():
            parts = [
                self._scores(cases, np.arange(at, min(at + 1000, len(cases.class_N)))).argmax(1)
                for at in range(0, len(cases.class_N), 1000)
            ]
        return torch.cat(parts).numpy()

    def _scores(self, cases: LayerCases, chosen: np.ndarray) -> torch.Tensor:
        share_S = self.gamma * self.share_L.softmax(0)
        parts = []
        for word_N in cases.word_NP[chosen].T:
            states_SND = torch.from_numpy(cases.states.of_words(word_N).astype(np.float32))
            scaled_SND = (states_SND - self._mean_S1D) / self._scale_S1D
            parts.append(torch.einsum("s,snd->nd", share_S, scaled_SND))
        return torch.cat(parts, 1) @ self.weight_FC + self.bias_C


def _accuracy(
    test: LayerCases,
    right_N: np.ndarray,
    bootstrap: Bootstrap,
    variant: str,
    state: int | None,
) -> ProbeRow:
    each = bootstrap.rate(test.sentence_N, right_N)
    return ProbeRow("layers", variant, f"{test.asked}-accuracy", *each, layer=state)


def _number(test: LayerCases, metric: str, value: float, state: int | None) -> ProbeRow:
    """A number of the mix, which has no interval over test sentences."""
    numbers = (value, math.nan, math.nan, len(test.class_N))
    return ProbeRow("layers", MIX, f"{test.asked}-{metric}", *numbers, layer=state)
