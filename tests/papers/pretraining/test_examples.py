"""Batches of the three objectives, against hand-made ones and their laws."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from headcount.core import CorpusError, ModelError
from headcount.models import Loaded
from headcount.papers import RECIPES, Rows, translation_model
from headcount.papers.pretraining.examples import (
    causal_batch,
    encode,
    masked_batch,
    translation_batch,
)
from headcount.tasks import Translation
from headcount.training.batches_trainer import NO_PART

TINY = RECIPES["tiny"]


def test_translation_as_the_task_sees_it(tokenizer: PreTrainedTokenizerFast, pairs: Rows) -> None:
    """A batch equals the translation task's for the same pairs."""
    few = Rows(pairs.sides, pairs.rows[:5])
    encoded = encode(few, tokenizer, TINY, 0)
    model = translation_model(RECIPES["tiny"], tokenizer, 0)
    (batch,) = Translation(Loaded(model, tokenizer, "tiny"), few.columns).batches(10**6)
    made = translation_batch(encoded, 0, batch.index_E.numpy()[:, None])
    assert torch.equal(made.pop("labels"), batch.labels["labels"])
    assert made.keys() == batch.inputs.keys()
    for name, tensor in made.items():
        assert torch.equal(tensor, batch.inputs[name]), name


def test_concatenated_by_hand(tokenizer: PreTrainedTokenizerFast, pairs: Rows) -> None:
    """Both sides of the first example without its end symbol, then of the second."""
    encoded = encode(Rows(pairs.sides, pairs.rows[:3]), tokenizer, TINY, 0)
    (one, two, three), end = encoded.sides[0], encoded.symbols.end
    batch = translation_batch(encoded, 0, np.array([[2, 0], [1, NO_PART]]))
    both = [*three[:-1], *one]
    assert batch["input_ids"][0].tolist() == both and both.count(end) == 1
    assert batch["input_ids"][1, : len(two)].tolist() == two
    first, _, last = encoded.sides[1]
    assert batch["labels"][0].tolist() == [*last[:-1], *first]


def test_swapped(tokenizer: PreTrainedTokenizerFast, pairs: Rows) -> None:
    """A tenth of the source's tokens are others, as frequent as in the text; nothing else is."""
    encoded = encode(pairs, tokenizer, TINY, 3)
    part_EP, some = np.arange(len(encoded.sides[0]))[:, None], np.arange(9)[:, None]
    plain = translation_batch(encoded, 0, part_EP)
    swapping = encode(pairs, tokenizer, replace(TINY, swapped=0.1), 3)
    usual = torch.tensor([t for ids in encoded.sides[0] for t in ids[:-1]])
    expected = torch.bincount(usual, minlength=len(tokenizer)) / len(usual)
    put, content, changed = torch.zeros(len(tokenizer)), 0, 0
    for number in range(40):
        batch = translation_batch(swapping, number, part_EP)
        assert all(torch.equal(batch[name], plain[name]) for name in {*plain} - {"input_ids"})
        is_other_EN = batch["input_ids"] != plain["input_ids"]
        assert not torch.isin(
            plain["input_ids"][is_other_EN], torch.tensor(tokenizer.all_special_ids)
        ).any()
        put += torch.bincount(batch["input_ids"][is_other_EN], minlength=len(tokenizer))
        content, changed = content + len(usual), changed + int(is_other_EN.sum())
    same = float(expected.square().sum())  # a token that is drawn may be the one it replaces
    assert changed / content == pytest.approx(0.1 * (1 - same), abs=0.005)
    drawn = expected * (1 - expected)
    assert torch.allclose(put / put.sum(), drawn / drawn.sum(), atol=0.01)
    assert torch.equal(*(translation_batch(swapping, 5, some)["input_ids"] for _ in range(2)))
    assert not torch.equal(*(translation_batch(swapping, n, some)["input_ids"] for n in (5, 6)))


def test_causal_by_hand(tokenizer: PreTrainedTokenizerFast) -> None:
    rows = Rows(("text",), [("the dog",), ("a",)])
    ids = [tokenizer(text)["input_ids"] for (text,) in rows.rows]
    batch = causal_batch(encode(rows, tokenizer, TINY, 0), 0, np.array([[0], [1]]))
    gap = len(ids[0]) - len(ids[1])
    assert batch["labels"].tolist() == [
        [*ids[0][1:], -100],
        [*ids[1][1:], -100] + [-100] * gap,
    ]
    assert batch["input_ids"].tolist() == [ids[0], ids[1] + [tokenizer.pad_token_id] * gap]


