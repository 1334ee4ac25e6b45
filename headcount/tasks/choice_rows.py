"""Rows of a multiple choice: the tokens that a causal model reads for each choice.

A choice is read after its prompt and one space. The context of an example is the tokens that its
prompt alone begins with and that all its choices share; the tokens after it are the choice's. The
last one is predicted and need not be read, so that choices of one token share the row that ends
with the context.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import final

from headcount.core import CorpusError
from headcount.corpora import Encoded, Encoder, Sentence, Table
from headcount.models import Loaded


@final
@dataclass(frozen=True)
class ChoiceRows:
    """The rows of one example, and the tokens of its choices."""

    rows: list[list[int]]
    """Token ids that the model reads, each row once."""
    row_of: list[int]
    """The row of each choice."""
    tokens: list[list[int]]
    """The tokens of each choice; the first is predicted by the last token of the context."""
    num_context: int
    """Number of tokens in the context."""
    is_cut: bool
    """Whether tokens of the context were left out, since the model has a limit."""

    @property
    def longest(self) -> int:
        """Number of tokens in the longest row."""
        return max(map(len, self.rows))


def choice_rows(loaded: Loaded, table: Table) -> list[ChoiceRows]:
    """The rows of every example.

    Raises:
        CorpusError: if an example has fewer than two choices, a choice has no token of its own, or
            one is too long for the model.
    """
    encoder = Encoder(loaded.encoder().tokenizer)
    prompts = encoder.sources(
        [
            Sentence(text, origin=origin)
            for text, origin in zip(table["prompt"], table.origins, strict=True)
        ]
    )
    whole = iter(encoder.sources([*_whole(table)]))
    limit = loaded.max_length
    return [
        _rows(_without_end(prompt), [_without_end(next(whole)) for _ in choices], limit, origin)
        for prompt, choices, origin in zip(
            prompts, table.lists["choices"], table.origins, strict=True
        )
    ]


def answers(table: Table) -> list[int]:
    """Number of the right choice of every example.

    All answers of a data set are read in the same way: as texts of choices or as numbers from 0,
    whichever fits more of them; in a tie, as texts.

    Raises:
        CorpusError: for the first answer that is no choice, with its line.
    """
    lists = table.lists["choices"]
    by_text = [{text: number for number, text in enumerate(texts)} for texts in lists]
    by_number = [{str(number): number for number in range(len(texts))} for texts in lists]
    given = table["answer"]
    ways = max(
        (by_text, by_number),
        key=lambda way: sum(one in of for one, of in zip(given, way, strict=True)),
    )
    kinds = ("text", "number") if ways is by_text else ("number", "text")
    others = by_number if ways is by_text else by_text
    for row in zip(given, ways, others, lists, table.origins, strict=True):
        one, of, others_of, texts, origin = row
        if one not in of and one in others_of:
            raise CorpusError(
                f"{origin}: expected the {kinds[0]} of a choice as the answer, as in most lines, "
                f"got {one!r}, the {kinds[1]} of one. Write all answers as {kinds[0]}s."
            )
        if one not in of:
            raise CorpusError(
                f"{origin}: expected one of the {len(texts)} choices as the answer, got {one!r}. "
                f"Answers are numbers from 0 to {len(texts) - 1}, or texts of choices, the same "
                "kind in all lines."
            )
    return [of[one] for one, of in zip(given, ways, strict=True)]


def _whole(table: Table) -> Iterator[Sentence]:
    for prompt, choices, origin in zip(
        table["prompt"], table.lists["choices"], table.origins, strict=True
    ):
        if len(choices) < 2:
            raise CorpusError(
                f"{origin}: expected at least two choices, got {len(choices)}. Complete or remove "
                "the line."
            )
        for choice in choices:
            yield Sentence(f"{prompt} {choice}", origin=origin)


def _without_end(encoded: Encoded) -> Encoded:
    """The tokens up to the last one that is no special token, since what follows is not asked."""
    ends = sum(1 for _ in takewhile(bool, reversed(encoded.is_special)))
    keep = len(encoded.ids) - ends
    return Encoded(
        encoded.ids[:keep], encoded.word_of[:keep], encoded.is_special[:keep], encoded.full_length
    )


def _rows(prompt: Encoded, wholes: Sequence[Encoded], limit: int | None, origin: str) -> ChoiceRows:
    all_ids = [whole.ids for whole in wholes]
    shared = zip(prompt.ids, *all_ids, strict=False)
    num_context = sum(1 for _ in takewhile(lambda ids: len(set(ids)) == 1, shared))
    context, tokens = prompt.ids[:num_context], [ids[num_context:] for ids in all_ids]
    if not num_context or not all(tokens):
        raise CorpusError(
            f"{origin}: expected tokens of the prompt before those of each choice, got "
            f"{num_context} and {', '.join(str(len(ids)) for ids in tokens)}. Fix the line."
        )
    starts = sum(1 for _ in takewhile(bool, prompt.is_special))
    surplus = 0 if limit is None else num_context + max(map(len, tokens)) - 1 - limit
    if surplus > 0:
        if surplus >= num_context - starts:
            raise CorpusError(
                f"{origin}: expected choices that leave room for the prompt within {limit} tokens, "
                f"got one of {max(map(len, tokens))}. Shorten it."
            )
        context = [*context[:starts], *context[starts + surplus :]]
    read = [(*context, *ids[:-1]) for ids in tokens]
    rows = list(dict.fromkeys(read))
    row_of = [rows.index(row) for row in read]
    return ChoiceRows([list(row) for row in rows], row_of, tokens, len(context), surplus > 0)
