"""Reader: prompts as a model reads them, with their targets, and their second prompts aligned.

A target is what follows when prompt and target are tokenized together. A causal model reads all of
it but the last token, each row one target; targets of one token are read off the same row.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from os.path import commonprefix
from typing import Any, Literal, assert_never, final

import torch

from headcount.core import InputError, ModelError, amount, check_known
from headcount.corpora import (
    PICTURE,
    Encoder,
    LabelledTokens,
    PictureEncoder,
    Sentence,
    encode_text,
    label_source,
    template_values,
    user_prompt,
)
from headcount.explanation.alignment import Tokens, aligned_places, at_the_same
from headcount.explanation.changes import At, Look
from headcount.explanation.mlps import mlps_of
from headcount.explanation.options import LAST, ExplainOptions
from headcount.explanation.prompts import Prompt
from headcount.explanation.runs import Case, Reading, Row
from headcount.models import Loaded, picture_encoder
from headcount.tap import AttentionLayer
from headcount.tasks import Pictured, fitting

Kind = Literal["translation", "classification", "causal-lm", "masked-lm"]
"""A kind of prediction, named as the task."""
KINDS: tuple[Kind, ...] = ("translation", "classification", "causal-lm", "masked-lm")
"""Kinds of predictions; a model makes the first that fits it."""
MASK = "[MASK]"
"""What stands for the model's own mask token in a prompt."""
LONGEST = 256
"""Largest number of tokens that are read of a text whose outputs are averaged."""


def spelled(loaded: Loaded, text: str, masks: int = 1) -> str:
    """The text with a number of the model's own mask tokens in place of [MASK]."""
    token = getattr(loaded.tokenizer, "mask_token", None)
    return text if token is None else text.replace(MASK, masks * str(token))


