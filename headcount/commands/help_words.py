"""Words of `--help`: values have a name, and defaults are shown where they mean something.

The parser itself writes `--against {None}|STR`, `--modes [{a,b} [{a,b} ...]]`,
`--first, --no-first`, `(default: )`.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import tyro
from tyro import MISSING

from headcount.commands.arguments import group
from headcount.core import Registry
from headcount.models import LoadOptions

RARE = frozenset((*(each.name for each in fields(LoadOptions)), "recheck", "as_words")) - {"device"}
"""Options that come in the box of what is rarely used, with every command."""
_OTHERS, _LAST = "", ("device", "rarely", "reading")
"""What stands for fields without a place of their own, and those that come last: the device, and
the box of what is rarely used."""
_FIRST_VERB = re.compile(r"((?:[A-Z][\w ]*: )?)(\w)")
"""What stands before the verb of an option's words: nothing, or what it is for: `Ablation: `."""


class _More:
    """What is rarely used, and how files and models are read."""

    fields: tuple[tyro.constructors.StructFieldSpec, ...]


def words_of_help(usual: Sequence[str] = ()) -> tyro.constructors.ConstructorRegistry:
    """How the parser's help names, orders and boxes options: for persons, not for the parser.

    Args:
        usual: names of the options that come first, in this order.
    """
    registry, outer = tyro.constructors.ConstructorRegistry(), [True]

    @registry.struct_rule
    def worded(
        kind: tyro.constructors.StructTypeInfo,
    ) -> tyro.constructors.StructConstructorSpec | None:
        if not outer[0]:
            return None  # the parser's own rules are asked below
        if isinstance(kind.type, type) and issubclass(kind.type, _More):
            return tyro.constructors.StructConstructorSpec(dict, kind.type.fields)
        outer[0] = False
        try:
            found = tyro.constructors.ConstructorRegistry.get_struct_spec(kind)
        finally:
            outer[0] = True
        if not isinstance(found, tyro.constructors.StructConstructorSpec):
            return None
        named = [
            replace(
                each,
                type=_in_words(each.type),
                helptext=partial(_one_paragraph, each.helptext, each.default is True),
            )
            for each in found.fields
        ]
        return replace(found, fields=_boxed(named, usual))

    return registry


def _boxed(
    options: Sequence[tyro.constructors.StructFieldSpec], usual: Sequence[str]
) -> tuple[tyro.constructors.StructFieldSpec, ...]:
    """The options of a box, the usual ones first; the others in a box of what is rarely used.

    Args:
        options: the options, and the boxes inside this one.
        usual: names of the options that come first; if none of them is here, only those that are
            rare with every command leave the box.
    """
    has_usual = any(each.name in usual for each in options)
    shown, rare = [], []
    for each in options:
        is_rare = each.name in RARE or has_usual and each.name not in usual
        (rare if is_rare and _is_optional(each) else shown).append(each)
    if rare:
        rare.sort(key=lambda each: each.name in RARE)
        box = type("More", (_More,), {"fields": tuple(rare)})
        kind: Any = Annotated[box, *group("more")]
        more = tyro.constructors.StructFieldSpec("rarely", kind, MISSING)
        shown.append(more)
    order = *usual, _OTHERS, *_LAST
    return tuple(
        sorted(shown, key=lambda each: order.index(each.name if each.name in order else _OTHERS))
    )


def _is_optional(option: tyro.constructors.StructFieldSpec) -> bool:
    """Whether it is one option that may be left out: no box, and no argument without a name."""
    is_positional = tyro.conf.Positional in get_args(option.type)
    return option.default is not MISSING and not _is_box(option) and not is_positional


def _is_box(option: tyro.constructors.StructFieldSpec) -> bool:
    return is_dataclass(option.default) or is_dataclass(get_args(option.type)[0])


def _in_words(kind: Any) -> Any:
    """The type of an option, with the name of its value and a default that means something."""
    plain, *given = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    registry = next((each for each in given if isinstance(each, Registry)), None)
    name = _value_name(plain) if registry is None else _listed(plain, registry)
    has_prefix = all(getattr(each, "prefix_name", True) for each in given)
    shown = tyro.conf.arg(
        metavar=name, help_behavior_hint=_default_in_words, prefix_name=has_prefix
    )
    return Annotated[plain, shown, tyro.conf.FlagCreatePairsOff, *given]


def _listed(kind: Any, names: Iterable[str]) -> str:
    """The names of a family as an option's value, those of plug-ins included.

    >>> _listed(tuple[str, ...], ["zero", "mean"])
    '{zero,mean} ...'
    """
    return f"{{{','.join(names)}}}{' ...' * (get_origin(kind) is tuple)}"


def _one_paragraph(
    text: str | Callable[[], str | None] | None, turns_off: bool = False
) -> str | None:
    r"""The words of an option without the line breaks of its docstring, which the parser keeps.

    Args:
        text: what the option does if it is on.
        turns_off: whether it is on by default, so that the command line has `--no-...` only.

    >>> _one_paragraph("Files of texts,\n    likewise.")
    'Files of texts, likewise.'
    >>> _one_paragraph("Ablation: ablate whole layers.", turns_off=True)
    "Ablation: don't ablate whole layers."
    """
    words = " ".join(((text() if callable(text) else text) or "").split())
    return _turned_off(words) if turns_off else words or None


def _turned_off(words: str) -> str:
    found = _FIRST_VERB.match(words)
    if found is None:
        return words
    before, verb = found.groups()
    return f"{before}{'don' if before else 'Don'}'t {verb.lower()}{words[found.end() :]}"


def _value_name(kind: Any) -> str | None:
    """The name of an option's value, or its choices; None where the parser's own is better.

    >>> _value_name(int | None), _value_name(tuple[str, ...]), _value_name(tuple[str, str] | None)
    ('NUMBER', 'TEXT ...', 'TEXT TEXT')
    >>> _value_name(tuple[Literal["mean", "cls"], ...] | None)
    '{mean,cls} ...'
    """
    if get_origin(kind) is Literal:
        return f"{{{','.join(map(str, get_args(kind)))}}}"
    parts = [each for each in get_args(kind) if each not in (type(None), ...)]
    if not parts:
        return {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "PATH"}.get(kind)
    name = _value_name(parts[0]) if len({*parts}) == 1 else None
    if name is None or get_origin(kind) is not tuple:
        return name
    return f"{name} ..." if ... in get_args(kind) else " ".join([name] * len(parts))


def _default_in_words(default: str) -> str:
    return "" if default in ("", "''", "None", "True", "False") else f"(default: {default})"
