"""Methods by name, as `--method` takes them."""

from collections.abc import Callable, Sequence
from functools import wraps

from headcount.errors import InputError
from headcount.options import made
from headcount.pruning.ablation import Greedy
from headcount.pruning.fisher import Fisher
from headcount.pruning.gradient import Gradient
from headcount.pruning.l0 import L0
from headcount.pruning.method import Method, Ranking
from headcount.pruning.norm import Norm
from headcount.pruning.random import Random
from headcount.pruning.ranked import Ranked
from headcount.pruning.relevance import Relevance
from headcount.pruning.sink import Sink
from headcount.pruning.subset import Subset


def _ranked(kind: Callable[..., Ranking]) -> Callable[..., Method]:
    """Makes a ranking and cuts it at any budget; with the options of the ranking."""

    @wraps(kind, updated=())
    def make(**options: object) -> Method:
        return Ranked(kind(**options))

    return make


METHODS: dict[str, Callable[..., Method]] = {
    "gradient": _ranked(Gradient),
    "relevance": _ranked(Relevance),
    "ablation": _ranked(Greedy),
    "norm": _ranked(Norm),
    "sink": _ranked(Sink),
    "fisher": _ranked(Fisher),
    "random": _ranked(Random),
    "l0": L0,
    "subset": Subset,
}
"""Those that rank, and then those that learn gates and train."""


def method(name: str, options: Sequence[str] = ()) -> Method:
    """A method with some options, each NAME=VALUE.

    >>> method("gradient", ["step=0.1"]).name
    'gradient'

    Raises:
        InputError: for a method or an option that there is not, or a value it can't have.
    """
    if name not in METHODS:
        raise InputError(f"a method out of {', '.join(METHODS)} was expected; came {name!r}")
    return made(METHODS[name], options)
