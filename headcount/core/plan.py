"""Plan: which heads, and which neurons, are kept. Plans are frozen and saved as one JSON file."""

import hashlib
import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from headcount.core.errors import InputError
from headcount.core.files import parse_json, reason, write_json
from headcount.core.heads import FEED_FORWARDS, SITES, Head, Heads, LayerId, is_number
from headcount.core.wording import amount

if TYPE_CHECKING:
    from torch import Tensor

VERSIONS = (1, 2)
"""Versions of a plan's file; only plans that name neurons need the second."""

KeptNumbers = Mapping[str, Mapping[int, tuple[int, ...]]]
"""Numbers of what is kept, by site, then layer."""

KeptJson = dict[str, dict[str, list[int]]]
"""The same in JSON."""


@final
@dataclass(frozen=True)
class Plan:
    """Which heads of a model are kept; `Plan.read` reads a plan.json.

    >>> plan = Plan.keeping(Heads({"encoder.self": (2, 3)}), [Head("encoder.self", 1, 2)])
    >>> plan.kept
    {'encoder.self': {0: (), 1: (2,)}}
    """

    kept: KeptNumbers
    """Kept heads by site, then layer; sites and layers that are not named keep all heads."""
    model: str | None = None
    """`revision` of the model the plan was made for; None fits any model with these heads."""
    head_dim: int | None = None
    """Size of a head's output, if all layers have the same; None fits any."""
    neurons: KeptNumbers = field(default_factory=dict)
    """Kept neurons of feed-forward networks (`encoder.mlp` and the like) in the same form."""

    def __repr__(self) -> str:
        sites = (
            f"{site} keeps {sum(map(len, layers.values()))} in {amount(len(layers), 'layer')}"
            for site, layers in {**self.kept, **self.neurons}.items()
        )
        return f"Plan({', '.join(sites) or 'all heads'}; sha256 {self.sha256[:16]})"

    def __post_init__(self) -> None:
        """Sort the heads and neurons.

        Raises:
            InputError: for an unknown site, or for layers, heads or neurons that are not whole
                numbers from 0 or are named twice.
        """
        for name, sites, what in (
            ("kept", [*SITES], "heads"),
            ("neurons", FEED_FORWARDS, "neurons"),
        ):
            object.__setattr__(self, name, _ordered(getattr(self, name), sites, what))

    @classmethod
    def keeping(cls, heads: Heads, kept: Iterable[Head], model: str | None = None) -> "Plan":
        """The plan that keeps some of `heads`, with every layer named."""
        stay = set(kept)
        return cls(
            {
                site: {
                    layer: tuple(i for i in range(count) if Head(site, layer, i) in stay)
                    for layer, count in enumerate(heads.counts[site])
                }
                for site in SITES
                if site in heads.counts
            },
            model,
        )

    def of_layer(self, heads: Heads, site: str, layer: int) -> tuple[int, ...]:
        """Indices of the kept heads of one layer."""
        everything = tuple(range(heads.counts[site][layer]))
        return self.kept.get(site, {}).get(layer, everything)

    def kept_heads(self, heads: Heads) -> list[Head]:
        """The kept heads of a model, in the order of the grid."""
        return [head for head in heads if head.index in self.of_layer(heads, head.site, head.layer)]

    def pruned_heads(self, heads: Heads) -> list[Head]:
        """The pruned heads of a model, in the order of the grid."""
        stay = set(self.kept_heads(heads))
        return [head for head in heads if head not in stay]

    def gates(self, heads: Heads) -> "dict[LayerId, Tensor]":
        """Gates of 1 for kept heads and 0 for pruned heads, for layers with pruned heads."""
        import torch  # only for gates: a plan is read and checked without

        gates = {}
        for head in self.pruned_heads(heads):
            place = head.layer_id
            gates.setdefault(place, torch.ones(heads.counts[head.site][head.layer]))[head.index] = 0
        return gates

    def check_heads(self, heads: Heads) -> None:
        """Check that a model has every head, layer and site that the plan names.

        Raises:
            InputError: for a model that lacks one; names it.
        """
        for site, layers in self.kept.items():
            for layer, kept in layers.items():
                if layer >= len(heads.counts.get(site, ())):
                    raise InputError(
                        f"Expected a plan for this model with {heads}, got one that names layer "
                        f"{layer} of {site}. Name a plan of this model."
                    )
                for head in (Head(site, layer, index) for index in kept):
                    if head not in heads:
                        raise InputError(
                            f"Expected a plan for this model with {heads}, got one that names "
                            f"{head}. Name a plan of this model."
                        )

    @property
    def sha256(self) -> str:
        """Hash of the kept heads and neurons, which identifies this plan's artifacts."""
        return kept_sha256(self.kept_json, self.neurons_json)

    @property
    def kept_json(self) -> KeptJson:
        """The kept heads in their JSON form, in the order of the grid."""
        return _json(self.kept, [*SITES])

    @property
    def neurons_json(self) -> KeptJson:
        """The kept neurons in the same form; empty where none are pruned."""
        return _json(self.neurons, FEED_FORWARDS)

    def write(self, path: str | Path) -> None:
        """Write the plan as JSON, completely or not at all."""
        more = {"neurons": self.neurons_json} if self.neurons else {}
        about = {"version": 2 if more else 1, "model": self.model, "head_dim": self.head_dim}
        write_json(Path(path), about | {"kept": self.kept_json} | more)

    @classmethod
    def read(cls, path: str | Path) -> "Plan":
        """Read a plan from a file.

        Raises:
            InputError: if the file can't be read or is not a plan; the error says why.
        """
        try:
            value = parse_json(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(
                f"Expected a plan in JSON, but {path} can't be read: {reason(error)}. Name the "
                "plan.json of a pruned model."
            ) from error
        return cls.from_json(value)

    @classmethod
    def of_kept(
        cls,
        kept: Mapping[str, Mapping[str, Sequence[int]]],
        neurons: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
    ) -> "Plan":
        """The plan that keeps what a `kept_json`, and a `neurons_json`, names.

        Raises:
            InputError: if one of them is not valid.
        """
        return cls.from_json({"version": 2, "kept": kept, "neurons": neurons or {}})

    @classmethod
    def from_json(cls, value: Any) -> "Plan":
        """The plan in parsed JSON.

        Raises:
            InputError: for anything that is not a plan, or a plan of another version.
        """
        try:
            if type(value["version"]) is not int or value["version"] not in VERSIONS:
                raise InputError(
                    f"Expected a plan of version {' or '.join(map(str, VERSIONS))}, got "
                    f"{value['version']!r}. Another version of headcount wrote it. Use that "
                    "version, or make the plan again."
                )
            kept = {site: _layers(layers, "heads") for site, layers in value["kept"].items()}
            pruned_too = value["neurons"] if value["version"] > 1 else {}
            neurons = {site: _layers(each, "neurons") for site, each in pruned_too.items()}
            model, head_dim = value.get("model"), value.get("head_dim")
            if not isinstance(model, str | None) or type(head_dim) not in (int, type(None)):
                raise TypeError(f"a model {model!r} and a head_dim {head_dim!r}")
            return cls(kept, model, head_dim, neurons)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                'Expected a plan, {"version": 1, "kept": {"encoder.self": {"0": [0, 3]}}}, '
                f"got something else ({type(error).__name__}: {error}). Name the plan.json of "
                "a pruned model."
            ) from error