def test_masked_shares(tokenizer: PreTrainedTokenizerFast, pairs: Rows) -> None:
    """15 % are predicted; of these, 80 % are masks, 10 % random, 10 % unchanged."""
    encoded = encode(
        Rows(("text",), [row[:1] for row in pairs.rows]), tokenizer, TINY, 3, masks=True
    )
    part_EP = np.arange(len(encoded.sides[0]))[:, None]
    special, predicted, masks, same, content = tokenizer.all_special_ids, 0, 0, 0, 0
    for number in range(30):
        batch = masked_batch(encoded, number, part_EP)
        was_EN = encoded.inputs(0, part_EP)["input_ids"]
        is_label_EN = batch["labels"] != -100
        assert torch.equal(batch["labels"][is_label_EN], was_EN[is_label_EN])
        assert torch.equal(batch["input_ids"][~is_label_EN], was_EN[~is_label_EN])
        content += int((~torch.isin(was_EN, torch.tensor(special))).sum())
        predicted += int(is_label_EN.sum())
        given = batch["input_ids"][is_label_EN]
        masks += int(given.eq(encoded.symbols.mask or -1).sum())
        same += int((given == was_EN[is_label_EN]).sum())
        assert not torch.isin(was_EN[is_label_EN], torch.tensor(special)).any()
    assert predicted / content == pytest.approx(0.15, abs=0.005)
    assert masks / predicted == pytest.approx(0.8, abs=0.02)
    assert same / predicted == pytest.approx(0.1, abs=0.02)


def test_masks_go_by_number_and_seed(tokenizer: PreTrainedTokenizerFast, pairs: Rows) -> None:
    encoded = encode(
        Rows(("text",), [row[:1] for row in pairs.rows]), tokenizer, TINY, 0, masks=True
    )
    some = np.arange(9)[:, None]

    def masked(seed: int, number: int) -> list[list[int]]:
        return masked_batch(replace(encoded, seed=seed), number, some)["input_ids"].tolist()

    assert masked(1, 5) == masked(1, 5)
    assert masked(1, 5) != masked(1, 6) and masked(1, 5) != masked(2, 5)
    short = encode(Rows(("text",), [("a",)]), tokenizer, TINY, 0, masks=True)
    for number in range(9):
        labels = masked_batch(short, number, np.array([[0]]))["labels"]
        assert int(labels.ne(-100).sum()) == 1, "one at least"


def test_text_is_no_special_token(tokenizer: PreTrainedTokenizerFast) -> None:
    """Text that looks like a special token is text; only the end symbol is added."""
    encoded = encode(
        Rows(("text",), [("a <s>old</s> dog <mask>",)]), tokenizer, TINY, 0, masks=True
    )
    ids = encoded.sides[0][0]
    special = [number for number in ids if number in tokenizer.all_special_ids]
    assert all(number == tokenizer.unk_token_id for number in special[:-1])
    assert ids[-1] == tokenizer.eos_token_id


def test_too_long(tokenizer: PreTrainedTokenizerFast) -> None:
    rows = Rows(
        ("source", "target"), [("the dog", "der Hund"), ("the " * 40, "die"), ("a", "x " * 40)]
    )
    encoded = encode(rows, tokenizer, replace(TINY, max_length=20), 0)
    assert encoded.num_long == 2 and encoded.length_NS.shape == (1, 2)
    with pytest.raises(CorpusError, match="at most 2 tokens, but all 3 are longer"):
        encode(rows, tokenizer, replace(TINY, max_length=2), 0)


def test_symbols(tokenizer: PreTrainedTokenizerFast, pairs: Rows) -> None:
    bare = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, pad_token="<pad>", eos_token="</s>"
    )
    assert encode(pairs, bare, TINY, 0).symbols.mask is None
    with pytest.raises(ModelError, match="has no mask_token. Use the tokenizer of a model"):
        encode(pairs, bare, TINY, 0, masks=True)
