"""Pressure: one training meets the quota exactly and keeps the heads that lower the loss."""

import pytest
import torch

from headcount.core import Head, Heads, InputError
from headcount.gates import BudgetConstraint, HardConcrete, Layout, Quota, Subset

HEADS = Heads({"encoder.self": (6, 6), "decoder.self": (7,)})
GROUPS = tuple((Head("decoder.self", 0, i), Head("decoder.self", 0, i + 1)) for i in (0, 2, 4))
LAYOUT = Layout(HEADS, tuple((h,) for h in HEADS if h.site == "encoder.self") + GROUPS)
QUOTAS = [Quota("encoder.self", 5), Quota("decoder.self", 4)]


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-3, 1.0])
def test_one_training_comes_to_the_quotas(unit: float) -> None:
    """It holds for any unit of the loss."""
    gates = HardConcrete(LAYOUT, BudgetConstraint(LAYOUT, QUOTAS, falling=0.4))
    liking = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 2, 7, 1]) * unit
    optimizer = torch.optim.Adam(gates.parameters(), 0.1)
    for step in range(200):
        gates.advance(step / 200)
        optimizer.zero_grad()
        (-(liking * torch.cat(list(gates().values()))[: len(liking)]).sum()).backward()
        if (penalty := gates.penalty()).requires_grad:
            penalty.backward()
        optimizer.step()
        gates.settle()
    best = liking[:12].argsort(descending=True)[:4].tolist()
    assert set(best) <= set(gates.log_a[:12].argsort(descending=True)[:5].tolist())
    numbers = gates.numbers()
    assert numbers["open encoder.self"] == pytest.approx(5, abs=0.1)
    assert numbers["open decoder.self"] == pytest.approx(4, abs=0.1)


def test_the_nearest_probabilities_that_meet_the_bound() -> None:
    """No other solution that meets it diverges less from the previous one."""
    layout = Layout.each(Heads({"encoder.self": (4,)}))
    logit = torch.tensor([2.0, -1.0, 0.5, 3.0])
    shift = BudgetConstraint(layout, [Quota(None, 2)], falling=1.0).shift(logit, 0.7)
    new = (logit + shift).sigmoid().double()
    assert new.sum().item() == pytest.approx(4 + 0.7 * (2 - 4)), "on its way to the quota"
    old = logit.sigmoid().double()

    def divergence(p: torch.Tensor) -> float:
        return (p * (p / old).log() + (1 - p) * ((1 - p) / (1 - old)).log()).sum().item()

    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        step = 1e-3 * torch.randn(4, generator=generator).double()
        assert divergence(new + step - step.mean()) > divergence(new)


def test_evaluation_has_as_many_as_the_budget() -> None:
    """In every step the plan's heads are kept; of equal heads, the last ones."""
    gates = HardConcrete(LAYOUT, BudgetConstraint(LAYOUT, QUOTAS)).eval()
    gate_U = torch.cat(list(gates().values()))
    assert gate_U[:12].tolist() == [0] * 7 + [1] * 5
    assert gate_U[12:].tolist() == [0] * 2 + [1] * 5, "two groups, and a head without a gate"
    gates.log_a.data[0] = 9.0
    assert torch.cat(list(gates().values()))[:12].tolist() == [1] + [0] * 7 + [1] * 4


@pytest.mark.parametrize(
    ("found", "match"),
    [
        ([Quota("decoder.cross", 2)], "got 2 at decoder.cross, where 0 have gates"),
        ([Quota("encoder", 0)], "Gates are at encoder.self, decoder.self"),
        ([Quota("encoder.self", 13)], "got 13 at encoder.self, where 12 have gates"),
        ([Quota(None, -1)], "got -1 at any site"),
        (
            [Quota(None, 6), Quota("encoder.self", 2)],
            "one quota for every gate, got two at encoder.self",
        ),
    ],
)
def test_quotas_that_cannot_be_met_together_are_refused(found: list[Quota], match: str) -> None:
    for kind in (BudgetConstraint, Subset):
        with pytest.raises(InputError, match=match):
            kind(LAYOUT, found)


def test_groups_move_by_their_size_and_enough_is_enough() -> None:
    logit = torch.linspace(-1, 3, 15)
    budget = BudgetConstraint(LAYOUT, QUOTAS)
    shift = budget.shift(logit, 1.0)
    open_U = (logit + shift).sigmoid()
    assert open_U[:12].sum().item() == pytest.approx(5, abs=1e-4)
    assert 2 * open_U[12:].sum().item() == pytest.approx(4, abs=1e-4)
    assert len(set(shift[:12].tolist())) == 1 and shift[0] < 0
    assert (budget.shift(logit - 9, 1.0) == 0).all(), "few enough are open already"
    assert (budget.shift(logit, 0.0) == 0).all(), "none must go at the start"


def test_heads_compete_for_the_bound() -> None:
    """The remaining gradient is the loss's without the part across the bound."""
    gates = HardConcrete(LAYOUT, BudgetConstraint(LAYOUT, QUOTAS, falling=1.0), start=0.5)
    gates.log_a.data += torch.linspace(-1, 1, 15)
    slope = -(torch.linspace(0.0, 3.0, 15) ** 2)
    gates.log_a.grad = slope.clone()
    gates.advance(1.0)
    gates.penalty().backward()
    opens = (gates.log_a.detach() + 0.791).sigmoid()
    for members in (slice(0, 12), slice(12, 15)):
        rise = opens[members] * (1 - opens[members])
        left = gates.log_a.grad[members]
        assert (left @ rise).item() == pytest.approx(0, abs=1e-3)
        assert (left > 0).any() and (left < 0).any(), "though all are worth something"
        across = left - slope[members]
        torch.testing.assert_close(across / across.sum(), rise / rise.sum(), rtol=1e-3, atol=1e-4)
    gates.advance(0.0)
    assert gates.penalty().item() == 0, "nobody competes while all may be open"
