"""Extraction: one pass of a model over a treebank that writes word-level features.

Of an encoder-decoder only the encoder runs, since a treebank has sources only. A killed run resumes
after the last batch that is completely on disk.

Grouped maps: the attention between words, or between mentions, of all heads of some layers.

Feature sets: the features of a model and of its random-weight copy, on two treebanks.

Attention between words: keys of a word's pieces are summed, queries averaged. The special tokens
before the sentence are one more word, those after it another; a model without them has zeros there.
A hidden state of a word is the mean over its pieces.

Features are float16 in a memory map whose size is known before the model runs: num_heads (n + 2)^2
numbers for the attention of a sentence of n words, num_states x width x n for its states.

Reference: What Does BERT Look At? (Clark et al., 2019), section 4.1,
https://arxiv.org/abs/1906.04341
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Float16, Int64
from torch import Tensor

from headcount.core import Float16File, Kept, Progress, Steps, check_disk, fill, silent_steps
from headcount.corpora import groups_by_length
from headcount.measures import GroupedMaps, probe_heads, probe_layers
from headcount.models import CUT, Loaded, check_memory, random_copy
from headcount.probing.result import ProbeOptions
from headcount.probing.treebank import ProbeSentence, Treebank
from headcount.tap import FunctionListener, StateId, Tap, evaluating, heard, input_device, state_ids

NUM_SLOTS = 2
"""Number of places for special tokens beside the words: those before and those after them."""

BEFORE, AFTER = 0, 1
"""The places of the special tokens, counted from the number of words."""


@final
class WordMaps(Float16File):
    """The attention of all heads between the words of every sentence, on disk.

    Args:
        path: the file.
        lengths: number of words of each sentence.
        num_heads: number of heads.
    """

    def __init__(self, path: Path, lengths: Sequence[int], num_heads: int) -> None:
        self.lengths, self.num_heads = np.asarray(lengths, dtype=np.int64), num_heads
        sizes = (self.lengths + NUM_SLOTS) ** 2 * num_heads
        self._starts = np.concatenate([[0], sizes.cumsum()])
        super().__init__(path, int(self._starts[-1]))

    def of(self, sentence: int) -> Float16[np.ndarray, "query key head"]:
        """The map of one sentence: its words, then the special tokens before and after it."""
        start, stop = self._starts[sentence : sentence + 2]
        size = int(self.lengths[sentence]) + NUM_SLOTS
        return self.numbers[start:stop].reshape(size, size, self.num_heads)

    def batch(self, sentences: Sequence[int]) -> Float[Tensor, "batch query key head"]:
        """The maps of some sentences, padded with zeros; special tokens come last."""
        longest = int(self.lengths[list(sentences)].max())
        size = longest + NUM_SLOTS
        maps_BNNH = np.zeros((len(sentences), size, size, self.num_heads), dtype=np.float32)
        for row, sentence in enumerate(sentences):
            place = slots(int(self.lengths[sentence]), longest)
            maps_BNNH[row][np.ix_(place, place)] = self.of(sentence)
        return torch.from_numpy(maps_BNNH)


@final
class WordStates(Float16File):
    """The hidden states of the words of every sentence, on disk.

    Args:
        path: the file.
        lengths: number of words of each sentence.
        num_states: number of hidden states of a word, one more than there are layers.
        width: size of a state.
    """

    def __init__(self, path: Path, lengths: Sequence[int], num_states: int, width: int) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self.starts = np.concatenate([[0], self.lengths.cumsum()])
        self.num_states, self.width = num_states, width
        super().__init__(path, num_states, int(self.starts[-1]), width)

    def of(self, sentence: int) -> Float16[np.ndarray, "state word width"]:
        """The states of one sentence."""
        return self.numbers[:, self.starts[sentence] : self.starts[sentence + 1]]

    def of_all(self, state: int) -> Float16[np.ndarray, "word width"]:
        """One hidden state of all words, sentence after sentence."""
        return self.numbers[state]

    def of_words(
        self, word_N: Int64[np.ndarray, " word"]
    ) -> Float16[np.ndarray, "state word width"]:
        """All hidden states of some words, by their numbers in all sentences."""
        return self.numbers[:, word_N]


@final
@dataclass(frozen=True, eq=False)
class Features:
    """What probes read of one treebank."""

    folder: Path
    """Folder of their files."""
    sentences: tuple[ProbeSentence, ...]
    maps: WordMaps | None = None
    """Attention; None if no probe reads it."""
    states: WordStates | None = None
    """Hidden states; None if no probe reads them."""

    @property
    def num_bytes(self) -> int:
        """Size on disk."""
        return sum(each.num_bytes for each in (self.maps, self.states) if each is not None)


def slots(length: int, longest: int) -> Int64[np.ndarray, " place"]:
    """Places of a sentence's words and special tokens in a batch whose longest has `longest`.

    >>> slots(2, 5).tolist()
    [0, 1, 5, 6]
    """
    return np.concatenate([np.arange(length), longest + np.arange(NUM_SLOTS)])


def probe_states(loaded: Loaded) -> list[StateId]:
    """The hidden states of a treebank's words, from the embeddings to the last layer."""
    side = probe_layers(loaded)[0].site.partition(".")[0]
    return [each for each in state_ids(loaded.model, loaded.anatomy) if each.side == side]


