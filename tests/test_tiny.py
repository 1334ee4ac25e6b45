"""The tiny models are fit to test with: they run, agree with themselves and attend to something."""

import copy

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests import tiny

EAGER_ONLY = frozenset({"gemma2"})
"""Softcapped scores: transformers refuses sdpa."""
PADDED = [name for name in tiny.MODELS if name not in {"roberta", "m2m_100", "whisper", "vit"}]
"""Left out: two count positions from the padding ids, two have an input without padding."""
SIDES = ("right", "left")


def _logits(model: PreTrainedModel, batch: dict[str, Tensor], implementation: str) -> Tensor:
    """Logits at the positions that are not padding, [tokens, classes]."""
    stock = copy.deepcopy(model)
    stock.set_attn_implementation(implementation)
    with torch.no_grad():
        logits = stock(**batch).logits
    mask = batch.get("decoder_attention_mask", batch.get("attention_mask"))
    return logits if mask is None else logits[mask.bool()]


def _masks(site: str, batch: dict[str, Tensor], weights: Tensor) -> tuple[Tensor, Tensor]:
    """Which queries and keys of a site's maps are tokens, [B, Q] and [B, K]."""
    num_batch, _, num_queries, num_keys = weights.shape
    source = batch.get("attention_mask")
    target = batch.get("decoder_attention_mask")
    if target is None:
        target = source
    query = target if site.startswith("decoder") else source
    key = target if site == "decoder.self" else source
    return (
        torch.ones(num_batch, num_queries).bool() if query is None else query.bool(),
        torch.ones(num_batch, num_keys).bool() if key is None else key.bool(),
    )


@pytest.mark.parametrize("name", tiny.TAPPED | tiny.REFUSED)
def test_built_the_same_twice_in_float32(name: str):
    build = (tiny.TAPPED | tiny.REFUSED)[name]
    one, two = build(), build()
    assert not one.training
    assert one.config.model_type == name
    for (key, tensor), other in zip(
        one.state_dict().items(), two.state_dict().values(), strict=True
    ):
        assert torch.equal(tensor, other), key
        assert not tensor.is_floating_point() or tensor.dtype == torch.float32, key


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", tiny.MODELS)
def test_eager_and_sdpa_agree_at_tokens(name: str, side: str):
    model = tiny.MODELS[name]()
    batch = tiny.inputs(model, side=side)
    eager = _logits(model, batch, "eager")
    assert torch.isfinite(eager).all()
    assert eager.std() > 0.1
    if name in EAGER_ONLY:
        with pytest.raises(ValueError, match="does not support"):
            _logits(model, batch, "sdpa")
    else:
        torch.testing.assert_close(_logits(model, batch, "sdpa"), eager, atol=1e-5, rtol=0)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", PADDED)
