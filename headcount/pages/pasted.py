"""Commands to paste, by the arguments of an earlier one: terminal and pages propose the same."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from headcount.corpora import HowRead
from headcount.models import LoadOptions
from headcount.tasks import TaskOptions

PLACEHOLDER = "DEV_FILE"
"""Placeholder in a command for development data that the user did not name."""
DEFAULTS: Mapping[str, object] = {
    each.name: None if each.default is MISSING else each.default
    for each in (*fields(LoadOptions), *fields(TaskOptions), *fields(HowRead))
}
"""Arguments of a model and its task with their defaults, which a command does not name."""


def command(name: str, words: Sequence[str], shared: Mapping[str, Any], *more: object) -> str:
    """A command to paste, with every shared argument that differs from its default.

    >>> command("curve", ["bert-base"], {"limit": 9, "groups": False}, "--keep", 4)
    'headcount curve bert-base --limit 9 --no-groups --keep 4'
    """
    parts = ["headcount", name, *words]
    for field, value in shared.items():
        flag = field.replace("_", "-")
        if isinstance(value, bool):
            parts.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            parts += [f"--{flag}", *(value if isinstance(value, tuple | list) else [value])]
    return shlex.join(map(str, [*parts, *more]))


def curve_command(
    model: str,
    arguments: Mapping[str, Any],
    keep: Sequence[int],
    out: str,
    methods: Sequence[str] = (),
) -> str:
    """The curve of a model on the task of an assessment.

    Args:
        model: the model, as it is loaded.
        arguments: arguments of the assessment, as the command has them or as its record does.
        keep: numbers of heads to keep.
        out: folder of the curve.
        methods: methods that choose heads; the default ones if none are named.

    >>> on = {"task": "similarity", "data": ["a.csv"], "columns": ["score=2"], "num_beams": 4}
    >>> curve_command("MODEL", on, [9, 3], "curve")
    'headcount curve MODEL --task similarity --data a.csv --columns score=2 --dev DEV_FILE \
--keep 9 3 --out curve'
    """
    shared = {name: arguments.get(name, default) for name, default in DEFAULTS.items()}
    shared = {
        name: tuple(each) if isinstance(each, list) else each for name, each in shared.items()
    }
    shared = {name: each for name, each in shared.items() if each != DEFAULTS[name]}
    chosen = ["--methods", *methods] if methods else []
    more = [*chosen, "--keep", *keep, "--out", out]
    return command("curve", [model], {**shared, "dev": (PLACEHOLDER,)}, *more)
