"""Norm and sink scores equal their definitions on the stock model's activations."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.core import InputError, LayerId, ModelError
from headcount.importance import norm, sink
from headcount.importance import query_means as from_measures
from headcount.importance.query_means import QuerySums
from headcount.tap import Anatomy, Tap
from headcount.tasks import TaskBatch
from headcount.testing import leaving_no_trace
from tests import tiny
from tests.examined import examined
from tests.tasks.tiny_task import LENGTHS, TinyTask
from tests.textbook import head_scores

NAMES = [
    "bert",
    "albert",
    "modernbert",
    "gpt2",
    "llama",
    "gemma2",
    "marian",
    "t5",
    "whisper",
    "vit",
]


def tokens(inputs: dict[str, Tensor], site: str, row: int, num: int) -> np.ndarray:
    """Mask of a row's tokens that are not padding."""
    decodes = site != "encoder.self" and "decoder_attention_mask" in inputs
    mask = inputs.get("decoder_attention_mask" if decodes else "attention_mask")
    return np.ones(num, dtype=bool) if mask is None else mask[row].bool().numpy()


def stock_outputs(
    model: PreTrainedModel, anatomy: Anatomy, inputs: dict[str, Tensor]
) -> dict[LayerId, Tensor]:
    """Inputs of every output projection of the stock eager model, [row, head, query, dim]."""
    stock = copy.deepcopy(model)
    stock.set_attn_implementation("eager")
    seen: dict[str, list[Tensor]] = {}

    def keep(path: str):
        def hook(module: nn.Module, args: tuple[Tensor, ...]) -> None:
            seen.setdefault(path, []).append(args[0])

        return hook

    for path in {layer.output for layer in anatomy.layers if layer.output}:
        stock.get_submodule(path).register_forward_pre_hook(keep(path))
    with torch.no_grad():
        stock(**inputs)
    found = {}
    for layer in anatomy.layers:
        assert layer.output is not None
        parts = seen[layer.output][layer.call].unflatten(-1, (layer.num_heads, layer.head_dim))
        found[layer.layer_id] = parts.transpose(1, 2)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_norm_is_the_textbook(name: str):
    model, anatomy = examined(name)
    task = TinyTask(model)
    lengths: dict[LayerId, list[list[list[float]]]] = {}
    for inputs in task.inputs:
        outputs = stock_outputs(model, anatomy, inputs)
        for layer in anatomy.layers:
            place = layer.layer_id
            W_O = layer.output_weight(model).numpy()
            for row, output in enumerate(outputs[place].numpy()):
                kept = output[:, tokens(inputs, layer.site, row, output.shape[1])]
                lengths.setdefault(place, []).append(head_scores.output_norms(kept, W_O))
    found = norm(model, task, anatomy)
    assert set(found) == set(lengths)
    for place, sentences in lengths.items():
        expected = head_scores.layer_normalised(sentences)
        assert found[place].tolist() == pytest.approx(expected, rel=1e-5)
        assert found[place].dtype == torch.float64


def sink_textbook(model: PreTrainedModel, batches: list[dict[str, Tensor]]) -> dict[LayerId, list]:
    sentences: dict[LayerId, list[np.ndarray]] = {}
    for inputs in batches:
        for site, maps in tiny.attention_maps(model, inputs).items():
            keys = "encoder.self" if site == "decoder.cross" else site
            for layer, A in enumerate(maps):
                for row, A_HQK in enumerate(A.numpy()):
                    is_query = tokens(inputs, site, row, A_HQK.shape[1])
                    is_key = tokens(inputs, keys, row, A_HQK.shape[2])
                    sentences.setdefault(LayerId(site, layer), []).append(
                        A_HQK[:, is_query][..., is_key]
                    )
    return {place: head_scores.sink_scores(each) for place, each in sentences.items()}


@pytest.mark.parametrize("name", NAMES)
def test_sink_is_the_textbook(name: str):
    model, anatomy = examined(name)
    task = TinyTask(model)
    expected = sink_textbook(model, task.inputs)
    found = sink(model, task, anatomy)
    assert set(found) == set(expected)
    for place in expected:
        assert found[place].tolist() == pytest.approx(expected[place], abs=1e-6)
        assert (found[place] <= 0).all() and (found[place] >= -1 - 1e-6).all()


