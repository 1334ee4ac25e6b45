"""The rule set `alpha_beta`: equal to the textbook, and absolute values are kept."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from headcount.core import ModelError
from headcount.importance import relevance, token_relevance
from headcount.importance.lrp import alpha_beta as lrp_alpha_beta
from headcount.importance.lrp import alpha_beta_attention
from headcount.importance.lrp import rules as lrp_rules
from headcount.importance.lrp.propagation import Lrp
from tests import tiny
from tests.examined import examined, examined_double
from tests.importance.lrp_cases import (
    InDouble,
    double_inputs,
    first_two,
    rows,
    set_activation,
    top_of_first,
)
from tests.tasks import loaded as small
from tests.tasks.tiny_task import TinyTask
from tests.textbook import lrp as z_rules
from tests.textbook import lrp_alpha_beta as textbook

MODELS = pytest.mark.parametrize("name", ["bert", "llama", "marian"])


def slow(name: str, row: dict[str, Tensor], positions: list[int]) -> tuple[Any, Any]:
    """Relevance of tokens by side and of heads by site, of one row without padding."""
    model, _ = examined_double(name)
    config, weights = model.config, {n: each.numpy() for n, each in model.state_dict().items()}
    is_token = {n: each.bool() for n, each in row.items() if n.endswith("attention_mask")}
    ids = {
        n: each[is_token[n.replace("input_ids", "attention_mask")]][None]
        for n, each in row.items()
        if n.endswith("input_ids")
    }
    with torch.no_grad(), InDouble():
        states = model(**ids, output_hidden_states=True)
    if name == "marian":
        x, y = (states[f"{side}_hidden_states"][0][0].numpy() for side in ("encoder", "decoder"))
        num_heads = config.encoder_attention_heads, config.decoder_attention_heads
        R_x, R_y, heads = textbook.marian(x, y, weights, num_heads, positions)
        return {"encoder": R_x.sum(1), "decoder": R_y.sum(1)}, heads
    x = states.hidden_states[0][0].numpy()
    if name == "bert":
        R, heads = textbook.bert(x, weights, config.num_attention_heads, positions)
        return {"encoder": R.sum(1)}, {"encoder.self": heads}
    groups = config.num_attention_heads, config.num_key_value_heads
    theta = config.rope_parameters["rope_theta"]
    R, heads = textbook.llama(x, weights, *groups, theta, positions)
    return {"decoder": R.sum(1)}, {"decoder.self": heads}


@pytest.mark.slow
@MODELS
def test_heads_equal_the_textbook_step_by_step_and_together(name: str) -> None:
    model, anatomy = examined_double(name)
    steps, together = [], []
    for row, positions in rows(name):
        steps += [slow(name, row, [position])[1] for position in positions]
        together += [slow(name, row, positions)[1]] * len(positions)
    run = partial(relevance, model, TinyTask(model), "alpha_beta", anatomy, start=first_two)
    for per_step, expected in ((True, steps), (False, together)):
        with InDouble():
            found = run(per_step=per_step)
        assert (found.num_steps, found.rules) == (8, "alpha_beta")
        for (site, layer), scores_H in found.scores.items():
            shares = [z_rules.normalised([step[site][layer]])[0] for step in expected]
            np.testing.assert_allclose(scores_H.numpy(), np.mean(shares, 0), rtol=1e-6, atol=1e-9)


@pytest.mark.once
@MODELS
def test_tokens_equal_the_textbook(name: str) -> None:
    model, anatomy = examined_double(name)
    inputs = tiny.inputs(model)
    with InDouble():
        found = token_relevance(
            model, inputs, lambda output: output.logits[:, 1].amax(-1), "alpha_beta", anatomy
        )
    for number in range(3):
        tokens, _ = slow(name, {n: each[number] for n, each in inputs.items()}, [1])
        assert tokens.keys() == found.keys()
        for side, expected in tokens.items():
            ours = found[side][number]
            np.testing.assert_allclose(ours[: len(expected)], expected, rtol=1e-6, atol=1e-9)
            assert not ours[len(expected) :].any()


def test_the_textbook_shares_by_definition() -> None:
    rng = np.random.default_rng(3)
    z, R = rng.normal(size=(5, 7)), rng.normal(size=5)
    np.testing.assert_allclose(textbook.shares(z, R), textbook.shares_fast(z, R))


@pytest.mark.parametrize("name", sorted(set(tiny.MODELS) - {"gemma2"}))
def test_relevance_of_tokens_is_a_share_with_all_biases(name: str) -> None:
    model, anatomy = examined_double(name)
    with InDouble():
        found = token_relevance(
            model, double_inputs(model), top_of_first([]), "alpha_beta", anatomy
        )
    assert all((part >= 0).all() for part in found.values())
    total_R = torch.stack([part.sum(1) for part in found.values()]).sum(0)
    torch.testing.assert_close(total_R, torch.ones_like(total_R), rtol=1e-9, atol=0)


def test_relevance_is_kept_unscaled_where_contributions_have_both_signs() -> None:
    z_NOI, R_NO = drawn(5, 11, 13), drawn(5, 11, seed=1).abs()
    assert (z_NOI > 0).any(-1).all() and (z_NOI < 0).any(-1).all()
    kept_N = lrp_rules.shares(z_NOI, R_NO).sum(1)
    torch.testing.assert_close(kept_N, R_NO.sum(1), rtol=1e-4, atol=0)
    half_N = lrp_rules.shares(z_NOI.abs(), R_NO).sum(1)
    torch.testing.assert_close(half_N, R_NO.sum(1) / 2, rtol=1e-4, atol=0)


def back_through(
    module: Callable[..., Tensor], R: Tensor, *inputs: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The output of a rule, and the relevance of its inputs."""
    leaves = [each.clone().requires_grad_() for each in inputs]
    output = module(*leaves)
    return output.detach(), torch.autograd.grad(output, leaves, R)