def features_of(
    loaded: Loaded, treebank: Treebank, folder: Path, *, maps: bool, states: bool
) -> Features:
    """The features of a treebank before the model has run; nothing is written."""
    lengths = [len(each.words) for each in treebank.sentences]
    features = Features(folder, treebank.sentences)
    if maps:
        heads = len(probe_heads(loaded))
        features = replace(features, maps=WordMaps(folder / "maps.f16", lengths, heads))
    if states:
        width, num = loaded.model.config.get_text_config().hidden_size, len(probe_states(loaded))
        features = replace(features, states=WordStates(folder / "states.f16", lengths, num, width))
    return features


def extract(
    loaded: Loaded, features: Features, key: str, max_tokens: int, steps: Steps = silent_steps
) -> None:
    """Run the model over the sentences and write their features; resumes.

    Args:
        loaded: the model.
        features: the features, from `features_of`.
        key: key of this run; files of another key are refused.
        max_tokens: number of padded tokens in a batch.
        steps: called with the number of sentences so far, and of all.

    Raises:
        InputError: if the longest sentence does not fit into memory.
    """
    kept = Kept(features.folder / "features.json", key, "the progress of word-level features", int)
    sentences = features.sentences
    lengths = [len(each.encoded.ids) for each in sentences]
    check_memory(loaded, max(lengths, default=0), len(lengths), max_tokens, CUT)
    batches = list(groups_by_length(range(len(lengths)), lengths.__getitem__, max_tokens))
    stored = [each for each in (features.maps, features.states) if each is not None]
    for each in stored:
        each.open()
    if not stored:
        return

    def flush() -> None:
        for each in stored:
            each.flush()

    with _reading(loaded, features) as write:
        fill(kept, batches, write, flush, lambda seen: steps(seen, len(sentences)))


@contextmanager
def _reading(loaded: Loaded, features: Features) -> Iterator[Callable[[Sequence[int]], None]]:
    """Run the model over a batch, given by the numbers of its sentences, and write its features."""
    model, number_of = loaded.model, {each: at for at, each in enumerate(probe_states(loaded))}
    maps, states = GroupedMaps(probe_layers(loaded)), dict[int, np.ndarray]()

    def hear(state: StateId, state_BND: Tensor) -> None:
        if (number := number_of.get(state)) is not None:
            means_BWN = maps.means_BGN.to(state_BND.device)
            states[number] = (means_BWN @ state_BND.float()).cpu().numpy()

    def write(batch: Sequence[int]) -> None:
        sentences = [features.sentences[index] for index in batch]
        maps.start(_pieces(sentences).to(input_device(model)))
        loaded.read_sources([each.encoded.ids for each in sentences])
        lengths = [len(each.words) for each in sentences]
        for row, (index, length) in enumerate(zip(batch, lengths, strict=True)):
            if features.maps is not None:
                place, map_HWW = slots(length, max(lengths)), maps.maps_BHGG[row].cpu().numpy()
                features.maps.of(index)[:] = map_HWW.transpose(1, 2, 0)[np.ix_(place, place)]
            if features.states is not None:
                of_sentence = [states[number][row, :length] for number in range(len(states))]
                features.states.of(index)[:] = np.stack(of_sentence)

    with ExitStack() as stack:
        stack.enter_context(evaluating(model))
        stack.enter_context(torch.inference_mode())
        if features.maps is not None:
            stack.enter_context(Tap(model, loaded.anatomy, FunctionListener(maps.block)))
        if features.states is not None:
            stack.enter_context(heard(model, loaded.anatomy, hidden_states=hear))
        yield write


