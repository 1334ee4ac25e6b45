"""Gradients of attention equal finite differences of single weights, by kind of token."""

import copy
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount import load
from headcount.core import InputError, LayerId, ModelError
from headcount.importance import KINDS, attention_gradients, sensitivity
from headcount.importance.sensitivity_numbers import KindSums, no_ops, token_kinds
from headcount.statistics import Bootstrap
from headcount.tap import Anatomy
from headcount.tasks import Masking, TaskBatch, build
from headcount.testing import leaving_no_trace
from tests import saved, tiny
from tests.examined import examined, examined_double
from tests.tasks.tiny_task import TinyTask
from tests.textbook.attention_gradient import mean_by_kind, slope

HEADS = (1, 3)
"""Heads whose weights are changed one by one."""


class Short(TinyTask):
    """The same task on shorter rows, since every weight is changed alone."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__(model)
        self.inputs = [tiny.inputs(model, lengths) for lengths in ((3, 2, 1), (2, 1))]


def by_number(batch: TaskBatch, site: str) -> Tensor:
    """Made-up kinds that depend on the token, for the tests that have no tokenizer."""
    decodes = site != "encoder.self" and "decoder_input_ids" in batch.inputs
    ids_RN = batch.inputs["decoder_input_ids" if decodes else "input_ids"]
    kinds_RNC = nn.functional.one_hot(ids_RN % 3, len(KINDS)).float()
    return kinds_RNC * batch.is_query(site)[..., None]


def by_changes(model: PreTrainedModel, anatomy: Anatomy) -> dict[tuple[LayerId, int], list]:
    """(kind, |dL/dA|) of every weight of some heads, each from two forward passes."""
    stock = copy.deepcopy(model)
    stock.set_attn_implementation("eager")
    found: dict[tuple[LayerId, int], list] = {}
    for batch in Short(model).batches():
        for call, layer in enumerate(anatomy.layers):
            if layer.layer > 0 and len(anatomy.layers) > 3:
                continue
            keys = "encoder.self" if layer.site == "decoder.cross" else layer.site
            kinds_RKC = by_number(batch, keys)
            for row, query in batch.is_query(layer.site).nonzero().tolist():
                last = query + 1 if layer.site == "decoder.self" else kinds_RKC.shape[1]
                for key in [k for k in range(last) if kinds_RKC[row, k].any()]:
                    kind = KINDS[int(kinds_RKC[row, key].argmax())]
                    for head in HEADS[: 1 if len(anatomy.layers) > 3 else None]:
                        place = (row, head, query, key)
                        loss = partial(loss_with, stock, batch, call, place)
                        found.setdefault((layer.layer_id, head), []).append((kind, slope(loss)))
    return found


def loss_with(
    model: PreTrainedModel, batch: TaskBatch, call: int, place: tuple[int, ...], step: float
) -> float:
    """The loss of the stock model when one weight of one layer is changed."""
    stock: Callable[..., Tensor] = nn.functional.softmax
    calls = []

    def changed(scores: Tensor, dim: int, dtype: Any = None) -> Tensor:
        weights = stock(scores, dim)  # stays float64
        if len(calls) == call:
            weights[place] += step
        calls.append(1)
        return weights

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(nn.functional, "softmax", changed)
        return float(TinyTask(model).losses(model, batch).loss_E.sum())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "marian", "gpt2"])
def test_textbook(name: str) -> None:
    model, anatomy = examined_double(name)
    sums, _ = attention_gradients(model, Short(model), by_number, anatomy=anatomy)
    for (place, head), slopes in by_changes(model, anatomy).items():
        each = sums[place]
        for c, (kind, expected) in enumerate(mean_by_kind(slopes, KINDS).items()):
            cases = float(each.pairs_EC[:, c].sum())
            assert cases == sum(kind == found for found, _ in slopes)
            if expected is not None:
                found = float(each.gradient_EHC[:, head, c].sum()) / cases
                assert found == pytest.approx(expected, rel=1e-4, abs=1e-8)


@pytest.mark.once
@pytest.mark.parametrize("name", ["albert", "llama", "t5", "mpnet"])
def test_other_architectures(name: str) -> None:
    """Weights add up to 1 over kinds, and nothing of ours remains."""
    model, anatomy = examined(name)
    with leaving_no_trace(model, tiny.inputs(model)):
        sums, loss = attention_gradients(model, TinyTask(model), by_number, anatomy=anatomy)
    assert loss == pytest.approx(mean_loss(model), rel=1e-4)
    for each in sums.values():
        total_EH = each.attention_EHC.sum(-1)
        torch.testing.assert_close(
            total_EH, each.queries_E[:, None].expand_as(total_EH), rtol=1e-4, atol=1e-4
        )
        assert each.gradient_EHC.isfinite().all() and (each.gradient_EHC.sum((0, 2)) > 0).all()


def mean_loss(model: PreTrainedModel) -> float:
    task = TinyTask(model)
    with torch.no_grad():
        losses = [task.losses(model, batch) for batch in task.batches()]
    return float(
        sum(each.loss_E.sum() for each in losses) / sum(each.count_E.sum() for each in losses)
    )


def test_batches_of_any_size_say_the_same(bert: Path) -> None:
    loaded = load(bert)
    texts = {"text": ["the old man , who sleeps .", "a cat", "She saw the small house ! Why ?"]}
    task = build("masked-lm", loaded, texts)
    kinds = partial(token_kinds, loaded.encoder())
    one, _ = attention_gradients(loaded.model, task, kinds, max_tokens=1)
    all_at_once, _ = attention_gradients(loaded.model, task, kinds)
    assert one.keys() == all_at_once.keys() == {one.layer_id for one in loaded.anatomy.layers}
    for place, each in one.items():
        other = all_at_once[place]
        torch.testing.assert_close(each.gradient_EHC, other.gradient_EHC, rtol=1e-4, atol=1e-7)
        assert each.pairs_EC.equal(other.pairs_EC) and each.queries_E.equal(other.queries_E)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved.bert(tmp_path_factory.mktemp("bert"))


def test_kinds_of_tokens(bert: Path) -> None:
    loaded = load(bert)
    task = build("masked-lm", loaded, {"text": ["the man , who", "a"]}, masking=Masking(share=0.01))
    (batch,) = task.batches()
    kinds_RNC = token_kinds(loaded.encoder(), batch, "encoder.self")
    tokenizer = loaded.encoder().tokenizer
    for row, ids in enumerate(batch.inputs["input_ids"].tolist()):
        for n, token in enumerate(tokenizer.convert_ids_to_tokens(ids)):
            expected = {"[CLS]": "first", "[SEP]": "separator", ",": "punctuation"}.get(
                token, "other"
            )
            one_hot = [] if token == "[PAD]" else [KINDS.index(expected)]
            assert kinds_RNC[row, n].nonzero().flatten().tolist() == one_hot, token


def test_a_head_without_values_has_no_gradient() -> None:
    """A planted no-op: whatever the head looks at, the loss can't react."""
    model, anatomy = copy.deepcopy(examined("bert")[0]), examined("bert")[1]
    layer = anatomy.layers[1]
    with torch.no_grad():
        for parameter in model.get_submodule(f"{layer.module}.value").parameters():
            parameter[2 * layer.head_dim : 3 * layer.head_dim] = 0
    sums, _ = attention_gradients(model, TinyTask(model), by_number, anatomy=anatomy)
    total_H = sums[layer.layer_id].gradient_EHC.sum((0, 2))
    assert total_H[2] == 0 and (total_H[[0, 1, 3, 4]] > 0).all()