def drawn(*shape: int, seed: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("block", [1, 200, 10**6])
def test_linear_maps_share_alike_in_all_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lrp_alpha_beta, "BLOCK", block)
    x, w, b, R = drawn(2, 3, 7), drawn(5, 7, seed=1), drawn(5, seed=2), drawn(2, 3, 5, seed=4)
    R[..., 1], R[0, 2] = 0, 0  # an output and a vector without relevance
    written: list[tuple[Callable[..., Tensor], Any]] = [
        (lambda u: lrp_alpha_beta.linear(functional.linear, u, w, b), b),
        (lambda u: lrp_alpha_beta.linear(functional.linear, u, w), 0.0),
        (lambda u: lrp_alpha_beta.matrix_product(torch.matmul, u, w.T), 0.0),
        (lambda u: lrp_alpha_beta.affine(torch.addmm, b, u.view(-1, 7), w.T).view(2, 3, 5), b),
    ]
    for rule, bias in written:
        output, (found,) = back_through(rule, R, x)
        flat, bias = x.flatten(0, 1).numpy(), np.asarray(bias)
        z, back = textbook.linear(flat, w.numpy(), bias)
        np.testing.assert_allclose(output.flatten(0, 1), z)
        np.testing.assert_allclose(found.flatten(0, 1), back(R.flatten(0, 1).numpy()), rtol=1e-9)


@pytest.mark.parametrize("block", [1, 200, 10**6])
@pytest.mark.parametrize("eps", [1e-5, 0.5])
def test_norms_share_by_their_whole_jacobian(
    block: int, eps: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lrp_alpha_beta, "BLOCK", block)
    x, weight, bias, R = drawn(2, 3, 7), drawn(7, seed=5), drawn(7, seed=6), drawn(2, 3, 7, seed=7)
    R[0, 2] = 0
    flat, w, b = x.flatten(0, 1).numpy(), weight.numpy(), bias.numpy()
    layer_norm = partial(
        functional.layer_norm, normalized_shape=(7,), weight=weight, bias=bias, eps=eps
    )
    for rule, (y, back) in (
        (
            lambda u: lrp_alpha_beta.layer_norm(functional.layer_norm, u, (7,), weight, bias, eps),
            textbook.layer_norm(flat, w, b, eps),
        ),
        (
            lambda u: lrp_alpha_beta.norm(
                layer_norm, u, layer_norm(u)
            ),  # as if written in a module
            textbook.layer_norm(flat, w, b, eps),
        ),
        (
            lambda u: lrp_alpha_beta.rms_norm(functional.rms_norm, u, (7,), weight, eps),
            textbook.rms_norm(flat, w, eps),
        ),
    ):
        output, (found,) = back_through(rule, R, x)
        np.testing.assert_allclose(output.flatten(0, 1), y)
        np.testing.assert_allclose(found.flatten(0, 1), back(R.flatten(0, 1).numpy()), rtol=1e-9)


