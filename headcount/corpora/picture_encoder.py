"""The encoder of prompts with pictures or sound: a model's processor, and which token is of what.

A processor writes a chat by its template, and puts several tokens in place of each picture. Which
of them stand for a picture their id says. The others are laid over the tokens of the chat as it is
written, so that only what messages say is content, as in chats of text; what a processor puts
around pictures, such as the number of a tile, is its own. Tokens of pictures are content. In place
of pictures there may be recordings, of which it is not known where they lie.

Where a text has relations to places, its words are the tokens of its pictures, in their order, and
then the words of the text. So a relation to a box is a link from a word to the words in it, which a
head chooses among all tokens of that picture: what it has to beat is the place in a picture that is
most often right, such as the middle, and its own habit to look at some places.
"""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import cache
from itertools import accumulate
from typing import Any, final

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from headcount.core import CorpusError, ModelError, amount, reason
from headcount.corpora.beside import FEATURES, beside, size_of
from headcount.corpora.chats import Said, WrittenChat, roles_at, written_chat
from headcount.corpora.encoder import EncodedPair, Encoder
from headcount.corpora.labelled_tokens import LabelledTokens, label_beside
from headcount.corpora.layout import WORD
from headcount.corpora.mentions import head_without_parse
from headcount.corpora.messages import check_media, media_parts
from headcount.corpora.picture_regions import flat, inside, map_of, regions_in_lines, regions_of
from headcount.corpora.sentence import NO_WORD, Box, Encoded, Link, Place, Sentence
from headcount.vocabulary import TEXTS


