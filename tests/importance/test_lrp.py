"""Rules of relevance: none is lost, no module is missed, and no trace remains."""

import copy
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.activations import ACT2FN

from headcount.core import InputError, ModelError
from headcount.importance import token_relevance
from headcount.importance.choices import Rules
from headcount.importance.lrp import propagation
from headcount.importance.lrp.propagation import Lrp
from headcount.importance.lrp.rules import passed
from headcount.testing import leaving_no_trace
from tests import tiny
from tests.examined import examined
from tests.importance.lrp_cases import (
    InDouble,
    double_inputs,
    set_activation,
    top_of_first,
    without_biases,
)

RULES = pytest.mark.parametrize("rules", propagation.RULES)


@pytest.fixture(scope="module")
def plain() -> Any:
    """A minimal model: rules are tested on functions, not on it."""
    return examined("bert")[0]


def assert_kept(name: str, rules: str, side: str = "right", activation: Any = None) -> None:
    """Relevance of all tokens of each row adds up to the logit it started from."""
    model, anatomy = without_biases(name)
    if activation is not None:
        model = copy.deepcopy(model)
        set_activation(model, activation)
    seen: list[Tensor] = []
    with InDouble():
        start, inputs = top_of_first(seen), double_inputs(model, side)
        parts = token_relevance(model, inputs, start, rules, anatomy)  # type: ignore[arg-type]
    total_R = sum(part.sum(1) for part in parts.values())
    assert all(part.isfinite().all() for part in parts.values())
    torch.testing.assert_close(total_R, seen[0].detach(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", [*tiny.MODELS, *sorted(tiny.OWN_SOFTMAX.keys() - {"xglm"})])
def test_relevance_adds_up_to_the_logit(name: str) -> None:
    """The stock XGLM does not run in float64."""
    assert_kept(name, "voita2019")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "llama", "m2m_100"])
def test_it_does_with_padding_on_the_left(name: str) -> None:
    # In a row padded on the left the first position is padding: it counts all the same.
    assert_kept(name, "voita2019", "left")


