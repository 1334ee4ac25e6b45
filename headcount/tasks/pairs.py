"""Encoding of single texts and of pairs, with the token types that distinguish the two."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

from headcount.corpora import TOKEN_TYPES
from headcount.errors import CorpusError
from headcount.models.load import Loaded
from headcount.tasks.table import Table


@final
@dataclass(frozen=True)
class Row:
    """Token ids of one text, or of two with their separators."""

    ids: list[int]
    types: list[int] | None
    """0 for the first text, 1 for the second, if the model has token types."""


def encoded_pairs(loaded: Loaded, table: Table, first: str, second: str) -> tuple[list[Row], int]:
    """Rows of the column `first`, paired with `second` if there is one.

    Returns:
        One row per example, and the number of rows that the tokenizer had to truncate.
    """
    tokenizer: Any = loaded.encoder().tokenizer
    told = {"return_token_type_ids": loaded.takes_token_types}
    texts = [table[first]] + ([table[second]] if second in table else [])
    rows = list(_rows(tokenizer, texts, told))
    for row, origin in zip(rows, table.origins, strict=True):
        if not row.ids:
            raise CorpusError(f"{origin}: expected at least one token, got none. Remove the line.")
    limit = loaded.max_length
    long = [] if limit is None else [i for i, row in enumerate(rows) if len(row.ids) > limit]
    if long:
        some = [[column[index] for index in long] for column in texts]
        options = {"truncation": True, "max_length": limit, **told}
        for index, row in zip(long, _rows(tokenizer, some, options), strict=True):
            rows[index] = row
        # One more call, without truncation, leaves the backend as we found it.
        tokenizer("a")
    return rows, len(long)


def _rows(tokenizer: Any, texts: Sequence[Sequence[str]], options: dict[str, Any]) -> Iterator[Row]:
    """Rows of text columns; not verbose, since we report overlong text ourselves."""
    encoding = tokenizer(*(list(column) for column in texts), verbose=False, **options)
    types = encoding.get(TOKEN_TYPES)
    for index, ids in enumerate(encoding["input_ids"]):
        yield Row(list(ids), None if types is None else list(types[index]))
