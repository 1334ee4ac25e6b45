"""The encoder: all knowledge about a tokenizer, shared by both passes over a corpus.

Tokens of sentences with words, of pairs and of texts, with any tokenizer.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

from torch import Tensor
from transformers import PreTrainedTokenizerBase

from headcount.core import CorpusError, amount
from headcount.corpora.chats import encode_chats
from headcount.corpora.languages import check_languages_set
from headcount.corpora.messages import LEFT_OUT, PLACEHOLDER, check_media, media_parts
from headcount.corpora.sentence import NO_WORD, Encoded, Link, Sentence
from headcount.corpora.spelling import PunctuationTable
from headcount.corpora.tokenizing import (
    encode_fast_pairs,
    encode_fast_text,
    encode_fast_words,
    encode_slow_text,
    encode_slow_words,
)
from headcount.corpora.windows import SMALLEST, in_windows
from headcount.vocabulary import TEXTS


def encode_words(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sentence], max_length: int | None
) -> list[Encoded]:
    """Encode the text of sentences that have words, and lay the words over its pieces."""
    encode = encode_fast_words if tokenizer.is_fast else encode_slow_words
    return encode(tokenizer, sentences, max_length)


def encode_text(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], side: str, max_length: int | None
) -> list[Encoded]:
    """Encode running text; `side` is `text` or `text_target`."""
    if side == "text_target":
        check_languages_set(tokenizer)
    encode = encode_fast_text if tokenizer.is_fast else encode_slow_text
    return encode(tokenizer, texts, side, max_length)


PieceReader = Callable[[int], str]


@dataclass(frozen=True)
class EncodedPair:
    """A sentence with the token ids of its two sides."""

    sentence: Sentence
    source: Encoded
    target: Encoded | None
    """The tokens that the decoder of an encoder-decoder reads."""
    text: int = 0
    """Number of the text in the corpus; the windows of a text share it."""

    @property
    def length(self) -> int:
        """Number of tokens of the longer side."""
        target = 0 if self.target is None else len(self.target.ids)
        return max(len(self.source.ids), target)

    def arcs(self) -> Iterator[tuple[int, int, str]]:
        """Dependent, head (-1 for the root) and relation of each arc that counts here.

        Words are those of `word_of`. Both have a piece here. An arc counts in the window that
        measures its later word, and is out of reach if the earlier one is not in it. An arc inside
        a merged word connects nothing.
        """
        tree, source = self.sentence.tree, self.source
        if tree is None:
            return
        present, measured = source.words_here
        for word, (its_head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
            dependent, head = source.place(word), source.place(its_head)
            is_here = dependent != head and dependent in present and (head < 0 or head in present)
            if is_here and (dependent in measured or (head >= 0 and head in measured)):
                yield dependent, head, relation

    def links(self) -> Iterator[Link]:
        """The links that count here, by the words of `word_of`, with the keys that are here.

        As an arc, a link counts in the window that measures its last word. It is out of reach if
        its query or all of its keys are not in it.
        """
        present, measured = self.source.words_here
        for link in self._links:
            here = tuple(key for key in link.keys if key in present)
            words = link.words if self.source.is_measured is not None else (link.query, *here)
            if link.query in present and here and max(words) in measured:
                among = tuple(word for word in link.candidates if word in present)
                yield replace(link, keys=here, candidates=among)

    @cached_property
    def _links(self) -> list[Link]:
        """The links between different words of `word_of`, present or not."""
        place, found = self.source.place, list[Link]()
        for link in self.sentence.links:
            query = place(link.query)
            keys, among = (
                (*dict.fromkeys(place(word) for word in words if place(word) != query),)
                for words in (link.keys, link.compared)
            )
            found += [replace(link, query=query, keys=keys, candidates=among)] if keys else []
        return found

    @property
    def num_inside(self) -> int:
        """Number of arcs and links that connect only words of one merged word."""
        tree, place = self.sentence.tree, self.source.place
        inside = len(self.sentence.links) - len(self._links)
        if tree is None or self.source.merged is None:
            return inside
        return inside + sum(place(word) == place(head) for word, head in enumerate(tree.heads))

    @staticmethod
    def num_out_of_reach(windows: "Sequence[EncodedPair]") -> int:
        """Number of arcs and links of a text between words that no window has in common."""
        first = windows[0]
        tree, place = first.sentence.tree, first.source.place
        present = {word for window in windows for word in window.source.word_of} - {NO_WORD}
        possible = sum(
            link.query in present and not present.isdisjoint(link.keys) for link in first._links
        )
        if tree is not None:
            ends = [(place(word), place(head)) for word, head in enumerate(tree.heads)]
            possible += sum(word != head and {word, head} <= present for word, head in ends)
        found = sum(head >= 0 for window in windows for _, head, _ in window.arcs())
        return possible - found - sum(1 for window in windows for _ in window.links())


@final
class Encoder:
    """Turns sentences into token ids with word indices; does not modify the tokenizer.

    Args:
        tokenizer: any tokenizer of transformers, fast or slow.
        max_length: largest number of tokens, special ones included, that the model accepts; None if
            unlimited.
        start_id: `config.decoder_start_token_id` of an encoder-decoder; set, it requires targets.
        strict: whether to refuse a sentence that is too long instead of truncating it.
        token_types: whether the model has an input that distinguishes the sentences of a pair.
        windows: whether to read a text that is too long in windows (see `windows`) instead of
            truncating it.

    Raises:
        CorpusError: for windows of an encoder-decoder, or of hardly a token.
    """

    inputs, grid = TEXTS, None

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int | None = None,
        start_id: int | None = None,
        strict: bool = False,
        token_types: bool = False,
        windows: bool = False,
    ) -> None:
        self.tokenizer, self.token_types = tokenizer, token_types
        self.windows = windows and max_length is not None
        if windows and start_id is not None:
            raise CorpusError(
                "Expected a model that reads one text to read it in windows, got an "
                "encoder-decoder: a window of a source has no target. Leave --windows out."
            )
        self.max_length, self.start_id, self.strict = max_length, start_id, strict
        pad_id = tokenizer.pad_token_id
        self.pad_id = pad_id if isinstance(pad_id, int) else 0
        unknown_id = tokenizer.unk_token_id
        self.unknown_id = unknown_id if isinstance(unknown_id, int) else None
        ids = (tokenizer.sep_token_id, tokenizer.eos_token_id)
        self.sep_ids = tuple(sorted({token for token in ids if isinstance(token, int)}))
        self.source_piece, self.target_piece = _piece_readers(tokenizer)
        self.source_punctuation = PunctuationTable(self.source_piece)
        self.target_punctuation = PunctuationTable(self.target_piece)

    def arguments(
        self, sentences: Sequence[Sentence], ids_BN: Tensor, is_token_BN: Tensor
    ) -> dict[str, Tensor]:
        """The arguments of the model's forward for some sentences and their tokens."""
        return {"input_ids": ids_BN, "attention_mask": is_token_BN.long()}

    @property
    def about(self) -> str:
        """The tokenizer, how it splits words, its limit and what it puts between texts."""
        kind = "fast" if self.tokenizer.is_fast else "slow (aligned word by word)"
        most = self.max_length
        limit = f"at most {amount(most, 'token')}" if most else "no length limit"
        sep = ", ".join(str(self.tokenizer.convert_ids_to_tokens(i)) for i in self.sep_ids)
        return f"{type(self.tokenizer).__name__}, {kind}, {limit}, separators: {sep or 'none'}"

    @cached_property
    def start_ids(self) -> tuple[int, ...]:
        """The special tokens that the tokenizer puts in front of a text."""
        [text] = encode_text(self.tokenizer, ["a"], "text", None)
        return () if all(text.is_special) else tuple(text.ids[: text.num_before])

    @cached_property
    def end_ids(self) -> tuple[int, ...]:
        """The special tokens that the tokenizer puts behind a text."""
        [text] = encode_text(self.tokenizer, ["a"], "text", None)
        number = text.is_special[::-1].index(False) if False in text.is_special else 0
        return tuple(text.ids[len(text.ids) - number :])

    def bare(self, text: str) -> str:
        """A text without the tokens that begin and end texts, for a place inside another."""
        start, end = (
            "".join(map(str, self.tokenizer.convert_ids_to_tokens([*ids])))
            for ids in (self.start_ids, self.end_ids)
        )
        return text.removeprefix(start).removesuffix(end)

    def encode(self, sentences: Sequence[Sentence]) -> list[EncodedPair]:
        """Encode both sides of some sentences, in order; a long text gives several windows."""
        sources = self.sources(sentences)
        if self.windows:
            return [
                EncodedPair(sentence, window, None)
                for sentence, source in zip(sentences, sources, strict=True)
                for window in self._windows(sentence, source)
            ]
        targets: Sequence[Encoded | None] = [None] * len(sentences)
        if self.start_id is not None:
            targets = self.targets(sentences)
        return [EncodedPair(*row) for row in zip(sentences, sources, targets, strict=True)]

    def sources(self, sentences: Sequence[Sentence]) -> list[Encoded]:
        """Encode the source side: texts, the text of a treebank with its words, pairs as one input.

        Texts that are too long are truncated, unless they will be read in windows.
        """
        kinds = [_kind(sentence) for sentence in sentences]
        for sentence in sentences:
            if sentence.messages is not None:
                check_media(media_parts(sentence.messages), sentence.origin)
        encoded_as = {
            kind: iter(self._encoded(kind, of_kind))
            for kind in ("text", "words", "pair", "chat")
            if (of_kind := [one for one, its in zip(sentences, kinds, strict=True) if its == kind])
        }
        found = [next(encoded_as[kind]) for kind in kinds]
        for sentence, encoded in zip(sentences, found, strict=True):
            self._check(sentence, encoded, "sentence")
        return found

    def targets(self, sentences: Sequence[Sentence]) -> list[Encoded]:
        """Encode the decoder inputs: the start token, then the target without its last token."""
        texts = []
        for sentence in sentences:
            if sentence.target is None:
                raise CorpusError(
                    f"{sentence.origin}: expected a target for the decoder, got a source only. "
                    "Give parallel text, or let the model translate the source first."
                )
            texts.append(sentence.target)
        labels = encode_text(self.tokenizer, texts, "text_target", self.max_length)
        for sentence, encoded in zip(sentences, labels, strict=True):
            self._check(sentence, encoded, "target")
        assert self.start_id is not None
        return [_shifted_right(encoded, self.start_id) for encoded in labels]

    @property
    def _limit(self) -> int | None:
        """Number of tokens to which sources are truncated; None if they are not."""
        return None if self.windows else self.max_length

    def _windows(self, sentence: Sentence, source: Encoded) -> list[Encoded]:
        assert self.max_length is not None
        if len(source.ids) <= self.max_length:
            return [source]
        room = self.max_length - sum(source.is_special)
        if sentence.second is not None or room < SMALLEST:
            what = f"room for {SMALLEST} tokens in a window, got {room}"
            if sentence.second is not None:
                what = f"a pair of at most {self.max_length} tokens, got {len(source.ids)}"
            raise CorpusError(
                f"{sentence.origin}: expected {what}. Leave --windows out to truncate it."
            )
        return in_windows(source, self.max_length)

    def single_words(self, words: Sequence[str]) -> list[list[int]]:
        """Content token ids of single words as they appear inside a text."""
        if not self.tokenizer.is_fast:
            return [
                list(self.tokenizer(word, add_special_tokens=False)["input_ids"]) for word in words
            ]
        # The second of two words is inside a text; the first is a placeholder.
        texts = [Sentence(f"a {word}", ("a", word)) for word in words]
        encoded = encode_words(self.tokenizer, texts, None)
        return [
            [
                token
                for token, word in zip(one.ids, one.word_of, strict=True)
                if word == one.place(1)
            ]
            for one in encoded
        ]

    def _encoded(self, kind: str, sentences: Sequence[Sentence]) -> list[Encoded]:
        how = (self.tokenizer, sentences, self._limit)
        if kind == "text":
            texts = [sentence.text for sentence in sentences]
            return encode_text(self.tokenizer, texts, "text", self._limit)
        if kind == "words":
            return encode_words(*how)
        if kind == "chat":
            return encode_chats(*how)
        if self.start_id is not None:
            raise CorpusError(
                f"{sentences[0].origin}: expected a source and a target, since the model has a "
                "decoder, got a pair of sentences that are one input. Omit --pairs for "
                "translations (pairs that a classifier with a decoder reads as one can't be "
                "analysed)."
            )
        if not self.tokenizer.is_fast:
            raise CorpusError(
                f"{sentences[0].origin}: expected a fast tokenizer for pairs of sentences, got "
                f"{type(self.tokenizer).__name__}, which does not say which sentence a token "
                "belongs to. Analyse the sentences one by one."
            )
        return encode_fast_pairs(*how, self.sep_ids)

    def check_media(self, ids: Iterable[int], origin: str, advice: str = LEFT_OUT) -> None:
        """Check that no token of a text stands for a picture, sound or video.

        Args:
            ids: the text's tokens.
            origin: where it is from, for errors.
            advice: what to do about it, for errors.

        Raises:
            CorpusError: if one does.
        """
        if self._media and (media := {*ids} & {*self._media}):
            check_media(self._media[min(media)], origin, advice)

    @cached_property
    def _media(self) -> dict[int, str]:
        """The tokens that stand for pictures, sound or video."""
        added: Any = self.tokenizer.get_added_vocab()  # pyright: ignore
        return {number: token for token, number in added.items() if PLACEHOLDER.fullmatch(token)}

    def _check(self, sentence: Sentence, encoded: Encoded, side: str) -> None:
        self.check_media(encoded.ids, sentence.origin)
        if not encoded.ids:
            raise CorpusError(
                f"{sentence.origin}: the tokenizer turns this {side} into no token at all. "
                "Leave it out of the corpus."
            )
        if encoded.truncated and self.strict:
            raise CorpusError(
                f"{sentence.origin}: expected a {side} of at most "
                f"{self.max_length} tokens, got {encoded.full_length}. Split it, or run "
                "without --strict to truncate it."
            )