@pytest.mark.parametrize("name", sorted(set(tiny.MODELS) - {"t5"}))
def test_attnlrp_loses_relevance_in_the_softmax_only(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # T5 adds a position bias to the scores, which gets a share too.
    def through(function: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return passed(x, function(x.detach(), *args, **kwargs))

    monkeypatch.setitem(propagation.ATTNLRP, "softmax", through)
    assert_kept(name, "attnlrp")


@pytest.mark.parametrize(
    "activation",
    [
        "gelu_new",
        "gelu_python",
        "gelu_fast",
        "quick_gelu",
        "gelu_pytorch_tanh",
        "silu",
        "relu2",
        "mish",
        "tanh",
        "leaky_relu",
        "gelu_accurate",
    ],
)
def test_activations_however_written_pass_relevance(activation: str) -> None:
    assert_kept("bert", "voita2019", activation=ACT2FN[activation])
    assert_kept("llama", "voita2019", activation=ACT2FN[activation])


def test_activations_written_out_or_in_place_pass_relevance() -> None:
    for written in (
        lambda x: x * torch.sigmoid(x),
        lambda x: x * 0.5 * (1.0 + torch.erf(x / 2**0.5)),
        lambda x: functional.silu(x + 0, inplace=True),
        lambda x: torch.relu_(x + 0),
    ):
        assert_kept("bert", "voita2019", activation=_Act(written))


class _Act(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class _Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x**3

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return grads[0]


REFUSED = {
    "exp": lambda x: torch.exp(x),
    "sin": lambda x: x.sin(),
    "log1p": lambda x: (x * x).log1p(),
    "sigmoid": lambda x: torch.sigmoid(x),
    "pow": lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * torch.pow(x, 3)))),
    r"bmm \(of two activations\)": lambda x: x @ x.mT @ x,
    "reciprocal": lambda x: 1 / (x + 9),
    r"div \(by an activation\)": lambda x: torch.ones(x.shape) / (x + 9),
    "log_softmax": lambda x: functional.log_softmax(x, -1),
    "cumprod": lambda x: x.cumprod(-1),
    "abs": lambda x: x.abs(),
    "_own": _Own.apply,
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_operation_without_a_rule_is_refused_by_name(name: str) -> None:
    model, anatomy = examined("bert")
    model = copy.deepcopy(model)
    set_activation(model, _Act(REFUSED[name]))
    inputs = tiny.inputs(model)
    with (
        leaving_no_trace(model, inputs),
        pytest.raises(ModelError, match=rf"uses {name} on the way"),
    ):
        token_relevance(model, inputs, top_of_first([]), "voita2019", anatomy)


def test_operations_beside_the_way_do_not_matter() -> None:
    model, anatomy = examined("bert")
    model = copy.deepcopy(model)
    found = []
    for act in (functional.gelu, lambda x: (torch.exp(x), functional.gelu(x))[1]):
        set_activation(model, _Act(act))
        inputs = tiny.inputs(model)
        (relevance,) = token_relevance(
            model, inputs, top_of_first([]), "voita2019", anatomy
        ).values()
        found.append(relevance)
    assert torch.equal(*found) and found[0].any()


@RULES
@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_nothing_is_left_behind(name: str, rules: Any) -> None:
    model, anatomy = examined(name)
    inputs = tiny.inputs(model)
    model.train()
    flags = [parameter.requires_grad for parameter in model.parameters()]
    try:
        with leaving_no_trace(model, inputs):
            token_relevance(model, inputs, top_of_first([]), rules, anatomy)
        with leaving_no_trace(model, inputs), pytest.raises(ZeroDivisionError):
            token_relevance(model, inputs, lambda output: 1 / 0, rules, anatomy)  # type: ignore
    finally:
        model.eval()
    assert [parameter.requires_grad for parameter in model.parameters()] == flags
    assert not torch.overrides._get_current_function_mode_stack()


@RULES
@pytest.mark.parametrize("name", ["bert", "llama", "gpt2", "t5", "gemma2", "modernbert"])
def test_outputs_are_those_of_the_model(name: str, rules: str) -> None:
    model, _ = examined(name)
    inputs = tiny.inputs(model)
    with torch.no_grad():
        stock = model(**inputs).logits
    with Lrp(model, rules):
        hidden = torch.ones(1, requires_grad=True)
        handle = model.get_input_embeddings().register_forward_hook(
            lambda module, args, output: torch.mul(hidden, output)  # type: ignore[arg-type]
        )
        ours = model(**inputs).logits
    handle.remove()
    torch.testing.assert_close(ours.detach(), stock, rtol=1e-5, atol=2e-5)


def test_an_unknown_rule_set_and_broken_logits_are_refused(plain: Any) -> None:
    with pytest.raises(
        InputError,
        match="Expected a rule set out of voita2019, attnlrp, relp, alpha_beta, got 'zero'",
    ):
        Lrp(plain, "zero")
    with Lrp(plain, "voita2019") as context:
        start = torch.ones(2, requires_grad=True) * torch.tensor([1, torch.nan])
    with pytest.raises(ModelError, match="Expected finite logits"):
        context.check(start)


def test_the_command_line_offers_every_rule_set() -> None:
    assert get_args(Rules) == tuple(propagation.RULES)


def shared(plain: Any, rules: str, function: Any, *factors: list[float]) -> list[list[float]]:
    """Relevance of an operation's two inputs, from its summed output."""
    leaves = [torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in factors]
    with Lrp(plain, rules) as context:
        start = function(*leaves).sum()
    context.check(start)
    return [part.tolist() for part in context.relevance(start, leaves)]


def test_products_share_by_half_or_by_size(plain: Any) -> None:
    u, w = [3.0, -2.0, 1.0], [1.0, 4.0, -1.0]
    assert shared(plain, "attnlrp", torch.mul, u, w) == [[1.5, -4, -0.5], [1.5, -4, -0.5]]
    by_size = shared(plain, "voita2019", lambda a, b: a * b, u, w)
    # u / (u + w) = 3/4 and -1, w / (u + w) = 1/4 and 2; where they cancel, half
    assert by_size[0] == pytest.approx([2.25, 8, -0.5], rel=2e-3)
    assert by_size[1] == pytest.approx([0.75, -16, -0.5], rel=2e-3)
    assert sum(by_size[0]) + sum(by_size[1]) == pytest.approx(3 - 8 - 1, rel=1e-12)


def test_products_in_place_and_broadcast_share_too(plain: Any) -> None:
    def in_place(a: Tensor, b: Tensor) -> Tensor:
        product = a + 0
        product.mul_(b)  # its return value is not used
        return product

    u, w = [3.0, -2.0], [1.0, 4.0]
    for rules in ("voita2019", "attnlrp"):
        straight = shared(plain, rules, torch.mul, u, w)
        assert shared(plain, rules, in_place, u, w) == straight
        wide = shared(plain, rules, lambda a, b: a[:, None] * b[None], u, w)
        assert sum(wide[0]) + sum(wide[1]) == pytest.approx(sum(u) * sum(w), rel=1e-9)


def test_matrix_products_of_activations_share_by_half_under_attnlrp(plain: Any) -> None:
    u, w = [3.0, -2.0, 1.0], [1.0, 4.0, -1.0]
    for matrices in (
        lambda a, b: a[None] @ b[:, None],
        lambda a, b: torch.matmul(a, b),
        lambda a, b: torch.bmm(a[None, None], b[None, :, None]),
    ):
        assert shared(plain, "attnlrp", matrices, u, w) == [[1.5, -4, -0.5]] * 2


def test_norms_and_quotients_are_scales(plain: Any) -> None:
    x = torch.tensor([1.0, 3.0, 8.0])
    scale = (x.square().mean() + 1e-3).rsqrt()
    expected = pytest.approx((x * scale * torch.tensor([1.0, 2.0, 3.0])).tolist(), rel=1e-6)
    weight = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    written = (
        lambda u: functional.rms_norm(u, (3,), weight, 1e-3),
        lambda u: u * torch.rsqrt(u.pow(2).mean() + 1e-3) * weight,
        lambda u: u / torch.sqrt((u * u).mean() + 1e-3) * weight,
        lambda u: u * (u.pow(2).mean() + 1e-3).pow(-0.5) * weight,
        lambda u: u / (u.square().mean() + 1e-3) ** 0.5 * weight,
    )
    for function in written:
        assert shared(plain, "voita2019", function, x.tolist())[0] == expected
    x = x.double()
    centred = (x - x.mean()) / (x.var(correction=0) + 1e-3).sqrt() * weight
    for normed in (
        lambda u: functional.layer_norm(u, (3,), weight, weight, 1e-3),
        lambda u: (u - u.mean()) / (u.var(correction=0) + 1e-3).sqrt() * weight + weight,
    ):
        found = shared(plain, "voita2019", normed, x.tolist())[0]
        assert sum(found) == pytest.approx(centred.sum().item(), rel=1e-9)


def test_a_gated_linear_unit_leaves_all_to_the_gated(plain: Any) -> None:
    x = [2.0, -1.0, 0.5, 3.0]
    expected = pytest.approx([2 / (1 + 2.718281828**-0.5), -1 / (1 + 2.718281828**-3), 0, 0])
    assert shared(plain, "voita2019", functional.glu, x)[0] == expected
    assert shared(plain, "voita2019", lambda u: u[:2] * u[2:].sigmoid(), x)[0] == expected
    assert shared(plain, "attnlrp", lambda u: u[2:].sigmoid() * u[:2], x)[0] == expected