def test_norms_written_out_in_a_module_are_found() -> None:
    for name, kind in (
        ("llama", "LlamaRMSNorm"),
        ("qwen3", "Qwen3RMSNorm"),
        ("gemma3_text", "Gemma3RMSNorm"),
        ("t5", "T5LayerNorm"),
    ):
        model, _ = examined(name)
        expected = [each for each in model.modules() if type(each).__name__ == kind]
        assert expected and lrp_alpha_beta.norms(model) == expected
    for name in ("bert", "vit", "whisper", "gpt2"):
        assert lrp_alpha_beta.norms(examined(name)[0]) == []


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(drawn(7).float())

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


class Gated(Scaled):
    def forward(self, x: Tensor, gate: Tensor | None = None) -> Tensor:
        normed = functional.rms_norm(x, (7,), self.weight)
        return normed if gate is None else normed * gate


def test_scales_and_norms_with_a_gate_are_no_norms() -> None:
    for module in (Scaled(), Gated()):
        model = copy.deepcopy(examined("bert")[0])
        model.extra = module  # type: ignore[assignment]
        assert lrp_alpha_beta.norms(model) == []


def masks(kind: str) -> Tensor | None:
    """Masks of attention of 2 rows and 4 heads, 5 queries and 3 keys."""
    sees = torch.tensor([[1, 1, 0], [1, 0, 1], [1, 1, 1], [0, 1, 1], [1, 0, 0]]).bool()
    bias = drawn(1, 4, 5, 3, seed=9).masked_fill(~sees, torch.finfo(torch.float64).min)
    unseeing = sees.clone()
    unseeing[2] = False
    return {"none": None, "boolean": sees, "bias": bias, "unseeing": unseeing[None, None]}[kind]


@pytest.mark.parametrize("mask", ["none", "boolean", "bias", "unseeing"])
@pytest.mark.parametrize("block", [1, 150, 10**6])
def test_attention_shares_by_its_whole_jacobian(
    mask: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alpha_beta_attention, "BLOCK", block)
    q, k, v = drawn(2, 4, 5, 6), drawn(2, 4, 3, 6, seed=1), drawn(2, 4, 3, 7, seed=2)
    R, scale, attn_mask = drawn(2, 4, 5, 7, seed=4), 0.3, masks(mask)
    fused = partial(functional.scaled_dot_product_attention, scale=scale)
    rule = partial(
        alpha_beta_attention.attention, functional.scaled_dot_product_attention, scale=scale
    )
    output, found = back_through(partial(rule, attn_mask=attn_mask), R, q, k, v)
    torch.testing.assert_close(output, fused(q, k, v, attn_mask=attn_mask))
    for row, head in np.ndindex(2, 4):
        cut = None if attn_mask is None else attn_mask.expand(2, 4, 5, 3)[row, head]
        mine = tuple(each[row, head] for each in (q, k, v))
        jacobians = torch.autograd.functional.jacobian(partial(fused, attn_mask=cut), mine)
        pairs = zip(jacobians, mine, strict=True)
        z = torch.cat([(J * x).flatten(2).flatten(0, 1) for J, x in pairs], 1)
        parts = textbook.shares_fast(np.nan_to_num(z.numpy()), R[row, head].flatten().numpy())
        (expected,) = textbook.scaled([parts], R[row, head].numpy())
        ours = torch.cat([each[row, head].flatten() for each in found])
        # Scores of a query that sees one key have no share, but for what output and value differ by
        np.testing.assert_allclose(ours, expected, rtol=1e-8, atol=1e-10)


