"""For every check a plug-in that it catches, with the numbers that it saw."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, final

import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headcount import Relation, Sentence, numbers
from headcount.core import InputError
from headcount.explanation import Direct, Replacement
from headcount.measures import Attention, Sums
from headcount.tap import Reduction
from headcount.testing import Checked, Failed, check_relation, checked, parametrize
from headcount.testing.checking import FAMILIES
from headcount.testing.examples import at_random
from headcount.vocabulary import ColumnEntry

# ------------------------------------------------------------ effects


class Halved(Replacement):
    """An effect that passes, of which the others are broken copies."""

    name, label, about = "halved", "halved", "what is lost if the head gives half of its output"
    source = "ours"

    def outputs(self, prompt: Any, row: int) -> Any:
        return {layer: each / 2 for layer, each in prompt.clean[row].outputs.items()}


class NotANumber(Halved):
    def outputs(self, prompt: Any, row: int) -> Any:
        return {layer: each * torch.nan for layer, each in prompt.clean[row].outputs.items()}


class OfTheBatch(Halved):
    """It depends on how many prompts came before."""

    calls: ClassVar[list[int]] = []

    def outputs(self, prompt: Any, row: int) -> Any:
        self.calls.append(row)
        share = len(self.calls) % 5 / 5
        return {layer: each * share for layer, each in prompt.clean[row].outputs.items()}


class Hooked(Halved):
    def outputs(self, prompt: Any, row: int) -> Any:
        for each in at_random().model.model.modules():
            vars(each)["touched"] = True
        return super().outputs(prompt, row)


class Nothing(Halved):
    """Heads keep their outputs, so that none has an effect."""

    def outputs(self, prompt: Any, row: int) -> Any:
        return dict(prompt.clean[row].outputs)


class Backwards(Direct):
    """The effect with the other sign, and a number for dead heads."""

    name, label, about, source = "backwards", "backwards", "nothing", "ours"

    def of(self, prompt: Any) -> Any:
        found = prompt.along([run.outputs for run in prompt.clean])
        for values in found.heads.values():
            values += 50
        return found


# ------------------------------------------------------------ measures


@dataclass(frozen=True)
class First(Sums):
    """A measure that passes: the mean weight on the first token."""

    name = "first"
    columns = (ColumnEntry("first_weight", "first", "Mean weight on", "it", numbers.percent),)
    needs = frozenset({Reduction.PEAK})

    peak: Float[Tensor, " head"]
    queries: Int[Tensor, ""]

    @classmethod
    def of(cls, attention: Attention) -> "Sums":
        is_query_BQ = attention.queries.is_token_BN
        peak_H = (attention.peak_BHQ.double() * is_query_BQ[:, None]).sum((0, 2))
        return cls(peak_H, is_query_BQ.sum())

    def value(self) -> dict[str, Float[Tensor, " head"]]:
        return {"first_weight": self.peak / self.queries}


@final
@dataclass(frozen=True)
class OtherColumns(First):
    def value(self) -> dict[str, Float[Tensor, " head"]]:
        return {"other": self.peak / self.queries}


@final
@dataclass(frozen=True)
class Means(First):
    """A mean of means does not add."""

    def __add__(self, other: Any) -> Any:
        return Means((self.peak + other.peak) / 2, self.queries + other.queries)


@final
@dataclass(frozen=True)
class Zero(First):
    def value(self) -> dict[str, Float[Tensor, " head"]]:
        return {"first_weight": self.peak / self.queries.clamp(min=1)}


@final
@dataclass(frozen=True)
class Forgetful(First):
    def state(self) -> dict[str, Tensor]:
        return {"peak": self.peak.float(), "queries": self.queries}


@final
@dataclass(frozen=True)
class Undeclared(First):
    needs = frozenset()


@final
@dataclass(frozen=True)
class Wordless(First):
    columns = ("first_weight",)


def half(maps: Any) -> Any:
    peak_H = [sum(each[head].max(-1).sum() for each in maps) for head in range(len(maps[0]))]
    return {"first_weight": [each / 2 / sum(len(m[0]) for m in maps) for each in peak_H]}


# ------------------------------------------------------------ relations


class Next(Relation):
    """Links from a word to the one after the next."""

    name, query, key = "next", "word", "word"

    def links(self, sentence: Sentence) -> Iterator[Any]:
        assert sentence.words is not None
        if len(sentence.words) > 5:
            yield 1, 3


class Never(Next):
    """No link."""

    def links(self, sentence: Sentence) -> Iterator[Any]:
        return iter(())


class Remembering(Next):
    """Links that depend on what was read before."""

    def __init__(self) -> None:
        self.seen = 0

    def links(self, sentence: Sentence) -> Iterator[Any]:
        self.seen += 1
        if self.seen % 2:
            yield 0, 1


class Untold(Next):
    """links."""


# ------------------------------------------------------------ all


@pytest.mark.parametrize(
    ("thing", "check", "saw"),
    [
        (NotANumber, "numbers", "have no finite effect|not finite|nan"),
        (OfTheBatch, "batches", "one by one"),
        (OfTheBatch, "order", "in another order"),
        (Hooked, "trace", "the model has other attributes: .*touched"),
        (Backwards, "dead", r"dead heads have effects up to 50 nats \(dec"),
        (Nothing, "found", r"dec.0.1, which makes it, -?[0-9.e-]+ nats; dec"),
        (Backwards, "chance", "least p after correction"),
        (type("Mute", (Halved,), {"about": ""}), "words", "the meaning is empty"),
        (OtherColumns, "numbers", "it has other, and names"),
        (Means, "adds", "Means.peak: .*"),
        (Zero, "neutral", "first_weight of no cases is .0.0, .*, not NaN"),
        (Forgetful, "resumes", "first_weight of a state that was read: .*"),
        (Undeclared, "needs", "Undeclared reads .* Add Reduction.PEAK to its `needs`"),
        (Wordless, "words", "the column 'first_weight' has no words"),
        (Never, "links", "none of .* sentences has a link"),
        (Remembering, "order", "sentence [01] has "),
        (Untold, "words", "the first line of the docstring is no sentence: 'links.'"),
    ],
)
def test_a_check_catches(thing: Any, check: str, saw: str) -> None:
    found = outcome(thing, check)
    assert re.search(saw, found), found


def outcome(thing: Any, check: str) -> str:
    """What a check that fails saw."""
    family = FAMILIES[thing.registry]
    (its,) = [each for each in family.checks if each.name == check]
    (found,) = Checked.of("it", [its], family.subject(thing)).outcomes
    assert found.state == "failed", found
    return found.saw


def test_a_twin_that_differs_is_quoted() -> None:
    family = FAMILIES[First.registry]
    (twin,) = [each for each in family.checks if each.name == "twin"]
    (found,) = Checked.of("it", [twin], family.subject(First, twin=half)).outcomes
    assert found.state == "failed" and "in place of" in found.saw


def test_what_fails_is_listed_and_what_should_fail_must() -> None:
    with pytest.raises(Failed, match="The relation next fails 1 check:\n- links failed: It links"):
        check_relation(Never)
    with pytest.raises(Failed, match="a failure was expected .why., but it passed"):
        check_relation(Next, expected_failures={"order": "why"})
    with pytest.raises(InputError, match="Expected a check .*got 'other'"):
        parametrize(Next, expected_failures={"other": "why"})
    with pytest.raises(InputError, match="Expected a .*relation, got 3. Only these have checks"):
        checked(3)
