"""Relaxed subsets equal their definition, add up to K, and end in exactly K."""

import math

import numpy as np
import pytest
import torch

from headcount.core import Head, Heads, InputError, ModelError
from headcount.gates import Layout, Quota, Subset, quotas
from headcount.gates.head_gates import uniform_noise
from headcount.gates.subset import DUST, EPS, relaxed_subset
from tests.textbook import gates as textbook

HEADS = Heads({"encoder.self": (3, 5), "decoder.self": (3,)})
LAYOUT = Layout.each(HEADS)
W = np.random.default_rng(0).normal(size=11).tolist()


def made(*quotas: Quota, w: list[float] = W, **options) -> Subset:
    gates = Subset(LAYOUT, quotas or (Quota(None, 4),), **options)
    gates.w.data = torch.tensor(w)
    return gates


def flat(gates: Subset) -> torch.Tensor:
    return torch.cat(list(gates().values()))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_draws_are_those_of_the_definition(share: float) -> None:
    gates = made(seed=5)
    gates.advance(share)
    assert gates.temperature == pytest.approx(10 ** (1 - 9 * share))
    for number in range(4):
        noise = uniform_noise(5, torch.tensor(number), 11, EPS)
        r = [w - math.log(-math.log(u)) for w, u in zip(W, noise, strict=True)]
        expected = textbook.relaxed_subset(r, 4, gates.temperature)
        assert flat(gates).tolist() == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("straight_through", [False, True])
def test_gates_add_up_to_each_quota(share: float, straight_through: bool) -> None:
    aims = (Quota("encoder.self", 5), Quota("decoder.self", 2))
    gates = made(*aims, straight_through=straight_through)
    gates.advance(share)
    for _ in range(5):
        gate = flat(gates)
        assert gate.isfinite().all() and (gate >= 0).all()
        assert gate[:8].sum().item() == pytest.approx(5, abs=1e-4)
        assert gate[8:].sum().item() == pytest.approx(2, abs=1e-4)
        if straight_through or share == 1:
            assert set(gate.round(decimals=5).tolist()) == {0.0, 1.0}
    if straight_through:
        assert torch.equal(flat(gates).round(), flat(gates.eval())), "without noise"


def test_evaluation_keeps_exactly_the_best() -> None:
    gate = flat(made().eval())
    assert sorted(np.flatnonzero(gate.numpy())) == sorted(np.argsort(W)[-4:])
    equal = flat(made(w=[0.5] * 11).eval())
    assert equal.tolist() == [0] * 7 + [1] * 4, "of equals those that an order takes last"
    only = made(Quota("decoder.self", 1)).eval()()
    assert only["encoder.self", 1].tolist() == [1] * 5, "no quota, no gate"


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_straight_through_scores_get_the_gradient_of_their_gates(share: float) -> None:
    """Also the scores of closed gates, and at every temperature: it is the identity (section 4)."""
    gates = made(straight_through=True)
    gates.advance(share)
    weight = torch.arange(11) - 4.5
    (flat(gates) * weight).sum().backward()
    assert gates.w.grad is not None and gates.w.grad.tolist() == weight.tolist()
    ours = made(straight_through=True, softmax_gradient=True)
    ours.advance(1.0)
    (flat(ours) * weight).sum().backward()
    assert ours.w.grad is not None and ours.w.grad.abs().max() < 1e-6, "near 0 where it is cold"


@pytest.mark.parametrize("straight_through", [False, True])
def test_a_head_that_helps_is_lifted(straight_through: bool) -> None:
    """The gradient of a loss that one gate lowers raises its score and lowers the others'."""
    gates = made(straight_through=straight_through, softmax_gradient=straight_through)
    gates.advance(0.1)
    (-flat(gates)[3]).backward()
    assert gates.w.grad is not None
    gradient = gates.w.grad
    assert gradient[3] < 0 and (gradient[[0, 1, 2, 4, 5]] >= 0).all() and gradient.abs().max() > 0


def test_gates_are_no_denormal_numbers() -> None:
    """A tiny gate makes backward passes several times slower; at 0 it still has its gradient."""
    gates = made(seed=5)
    gates.advance(0.3)
    gate, r = flat(gates), gates.w.detach().clone().requires_grad_()
    noise = torch.from_numpy(-np.log(-np.log(uniform_noise(5, torch.tensor(0), 11, EPS))))
    plain = relaxed_subset(r + noise.to(r), 4, gates.temperature)
    tiny = ((plain > 0) & (plain < DUST)).nonzero()[:, 0]
    assert len(tiny) and not gate[tiny].any()
    others = plain >= DUST
    torch.testing.assert_close(gate[others], plain[others], rtol=1e-6, atol=0)
    gate[tiny[0]].backward()
    plain[tiny[0]].backward()
    assert gates.w.grad is not None and r.grad is not None and r.grad.any()
    torch.testing.assert_close(gates.w.grad, r.grad, rtol=1e-4, atol=0)


def test_cold_gradients_are_numbers() -> None:
    r = torch.tensor([3.0, 3.0, 1.0, -50.0], requires_grad=True)
    gates = relaxed_subset(r, 2, 1e-8)
    (gates * torch.arange(4)).sum().backward()
    assert gates.sum().item() == pytest.approx(2) and r.grad is not None and r.grad.isfinite().all()


def test_groups_go_whole() -> None:
    pairs = tuple(tuple(Head("encoder.self", 1, i) for i in each) for each in ((0, 1), (2, 3)))
    layout = Layout(HEADS, pairs)
    aims = quotas(layout, [(None, 9)])
    assert aims == (Quota(None, 2),), "of eleven heads seven have no gate"
    gates = Subset(layout, aims)
    gates.w.data = torch.tensor([0.1, 0.2])
    assert gates.eval()()["encoder.self", 1].tolist() == [0, 0, 1, 1, 1]
    with pytest.raises(InputError, match=r"that add up to 3 heads, got sizes \[2\]"):
        Subset(layout, [Quota(None, 3)])


def test_a_state_says_which_noise_comes() -> None:
    whole, broken = made(seed=1), made(seed=1)
    draws = [flat(whole) for _ in range(4)]
    for _ in range(2):
        flat(broken)
    resumed = made(w=[0.0] * 11, seed=1)
    resumed.load_state_dict(broken.state_dict())
    assert all(torch.equal(flat(resumed), draw) for draw in draws[2:])


def test_a_score_that_is_no_number_is_named() -> None:
    with pytest.raises(ModelError, match="a finite w for every gate, got inf for dec.0.1"):
        made(w=[0.0] * 9 + [math.inf, 0.0])()