def _pieces(sentences: Sequence[ProbeSentence]) -> Float[Tensor, "batch word token"]:
    """1 where a token is a piece of a word; the special tokens before and after come last."""
    longest = max(len(each.words) for each in sentences)
    tokens = max(len(each.encoded.ids) for each in sentences)
    sums_BWN = torch.zeros(len(sentences), longest + NUM_SLOTS, tokens)
    for row, sentence in enumerate(sentences):
        place = places(sentence.encoded.word_of, longest)
        sums_BWN[row, place, torch.arange(len(place))] = 1
    return sums_BWN


def places(word_of: Sequence[int], longest: int) -> list[int]:
    """The word of each token; special tokens before the first word, and all others, have a place.

    >>> places([-1, 0, 0, 1, -1, -1], 4)
    [4, 0, 0, 1, 5, 5]
    """
    first = next((at for at, word in enumerate(word_of) if word >= 0), len(word_of))
    return [
        word if word >= 0 else longest + (BEFORE if at < first else AFTER)
        for at, word in enumerate(word_of)
    ]


TRAINED, RANDOM_INIT = "trained", "random-init"
"""The model as it is, and its copy with random weights."""

TRAIN, TEST = "train", "test"


@final
@dataclass(frozen=True, eq=False)
class FeatureSets:
    """The features of both models on both treebanks, each made when it is first needed."""

    loaded: Loaded
    treebanks: Mapping[str, Treebank]
    """The treebanks `train` and `test`."""
    options: ProbeOptions
    folder: Path
    """Folder of the features."""
    key: str
    """Key of this run; features of another key are refused."""
    progress: Progress
    _made: dict[tuple[str, str], Features] = field(default_factory=dict, init=False)
    _copies: dict[str, Loaded] = field(default_factory=dict, init=False)

    def of(self, variant: str, side: str) -> Features:
        """The features of one model on one treebank, from disk as far as they are there."""
        if (variant, side) not in self._made:
            features = self._planned(variant, side)
            steps = partial(self.progress, f"features, {variant}, {side}: sentences")
            extract(self.model(variant), features, self.key, self.options.max_tokens, steps)
            self._made[variant, side] = features
        return self._made[variant, side]

    def model(self, variant: str) -> Loaded:
        """The model, or its copy with random weights."""
        if variant == TRAINED:
            return self.loaded
        if variant not in self._copies:
            copy = random_copy(self.loaded.model, self.options.seed)
            self._copies[variant] = replace(self.loaded, model=copy)
        return self._copies[variant]

    def num_bytes(self) -> int:
        """Size of all features on disk."""
        return sum(
            self._planned(variant, side).num_bytes
            for variant in (TRAINED, RANDOM_INIT)
            for side in self.treebanks
        )

    def check_disk(self) -> None:
        """Check that all features fit on the disk, before any is made.

        Raises:
            InputError: if they do not.
        """
        there = sum(path.stat().st_size for path in self.folder.glob("*/*/*.f16"))
        advice = (
            "Name a folder on another disk with --out, or lower --train-limit, --test-limit or "
            "--max-words."
        )
        check_disk(self.folder, self.num_bytes() - there, "word-level features", advice)

    def _planned(self, variant: str, side: str) -> Features:
        """The features before the model has run, with their size."""
        return features_of(
            self.loaded,
            self.treebanks[side],
            self.folder / variant / side,
            maps=self.options.needs_maps,
            states=self.options.needs_states,
        )
