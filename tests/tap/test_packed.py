"""Packed sequences become one, however a module is told where they begin."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headcount.tap.packed import Packed, packed_modules


class Inner(nn.Module):
    """A module that returns where its sequences begin."""

    def forward(self, states: Tensor, cu_seqlens: Tensor | None = None, more: int = 0) -> Any:
        return cu_seqlens


class Outer(nn.Module):
    """A module that passes it on."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, states: Tensor, cu_seqlens: Tensor | None = None) -> Any:
        return cu_seqlens, self.inner(states, cu_seqlens)


def test_only_the_innermost_module_is_told_of_one_sequence() -> None:
    outer, ends = Outer(), torch.tensor([0, 3, 5, 12])
    assert packed_modules(outer) == [outer.inner]
    with Packed(outer).joining():
        own, passed = outer(torch.zeros(12, 2), cu_seqlens=ends)
    assert own.tolist() == [0, 3, 5, 12] and passed.tolist() == [0, 12]
    assert outer(torch.zeros(12, 2), ends)[1].tolist() == [0, 3, 5, 12]


@pytest.mark.parametrize("by_name", [False, True])
def test_by_name_or_by_place(by_name: bool) -> None:
    inner, ends = Inner(), torch.tensor([0, 3, 5])
    with Packed(inner).joining():
        given = inner(torch.zeros(5), cu_seqlens=ends) if by_name else inner(torch.zeros(5), ends)
    assert given.tolist() == [0, 5]


def test_without_sequences_nothing_changes() -> None:
    """As in towers that are given whole pictures (RADIO)."""
    inner = Inner()
    with Packed(inner).joining():
        assert inner(torch.zeros(5)) is None
        assert inner(torch.zeros(5), cu_seqlens=None) is None
        assert inner(torch.zeros(5), None, 1) is None
