"""Head lists: fields of configurations that name heads by number, renumbered with the heads.

A field that a table knows is renumbered when heads are cut out, and pruned heads leave it. Whatever
else in a saved folder looks as if it named heads by number is found by a search, which warns.
Layers are never renumbered, since one that lost all heads keeps its place.
"""

import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from headcount.core import Head, Heads, Plan, amount, check_accepted
from headcount.models import HEAD_LISTS, HeadList, lists_of
from headcount.results import Unlisted


def unlisted(model: PreTrainedModel, heads: Heads, plan: Plan) -> tuple[Unlisted, ...]:
    """Heads that a plan prunes and that a field of a model's configurations lists."""
    found = []
    for _, each, listed in _fields(model):
        kept = set(plan.kept_heads(heads)) & set(listed)
        if gone := [str(head) for head in listed if head not in kept]:
            found.append(Unlisted(each.name, each.serves, tuple(gone), len(kept)))
    return tuple(found)


def check_lists(model: PreTrainedModel, heads: Heads, plan: Plan) -> None:
    """Check that a plan keeps a head of every field that lists some, or that its loss is accepted.

    Raises:
        ConsentError: if it keeps none.
    """
    for each in unlisted(model, heads, plan):
        if not each.left:
            check_accepted(
                f"Expected a plan that keeps some of the {amount(len(each.heads), 'head')} in the "
                f"model's {each.field}, got one that prunes all: there would be no {each.serves}",
                f"Keep one of {', '.join(each.heads)}",
            )


def renumber(smaller: PreTrainedModel, heads: Heads, plan: Plan) -> None:
    """Renumber the fields of a smaller model, which are those of the larger one.

    Pruned heads leave a field; a field without heads is removed, since its readers can't do with an
    empty one.

    Args:
        smaller: the smaller model.
        heads: heads of the larger one.
        plan: plan of the kept heads.
    """
    for holder, each, listed in _fields(smaller):
        kept = set(plan.kept_heads(heads))
        new = [
            [head.layer, plan.of_layer(heads, head.site, head.layer).index(head.index)]
            for head in listed
            if head in kept
        ]
        if new:
            setattr(holder, each.name, new)
        else:
            delattr(holder, each.name)


def _fields(model: PreTrainedModel) -> Iterator[tuple[Any, HeadList, list[Head]]]:
    """The fields that a model has, with what holds each and the heads that it lists."""
    for holder, each, listed in lists_of(model):
        yield holder, each, [Head(each.site, *pair) for pair in listed]


def warn_of_numbers(folder: Path, head_plan: Mapping[str, Any], model_type: str) -> None:
    """Warn of fields in a folder's JSON files that seem to name heads of the larger model.

    Args:
        folder: the folder of a compact model.
        head_plan: the plan in its configuration.
        model_type: type of the model.
    """
    known = {each.name for each in HEAD_LISTS.get(model_type, ())} | _OURS
    counts = [
        layers
        for site, layers in head_plan["heads"].items()
        if sum(layers) > sum(map(len, head_plan["kept"][site].values()))
    ]
    found = []
    for path in sorted(folder.rglob("*.json")):
        if path.name not in _VOCABULARIES:
            value = json.loads(path.read_text(encoding="utf-8"))
            file = path.relative_to(folder).as_posix()
            found += [f"{name} in {file}" for name in _numbered(value, counts, known)]
    if found:
        warnings.warn(
            f"{', '.join(found)}: this looks as if it named heads by number, and it was copied as "
            "it was. If it does, renumber it by `kept` of head_plan in config.json.",
            stacklevel=2,
        )


_OURS = {"head_plan"}
_VOCABULARIES = {"tokenizer.json", "vocab.json", "added_tokens.json"}


def _numbered(
    value: Any, counts: list[list[int]], known: set[str], name: str = ""
) -> Iterator[str]:
    """Names of fields, also nested ones, that look as if they named heads."""
    if name.rpartition(".")[2] in known:
        return
    if isinstance(value, dict):
        if "head" in name and any(_is_by_layer(value, layers) for layers in counts):
            yield name
            return
        for key, each in value.items():
            yield from _numbered(each, counts, known, f"{name}.{key}".removeprefix("."))
    elif isinstance(value, list) and any(_is_list(name, value, layers) for layers in counts):
        yield name or "its list"


def _is_list(name: str, value: list[Any], layers: list[int]) -> bool:
    """Whether a list has pairs of a layer and a head, or something for every head."""
    if not value:
        return False
    if all(isinstance(each, list) for each in value):
        is_pairs = all(len(each) == 2 and _is_head(each, layers) for each in value)
        is_table = [len(each) for each in value] == layers
        return is_pairs or (is_table and all(map(_are_numbers, value)))
    own = name.rpartition(".")[2]
    is_of_heads = "head" in own and not own.startswith("num_")
    return is_of_heads and len(value) in layers and _are_numbers(value)


def _is_by_layer(value: dict[str, Any], layers: list[int]) -> bool:
    """Whether a table has lists of heads by layer, as `pruned_heads` had up to transformers 4."""
    return bool(value) and all(
        key.isdecimal()
        and isinstance(each, list)
        and all(_is_head([int(key), head], layers) for head in each)
        for key, each in value.items()
    )


def _is_head(pair: list[Any], layers: list[int]) -> bool:
    """Whether two values are the numbers of a layer and of one of its heads."""
    if not all(type(each) is int and each >= 0 for each in pair):
        return False
    layer, head = pair
    return layer < len(layers) and head < layers[layer]


def _are_numbers(values: list[Any]) -> bool:
    return all(isinstance(each, int | float) for each in values)
