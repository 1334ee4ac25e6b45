"""Subjects: the models that are compared, and the tokens whose states are compared."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Bool, Float32, Int64
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from headcount.core import CorpusError, Float16File, InputError, amount, name_of
from headcount.corpora import Corpus, Encoded, Encoder, Misread, Sentence, chunks
from headcount.models import Loaded, revision, tokenizer_revision
from headcount.papers.evolution.record import EvolutionRow, Measurement
from headcount.tap import StateId, state_ids
from headcount.tasks import mask_id_of

TRANSLATION, CAUSAL, MASKED, OTHER = "translation", "causal-lm", "masked-lm", "encoder"


@final
@dataclass(frozen=True, eq=False)
class Subject:
    """One of the models that are compared."""

    loaded: Loaded
    objective: str
    """Training objective, as far as the model's class says."""
    seed: int
    """Number of the model among those of its objective, from 1."""

    @property
    def label(self) -> str:
        """The model by objective and seed."""
        return f"{self.objective}-{self.seed}"

    @property
    def name(self) -> str:
        """Hub name of the model, or the name of its folder."""
        return name_of(self.loaded.name)

    def row(self, layer: int, measured: Measurement) -> EvolutionRow:
        """The row of a measurement of one layer of this model."""
        return EvolutionRow(*self.named, layer=layer, **asdict(measured))

    @property
    def named(self) -> tuple[str, str, int]:
        """What rows say of this model: its name, objective and seed."""
        return self.name, self.objective, self.seed

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder of texts; an encoder-decoder gets sources only."""
        return self.loaded.source_encoder()

    @cached_property
    def states(self) -> tuple[StateId, ...]:
        """The hidden states that are compared: of an encoder-decoder, the encoder's."""
        found = state_ids(self.loaded.model, self.loaded.anatomy)
        side = found[0].side
        return tuple(each for each in found if each.side == side)

    @property
    def width(self) -> int:
        """Size of a state."""
        return int(self.loaded.model.config.get_text_config().hidden_size)

    @cached_property
    def tokenizer_revision(self) -> str:
        """Hash of the tokenizer."""
        return tokenizer_revision(self.encoder.tokenizer)

    @property
    def mask_id(self) -> int:
        """Id of the mask token of a masked language model."""
        return mask_id_of(self.loaded)


def subjects_of(models: Sequence[Loaded]) -> list[Subject]:
    """The models with their objectives, numbered within each.

    Raises:
        InputError: if there is none, or one is given twice, under one name or two.
    """
    if not models:
        raise InputError("Expected a model, got none. Name at least one.")
    names = [each.name for each in models]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"Expected different models, got {twice[0]} twice. Name it once.")
    named: dict[str, str] = {}
    for each in models:
        if (other := named.setdefault(revision(each.model), each.name)) != each.name:
            raise InputError(
                f"Expected different models, got {other} and {each.name} with the same weights, "
                "which would count as two seeds. Name one of them."
            )
    seen: dict[str, int] = {}
    found = []
    for loaded in models:
        objective = _objective_of(loaded)
        seen[objective] = seen.get(objective, 0) + 1
        found.append(Subject(loaded, objective, seen[objective]))
    return found


def _objective_of(loaded: Loaded) -> str:
    """The training objective that a model's class says."""
    model = loaded.model
    if model.config.is_encoder_decoder:
        return TRANSLATION
    if {layer.site for layer in loaded.anatomy.layers} == {"decoder.self"}:
        return CAUSAL
    name = type(model).__name__
    is_masked = name in MODEL_FOR_MASKED_LM_MAPPING_NAMES.values() or name.endswith("ForMaskedLM")
    return MASKED if is_masked else OTHER


NONE = -1
"""Id of a token that is not there, and number of a tag that is not known."""

_AT_ONCE = 1000


@final
@dataclass(frozen=True, eq=False)
class Tokens:
    """All tokens of a corpus as a model reads them, sentence after sentence."""

    ids_T: Int64[np.ndarray, " token"]
    """Token ids, special tokens included."""
    is_content_T: Bool[np.ndarray, " token"]
    """True unless special."""
    tag_T: Int64[np.ndarray, " token"]
    """Number of the tag of each token's word; -1 without one."""
    starts: Int64[np.ndarray, " edge"]
    """First token of each sentence, and the number of all tokens."""
    tags: tuple[str, ...]
    """Universal parts of speech that occur; empty for text without trees."""
    truncated: int
    """Number of sentences that were longer than the model's limit."""
    misread: Misread = Misread()
    """Sentences of treebanks whose words do not fit their text or the tokenizer's pieces."""

    @classmethod
    def of(cls, corpus: Corpus, encoder: Encoder) -> "Tokens":
        """Read and encode a corpus.

        Raises:
            CorpusError: if it can't be read or encoded.
        """
        ids, contents, tags, lengths = [], [], [], [0]
        names: dict[str, int] = {}
        truncated, misread = 0, Misread()
        for sentences in chunks(corpus, _AT_ONCE):
            encoded = encoder.sources(sentences)
            misread = misread.add(sentences, encoded)
            for sentence, one in zip(sentences, encoded, strict=True):
                ids += one.ids
                contents += [not special for special in one.is_special]
                tags += _tags(sentence, one, names)
                lengths.append(len(one.ids))
                truncated += one.truncated
        return cls(
            np.array(ids, dtype=np.int64),
            np.array(contents, dtype=bool),
            np.array(tags, dtype=np.int64),
            np.cumsum(lengths),
            tuple(names),
            truncated,
            misread,
        )

    @property
    def num_sentences(self) -> int:
        """Number of sentences."""
        return len(self.starts) - 1

    @property
    def length_R(self) -> Int64[np.ndarray, " sentence"]:
        """Number of tokens of each sentence."""
        return np.diff(self.starts)

    def sentence(self, number: int) -> Int64[np.ndarray, " token"]:
        """The ids of one sentence."""
        return self.ids_T[self.starts[number] : self.starts[number + 1]]

    def counts(self) -> Int64[np.ndarray, " id"]:
        """Number of occurrences of each id among the content tokens."""
        return np.bincount(self.ids_T[self.is_content_T])


