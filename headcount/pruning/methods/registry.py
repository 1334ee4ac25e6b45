"""Methods by name, as given to `--method`."""

from collections.abc import Callable, Sequence
from functools import wraps

from headcount.core import check_known, made
from headcount.pruning.methods.ablation import Greedy
from headcount.pruning.methods.auto import Auto
from headcount.pruning.methods.fisher import Fisher
from headcount.pruning.methods.gradient import Gradient
from headcount.pruning.methods.l0 import L0
from headcount.pruning.methods.method import Method, Ranking, RankingMethod
from headcount.pruning.methods.norm import Norm
from headcount.pruning.methods.random import Random
from headcount.pruning.methods.relevance import Relevance
from headcount.pruning.methods.sink import Sink
from headcount.pruning.methods.subset import Subset


def _ranked(kind: Callable[..., Ranking]) -> Callable[..., Method]:
    """A factory of methods that cut a ranking at any budget; it takes the ranking's options."""

    @wraps(kind, updated=())
    def make(**options: object) -> Method:
        return RankingMethod(kind(**options))

    return make


METHODS: dict[str, Callable[..., Method]] = {
    "gradient": _ranked(Gradient),
    "relevance": _ranked(Relevance),
    "ablation": _ranked(Greedy),
    "norm": _ranked(Norm),
    "sink": _ranked(Sink),
    "fisher": _ranked(Fisher),
    "random": _ranked(Random),
    "auto": Auto,
    "l0": L0,
    "subset": Subset,
}
"""Methods that rank, the best of some of them, and methods that learn gates in training."""


def method(name: str, options: Sequence[str] = ()) -> Method:
    """A method with some options, each NAME=VALUE.

    >>> method("gradient", ["step=0.1"]).name
    'gradient'

    Raises:
        InputError: for an unknown method or option, or an invalid value.
    """
    check_known("a method", name, METHODS)
    return made(METHODS[name], options)
