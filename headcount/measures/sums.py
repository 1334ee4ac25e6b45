"""Sums: the base of every measure. Parts add up to the total, in any order and any process."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn.functional import pad

from headcount.measures.reductions import Attention
from headcount.measures.units import Moments
from headcount.tap import Reduction
from headcount.vocabulary import IMAGES, TEXTS, ColumnEntry, Inputs, plain


class Sums(ABC):
    """Frozen sums over independent sentences, for all heads of one layer.

    A measure is a frozen dataclass of tensors: `of` makes it from one batch, `+` adds two, and
    `value` divides at the very end, so that everything is micro-averaged over the corpus.
    """

    registry: ClassVar[str] = "headcount.measures.registry:REGISTRY"
    name: ClassVar[str] = ""
    """Name by which it is asked for, and under which a plug-in registers it."""
    takes: ClassVar[tuple[Inputs, ...]] = (TEXTS,)
    """The kinds of input that it is taken on, if it is one of ours."""
    columns: ClassVar[tuple[ColumnEntry | str, ...]] = ()
    """The numbers in `value`, which are columns of the head table, with their words; a name alone
    is shown as it is. Measures that only `analysis/profiles.py` reads have none."""
    needs: ClassVar[frozenset[Reduction]] = frozenset()
    """Reductions that `of` reads. Others are not computed, unless another measure needs them."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(each.key for each in cls.entries())

    @classmethod
    def entries(cls) -> tuple[ColumnEntry, ...]:
        """The columns with their words."""
        return tuple(each if isinstance(each, ColumnEntry) else plain(each) for each in cls.columns)

    @classmethod
    def applies(cls, attention: Attention) -> bool:
        """Whether the measure is meaningful for this layer and corpus."""
        return True

    @classmethod
    @abstractmethod
    def of(cls, attention: Attention) -> "Sums":
        """The sums over one batch."""

    def value(self) -> dict[str, Float[Tensor, " head"]]:
        """The measured numbers by column name; NaN if there was no case."""
        assert not self.columns, f"{type(self).__name__} has columns, but no `value`."
        return {}

    def __add__(self, other: "Sums") -> "Sums":
        assert type(self) is type(other)
        mine, others = self._parts(), other._parts()
        return type(self)(**{name: _add(each, others[name]) for name, each in mine.items()})

    def _parts(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def state(self) -> dict[str, Tensor]:
        """The sums by name; those of units have names such as `moments.squares`."""
        state = dict[str, Tensor]()
        for name, part in self._parts().items():
            if isinstance(part, Moments):
                state |= {f"{name}.{key}": each for key, each in vars(part).items()}
            else:
                state[name] = part
        return state

    @classmethod
    def of_state(cls, state: Mapping[str, Tensor]) -> "Sums":
        """The sums that a state holds."""
        parts, nested = dict[str, Any](), dict[str, dict[str, Tensor]]()
        for name, each in state.items():
            outer, dot, inner = name.partition(".")
            if dot:
                nested.setdefault(outer, {})[inner] = each
            else:
                parts[name] = each
        return cls(**parts, **{name: Moments(**each) for name, each in nested.items()})

    def sizes(self) -> dict[str, int]:
        """Number of heads that each part has sums of, of the parts that have an axis of heads."""
        parts = [(each, name, self._head_axis(name)) for name, each in self._parts().items()]
        return {name: each.shape[axis] for each, name, axis in parts if axis is not None}

    def split(self, sizes: Sequence[int]) -> list["Sums"]:
        """The sums of each layer, if the heads of several are joined.

        Args:
            sizes: number of heads of each layer.
        """
        parts = [dict[str, Any]() for _ in sizes]
        for name, each in self._parts().items():
            axis = self._head_axis(name)
            for part, its in zip(parts, _split(each, axis, sizes), strict=True):
                part[name] = its
        return [type(self)(**part) for part in parts]

    @classmethod
    def join(cls, layers: Sequence["Sums"]) -> "Sums":
        """The sums of several layers over the same tokens with joined heads, as `split` takes."""
        every = [each._parts() for each in layers]
        return cls(
            **{
                name: _join([parts[name] for parts in every], cls._head_axis(name))
                for name in every[0]
            }
        )

    @classmethod
    def _head_axis(cls, name: str) -> int | None:
        """The axis of heads of a part, by the shape that its type declares; None if it has none."""
        kind: Any = {field.name: field.type for field in fields(cls)}[name]  # type: ignore[arg-type]
        if kind is Moments:
            return None
        assert hasattr(kind, "dim_str"), (
            f"The type of {cls.__name__}.{name} names no axes. Name them, as in "
            'Float[Tensor, "head kind"], so that heads of several layers can be joined.'
        )
        axes = kind.dim_str.split()
        return axes.index("head") if "head" in axes else None

    def to(self, device: torch.device | str) -> "Sums":
        """The same sums on another device."""
        return self.of_state({name: each.to(device) for name, each in self.state().items()})


class ImageSums(Sums):
    """Sums over the patches of images; on other corpora there are none."""

    takes = (IMAGES,)

    @classmethod
    def applies(cls, attention: Attention) -> bool:
        """Images only."""
        return attention.sides.grid is not None


def _add(a: Any, b: Any) -> Any:
    """Sum of a and b. Histograms of offsets (last axis, 0 in the middle) may differ in width."""
    if isinstance(a, Moments):
        return a + b
    a = a.to(b.device)  # the sums of an interrupted run come from a file
    if a.shape[-1:] == b.shape[-1:]:
        return a + b
    wide, narrow = (a, b) if a.shape[-1] > b.shape[-1] else (b, a)
    margin = (wide.shape[-1] - narrow.shape[-1]) // 2
    return wide + pad(narrow, (margin, margin))


def _split(part: Any, axis: int | None, sizes: Sequence[int]) -> Sequence[Any]:
    if isinstance(part, Moments):
        return part.split(sizes)
    return [part] * len(sizes) if axis is None else part.split(sizes, axis)


def _join(parts: list[Any], axis: int | None) -> Any:
    if isinstance(parts[0], Moments):
        return Moments.join(parts)
    return parts[0] if axis is None else torch.cat(parts, axis)


def over_queries(
    numbers_BHQ: Shaped[Tensor, "batch head query *kind"], is_query_BQ: Tensor
) -> Float[Tensor, " head *kind"]:
    """Sum over the queries that count, in float64."""
    is_counted = is_query_BQ[:, None, :, *[None] * (numbers_BHQ.ndim - 3)]
    return (numbers_BHQ * is_counted).sum((0, 2), dtype=torch.float64)