def test_heads_that_queries_share_take_the_sum() -> None:
    q, k, v = drawn(2, 4, 5, 6), drawn(2, 2, 3, 6, seed=1), drawn(2, 2, 3, 6, seed=2)
    R = drawn(2, 4, 5, 6, seed=4)
    rule = partial(alpha_beta_attention.attention, functional.scaled_dot_product_attention)
    _, found = back_through(partial(rule, enable_gqa=True), R, q, k, v)
    wide = [each.repeat_interleave(2, 1) for each in (k, v)]
    _, expected = back_through(rule, R, q, *wide)
    torch.testing.assert_close(found[0], expected[0])
    for part, dense in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(part, dense.unflatten(1, (2, 2)).sum(2))


def flowing(function: Callable[..., Tensor], *inputs: list[float]) -> tuple[list[float], ...]:
    """Relevance of one row of inputs, starting from 1 at every output of a function of them."""
    leaves = [torch.tensor([each], dtype=torch.float64, requires_grad=True) for each in inputs]
    with Lrp(examined("bert")[0], "alpha_beta") as lrp:
        starts = function(*leaves)
    torch.testing.assert_close(starts, function(*leaves))
    lrp.check(starts)
    return tuple(part[0].tolist() for part in lrp.relevance(starts.sum(), leaves))


CONSTANT = torch.tensor([[5.0, 5, -5]], dtype=torch.float64)


@pytest.mark.parametrize(
    "function",
    [
        lambda u: u * 5,
        lambda u: 5 * u,
        lambda u: u * CONSTANT,
        lambda u: (u + 0).mul_(5),
        lambda u: u / CONSTANT,
        lambda u: -u,
        lambda u: 1 - u,
        lambda u: u + CONSTANT[0],
        lambda u: functional.gelu(u),
        lambda u: functional.glu(torch.cat([u, u.detach()], -1)),
        lambda u: u * torch.sigmoid(u),
    ],
)
def test_scales_shifts_non_linearities_and_gates_pass_relevance(
    function: Callable[[Tensor], Tensor],
) -> None:
    assert flowing(function, [3.0, -1.0, 0.0]) == ([1.0, 1.0, 1.0],)


def test_what_is_masked_gets_nothing_and_copies_add_up() -> None:
    mask = torch.tensor([[1.0, 0, 1]], dtype=torch.float64)
    assert flowing(lambda u: u * mask + 1, [3.0, -1.0, 2.0]) == ([1.0, 0.0, 1.0],)
    assert flowing(lambda u: u[:, None].expand(1, 4, 2), [3.0, -1.0]) == ([4.0, 4.0],)
    found = flowing(lambda u, w: u[:, None] * w[..., None], [3.0, -1.0], [2.0, 1.0, 5.0])
    assert found == ([1.5, 1.5], [1.0, 1.0, 1.0])


def test_sums_and_differences_of_two_share_by_sign() -> None:
    # 3 and 1 share half of the first 1; 2 and -5 take half of the second each: 1.5 of 2 is given
    parts = [3 / 8, 1 / 2], [1 / 8, 1 / 2]
    expected = [pytest.approx([each * 2 / 1.5 for each in part], rel=1e-4) for part in parts]
    x, y = [3.0, 2.0], [1.0, -5.0]
    opposite = [-each for each in y]
    assert list(flowing(torch.add, x, y)) == expected
    assert list(flowing(lambda u, w: u - w, x, opposite)) == expected
    assert list(flowing(lambda u, w: torch.add(u, w, alpha=-1), x, opposite)) == expected
    assert list(flowing(lambda u, w: torch.sub(u, w, alpha=2), x, [-0.5, 2.5])) == expected
    # A constant of the same shape gets a share too, which is discarded
    constant = torch.tensor([y], dtype=torch.float64)
    assert flowing(lambda u: u + constant, x)[0] == expected[0]
    assert flowing(lambda u: constant + u, x)[0] == expected[0]


@pytest.mark.parametrize(
    "function",
    [
        lambda u: u.sum(1),
        lambda u: u.sum((0, 1)),
        lambda u: u.sum(),
        lambda u: 3 * u.mean(-1, keepdim=True),
        lambda u: torch.einsum("nw,nw->n", u, CONSTANT.abs()),
        lambda u: torch.einsum("nw,nw->n", CONSTANT.abs(), u),
    ],
)
def test_sums_along_an_axis_share_by_sign(function: Callable[[Tensor], Tensor]) -> None:
    # half for 3 and 2, half for -1
    assert flowing(function, [3.0, -1.0, 2.0])[0] == pytest.approx([0.3, 0.5, 0.2], rel=1e-4)