@pytest.mark.parametrize("name", ["bert", "llama", "marian", "t5"])
def test_padding_on_the_left_moves_the_first_token(name: str):
    model, anatomy = examined(name)
    task = TinyTask(model)
    task.inputs = [tiny.inputs(model, lengths, side="left") for lengths in LENGTHS]
    expected = sink_textbook(model, task.inputs)
    found = sink(model, task, anatomy)
    assert found.keys() == expected.keys()
    for place, scores in found.items():
        assert scores.tolist() == pytest.approx(expected[place], abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("score", [norm, sink])
def test_blocks_of_any_size_say_the_same(score, monkeypatch: pytest.MonkeyPatch):
    model, anatomy = examined("marian")
    dense = score(model, TinyTask(model), anatomy)
    monkeypatch.setattr(from_measures, "Tap", partial(Tap, block=11))
    found = score(model, TinyTask(model), anatomy)
    assert found.keys() == {layer.layer_id for layer in anatomy.layers}
    for place, scores in found.items():
        torch.testing.assert_close(scores, dense[place], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("score", [norm, sink])
def test_one_forward_a_batch_and_no_trace(score):
    model, anatomy = examined("llama")
    task = TinyTask(model)
    with leaving_no_trace(model, tiny.inputs(model)):
        score(model, task, anatomy)
    assert task.runs == [3, 2]


def test_a_silent_head_has_no_norm_and_the_layer_has_mean_one():
    model = copy.deepcopy(examined("bert")[0])
    anatomy = examined("bert")[1]
    layer = anatomy.layers[1]
    value = model.get_submodule(f"{layer.module}.value")
    with torch.no_grad():
        for parameter in value.parameters():
            parameter[2 * layer.head_dim : 3 * layer.head_dim] = 0
    found = norm(model, TinyTask(model), anatomy)[LayerId("encoder.self", 1)]
    assert found[2] == 0 and (found[[0, 1, 3, 4]] > 0).all()
    assert float(found.mean()) == pytest.approx(1)


def test_heads_of_a_silent_layer_are_zero():
    model = copy.deepcopy(examined("bert")[0])
    anatomy = examined("bert")[1]
    with torch.no_grad():
        for parameter in model.get_submodule(f"{anatomy.layers[1].module}.value").parameters():
            parameter.zero_()
    assert norm(model, TinyTask(model), anatomy)[LayerId("encoder.self", 1)].tolist() == [0] * 5


def test_a_layer_without_an_output_projection_is_not_a_number():
    model, anatomy = examined("bert")
    first, *rest = anatomy.layers
    found = norm(model, TinyTask(model), Anatomy((replace(first, output=None), *rest)))
    assert (
        found[LayerId("encoder.self", 0)].isnan().all()
        and found[LayerId("encoder.self", 1)].isfinite().all()
    )


def test_a_broken_head_is_named():
    model = copy.deepcopy(examined("bert")[0])
    anatomy = examined("bert")[1]
    layer = anatomy.layers[1]
    with torch.no_grad():
        model.get_parameter(f"{layer.module}.value.bias")[3 * layer.head_dim] = torch.inf
    with pytest.raises(ModelError, match=r"head enc\.1\.3 gave NaN or infinity"):
        norm(model, TinyTask(model), anatomy)


def test_a_broken_layer_is_no_layer_that_could_not_be_measured():
    model = copy.deepcopy(examined("bert")[0])
    anatomy = examined("bert")[1]
    with torch.no_grad():
        model.get_parameter(f"{anatomy.layers[1].module}.query.bias").fill_(torch.nan)
    with pytest.raises(ModelError, match=r"head enc\.1\.0 gave NaN or infinity"):
        sink(model, TinyTask(model), anatomy)


class Empty(TinyTask):
    """A task without examples."""

    def batches(self, max_tokens: int = 4096) -> Iterator[TaskBatch]:
        return iter(())


def test_an_empty_task_is_refused():
    model, anatomy = examined("bert")
    with pytest.raises(InputError, match="Expected at least one example in the task tiny"):
        sink(model, Empty(model), anatomy)


def test_sums_add():
    parts = [QuerySums(torch.tensor([n, 2.0 * n], dtype=torch.float64), n) for n in (1, 2, 5)]
    dense = parts[0] + parts[1] + parts[2]
    assert (dense.total.tolist(), dense.queries) == ([8, 16], 8)
    assert dense.value().tolist() == [1, 2] == ((parts[2] + parts[0]) + parts[1]).value().tolist()
