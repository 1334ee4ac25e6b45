"""Hard Concrete gates equal their definition, and do what gates should."""

import math

import numpy as np
import pytest
import torch

from headcount.core import Head, Heads, ModelError
from headcount.gates import HardConcrete, L0Penalty, Layout
from headcount.gates.head_gates import uniform_noise
from tests.textbook import gates as textbook

HEADS = Heads({"encoder.self": (3, 5), "decoder.self": (2,)})
LAYOUT = Layout.each(HEADS)


def made(log_a: list[float] | None = None, layout: Layout = LAYOUT, **options) -> HardConcrete:
    gates = HardConcrete(layout, L0Penalty(layout, 0.7), **options)
    if log_a is not None:
        gates.log_a.data = torch.tensor(log_a)
    return gates


def spaced(low: float, high: float) -> list[float]:
    return np.linspace(low, high, len(LAYOUT.units)).tolist()


def test_draws_are_those_of_the_definition() -> None:
    log_a = spaced(-2.5, 2.5)
    gates = made(log_a, seed=11)
    for number in range(20):
        noise = uniform_noise(11, torch.tensor(number), len(log_a), 1e-6)
        expected = [textbook.hard_concrete(a, u) for a, u in zip(log_a, noise, strict=True)]
        by_place = gates()
        assert list(by_place) == [("encoder.self", 0), ("encoder.self", 1), ("decoder.self", 0)]
        found = torch.cat(list(by_place.values())).tolist()
        assert found == pytest.approx(expected, abs=1e-5)
        assert 0 in found or 1 in found


def test_probability_is_the_share_of_draws_that_are_open() -> None:
    log_a = spaced(-3, 3)
    gates = made(log_a)
    shares = [textbook.share_open(each) for each in log_a]
    assert gates.probability().tolist() == pytest.approx([each for each, _ in shares], abs=2e-4)
    likelier = [is_one > 1 - is_open for is_open, is_one in shares]
    assert gates.likelier().tolist() == likelier and True in likelier and False in likelier
    assert gates.probability()[-1].item() == pytest.approx(1 / (1 + math.exp(-3 - 0.791)), abs=1e-3)


def test_the_penalty_is_summed_over_heads_and_presses_shut() -> None:
    """A group of three heads counts three times."""
    units = (tuple(Head("encoder.self", 0, i) for i in range(3)), (Head("decoder.self", 0, 1),))
    gates = made([0.5, -1.5], Layout(HEADS, units))
    opens = [textbook.share_open(each)[0] for each in (0.5, -1.5)]
    assert gates.penalty().item() == pytest.approx(0.7 * (3 * opens[0] + opens[1]), abs=1e-3)
    gates.penalty().backward()
    assert gates.log_a.grad is not None and (gates.log_a.grad > 0).all()
    by_place = gates.eval()()
    assert by_place["encoder.self", 0].tolist() == [1, 1, 1], "one gate for the group"
    assert by_place["decoder.self", 0].tolist() == [1, 0], "and 1 for a head in no unit"
    assert ("encoder.self", 1) not in by_place
    assert gates.numbers()["open encoder.self"] == pytest.approx(3 * opens[0], abs=1e-3)


def test_evaluation_by_both_definitions() -> None:
    log_a = spaced(-3, 3)
    rounded, mean = (made(log_a, evaluation=each).eval()() for each in ("rounded", "mean"))
    assert torch.cat(list(rounded.values())).tolist() == [float(each > 0) for each in log_a]
    expected = [min(1, max(0, 1.2 / (1 + math.exp(-each)) - 0.1)) for each in log_a]
    assert torch.cat(list(mean.values())).tolist() == pytest.approx(expected, abs=1e-6)


def test_gates_start_open_and_as_the_authors_do() -> None:
    assert (made().eval()()["encoder.self", 1] == 1).all()
    assert made().probability().tolist() == pytest.approx([0.942] * 10, abs=1e-3)
    layout = Layout.each(Heads({"encoder.self": (8,) * 500}))
    theirs = HardConcrete.voita2019(layout, L0Penalty(layout, 0.1), seed=3)
    assert theirs.log_a.abs().max().item() == pytest.approx(0.612, abs=1e-3)
    assert theirs.log_a.std().item() == pytest.approx(0.612 / 3**0.5, rel=0.05)
    assert theirs.eval()()["encoder.self", 0].mean().item() == pytest.approx(0.5, abs=0.2)
    assert theirs.evaluation == "mean"


def test_a_seed_and_a_state_say_which_noise_comes() -> None:
    def draws(gates: HardConcrete, times: int) -> list[torch.Tensor]:
        return [torch.cat(list(gates().values())) for _ in range(times)]

    zeros = [0.0] * 10
    first, again, other = (draws(made(zeros, seed=seed), 5) for seed in (2, 2, 3))
    assert all(map(torch.equal, first, again))
    assert not any(map(torch.equal, first, other))
    assert not torch.equal(first[0], first[1])
    broken = made(zeros, seed=2)
    draws(broken, 3)
    resumed = made(seed=2)
    resumed.load_state_dict(broken.state_dict())
    assert all(map(torch.equal, draws(resumed, 2), first[3:]))
    resumed.eval()()
    assert int(resumed.num_draws) == 5, "evaluation draws nothing"


def test_a_gate_that_is_no_number_is_named() -> None:
    with pytest.raises(
        ModelError, match=r"Expected a finite log a for every gate, got nan for enc.1.2"
    ):
        made([0.0] * 5 + [math.nan] + [0.0] * 4)()