@pytest.mark.parametrize(
    "function",
    [
        lambda u, w: torch.matmul(w, u),
        lambda u, w: w.expand(2, 4, 3) @ u,
        lambda u, w: torch.bmm(w.expand(2, 4, 3), u),
        lambda u, w: torch.bmm(u.mT, w.mT.expand(2, 3, 4)).mT,
        lambda u, w: torch.einsum("nid,ji->njd", u, w),
    ],
)
def test_products_that_mix_vectors_share_row_by_row(function: Callable[..., Tensor]) -> None:
    u, w = drawn(2, 3, 5).requires_grad_(), drawn(4, 3, seed=1)
    with Lrp(examined("bert")[0], "alpha_beta") as lrp:
        starts = function(u, w)
    lrp.check(starts)
    (found,) = lrp.relevance(starts.sum(), [u])
    for row in (0, 1):
        x = u[row].detach()
        z = np.einsum("ji,de,id->jeid", w, np.eye(5), x).reshape(20, 15)
        (expected,) = textbook.scaled([textbook.shares_fast(z, np.ones(20))], np.ones(20))
        np.testing.assert_allclose(found[row].flatten(), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        (r"softmax", lambda x: x.softmax(-1)),
        (r"bmm \(of two activations\)", lambda x: x @ x.mT @ x),
        (r"sigmoid", lambda x: torch.sigmoid(x)),
        (r"div \(by an activation\)", lambda x: x / x.detach().add(9).mul(x * 0 + 1)),
        (r"sqrt", lambda x: x.abs().detach().sqrt() * x.square().sqrt()),
        (r"cumsum", lambda x: x.cumsum(-1)),
        (r"bmm.*", lambda x: torch.einsum("nij,nkj->nik", x, x) @ x.detach()),
        (r"layer_norm", lambda x: functional.layer_norm(x, x.shape[1:])),
    ],
)
def test_an_operation_without_a_rule_is_refused_by_name(
    name: str, function: Callable[[Tensor], Tensor]
) -> None:
    class Act(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(x)

    model, anatomy = examined("bert")
    model = copy.deepcopy(model)
    set_activation(model, Act())
    with pytest.raises(ModelError, match=rf"uses ({name}) on.* which alpha_beta has no rule"):
        token_relevance(model, tiny.inputs(model), top_of_first([]), "alpha_beta", anatomy)


@pytest.mark.parametrize(
    "function",
    [
        lambda u, w: u @ w.mT,
        lambda u, w: torch.einsum("ni,mi->nm", u, w),
        lambda u, w: functional.linear(u, w),
        lambda u, w: torch.addmm(w[0, :1], u, CONSTANT.mT),
        lambda u, w: torch.addmm(CONSTANT[0, :1], u, w.mT),
    ],
)
def test_products_of_two_activations_are_refused(function: Callable[..., Tensor]) -> None:
    with pytest.raises(ModelError, match="of two activations|addmm"):
        flowing(function, [3.0, -1.0, 2.0], [1.0, 2.0, 3.0])


def test_capped_scores_are_refused() -> None:
    model, anatomy = examined("gemma2")
    with pytest.raises(ModelError, match="for which alpha_beta has no rule"):
        relevance(model, TinyTask(model), "alpha_beta", anatomy, start=first_two)


@pytest.mark.once
@pytest.mark.parametrize(
    "name",
    ["classes-bert", "similarity-bert", "masked-bert", "causal-gpt2", "translation-Marian"],
)
def test_heads_of_a_layer_share_one_on_every_task(name: str) -> None:
    loaded, task = small.TASKS[name]()
    few, many = (
        relevance(loaded.model, task, "alpha_beta", loaded.anatomy, max_tokens=size)
        for size in (40, 10**6)
    )
    assert few.scores.keys() == {layer.layer_id for layer in loaded.anatomy.layers}
    for place, scores_H in few.scores.items():
        assert (scores_H > 0).all() and scores_H.sum().item() == pytest.approx(1, rel=1e-6)
        torch.testing.assert_close(scores_H, many.scores[place], rtol=1e-3, atol=1e-4)
