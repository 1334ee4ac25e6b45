"""Rows of tokens: texts cut into pieces that fit the model, rows padded and put into batches.

No token is lost. A batch is filled up to a budget of padded tokens, the shortest rows first.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Int, Int64
from torch import Tensor

from headcount.core import InputError, amount
from headcount.corpora import Encoded, Encoder, Table, chat_tokens, groups_by_length, present
from headcount.corpora import padded as padded_rows
from headcount.models import Loaded


def whole_texts(loaded: Loaded, table: Table) -> list[Encoded]:
    """Encode the column `text`, however long its texts are."""
    return whole_encoder(loaded).sources(table.sentences("text"))


def whole_encoder(loaded: Loaded) -> Encoder:
    """The encoder of texts that are cut later, not truncated."""
    return Encoder(loaded.encoder().tokenizer)


def predicted(
    loaded: Loaded, table: Table, roles: Sequence[str]
) -> list[tuple[list[int], list[bool] | None]]:
    """The tokens of each text or chat, and which are predicted: of a chat, those of some roles.

    Args:
        loaded: the model with its tokenizer.
        table: texts and chats.
        roles: whose messages are predicted; of all roles if there is none.
    """
    encoder, found = whole_encoder(loaded), list[tuple[list[int], list[bool] | None]]()
    sentences = table.sentences("text")
    texts = iter(encoder.sources([each for each in sentences if each.messages is None]))
    for sentence in sentences:
        if sentence.messages is None:
            found.append((next(texts).ids, None))
        else:
            chat = chat_tokens(encoder.tokenizer, sentence.messages, sentence.origin)
            asked = [role in roles if roles else role is not None for role in chat.roles]
            found.append((chat.ids, asked))
    return found


def piece_length(loaded: Loaded, max_length: int | None) -> int | None:
    """Number of tokens in a piece: as many as requested, or the model's limit.

    Raises:
        InputError: if more are requested than the model accepts.
    """
    longest = loaded.max_length
    if max_length is not None and longest is not None and max_length > longest:
        raise InputError(
            f"Expected pieces of at most {amount(longest, 'token')}, the limit of {loaded.name}, "
            f"got max_length={max_length}."
        )
    return longest if max_length is None else max_length


def chained(
    ids: Sequence[int],
    max_length: int | None,
    start: Sequence[int] = (),
    is_asked: Sequence[bool] | None = None,
) -> Iterator[tuple[list[int], list[bool]]]:
    """Pieces of a text, and which of their tokens are predicted.

    A piece begins with `start` and the last token of the piece before, so each token of the text
    except the first is predicted once. A piece of which no token is predicted is left out.

    Args:
        ids: the complete text, which begins with `start` itself.
        max_length: largest number of tokens in a piece.
        start: what every piece begins with.
        is_asked: which tokens of the text are predicted; None for all.
    """
    size = max(2, len(ids)) if max_length is None else max_length
    if size < len(start) + 2:
        added = f", since every piece begins with {len(start)} of its own" if start else ""
        raise InputError(
            f"Expected at least {len(start) + 2} tokens in a piece{added}, got "
            f"max_length={max_length}."
        )
    asked, before = [True] * len(ids) if is_asked is None else is_asked, len(start) + 1
    steps = [(1, size), *((at, at + size - before) for at in range(size, len(ids), size - before))]
    for begin, end in steps:
        if any(asked[begin:end]):
            front = [*(start if begin > 1 else ()), ids[begin - 1]]
            yield [*front, *ids[begin:end]], [False] * len(front) + list(asked[begin:end])


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
            f"Expected more than {amount(len(before) + len(after), 'token')} in a piece, since "
            f"that many are special, got max_length={max_length}."
        )
    for start in range(0, len(inside), step):
        special = encoded.is_special[begin:end][start : start + step]
        flags = [True] * len(before) + special + [True] * len(after)
        yield [*before, *inside[start : start + step], *after], flags


def groups(
    length_N: Int[np.ndarray, " example"], max_tokens: int
) -> Iterator[Int[np.ndarray, " some"]]:
    """Numbers of the examples in each batch: shortest first, ties in order.

    Args:
        length_N: padded tokens that an example needs when it is the longest.
        max_tokens: largest number of padded tokens in a batch; a longer example forms a batch.
    """
    if max_tokens < 1:
        raise InputError(
            f"Expected at least 1 token a batch, got {max_tokens}. Use a larger number."
        )
    for group in groups_by_length(range(len(length_N)), length_N.__getitem__, max_tokens):
        yield np.array(group)


def padded(rows: Sequence[Sequence[int]], fill: int) -> Int64[Tensor, "row token"]:
    """Rows of numbers, padded on the right."""
    return torch.from_numpy(padded_rows(rows, fill))


def text_inputs(
    rows: Sequence[Sequence[int]], pad_id: int
) -> dict[str, Int64[Tensor, "row token"]]:
    """Token ids with their attention mask."""
    mask_RN = torch.from_numpy(present(rows)).long()
    return {"input_ids": padded(rows, pad_id), "attention_mask": mask_RN}


def pad_id(loaded: Loaded) -> int:
    """The model's padding id (some look at the id itself), or any id that fills as well."""
    own = loaded.model.config.get_text_config().pad_token_id
    return own if isinstance(own, int) and own >= 0 else loaded.encoder().pad_id
