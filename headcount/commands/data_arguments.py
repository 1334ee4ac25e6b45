"""Arguments that commands for training and pruning share: data sets, fields, methods' options."""

import types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import tyro

from headcount import models, tasks
from headcount.commands.console import plain_console, print_warnings, shown
from headcount.commands.task_arguments import TaskArguments
from headcount.core import InputError, Seed, did_you_mean
from headcount.corpora import named_columns


def field_values(kind: type, options: Sequence[str]) -> dict[str, Any]:
    """The values of fields given as text, by name.

    Args:
        kind: The dataclass.
        options: NAME=VALUE each.

    Raises:
        InputError: For an unknown field, or a value of another type.
    """
    hints, found = get_type_hints(kind), {}
    declared = {each.name: hints[each.name] for each in fields(kind)}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals or name not in declared:
            raise InputError(
                f"Expected NAME=VALUE with a NAME out of {', '.join(declared)}, got {option!r}."
                f"{did_you_mean(name, declared)}"
            )
        found[name] = _value(name, declared[name], text)
    return found


_NUMBERS = {int: "a whole number", float: "a number", str: "text"}
"""Types of fields, in words."""


def _value(name: str, kind: Any, text: str) -> Any:
    """Convert text to the first type that it fits."""
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    for one in kinds:
        if text in (choices := _choices(one)):
            return choices[text]
        if one in (int, float, str):
            try:
                return one(text)
            except ValueError:
                continue
    words = [_listed(_choices(one)) or _NUMBERS.get(one, str(one)) for one in kinds]
    raise InputError(f"Expected {' or '.join(words)} for {name}, got {text!r}.")


def _listed(choices: Iterable[str]) -> str:
    """The allowed words, in words; empty if there are none."""
    words = list(choices)
    return f"one of {', '.join(words)}" if len(words) > 1 else "".join(words)


def _choices(kind: Any) -> dict[str, Any]:
    if get_origin(kind) is Literal:
        return {str(value): value for value in get_args(kind)}
    return {bool: {"true": True, "false": False}, types.NoneType: {"none": None}}.get(kind, {})


More = TypeVar("More")


@dataclass(frozen=True)
class Inputs(Generic[More]):
    """What a command that trains or prunes has read."""

    loaded: "models.Loaded"
    splits: "tasks.TaskSplits"
    more: More
    """A teacher, or what is known of the heads."""


@dataclass(frozen=True)
class LearningArguments(TaskArguments):
    """Data to learn from or to choose heads on, and data to measure on."""

    dev: tuple[str, ...] = field(kw_only=True)
    """Files to measure the new model on; `prune` also makes choices on them (a searched budget,
    compensation for pruned heads), so report --test."""
    test: tuple[str, ...] = ()
    """Held-out files to measure on; nothing is chosen on them."""
    seed: Seed = 0
    """Seed of random orders, gates, batches, dropout, examples to score on, and the masks of
    masked language modelling."""

    def check(self) -> None:
        """Check everything that needs no model.

        Raises:
            InputError: If the seed is negative, or another argument can't be used.
        """
        super().check()
        self.check_data((*self.dev, *self.test))
        for files in filter(None, (self.dev, self.test)):
            self.check_columns(files)

    def files(self) -> list[Path]:
        """Every local file or folder that the run reads."""
        return [
            Path(place)
            for place in (models.place_of(self.model), *self.data, *self.dev, *self.test)
        ]

    def splits(self, loaded: "models.Loaded") -> "tasks.TaskSplits":
        """The task on all data sets, once the warnings about them are printed."""
        with shown() as progress:
            found = tasks.TaskSplits.build(
                self.task,
                loaded,
                train=self.given(self.data),
                dev=self.given(self.dev),
                test=self.given(self.test) if self.test else None,
                columns=named_columns(self.columns),
                names=("--data", "--dev", "--test"),
                progress=progress,
                **self.options(self.seed),
            )
        print_warnings(found.warnings, plain_console())
        return found

    def signature(self, loaded: "models.Loaded", splits: "tasks.TaskSplits", **more: object) -> str:
        """The signature of everything that the numbers depend on."""
        return splits.signature(loaded, self.seed, **more)


Kind = TypeVar("Kind")


def values_of(arguments: Sequence[str], option: str) -> list[str]:
    """The values of an option in some arguments that are not parsed yet.

    >>> values_of(["a.tsv", "--site", "encoder.self", "decoder.self", "--keep=3"], "--site")
    ['encoder.self', 'decoder.self']
    >>> values_of(["--keep=3"], "--keep")
    ['3']
    """
    found, is_value = [], False
    for each in arguments:
        if each.startswith("--"):
            name, equals, value = each.partition("=")
            is_value = name.replace("_", "-") == option
            found += [value] if is_value and equals else []
        elif is_value:
            found.append(each)
    return found


def with_options(
    command: type[Kind], prefix: str, options: object, name: str = "options"
) -> type[Kind]:
    """The class of a command, one of whose fields is parsed from --PREFIX.NAME VALUE.

    Args:
        command: The class.
        prefix: The prefix of every option.
        options: The options by default: a frozen dataclass.
        name: Name of the field.
    """
    kind = Annotated[type(options), tyro.conf.arg(name=prefix)]
    made = make_dataclass(
        command.__name__,
        [(name, kind, field(default=options, kw_only=True))],
        bases=(command,),
        frozen=True,
    )
    made.__doc__, made.__module__ = command.__doc__, command.__module__
    return made