def _tags(sentence: Sentence, encoded: Encoded, names: dict[str, int]) -> Iterator[int]:
    tree = sentence.tree
    at = {} if tree is None else encoded.words_at(len(tree.tags))
    for place in encoded.word_of:
        tags = {tree.tags[word] for word in at.get(place, ())} if tree else set()
        if len(tags) == 1:
            yield names.setdefault(tags.pop(), len(names))
        else:  # merged words of several tags have none
            yield NONE


@final
@dataclass(frozen=True, eq=False)
class Occurrences:
    """Chosen tokens of a corpus with what stands around them; one entry for each."""

    sentence_S: Int64[np.ndarray, " state"]
    """Number of the sentence."""
    position_S: Int64[np.ndarray, " state"]
    """Position in the sentence, from 0."""
    token_S: Int64[np.ndarray, " state"]
    """Id of the token."""
    left_S: Int64[np.ndarray, " state"]
    """Id of the token before it; -1 for the first of a sentence."""
    right_S: Int64[np.ndarray, " state"]
    """Id of the token after it; -1 for the last of a sentence."""
    tag_S: Int64[np.ndarray, " state"]
    """Number of its tag; -1 without one."""

    @classmethod
    def at(cls, tokens: Tokens, places: Int64[np.ndarray, " state"]) -> "Occurrences":
        """The occurrences at some places of a corpus."""
        sentence_S = np.searchsorted(tokens.starts, places, side="right") - 1
        first_S, end_S = tokens.starts[sentence_S], tokens.starts[sentence_S + 1]
        before, after = np.maximum(places - 1, 0), np.minimum(places + 1, len(tokens.ids_T) - 1)
        return cls(
            sentence_S,
            places - first_S,
            tokens.ids_T[places],
            np.where(places > first_S, tokens.ids_T[before], NONE),
            np.where(places + 1 < end_S, tokens.ids_T[after], NONE),
            tokens.tag_T[places],
        )

    def __len__(self) -> int:
        return len(self.token_S)

    def replacements(self, seed: int) -> Int64[np.ndarray, " state"]:
        """Another token for each; together they are the same tokens, in another order."""
        return np.random.default_rng(seed).permutation(self.token_S)

    @property
    def num_types(self) -> int:
        """Number of different tokens."""
        return len(np.unique(self.token_S))


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


def drawn(numbers: Int64[np.ndarray, " state"], most: int, seed: int) -> Int64[np.ndarray, " some"]:
    """Up to a number of some states, drawn without replacement."""
    if len(numbers) <= most:
        return numbers
    return np.sort(np.random.default_rng(seed).choice(numbers, most, replace=False))


def balanced(
    tokens: Tokens, occurrences: int, types: int, seed: int, *, first: int = 0
) -> Occurrences:
    """Draw the same number of occurrences of each frequent token, without replacement.

    Args:
        tokens: the corpus.
        occurrences: number of occurrences of each token; rarer tokens are not chosen.
        types: largest number of tokens, the most frequent first.
        seed: seed of the draws.
        first: first position of a sentence from which tokens are drawn.

    Raises:
        CorpusError: if fewer than two tokens are frequent enough.
    """
    places = np.flatnonzero(tokens.is_content_T)
    if first:
        start_T = np.repeat(tokens.starts[:-1], tokens.length_R)
        places = places[places - start_T[places] >= first]
    count_I = np.bincount(tokens.ids_T[places], minlength=2)
    order = np.argsort(-count_I, kind="stable")
    chosen = order[count_I[order] >= occurrences][:types]
    if len(chosen) < 2:
        raise CorpusError(
            f"Expected at least 2 tokens with {amount(occurrences, 'occurrence')}, got "
            f"{len(chosen)}: the second most frequent has {count_I[order[1]]:,}. Give a larger "
            "corpus, or lower --occurrences."
        )
    by_token = places[np.argsort(tokens.ids_T[places], kind="stable")]
    start_I = np.concatenate([[0], np.cumsum(count_I)])
    generator = np.random.default_rng(seed)
    places = [
        np.sort(generator.choice(by_token[start_I[i] : start_I[i + 1]], occurrences, replace=False))
        for i in chosen
    ]
    return Occurrences.at(tokens, np.concatenate(places))


def of_sentences(tokens: Tokens, sentences: int, seed: int) -> Occurrences:
    """All content tokens of some sentences, drawn without replacement."""
    count = min(sentences, tokens.num_sentences)
    chosen = np.random.default_rng(seed).choice(tokens.num_sentences, count, replace=False)
    is_drawn_R = np.zeros(tokens.num_sentences, dtype=bool)
    is_drawn_R[chosen] = True
    return Occurrences.at(
        tokens, np.flatnonzero(tokens.is_content_T & np.repeat(is_drawn_R, tokens.length_R))
    )