def _kind(sentence: Sentence) -> str:
    """The way in which the source side of a sentence is encoded."""
    sentence.check_is(TEXTS)
    if sentence.second is not None:
        return "pair"
    if sentence.messages is not None:
        return "chat"
    return "text" if sentence.words is None else "words"


def _shifted_right(labels: Encoded, start_id: int) -> Encoded:
    """Labels shifted one place to the right, after the start token, which is special."""
    return replace(
        labels,
        ids=[start_id, *labels.ids[:-1]],
        word_of=[NO_WORD, *labels.word_of[:-1]],
        is_special=[True, *labels.is_special[:-1]],
    )


def _piece_readers(tokenizer: PreTrainedTokenizerBase) -> tuple[PieceReader, PieceReader]:
    """Functions that give the text of a token id, one per side; vocabularies may differ."""

    def decoded(token: int) -> str:
        return str(tokenizer.decode([token], clean_up_tokenization_spaces=False))

    def piece(token: int) -> str:
        return str(tokenizer.convert_ids_to_tokens(token))

    if tokenizer.is_fast:
        # Bytes become characters again only by decoding; Marian's pieces are text already.
        return decoded, decoded
    if not getattr(tokenizer, "separate_vocabs", False):
        return piece, piece
    # Marian's `convert_ids_to_tokens` then knows the target side only, its `get_vocab` the source.
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    pieces = {number: text for text, number in vocabulary.items()}
    return lambda token: pieces.get(token, ""), piece
