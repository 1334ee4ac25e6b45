"""Checks: what must hold for everything of a family, each with a sentence and what it saw.

A check is a function of a thing. It returns what it saw, or raises `Failed`; its docstring says
what it means. Whatever else the thing raises in it fails the check, too. What it expects is said by
`expect`: of numbers, of options, and of words that outsiders write, which have to read well.

>>> @check("laws")
... def positive(number: int) -> str:
...     '''The number is above 0.'''
...     expect(number > 0, f"{number} is not")
...     return f"{number} is"
>>> [(each.name, each.state, each.saw) for each in outcomes([positive], -3, {})]
[('positive', 'failed', '-3 is not')]
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, fields, is_dataclass
from inspect import cleandoc, get_annotations
from io import StringIO
from typing import Any, Literal, final

import numpy as np
from jaxtyping import Float

from headcount.core import (
    Document,
    InputError,
    Table,
    Text,
    Warned,
    amount,
    capability_registry,
    check_known,
    imported,
    what_failed,
)

Kind = Literal["laws", "truth", "nulls", "words"]
"""What a check asks: what always holds, what is known, what chance does, or how it is worded."""
State = Literal["passed", "failed", "expected", "left out"]
"""What became of a check; `expected` is a failure that was announced with its reason."""


class Failed(AssertionError):
    """A check does not hold; says what it saw."""


class LeftOut(Exception):  # noqa: N818
    """A check does not apply; says why."""


def expect(holds: object, saw: str) -> None:
    """Fail the check unless something holds.

    Raises:
        Failed: If it does not.
    """
    if not holds:
        raise Failed(saw)


def expect_same(
    found: Float[np.ndarray, "*shape"],
    other: Float[np.ndarray, "*shape"],
    what: str,
    names: Sequence[object],
    tolerance: float = 1e-4,
) -> str:
    """Fail unless numbers are the same, up to a part of the largest one; says what it saw.

    Raises:
        Failed: If they differ; names the first of those that differ most.
    """
    is_known = np.isfinite(other)
    largest = float(np.abs(other[is_known]).max(initial=0.0))
    gap = np.where(np.isnan(found) & np.isnan(other), 0.0, np.abs(found - other))
    gap[np.isnan(gap)] = np.inf
    worst = int(gap.argmax()) if gap.size else 0
    apart = float(gap.max(initial=0.0))
    limit = tolerance * max(largest, 1e-9)
    text = f"{names[worst]}: {found[worst]:.6g} in place of {other[worst]:.6g}, {what}"
    expect(apart <= limit, text)
    return f"{amount(len(other), 'number')} the same within {apart:.1g}, {what}"


_FAULTS = (
    (r"\S  +\S", "two blanks"),
    (r"\s[.,;:](?:\s|$)", "a blank before a mark"),
    (r"(?<!\.)\.\.(?!\.)|,,|,\.", "two marks in a row"),
    (r"\bNone\b|\bnan\b", "a missing value"),
    (r"[{}]", "a brace"),
    (r"(?<![\d.,])1 (?:heads|prompts|examples)\b", "a plural of one"),
    (r"\b(?:0|[2-9]|\d\d+) (?:head|prompt|example)\b(?!-)", "a singular of several"),
)


def expect_words(where: str, words: str, is_sentence: bool = False) -> None:
    """Fail unless words are there, and are a sentence, or can be the end of one.

    Raises:
        Failed: If they do not read well.
    """
    expect(words.strip(), f"{where} is empty")
    expect(words == words.strip(), f"{where} begins or ends with a blank: {words!r}")
    if is_sentence:
        expect(words[0].isupper() and words[-1] in ".?!", f"{where} is no sentence: {words!r}")
    else:
        expect(words[-1] not in ".!,;:", f"{where} ends in a mark inside a sentence: {words!r}")
    expect_readable(where, words)


def expect_options(kind: type) -> None:
    """Fail unless the options of a class are fields of a frozen dataclass.

    Raises:
        Failed: If they are not; names one that is none.
    """
    advice = f"write @dataclass(frozen=True) above {kind.__name__}"
    expect(is_dataclass(kind), f"{kind.__name__} is no dataclass: {advice}")
    hints = {each: str(hint) for each, hint in get_annotations(kind).items()}
    known = {each.name for each in fields(kind)}
    lost = [each for each, hint in hints.items() if each not in known and "ClassVar" not in hint]
    expect(not lost, f"{', '.join(lost)} of {kind.__name__} is no option: {advice}")
    frozen = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    expect(frozen, f"{kind.__name__} is not frozen: {advice}")


def expect_readable(where: str, text: str) -> None:
    """Fail if a text has what no text should.

    Raises:
        Failed: If it does; quotes the place.
    """
    text = re.sub(r"(?<!\w)'[^']*'(?!\w)", "'text'", text)  # what models and users wrote
    for pattern, fault in _FAULTS:
        if found := re.search(pattern, text):
            begin, end = max(found.start() - 30, 0), found.end() + 30
            expect(False, f"{where} has {fault}: ...{text[begin:end]}...")


def shown(command: str, result: object, section: str = "") -> Document:
    """The document of a command's result, or of a section of its page.

    Raises:
        Failed: If it does not read well.
    """
    its = capability_registry()[command]
    places = {each.key: each.document for each in its.sections}
    document: Document = imported(places[section] if section else its.document)(result)
    expect_document(f"the document of {command}", document)
    return document


def expect_document(where: str, document: Document) -> None:
    """Fail if a paragraph of a document does not read well.

    Raises:
        Failed: If one does not; quotes the place.
    """
    for block in document.blocks:
        if isinstance(block, Text | Warned):
            expect_readable(where, block.text)


@final
@dataclass(frozen=True)
class Check:
    """One thing that must hold."""

    kind: Kind
    name: str
    """Name by which a failure is expected."""
    sentence: str
    """What it means."""
    run: Callable[[Any], str]
    """Looks at a thing and returns what it saw; raises if the check does not hold."""


def check(kind: Kind) -> Callable[[Callable[[Any], str]], Check]:
    """Make a check of a function, whose name and docstring are its name and its sentence."""

    def of(run: Callable[[Any], str]) -> Check:
        assert run.__doc__, f"{run.__name__} does not say what it means."
        sentence = " ".join(cleandoc(run.__doc__).partition("\n\n")[0].split())
        return Check(kind, run.__name__, sentence, run)

    return of


@final
@dataclass(frozen=True)
class Outcome:
    """What became of a check."""

    kind: Kind
    name: str
    sentence: str
    state: State
    saw: str
    """What it saw, or why it was left out."""
    reason: str = ""
    """Why a failure was expected."""

    def __str__(self) -> str:
        reason = f" (expected: {self.reason})" if self.reason else ""
        return f"{self.name} {self.state}{reason}: {self.sentence} Saw: {self.saw}"


def outcomes(
    checks: Iterable[Check], thing: object, expected_failures: Mapping[str, str]
) -> list[Outcome]:
    """Run checks on a thing.

    Args:
        checks: The checks.
        thing: What they look at.
        expected_failures: Why some checks fail, by their names. One that does not fail is a
            failure.

    Raises:
        InputError: If a failure is expected of no check.
    """
    checks = tuple(checks)
    for name in expected_failures:
        check_known("a check", name, [each.name for each in checks], "(one of {})")
    return [_outcome(each, thing, expected_failures.get(each.name)) for each in checks]


def _outcome(its: Check, thing: object, reason: str | None) -> Outcome:
    state, printed = "passed", StringIO()
    try:
        with redirect_stdout(printed):
            saw = its.run(thing)
    except LeftOut as why:
        state, saw = "left out", str(why)
    except Failed as failure:
        state, saw = "failed", str(failure)
    except InputError as error:
        state, saw = "failed", str(error)
    except (Exception, SystemExit) as error:
        state, saw = "failed", what_failed(error)
    if reason is not None:
        if state == "failed":
            state = "expected"
        else:
            state, saw = "failed", f"a failure was expected ({reason}), but it {state}: {saw}"
            reason = None
    return Outcome(its.kind, its.name, its.sentence, state, saw, reason or "")


@final
@dataclass(frozen=True)
class Checked:
    """A thing, and what became of all its checks."""

    what: str
    """What was checked, as in "the score norm"."""
    outcomes: tuple[Outcome, ...]

    @classmethod
    def of(
        cls,
        what: str,
        checks: Iterable[Check],
        subject: object,
        expected_failures: Mapping[str, str] | None = None,
    ) -> "Checked":
        """Run checks on a subject."""
        return cls(what, tuple(outcomes(checks, subject, expected_failures or {})))

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The checks that failed."""
        return tuple(each for each in self.outcomes if each.state == "failed")

    def raise_failed(self) -> "Checked":
        """Return itself if no check failed.

        Raises:
            Failed: If one did; says what each saw.
        """
        listed = "\n".join(f"- {each}" for each in self.failed)
        number = amount(len(self.failed), "check")
        expect(not self.failed, f"{self.what[:1].upper()}{self.what[1:]} fails {number}:\n{listed}")
        return self

    def document(self) -> Document:
        """A table with a row for each check."""
        states = {state: sum(each.state == state for each in self.outcomes) for state in _STATES}
        counts = [f"{number} {state}" for state, number in states.items() if number]
        rows, first = list[tuple[str, ...]](), dict[str, str]()
        for each in self.outcomes:
            before = first.setdefault(_saw(each), each.name)
            saw = _saw(each) if before == each.name else f"the same as {before}"
            rows.append((each.kind, each.name, each.state, each.sentence, saw))
        lede = f"{amount(len(self.outcomes), 'check')}: {', '.join(counts)}."
        headers = ("kind", "check", "result", "meaning", "saw")
        return Document(
            f"Checks of {self.what}", (Text(lede, "lede"), Table.of(headers, rows, "checks"))
        )


_STATES: tuple[State, ...] = ("passed", "failed", "expected", "left out")


def _saw(outcome: Outcome) -> str:
    return f"{outcome.saw} ({outcome.reason})" if outcome.reason else outcome.saw
