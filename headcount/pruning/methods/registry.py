"""Methods by name, as given to `--method`: those of scores, and those of `pruning/options.py`."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from typing import cast

from headcount.core import OURS, REPAIR, InputError, PluginError, check_known, guarded
from headcount.models import unchanged
from headcount.pruning.budget_spec import Keep
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.by_score import by_score
from headcount.pruning.methods.method import Method, Selection
from headcount.pruning.options import METHODS, MethodOptions, options_of_method


def method_class(name: str) -> type[Method]:
    """The class of a method.

    Raises:
        InputError: If there is no such method.
    """
    options = options_of_method(name)
    return cast("type[Method]", METHODS[name]) if name in METHODS else by_score(options)


def method(name: str, **options: object) -> Method:
    """A method with some options.

    >>> method("gradient", step=0.1).name
    'gradient'

    Raises:
        InputError: for an unknown method or option, or an invalid value.
    """
    known = [each.name for each in fields(options_of_method(name))]
    for option in options:
        check_known(f"an option of {name}", option, known)
    return method_class(name)(**options)


def with_options(options: MethodOptions) -> Method:
    """The method with these options; a method of a plug-in is its own options."""
    return options if isinstance(options, Method) else method(options.name, **vars(options))


def chosen(method: Method, context: PruningContext, keep: Keep) -> Selection:
    """What a method chooses; that of a plug-in is guarded, and its budget is checked.

    Raises:
        InputError: For a budget that the units can't meet.
        PluginError: If a plug-in fails, changes the model, or chooses other heads than it may.
    """
    origin, loaded = METHODS.origin(method), context.loaded
    if origin == OURS:
        return method.choose(context, keep)
    doing = f"choose heads by {method.name}"
    with unchanged(loaded, origin, method), guarded(origin, doing, method):
        found = method.choose(context, keep)
        if not isinstance(found, Selection):
            raise PluginError(
                f"Expected a Selection of {method.name} of the plug-in {origin}, got "
                f"{type(found).__name__}. {REPAIR}"
            )
        found.plan.check_heads(loaded.heads)
        pruned = {*found.plan.pruned_heads(loaded.heads)}
        left = Counter(head.site for head in {*context.units.heads} - pruned)
        fits = dict(left) == dict(keep) if isinstance(keep, Mapping) else left.total() == keep
        if not fits or pruned - {*context.units.heads}:
            raise PluginError(
                f"Expected {keep} heads of those that can be pruned to be kept by {method.name} of "
                f"the plug-in {origin}, got {left.total()}, and {len(pruned)} pruned. {REPAIR}"
            )
    return found


def as_method(given: Method | str) -> Method:
    """A method: the given one, or that of a name.

    Raises:
        InputError: for anything else.
    """
    if isinstance(given, str):
        return method(given)
    if not isinstance(given, Method):
        raise InputError(f"Expected a method, or the name of one, got a {type(given).__name__}.")
    return given