@final
class Reader:
    """Turns prompts into cases.

    Args:
        loaded: the model.
        options: how a prediction is read.

    Raises:
        ModelError: for a model that predicts neither tokens nor labels.
    """

    def __init__(self, loaded: Loaded, options: ExplainOptions) -> None:
        self._loaded, self._options = loaded, options
        fits = fitting(loaded.model)
        kind: Kind | None = next((each for each in KINDS if each in fits), None)
        if kind is None:
            raise ModelError(
                f"Expected a model that predicts tokens or labels of a text, got {loaded.name}, a "
                f"{type(loaded.model).__name__}. Load it with the head that it predicts with."
            )
        self.kind: Kind = kind
        self._encoder: Encoder = loaded.encoder()
        self._tokenizer: Any = self._encoder.tokenizer

    def case(self, prompt: Prompt) -> Case:
        """The prompt as the model reads it.

        Raises:
            InputError: for targets, masks or second prompts that can't be used; says why.
        """
        texts = [text for text in (prompt.target, prompt.against) if text is not None]
        read, answers = self._tokens(prompt.prompt, prompt, prompt.beside), list[Tokens]()
        end = len(read.ids)
        if self.kind == "causal-lm":
            answers, end = self._continuations(prompt, read, texts)
        else:
            answers = [self._answer(text, prompt) for text in texts]
        if self._options.first:
            answers = [answer[:1] for answer in answers]
        self._check(prompt, answers)
        self._check_beside(prompt, answers)
        text = _cut(read, 0, end)
        tokens = tuple(map(self._said, answers[0]))
        shared = ""
        if len(answers) > 1 and self.kind != "classification":
            shared = "".join(map(self.piece, commonprefix(answers)))
        if prompt.corrupt is None:
            rows = self._at(self._rows(text, answers, prompt), text, prompt)
            clean = self._beside(rows, prompt.beside)
            return Case(prompt, text, tokens, self._with_mlps(clean), None, shared)
        second = self._tokens(prompt.corrupt, prompt, prompt.corrupt_beside)
        second = _cut(second, 0, len(second.ids) - (len(read.ids) - end))
        self._check_alignable(text, second, prompt)
        pair = (text, second), (second, text)
        clean, corrupt = (self._rows(one, answers, prompt, other) for one, other in pair)
        clean = self._at(clean, text, prompt)
        corrupt = self._beside(map(at_the_same, corrupt, clean), prompt.corrupt_beside)
        clean = self._beside(clean, prompt.beside)
        clean, corrupt = map(self._with_mlps, (clean, corrupt))
        return Case(prompt, text, tokens, clean, corrupt, shared)

    def _with_mlps(self, rows: Sequence[Row]) -> tuple[Row, ...]:
        """Rows whose MLPs are heard, if they are units of circuits."""
        return tuple(replace(row, mlps=self._mlps) for row in rows)

    @cached_property
    def _mlps(self) -> tuple[AttentionLayer, ...]:
        return mlps_of(self._loaded) if self._options.has_mlps else ()

    def _beside(self, rows: Iterable[Row], sentence: Sentence | None) -> tuple[Row, ...]:
        """Rows with the pictures of their prompt."""
        if sentence is None:
            return tuple(rows)
        found = list[Row]()
        for row in rows:
            ids_1T = torch.tensor([row.ids])
            given = self._pictured.arguments([sentence], ids_1T, torch.ones_like(ids_1T).bool())
            found.append(replace(row, beside={n: e for n, e in given.items() if n != "input_ids"}))
        return tuple(found)

    @cached_property
    def _pictured(self) -> PictureEncoder:
        """What reads prompts with pictures, up to where the model's reply begins."""
        if self.kind != "causal-lm":
            raise ModelError(
                f"Expected a model that continues texts beside pictures, got {self._loaded.name}, "
                f"a {type(self._loaded.model).__name__}. Leave pictures out."
            )
        return picture_encoder(self._loaded, template_values(self._options.template))

    def _check_beside(self, prompt: Prompt, answers: Sequence[Tokens]) -> None:
        """Check that tokens of a target change nothing before them."""
        if prompt.beside is not None and max(map(len, answers)) > 1:
            Pictured(self._pictured, [prompt.beside]).check_is_causal(self._loaded, prompt.beside)

    def _at(self, rows: Sequence[Row], text: LabelledTokens, prompt: Prompt) -> tuple[Row, ...]:
        """The rows, with the tokens at which heads are replaced."""
        at = self._options.at
        if at is None:
            return tuple(rows)
        sites, found = tuple(self._sites), list[Row]()
        for row in rows:
            if at == LAST:
                length = len(row.decoder_ids or row.ids)
                places = {length + each.place for each in row.readings if each.place is not None}
                here = sites if row.decoder_ids is None else ("decoder.self", "decoder.cross")
            else:
                num, end = len(row.ids) - len(text.ids), self._end(text)
                words = self._of_words(text, at, prompt, may_lack=False)
                places = {place + num * (place >= end) for place in words}
                here = sites[:1]
            if not places:
                raise InputError(
                    f"{prompt.origin}: expected tokens where something is predicted, got a label, "
                    "which is read off the whole text. Name a word as --at, or leave it out."
                )
            found.append(replace(row, at=At(here, tuple(sorted(places)))))
        return tuple(found)

    def text(self, text: str) -> Row:
        """A text as the model reads it, up to its longest length, of which nothing is asked.

        Raises:
            InputError: for an encoder-decoder, which reads two texts.
        """
        if self.kind == "translation":
            raise InputError(
                f"Expected no texts for {self._loaded.name}, an encoder-decoder, since they have "
                "no targets. Leave --texts out: outputs are then averaged over the prompts."
            )
        longest = min(LONGEST, self._loaded.max_length or LONGEST)
        return Row(label_source(self._encoder, text).ids[:longest], None, (), mlps=self._mlps)

    def _tokens(self, text: str, prompt: Prompt, beside: Sentence | None = None) -> LabelledTokens:
        """The tokens of a text; a causal model continues it, so none ends it.

        With pictures, the model's processor writes it as a user's message.
        """
        if beside is not None:
            return self._pictured.labelled(beside)[0]
        if self._options.chat:
            values = template_values(self._options.template)
            text = user_prompt(self._tokenizer, self._loaded.name, text, values)
        if self.kind == "masked-lm":
            text = self._masked(text, prompt)
        chat = self._options.chat  # the template has written what stands around it
        tokens = label_source(self._encoder, text, around=not chat)
        end = len(tokens.ids)
        while self.kind == "causal-lm" and end and tokens.is_special[tokens.word_of[end - 1]]:
            end -= 1
        tokens = _cut(tokens, 0, end)
        self._encoder.check_media(tokens.ids, prompt.origin, "Take it out of the prompt.")
        if all(tokens.is_special):
            raise InputError(
                f"{prompt.origin}: expected a prompt with words, got {text!r}, in which "
                f"{self._loaded.name} reads none. Give a text."
            )
        return tokens

    def _masked(self, text: str, prompt: Prompt) -> str:
        """The text with as many of the model's mask tokens as the target has tokens."""
        mask = str(self._tokenizer.mask_token)
        if text.replace(mask, MASK).count(MASK) != 1:
            raise InputError(
                f"{prompt.origin}: expected a prompt with one {MASK}, which {self._loaded.name} "
                f"fills, got {text!r}. Put {MASK} where the target stands."
            )
        return spelled(self._loaded, text)

    def _continuations(
        self, prompt: Prompt, read: LabelledTokens, texts: Sequence[str]
    ) -> tuple[list[Tokens], int]:
        """The tokens of each target, and how many of the prompt's are read.

        A blank at the prompt's end that becomes part of a target's first token is not read.
        """
        wholes = [
            self._tokens(f"{prompt.prompt}{text}", prompt).ids
            if not (self._options.chat or prompt.beside)
            else (*read.ids, *self._alone(text))
            for text in texts
        ]
        end = len(commonprefix([read.ids, *wholes]))
        if any(self.piece(token).strip() for token in read.ids[end:]):
            return [self._alone(text) for text in texts], len(read.ids)
        return [whole[end:] for whole in wholes], end

    def _alone(self, text: str) -> Tokens:
        return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _answer(self, text: str, prompt: Prompt) -> Tokens:
        """The tokens of a target, or the number of a label."""
        match self.kind:
            case "classification":
                names = {str(name): number for number, name in self._labels.items()}
                new = {str(number): number for number in self._labels if str(number) not in names}
                check_known("a label", text, names | new)
                return ((names | new)[text],)
            case "masked-lm":
                return self._alone(text)
            case "translation":
                (encoded,) = encode_text(self._tokenizer, [text], "text_target", None)
                pairs = zip(encoded.ids, encoded.is_special, strict=True)
                return tuple(token for token, is_special in pairs if not is_special)
            case "causal-lm":
                raise AssertionError("continuations depend on each other")
            case _:
                assert_never(self.kind)

    @property
    def _labels(self) -> Mapping[int, str]:
        config: Any = self._loaded.model.config
        named = dict(config.id2label or {})
        return {number: str(named.get(number, number)) for number in range(config.num_labels)}

    def _check(self, prompt: Prompt, answers: Sequence[Tokens]) -> None:
        """Check that there is something to predict, and that a rival is another."""
        if not all(answers):
            raise InputError(
                f"{prompt.origin}: expected a target of at least one token, got "
                f"{prompt.target if not answers[0] else prompt.against!r}, which has none. Give "
                "another."
            )
        if len(answers) == 2 and answers[0] == answers[1]:
            first = " Leave --first out to read all of their tokens." if self._options.first else ""
            raise InputError(
                f"{prompt.origin}: expected a rival of another token than the target's, got "
                f"{prompt.target!r} and {prompt.against!r}, which are both read as "
                f"{self.piece(answers[0][0])!r}.{first or ' Give another rival.'}"
            )

    def piece(self, token: int) -> str:
        """The text of a token."""
        return self._encoder.target_piece(token).replace("▁", " ")

    def _said(self, answer: int) -> str:
        return self._labels[answer] if self.kind == "classification" else self.piece(answer)

    def _rows(
        self,
        text: LabelledTokens,
        answers: Sequence[Tokens],
        prompt: Prompt,
        other: LabelledTokens | None = None,
    ) -> tuple[Row, ...]:
        """The rows of tokens that are read, each with what is read off its logits."""
        found = dict[tuple[Tokens, Tokens | None], list[Reading]]()
        for answer, sign in zip(answers, (1.0, -1.0), strict=False):
            more, end, decoder = self._inserted(answer), self._end(text), None
            if self.kind == "translation":
                decoder = (*self._decoder_start(prompt), *answer[:-1])
            ids = (*text.ids[:end], *more, *text.ids[end:])
            self._check_length(max(ids, decoder or (), key=len), prompt)
            first = end - len(text.ids) - len(answer)
            is_label = self.kind == "classification"
            found.setdefault((ids, decoder), []).extend(
                Reading(None if is_label else first + n, token, sign)
                for n, token in enumerate(answer)
            )
        rows = (Row(*key, tuple(readings)) for key, readings in found.items())
        return tuple(
            replace(
                row,
                in_other=()
                if other is None
                else aligned_places(text, other, row.ids, self._end(text), self._end(other)),
                look=self._look(text, row, prompt),
            )
            for row in rows
        )

    def _look(self, text: LabelledTokens, row: Row, prompt: Prompt) -> Look | None:
        """Which looks are knocked out in a row; None without the word to be looked at."""
        options, num = self._options, len(row.ids) - len(text.ids)
        if self.kind == "classification" and options.key is None:
            return None
        keys = self._of_words(text, options.key or prompt.target, prompt, options.key is None)
        queries = self._of_words(text, options.query or "", prompt, options.query is None)
        if not keys:
            return None
        end = self._end(text)
        keys, queries = (
            tuple(place + num * (place >= end) for place in each) for each in (keys, queries)
        )
        sites = [each for each in ("encoder.self", "decoder.self") if each in self._sites]
        site = sites[0]
        if options.query is None and (places := [each.place for each in row.readings]):
            length = len(row.decoder_ids or row.ids)
            queries = tuple(sorted({length + each for each in places if each is not None}))
            site = site if row.decoder_ids is None else "decoder.cross"
        return Look(site, queries, keys)

    @property
    def _sites(self) -> Mapping[str, object]:
        return self._loaded.heads.counts

    def _of_words(
        self, text: LabelledTokens, words: str, prompt: Prompt, may_lack: bool
    ) -> tuple[int, ...]:
        """The places of the tokens of some words in a text, wherever they stand side by side."""
        read = label_source(self._encoder, words.strip())
        pairs = zip(read.words, read.is_special, strict=True)
        wanted = tuple(word for word, is_special in pairs if not is_special)
        wanted = (PICTURE,) if words.strip() == PICTURE else wanted
        starts = range(len(text.words) if wanted else 0)
        found = {
            start + n
            for start in starts
            if text.words[start : start + len(wanted)] == wanted
            for n in range(len(wanted))
        }
        if not found and not may_lack:
            raise InputError(
                f"{prompt.origin}: expected {words!r} among the words of the prompt, got "
                f"{' | '.join(text.words)}. Name some of these."
            )
        return tuple(place for place, word in enumerate(text.word_of) if word in found)

    def _end(self, text: LabelledTokens) -> int:
        """The place in a text where the tokens of a target are inserted: its end, or its mask."""
        is_masked = self.kind == "masked-lm"
        return text.ids.index(self._tokenizer.mask_token_id) + 1 if is_masked else len(text.ids)

    def _inserted(self, answer: Tokens) -> Tokens:
        """What is read of a target: all but its last token, or a mask for each."""
        match self.kind:
            case "masked-lm":
                return (self._tokenizer.mask_token_id,) * (len(answer) - 1)
            case "causal-lm":
                return answer[:-1]
            case "translation" | "classification":
                return ()
            case _:
                assert_never(self.kind)

    def _check_length(self, ids: Tokens, prompt: Prompt) -> None:
        limit = self._loaded.max_length
        if limit is not None and len(ids) > limit:
            raise InputError(
                f"{prompt.origin}: expected at most {limit} tokens, which {self._loaded.name} "
                f"takes, got {len(ids)} with the target's. Shorten it."
            )

    def _decoder_start(self, prompt: Prompt) -> Tokens:
        """What a decoder reads in front of a target: its start, and maybe a language."""
        (encoded,) = encode_text(self._tokenizer, [prompt.target], "text_target", None)
        before = encoded.ids[: encoded.num_before]
        assert self._encoder.start_id is not None
        return (self._encoder.start_id, *before)

    def _check_alignable(
        self, text: LabelledTokens, second: LabelledTokens, prompt: Prompt
    ) -> None:
        """Check that two prompts are equally long, or differ in one word."""
        shown = [
            sum(each.words[word] == PICTURE for word in each.word_of) for each in (text, second)
        ]
        if shown[0] != shown[1]:
            raise InputError(
                f"{prompt.origin}: expected a second picture of as many tokens, got {shown[0]} and "
                f"{shown[1]}. Give pictures of the same size."
            )
        differ = sum(one != other for one, other in zip(text.words, second.words, strict=False))
        if len(text.ids) != len(second.ids) and (
            len(text.words) != len(second.words) or differ > 1
        ):
            shown = [
                f"{amount(len(each.ids), 'token')} ({' | '.join(map(self.piece, each.ids))})"
                for each in (text, second)
            ]
            raise InputError(
                f"{prompt.origin}: expected a second prompt of as many tokens, or one that differs "
                f"in one word, got {shown[0]} and {shown[1]}. Change other words of it, or leave "
                "it out: heads are then replaced by their means, or with --others resample by what "
                "they output in other prompts."
            )


def _cut(tokens: LabelledTokens, start: int, end: int) -> LabelledTokens:
    """Some of the tokens, and their words; each token in front of them is a word."""
    word_of = tokens.word_of[start:end]
    words = slice(start, max(word_of, default=-1) + 1)
    return replace(
        tokens,
        ids=tokens.ids[start:end],
        word_of=tuple(word - start for word in word_of),
        words=tokens.words[words],
        is_special=tokens.is_special[words],
    )
