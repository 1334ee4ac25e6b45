"""What must hold for every method of pruning: budgets, protection, what a planted model needs."""

from collections import Counter
from dataclasses import dataclass, replace
from inspect import cleandoc

from headcount.core import Head, amount
from headcount.pruning import METHODS, Method, PruningContext, Ranking, Selection, Units, chosen
from headcount.testing.checks import LeftOut, check, expect, expect_options, expect_words
from headcount.testing.examples import at_random, made_at_random, planted
from headcount.testing.known import Known
from headcount.testing.laws import leaving_no_trace

BUDGETS = (1, 3, 5)
"""Numbers of heads to keep, of 8."""


@dataclass(frozen=True)
class MethodSubject:
    """A method to check."""

    method: Method


def _context(known: Known, protected: tuple[Head, ...] = ()) -> PruningContext:
    units = Units.of(known.model.anatomy).protecting(protected)
    return PruningContext(known.model, known.task(), units, seed=3)


def _kept(given: MethodSubject, known: Known, keep: int, *protected: Head) -> list[str]:
    """The names of the heads that the method keeps."""
    found: Selection = chosen(given.method, _context(known, protected), keep)
    return [str(head) for head in found.plan.kept_heads(known.model.heads)]


def _few(known: Known) -> Known:
    return replace(known, texts=known.texts[:8])


@check("laws")
def budget(given: MethodSubject) -> str:
    """Exactly as many heads are kept as the budget has, of all or of every site."""
    known = _few(at_random())
    for keep in BUDGETS:
        kept = _kept(given, known, keep)
        expect(len(kept) == keep, f"{amount(len(kept), 'head')} kept of a budget of {keep}")
    (site,) = known.model.heads.counts
    at = {site: 2}
    found = chosen(given.method, _context(known), at).plan.kept_heads(known.model.heads)
    sites = Counter(head.site for head in found)
    expect(sites == at, f"{dict(sites)} kept of a budget of {at}")
    return f"budgets of {', '.join(map(str, BUDGETS))}, and of {at}"


@check("laws")
def repeats(given: MethodSubject) -> str:
    """The same question with the same seed gets the same answer twice."""
    known = _few(at_random())
    first, again = (_kept(given, known, 3) for _ in range(2))
    expect(first == again, f"{', '.join(first)} kept, then {', '.join(again)}")
    return f"{', '.join(first)} kept twice"


@check("laws")
def nested(given: MethodSubject) -> str:
    """A ranking's smaller budget prunes the same heads and more."""
    if not isinstance(given.method, Ranking):
        raise LeftOut("it is no ranking")
    known = _few(at_random())
    few, more = (set(_kept(given, known, keep)) for keep in BUDGETS[:2])
    expect(
        few <= more, f"{', '.join(sorted(few - more))} kept of {BUDGETS[0]}, not of {BUDGETS[1]}"
    )
    return f"the head of a budget of 1 is among the {BUDGETS[1]} of the larger one"


@check("laws")
def protected(given: MethodSubject) -> str:
    """A protected head is kept, whichever it is."""
    known = _few(at_random())
    for head in (known.heads[0], known.heads[-1]):
        kept = _kept(given, known, 2, head)
        expect(str(head) in kept, f"{head} is protected, but {', '.join(kept)} are kept")
    return f"{known.heads[0]} and {known.heads[-1]} are kept if they are protected"


@check("laws")
def trace(given: MethodSubject) -> str:
    """The model's outputs, weights, hooks and modes are afterwards as they were before."""
    known = _few(made_at_random())
    inputs = next(iter(known.task().batches())).inputs
    with leaving_no_trace(known.model.model, dict(inputs)):
        _kept(given, known, 3)
    return f"{len(known.model.model.state_dict())} weights and all outputs are the same bit for bit"


@check("truth")
def separates(given: MethodSubject) -> str:
    """In a planted model with room for as many heads as the task needs, it keeps these."""
    known = planted()
    needed = [str(head) for head in known.heads if head in known.program.needed]
    kept = _kept(given, known, len(needed))
    expect(kept == needed, f"{', '.join(kept)} kept, where the task needs {', '.join(needed)}")
    return f"{', '.join(needed)} kept"


@check("words")
def words(given: MethodSubject) -> str:
    """It has a name, a meaning, and options that are fields of a frozen dataclass."""
    kind = type(given.method)
    expect_options(kind)
    expect_words("the name", given.method.name)
    about = cleandoc(kind.__doc__ or "").partition("\n\n")[0]
    expect_words("the docstring", " ".join(about.split()), is_sentence=True)
    return " ".join(about.split())


METHOD_CHECKS = (budget, repeats, nested, protected, trace, separates, words)
"""What is asked of every method."""


def method_subject(given: str | type[Method] | Method) -> MethodSubject:
    """A method as given to `check_method`: its name, its class with default options, or itself."""
    found = METHODS[given] if isinstance(given, str) else given
    made = found() if isinstance(found, type) else found
    assert isinstance(made, Method)
    return MethodSubject(made)
