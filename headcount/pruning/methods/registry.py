"""Methods by name, as given to `--method`."""

from collections.abc import Mapping
from dataclasses import fields

from headcount.core import InputError, check_known
from headcount.pruning.methods.ablation import Greedy
from headcount.pruning.methods.by_score import BY_SCORE, Auto, Random
from headcount.pruning.methods.learned import L0, Subset
from headcount.pruning.methods.method import Method
from headcount.pruning.options import METHOD_OPTIONS, MethodOptions

_BY_NAME = {**BY_SCORE, **{each.name: each for each in (Greedy, Random, Auto, L0, Subset)}}

METHODS: Mapping[str, type[Method]] = {name: _BY_NAME[name] for name in METHOD_OPTIONS}
"""Methods that rank, the best of some of them, and methods that learn gates in training."""


def method(name: str, **options: object) -> Method:
    """A method with some options.

    >>> method("gradient", step=0.1).name
    'gradient'

    Raises:
        InputError: for an unknown method or option, or an invalid value.
    """
    check_known("a method", name, METHODS)
    known = [each.name for each in fields(METHOD_OPTIONS[name])]
    for option in options:
        check_known(f"an option of {name}", option, known)
    return METHODS[name](**options)


def with_options(options: MethodOptions) -> Method:
    """The method with these options."""
    return method(options.name, **vars(options))


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
