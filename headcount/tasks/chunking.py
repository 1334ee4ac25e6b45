"""Text longer than the model's limit, cut into pieces so that no token is lost."""

from collections.abc import Iterator, Sequence

from headcount.core import InputError
from headcount.corpora import Encoded, Encoder, Sentence, Table
from headcount.models import Loaded


def whole_texts(loaded: Loaded, table: Table) -> list[Encoded]:
    """Encode the column `text`, however long its texts are."""
    encoder = Encoder(loaded.encoder().tokenizer)
    return encoder.sources(sentences(table, "text"))


def sentences(table: Table, role: str) -> list[Sentence]:
    """A column as sentences that know their origin."""
    return [
        Sentence(text, origin=origin)
        for text, origin in zip(table[role], table.origins, strict=True)
    ]


def piece_length(loaded: Loaded, max_length: int | None) -> int | None:
    """Number of tokens in a piece: as many as requested, or the model's limit.

    Raises:
        InputError: if more are requested than the model accepts.
    """
    longest = loaded.max_length
    if max_length is not None and longest is not None and max_length > longest:
        raise InputError(
            f"Expected pieces of at most {longest} tokens, the limit of {loaded.name}, "
            f"got max_length={max_length}."
        )
    return longest if max_length is None else max_length


def chained(ids: Sequence[int], max_length: int | None) -> Iterator[list[int]]:
    """Pieces that begin with the last token of the previous piece: each token is predicted once."""
    step = (max(2, len(ids)) if max_length is None else max_length) - 1
    if step < 1:
        raise InputError(f"Expected at least 2 tokens in a piece, got max_length={max_length}.")
    for start in range(0, len(ids) - 1, step):
        yield list(ids[start : start + step + 1])


def framed(encoded: Encoded, max_length: int | None) -> Iterator[tuple[list[int], list[bool]]]:
    """Pieces between the special tokens of the complete text, and which tokens are special."""
    content = [index for index, special in enumerate(encoded.is_special) if not special]
    if not content:
        return
    begin, end = content[0], content[-1] + 1
    before, inside, after = encoded.ids[:begin], encoded.ids[begin:end], encoded.ids[end:]
    step = len(inside) if max_length is None else max_length - len(before) - len(after)
    if step < 1:
        raise InputError(
            f"Expected more than {len(before) + len(after)} tokens in a piece, since that many are "
            f"special, got max_length={max_length}."
        )
    for start in range(0, len(inside), step):
        special = encoded.is_special[begin:end][start : start + step]
        flags = [True] * len(before) + special + [True] * len(after)
        yield [*before, *inside[start : start + step], *after], flags