def made_up(reaction: Callable[[np.ndarray], np.ndarray]) -> dict[LayerId, KindSums]:
    """Two layers of 8 heads on 40 examples; the reaction to separators depends on attention."""
    rng = np.random.default_rng(5)
    found = {}
    for layer in range(2):
        sums, looks_H = KindSums(40, 8), rng.random(8)
        noise_EHC = rng.uniform(0.9, 1.1, (40, 8, len(KINDS)))
        sums.attention_EHC += torch.from_numpy(noise_EHC * looks_H[:, None] * 10)
        sums.gradient_EHC += torch.from_numpy(noise_EHC * 100)
        sums.gradient_EHC[..., 0] *= torch.from_numpy(reaction(looks_H))
        sums.pairs_EC += 100
        sums.queries_E += 10
        found[LayerId("encoder.self", layer)] = sums
    return found


def test_a_planted_no_op_is_found_and_noise_is_not() -> None:
    planted, *_ = no_ops(made_up(lambda looks_H: 1 - looks_H), Bootstrap(40, 100, 0))
    assert planted.kind == "separator" and planted.spearman < -0.98 and planted.high < -0.9
    noise, *_ = no_ops(made_up(lambda looks_H: np.ones(8)), Bootstrap(40, 100, 0))
    assert noise.low < 0.3 and noise.high > -0.3


def test_numbers_and_intervals(bert: Path) -> None:
    loaded = load(bert)
    task = build(
        "masked-lm", loaded, {"text": ["the man , who sleeps .", "a cat", "She saw ! Why ?"]}
    )
    found = sensitivity(loaded, task, samples=50)
    sums, loss = attention_gradients(loaded.model, task, partial(token_kinds, loaded.encoder()))
    assert found.record.loss == pytest.approx(loss) and found.record.examples == 3
    assert found.record.warnings[-1].startswith("intervals from 3 examples are wide or missing")
    for row in found.rows:
        each, c = sums[LayerId(row.site, row.layer)], KINDS.index(row.kind)
        heads = (
            slice(None) if row.head == "all" else slice(int(row.head[-1]), int(row.head[-1]) + 1)
        )
        gradient_C = each.gradient_EHC[:, heads].mean(1).sum(0) / each.pairs_EC.sum(0)
        expected = {
            "gradient": gradient_C[c],
            "attention": each.attention_EHC[:, heads].mean(1).sum(0)[c] / each.queries_E.sum(),
            "ratio": gradient_C[c] / gradient_C[-1],
        }[row.metric]
        assert row.value == pytest.approx(float(expected))
        assert math.isnan(row.low) and math.isnan(row.high), "three examples have no interval"


def test_refusals(bert: Path) -> None:
    model, anatomy = examined("vit")
    (batch, *_) = TinyTask(model).batches()
    loaded = load(bert)
    with pytest.raises(ModelError, match="Expected a model that reads tokens"):
        token_kinds(loaded.encoder(), batch, "encoder.self")
    with pytest.raises(InputError, match="Expected samples of at least 1"):
        sensitivity(loaded, build("masked-lm", loaded, {"text": ["a cat"]}), samples=0)
