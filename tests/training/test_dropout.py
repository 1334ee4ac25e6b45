import torch
from torch.nn.functional import dropout

from headcount.training.batches_trainer import LEVELS, dropped, fast_dropout
from headcount.training.muon import Instead


def test_a_share_goes_and_the_rest_keeps_the_mean() -> None:
    torch.manual_seed(0)
    x = torch.full((101, 103, 7), 2.0)
    found = dropped(x, 0.3)
    share = (found == 0).double().mean().item()
    assert abs(share - 0.3) < 4 * (0.3 * 0.7 / x.numel()) ** 0.5
    level = round(0.3 * LEVELS)
    torch.testing.assert_close(
        found[found != 0], torch.full_like(found[found != 0], 2 * LEVELS / (LEVELS - level))
    )


def test_elements_are_dropped_independently() -> None:
    torch.manual_seed(0)
    gone = (dropped(torch.ones(400, 1000), 0.5) == 0).double() - 0.5
    for shift in (1, 2, 3, 4, 5):  # four share a draw
        both = (gone[:, :-shift] * gone[:, shift:]).mean().item()
        assert abs(both) < 4 * 0.25 / gone[:, shift:].numel() ** 0.5, shift


def test_it_is_differentiable_and_keeps_shape_and_dtype() -> None:
    x = torch.randn(3, 5, dtype=torch.bfloat16, requires_grad=True)
    found = dropped(x, 0.5)
    found.sum().backward()
    assert found.dtype == x.dtype and found.shape == x.shape and x.grad is not None
    torch.testing.assert_close(x.grad * x.detach(), found.detach())


def test_it_stands_in_for_torchs_only_inside_the_context() -> None:
    x = torch.ones(11, 13)
    torch.manual_seed(5)
    ours = dropped(x, 0.2)
    torch.manual_seed(5)
    with Instead({dropout: fast_dropout}):
        inside = dropout(x, p=0.2, training=True)
        assert torch.equal(dropout(x, 0.2, training=False), x)
        assert torch.equal(dropout(x, 0.0), x) and not dropout(x, 1.0).any()
    assert torch.equal(inside, ours)
    torch.manual_seed(5)
    assert not torch.equal(dropout(x, 0.2), ours)


def test_the_same_state_of_the_generator_gives_the_same_mask() -> None:
    x = torch.ones(1009)
    state = torch.get_rng_state()
    first = dropped(x, 0.4)
    torch.set_rng_state(state)
    assert torch.equal(dropped(x, 0.4), first) and not torch.equal(dropped(x, 0.4), first)