@final
class PictureEncoder:
    """Turns prompts with pictures or recordings into a model's inputs, as `Encoder` does texts.

    Args:
        processor: the model's processor.
        tokenizer: its tokenizer.
        picture_id: the id of the tokens that stand for parts of a picture or a recording.
        name: the name of the model, for errors.
        max_length: largest number of tokens that the model accepts; None if unlimited.
        values: values for the chat template, which then ends where the model's reply begins; None
            for chats as they are.
    """

    inputs, grid = TEXTS, None
    token_types = windows = strict = False
    start_id: None = None

    def __init__(
        self,
        processor: Any,
        tokenizer: PreTrainedTokenizerBase,
        picture_id: int,
        name: str = "the model",
        max_length: int | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        text = Encoder(tokenizer, max_length)
        self._values = values
        self.processor, self.tokenizer = processor, tokenizer
        self.name, self.max_length = name, max_length
        self.pad_id, self.unknown_id, self.sep_ids = text.pad_id, text.unknown_id, text.sep_ids
        self.source_piece, self.target_piece = text.source_piece, text.target_piece
        self.source_punctuation = text.source_punctuation
        self.target_punctuation = text.target_punctuation
        self.picture_id = picture_id
        self._beside = beside(processor)
        self._regions = cache(self._regions_of)

    @property
    def about(self) -> str:
        """The processor and its limit."""
        limit = f"at most {amount(self.max_length, 'token')}" if self.max_length else "no limit"
        return f"{type(self.processor).__name__}, {self._beside.what}s beside texts, {limit}"

    def encode(self, sentences: Sequence[Sentence]) -> list[EncodedPair]:
        """The tokens of some prompts, in order.

        Raises:
            CorpusError: for a picture that can't be read, for another number of pictures than
                places for them, and for a prompt that the model does not take.
        """
        return [self._encode(sentence) for sentence in sentences]

    def arguments(
        self, sentences: Sequence[Sentence], ids_BN: Tensor, is_token_BN: Tensor
    ) -> dict[str, Tensor]:
        """The arguments of the model's forward for some prompts, whose rows are padded."""
        parts = [self._processed(each, self._written(each).text) for each in sentences]
        found = {"input_ids": ids_BN, "attention_mask": is_token_BN.long()}
        for name in dict.fromkeys(name for part in parts for name in part):
            if name not in found:
                rows = [part[name] for part in parts if name in part]
                lengths = [part["input_ids"].shape[1] for part in parts if name in part]
                width = ids_BN.shape[1]
                found[name] = torch.cat(rows) if name in FEATURES else _joined(rows, lengths, width)
        return found

    def num_tokens(self, sentence: Sentence, picture: int = 0) -> int:
        """Number of tokens of a picture of a text; 0 where its regions are not known."""
        if not self._beside.has_places:
            return 0
        return len(self._regions(size_of(sentence.pictures[picture], sentence.origin)))

    def labelled(self, sentence: Sentence) -> tuple[LabelledTokens, Encoded]:
        """The tokens of a prompt and its words, of which each picture is one.

        Raises:
            CorpusError: as `encode`.
        """
        found, chat, spans = self._read(sentence)
        pieces = [self.source_piece(each) for each in found.ids]
        return label_beside(found, chat.text, spans, pieces, self._beside.label), found

    def _encode(self, sentence: Sentence) -> EncodedPair:
        found, chat, spans = self._read(sentence)
        if not sentence.places:
            return EncodedPair(sentence, found, None)
        return self._linked(sentence, found, chat, spans)

    def _read(self, sentence: Sentence) -> tuple[Encoded, WrittenChat, list[tuple[int, int]]]:
        """The tokens of a prompt, its text as it is written, and where they stand in it."""
        chat = self._written(sentence)
        ids = self._processed(sentence, chat.text)["input_ids"][0].tolist()
        if self.max_length is not None and len(ids) > self.max_length:
            raise CorpusError(
                f"{sentence.origin}: expected a prompt of at most "
                f"{amount(self.max_length, 'token')} with its pictures, got {len(ids)}. Shorten or "
                "remove it."
            )
        encoding: Any = self.tokenizer(
            chat.text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        spans = [*_laid(ids, encoding["input_ids"], encoding["offset_mapping"], self.picture_id)]
        roles = roles_at(spans, chat.said)
        is_picture = [each == self.picture_id for each in ids]
        special = [
            role is None and not shown for role, shown in zip(roles, is_picture, strict=True)
        ]
        regions = self._regions_in(sentence, sum(is_picture))
        found = Encoded(
            ids,
            [NO_WORD] * len(ids),
            special,
            len(ids),
            roles=roles,
            num_thoughts=chat.num_thoughts,
            is_picture=is_picture,
            regions=[box for its in regions for box in its],
        )
        return found, chat, spans

    def _written(self, sentence: Sentence) -> WrittenChat:
        """What the processor is given of a prompt, and where its messages stand in it."""
        for each in sentence.pictures:
            if each.problem:
                raise CorpusError(each.problem)
        number, mark, kind = len(sentence.pictures), self._beside.mark, self._beside.kind
        writer = self.processor if _has_template(self.processor) else self.tokenizer
        messages = sentence.messages
        if messages is None and _has_template(writer):
            messages = _as_chat(sentence.text, number, kind)
        if messages is None:
            given = sentence.text.count(mark)
            before = "" if given else mark * number
            text = before + sentence.text
            found = WrittenChat(text, [(len(before), len(text), "user")])
        elif not _has_template(writer):
            raise ModelError(
                f"{sentence.origin}: expected a model with a chat template, since the row holds "
                f"messages, got {self.name}. Give the columns of the text and of the picture: "
                "--columns text=NAME image=NAME."
            )
        else:
            advice = f"Only {self._beside.what}s and texts are read; remove the row."
            check_media(media_parts(messages, but=kind), sentence.origin, advice)
            found = written_chat(writer, _in_parts(messages), sentence.origin, self._values)
        if found.text.count(mark) != number:
            what = self._beside.what
            raise CorpusError(
                f"{sentence.origin}: expected as many {what}s as the prompt has places for, got "
                f"{amount(number, what)} for {amount(found.text.count(mark), 'place')}. Fix "
                "or remove the line."
            )
        return found

    def _processed(self, sentence: Sentence, text: str) -> Mapping[str, Tensor]:
        """What the processor makes of a prompt.

        Raises:
            CorpusError: for a picture that is too large or can't be read, or that it refuses.
        """
        return self._run(text, self._beside.given(sentence), sentence.origin)

    def _run(self, text: str, given: Mapping[str, Any], origin: str) -> Mapping[str, Tensor]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of the processor's own code
                return self.processor(text=[text], **given, return_tensors="pt", padding=False)
        except Exception as error:  # processors raise errors of many kinds
            raise CorpusError(
                f"{origin}: expected a prompt that {type(self.processor).__name__} takes, but it "
                f"refuses it: {reason(error).rstrip('.')}. Fix or remove it."
            ) from error

    def _regions_in(self, sentence: Sentence, number: int) -> list[list[Box | None]]:
        """The regions of each picture's tokens; nothing where they are not known."""
        if not self._beside.has_places:
            return []
        sizes = [size_of(each, sentence.origin) for each in sentence.pictures]
        found = [self._regions(size) for size in sizes]
        return found if sum(map(len, found)) == number else []

    def _regions_of(self, size: tuple[int, int]) -> list[Box | None]:
        mark, pictures = self._beside.mark, (map_of(size), flat(0, size), flat(255, size))
        origin = "a picture made to find places"
        found = [self._run(mark, {"images": [[each]]}, origin) for each in pictures]
        number = int((found[0]["input_ids"] == self.picture_id).sum())
        merged, patch = (
            getattr(self.processor.image_processor, name, 1)
            for name in ("merge_size", "patch_size")
        )
        patch = patch if isinstance(patch, int) else 1
        tiles = getattr(self.processor.image_processor, "image_grid_pinpoints", None)
        if tiles and "image_sizes" in found[0]:
            own = getattr(self.processor, "patch_size", None) or 1
            return regions_in_lines(*found, number=number, patch=own, tiles=tiles)
        return regions_of(*found, number=number, merged=merged, patch=patch)

    def _linked(
        self,
        sentence: Sentence,
        encoded: Encoded,
        chat: WrittenChat,
        spans: Sequence[tuple[int, int]],
    ) -> EncodedPair:
        """A prompt whose words are the tokens of pictures and the words of the text, with links."""
        assert encoded.is_picture is not None
        regions = self._regions_in(sentence, sum(encoded.is_picture))
        if not regions:
            raise ModelError(
                f"Expected a model whose tokens of pictures can be laid over the picture, since "
                f"{sentence.origin} has boxes, got {self.name}. Leave the field links out: all "
                "else works."
            )
        firsts = [*accumulate(map(len, regions), initial=0)]
        words = [*_words(chat.text, chat.said)]
        links = [
            self._link(place, sentence, chat.text, words, firsts, regions)
            for place in sentence.places
        ]
        names = [f"patch {n + 1}" for its in regions for n in range(len(its))]
        names += [chat.text[start:end] for start, end in words]
        patch, word_of = iter(range(firsts[-1])), list[int]()
        for (start, end), is_picture in zip(spans, encoded.is_picture, strict=True):
            at = NO_WORD if start == end else _word_at(words, start, end)
            word_of.append(next(patch) if is_picture else at + firsts[-1] * (at != NO_WORD))
        own = replace(sentence, words=tuple(names), links=tuple(links))
        return EncodedPair(own, replace(encoded, word_of=word_of), None)

    def _link(
        self,
        place: Place,
        sentence: Sentence,
        text: str,
        words: Sequence[tuple[int, int]],
        firsts: Sequence[int],
        regions: Sequence[Sequence[Box | None]],
    ) -> Link:
        size = size_of(sentence.pictures[place.picture], sentence.origin)
        for box in place.boxes:
            if box[0] < 0 or box[1] < 0 or box[2] > size[0] or box[3] > size[1]:
                raise CorpusError(
                    f"{sentence.origin}: expected boxes inside the picture of {size[0]} x "
                    f"{size[1]} pixels, got {[*box]} for {place.phrase!r}. Boxes are LEFT, TOP, "
                    "RIGHT, BOTTOM; bbox is LEFT, TOP, WIDTH, HEIGHT. Fix the line."
                )
        query = _found(place.phrase, text, words)
        if query is None:
            raise CorpusError(
                f"{sentence.origin}: expected the phrase of a box in the text, got "
                f"{place.phrase!r}, which is not there. Fix the line."
            )
        first = firsts[place.picture]
        keys = inside(regions[place.picture], place.boxes, size)
        if not keys:
            raise CorpusError(
                f"{sentence.origin}: expected a box in the part of the picture that the model "
                f"sees, got {[*place.boxes[0]]} for {place.phrase!r}, which its processor cuts "
                "off. Remove the link."
            )
        its = tuple(first + key for key in keys)
        every = tuple(range(first, firsts[place.picture + 1]))
        return Link(place.name, firsts[-1] + query, its, candidates=every)


def _has_template(writer: Any) -> bool:
    return bool(getattr(writer, "chat_template", None))


def _as_chat(text: str, number: int, kind: str) -> str:
    """A text behind pictures or recordings as a user's message, in JSON."""
    parts = [*({"type": kind} for _ in range(number)), {"type": "text", "text": text}]
    return json.dumps([{"role": "user", "content": parts}], ensure_ascii=False)


def _in_parts(messages: str) -> str:
    """Messages whose contents are all lists of parts, which templates with pictures expect."""
    given = json.loads(messages)
    turns = given["messages"] if isinstance(given, dict) else given
    for turn in turns:
        if isinstance(turn.get("content"), str):
            turn["content"] = [{"type": "text", "text": turn["content"]}]
    return json.dumps(given, ensure_ascii=False)


def _joined(rows: Sequence[Tensor], lengths: Sequence[int], width: int) -> Tensor:
    """What a processor made of several prompts: rows of tokens are padded, pictures stacked."""
    if all(row.ndim == 2 and row.shape == (1, n) for row, n in zip(rows, lengths, strict=True)):
        return torch.cat([torch.nn.functional.pad(row, (0, width - row.shape[1])) for row in rows])
    most = max(row.shape[1] for row in rows) if rows[0].ndim > 1 else 0
    if all(row.ndim > 1 and row.shape[2:] == rows[0].shape[2:] for row in rows):
        rows = [_with_more(row, most) for row in rows]
    return torch.cat([*rows])


def _with_more(row: Tensor, number: int) -> Tensor:
    """A prompt's tiles with empty ones behind them, which models leave out."""
    if row.shape[1] == number:
        return row
    return torch.cat([row, row.new_zeros(row.shape[0], number - row.shape[1], *row.shape[2:])], 1)


def _laid(
    ids: Sequence[int], plain: Sequence[int], spans: Sequence[tuple[int, int]], picture: int
) -> Iterator[tuple[int, int]]:
    """Where each token stands in the text as it was written; (0, 0) for those of no text.

    Args:
        ids: the tokens with those of pictures.
        plain: the tokens of the text as it was written.
        spans: where these stand.
        picture: the id of a picture's tokens.
    """
    kept = [n for n, each in enumerate(ids) if each != picture or n == 0 or ids[n - 1] != picture]
    found = [(0, 0)] * len(ids)
    matcher = SequenceMatcher(None, [ids[n] for n in kept], [*plain], autojunk=False)
    for mine, others, size in matcher.get_matching_blocks():
        for step in range(size):
            if ids[kept[mine + step]] != picture:
                start, end = spans[others + step]
                found[kept[mine + step]] = (start, end)
    yield from found


def _words(text: str, said: Sequence[Said]) -> Iterator[tuple[int, int]]:
    """Where the words stand that messages say."""
    for start, end, _ in said:
        for match in WORD.finditer(text, start, end):
            yield match.span()


def _word_at(words: Sequence[tuple[int, int]], start: int, end: int) -> int:
    """Number of the first word that shares a character with a token; `NO_WORD` if none does."""
    for number, (first, last) in enumerate(words):
        if first < end and start < last:
            return number
    return NO_WORD


def _found(phrase: str, text: str, words: Sequence[tuple[int, int]]) -> int | None:
    """The head word of a phrase, by its number, where the text says it first."""
    said = [text[start:end].lower() for start, end in words]
    its = [match[0].lower() for match in WORD.finditer(phrase)]
    for number in range(len(said) - len(its) + 1):
        if its and said[number : number + len(its)] == its:
            return number + head_without_parse(its)
    return None