def test_padding_changes_no_token(name: str, side: str):
    model = tiny.MODELS[name]()
    batch = tiny.inputs(model, side=side)
    poisoned = dict(batch)
    for ids, mask in (
        ("input_ids", "attention_mask"),
        ("decoder_input_ids", "decoder_attention_mask"),
    ):
        if ids in batch:
            poisoned[ids] = torch.where(batch[mask].bool(), batch[ids], tiny.VOCAB - 1)
    torch.testing.assert_close(
        _logits(model, poisoned, "eager"), _logits(model, batch, "eager"), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", tiny.MODELS)
def test_attention_sums_to_one_on_tokens_and_is_not_uniform(name: str, side: str):
    model = tiny.MODELS[name]()
    batch = tiny.inputs(model, side=side)
    for site, layers in tiny.attention_maps(model, batch).items():
        for layer, weights in enumerate(layers):
            where = f"{site} {layer}"
            is_query_BQ, is_key_BK = _masks(site, batch, weights)
            rows_RHK = weights.transpose(1, 2)[is_query_BQ]
            keys_RK = is_key_BK.repeat_interleave(is_query_BQ.sum(1), dim=0)
            assert torch.allclose(rows_RHK.sum(-1), torch.ones(()), atol=1e-5), where
            assert rows_RHK.masked_fill(keys_RK[:, None], 0).abs().max() == 0, where
            seen_RH = (rows_RHK > 0).sum(-1)
            excess_RH = (rows_RHK.amax(-1) * seen_RH)[seen_RH > 1]
            assert excess_RH.mean() > 1.5, f"{where}: the largest weight is near the mean weight"
            means_H = rows_RHK.amax(-1).mean(0)
            assert len(set(means_H.tolist())) == weights.shape[1], f"{where}: two heads are alike"


@pytest.mark.parametrize("name", tiny.MODELS)
def test_attention_maps_have_the_sizes_of_the_config(name: str):
    model = tiny.MODELS[name]()
    maps = tiny.attention_maps(model, tiny.inputs(model))
    sizes = {site: (len(layers), *layers[0].shape[1:]) for site, layers in maps.items()}
    match name:
        case "marian" | "bart" | "m2m_100":
            assert sizes == {
                "encoder.self": (2, 5, 7, 7),
                "decoder.self": (3, 11, 13, 13),
                "decoder.cross": (3, 11, 13, 7),
            }
        case "t5":
            assert sizes["decoder.cross"] == (3, 5, 13, 7)
        case "whisper":
            assert sizes["encoder.self"] == (2, 5, 17, 17)
            assert sizes["decoder.cross"] == (3, 3, 13, 17)
        case "albert" | "modernbert":
            assert sizes == {"encoder.self": (3, 5, 7, 7)}
        case "vit":
            assert sizes == {"encoder.self": (2, 5, 17, 17)}
        case "gemma3_text":
            assert sizes == {"decoder.self": (3, 6, 7, 7)}
        case "llama" | "qwen3" | "gemma2":
            assert sizes == {"decoder.self": (2, 6, 7, 7)}
        case "gpt2" | "gpt_neox":
            assert sizes == {"decoder.self": (2, 5, 7, 7)}
        case _:
            assert sizes == {"encoder.self": (2, 5, 7, 7)}


def test_windows_are_narrower_than_the_batch():
    near = {"modernbert": 2, "gemma2": 2, "gemma3_text": 2}
    local_layers = {"modernbert": [1, 2], "gemma2": [0], "gemma3_text": [0, 2]}
    for name, reach in near.items():
        model = tiny.MODELS[name]()
        (layers,) = tiny.attention_maps(model, tiny.inputs(model)).values()
        for layer, weights in enumerate(layers):
            queries, keys = weights[0].amax(0).nonzero(as_tuple=True)
            widest = int((queries - keys).abs().max())
            assert widest == (reach if layer in local_layers[name] else 6), (name, layer)


def test_softcapping_changes_the_attention():
    model = tiny.MODELS["gemma2"]()
    batch = tiny.inputs(model)
    capped = tiny.attention_maps(model, batch)["decoder.self"][0]
    for layer in model.get_submodule("model.layers").children():
        vars(layer.get_submodule("self_attn"))["attn_logit_softcapping"] = None
    free = tiny.attention_maps(model, batch)["decoder.self"][0]
    assert (capped - free).abs().max() > 0.1


def test_albert_layers_are_one_module():
    model = tiny.MODELS["albert"]()
    assert model.config.num_hidden_layers == 3
    names = [name for name, _ in model.named_modules() if name.endswith(".attention")]
    assert len(names) == 1


def test_inputs_are_padded_on_the_side_asked_for_with_other_targets():
    model = tiny.MODELS["marian"]()
    right, left = tiny.inputs(model), tiny.inputs(model, side="left")
    assert right["attention_mask"].sum(1).tolist() == [7, 4, 2]
    assert right["decoder_attention_mask"].sum(1).tolist() == [3, 7, 13]
    assert right["attention_mask"][:, 0].all() and left["attention_mask"][:, -1].all()
    assert not left["attention_mask"][2, 0] and not right["attention_mask"][2, -1]
    for ids, mask in (
        ("input_ids", "attention_mask"),
        ("decoder_input_ids", "decoder_attention_mask"),
    ):
        assert torch.equal(right[ids][right[mask].bool()], left[ids][left[mask].bool()])
        assert right[ids][right[mask].bool()].min() >= tiny.FIRST_ID


def test_attention_maps_leave_the_model_alone():
    model = tiny.MODELS["llama"]()
    before = model.config._attn_implementation
    tiny.attention_maps(model, tiny.inputs(model))
    assert model.config._attn_implementation == before