def _layers(layers: Mapping[str, Any], what: str) -> dict[int, tuple[int, ...]]:
    """What is kept by layer.

    Raises:
        InputError: for a layer that is not written as a number is, as `00`, which names 0 twice.
    """
    if wrong := [name for name in layers if not is_number(name)]:
        raise InputError(f"Expected layers of a plan as integers, got {wrong[0]!r}.")
    return {int(layer): _numbers(what, kept) for layer, kept in layers.items()}


def _numbers(what: str, values: Iterable[Any]) -> tuple[int, ...]:
    """The numbers in ascending order.

    Raises:
        InputError: for anything except whole numbers from 0, each once.
    """
    given = tuple(values)
    try:
        if any(isinstance(each, bool) for each in given):
            raise TypeError("bool")
        found = tuple(sorted(map(operator.index, given)))
    except TypeError as error:
        raise InputError(f"Expected {what} of a plan as integers, got {list(given)}.") from error
    if found and found[0] < 0:
        raise InputError(f"Expected {what} of a plan as numbers from 0, got {found[0]}.")
    if len(set(found)) < len(found):
        raise InputError(f"Expected {what} of a plan to be named once, got {list(given)}.")
    return found


def _ordered(kept: KeptNumbers, sites: Sequence[str], what: str) -> KeptNumbers:
    """What is kept, in ascending order.

    Raises:
        InputError: for anything else than numbers by site, then layer.
    """
    try:
        if unknown := set(kept) - set(sites):
            raise InputError(
                f"Expected sites of a plan out of {', '.join(sites)}, got "
                f"{', '.join(sorted(unknown))}."
            )
        ordered = {}
        for site, layers in kept.items():
            _numbers("layers", layers)
            ordered[site] = {layer: _numbers(what, each) for layer, each in layers.items()}
    except (AttributeError, TypeError) as error:
        raise InputError(
            f"Expected the kept {what} by site and layer, such as "
            f"{{'{sites[0]}': {{0: (0, 3)}}}}, got {kept!r}."
        ) from error
    return ordered


def _json(kept: KeptNumbers, sites: Sequence[str]) -> KeptJson:
    """What is kept in its JSON form, in the order of some sites."""
    return {
        site: {str(layer): list(kept[site][layer]) for layer in sorted(kept[site])}
        for site in sites
        if site in kept
    }


def kept_sha256(
    kept: Mapping[str, Mapping[str, list[int]]],
    neurons: Mapping[str, Mapping[str, list[int]]] | None = None,
) -> str:
    """Hash of the kept heads and neurons, independent of their order."""
    both = {**kept, **(neurons or {})}
    ordered = {
        site: {number: both[site][number] for number in sorted(both[site], key=int)}
        for site in (*SITES, *FEED_FORWARDS)
        if site in both
    }
    return hashlib.sha256(json.dumps(ordered).encode()).hexdigest()
