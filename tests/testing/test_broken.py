"""For every check a plug-in that it catches, with the numbers that it saw."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, final
from uuid import uuid4

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headcount import Plan, Relation, Sentence, numbers
from headcount.commands import Command
from headcount.core import Capability, Document, InputError, Section, Text
from headcount.corpora import Column
from headcount.explanation import Direct, Replacement
from headcount.importance import Measured, Score, score_column
from headcount.measures import Attention, Sums, Trait
from headcount.pruning import Ranking, Selection
from headcount.skills import Skill
from headcount.tap import Reduction
from headcount.tasks import Losses, TextsTask
from headcount.testing import (
    Checked,
    Failed,
    check_relation,
    check_score,
    check_skill,
    checked,
    parametrize,
)
from headcount.testing.checking import FAMILIES
from headcount.testing.checks import expect_readable
from headcount.testing.method_checks import BUDGETS
from headcount.testing.task_checks import reader
from headcount.testing.trait_checks import TraitSubject
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
        for each in prompt._loaded.model.modules():
            vars(each)["touched"] = True
        return super().outputs(prompt, row)


class Leaking(Halved):
    """The first token gets the output of the last one."""

    def outputs(self, prompt: Any, row: int) -> Any:
        return {layer: each.roll(1, 0) for layer, each in prompt.clean[row].outputs.items()}


class Nothing(Halved):
    """Heads keep their outputs, so that none has an effect."""

    def outputs(self, prompt: Any, row: int) -> Any:
        return dict(prompt.clean[row].outputs)


class Secondly(Halved):
    """It reads a second prompt, and does not say so."""

    def outputs(self, prompt: Any, row: int) -> Any:
        return prompt.of_second(row)


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


class Fixed(Next):
    """A fixed offset is right wherever a word is."""

    def links(self, sentence: Sentence) -> Iterator[Any]:
        assert sentence.words is not None
        yield from ((place, place - 2) for place in range(2, len(sentence.words)))


class Untold(Next):
    """links."""


# ------------------------------------------------------------ scores


@dataclass(frozen=True)
class Counted(Score):
    """A score that knows nothing: the number of each head in its layer."""

    gain: float = 1.0
    """What the numbers are multiplied by."""
    name, definition = "counted", "It counts heads."
    column = score_column("counted", "count", "number in its layer", "ours")

    def of(self, loaded: Any, task: Any, max_tokens: int = 0) -> Any:
        sizes = Counter(head.layer_id for head in loaded.heads)
        return {at: self.gain * torch.arange(size).double() for at, size in sizes.items()}

    def shifted(self, loaded: Any, task: Any, by: float) -> Any:
        """The numbers, all moved by as much."""
        return {at: each + by for at, each in Counted.of(self, loaded, task).items()}


@dataclass(frozen=True)
class NoNumber(Counted):
    def of(self, loaded: Any, task: Any, max_tokens: int = 0) -> Any:
        return self.shifted(loaded, task, torch.nan)


@dataclass(frozen=True)
class Drifting(Counted):
    calls: ClassVar[list[int]] = []

    def of(self, loaded: Any, task: Any, max_tokens: int = 0) -> Any:
        self.calls.append(0)
        return self.shifted(loaded, task, len(self.calls))


@dataclass(frozen=True)
class OfBatches(Counted):
    def of(self, loaded: Any, task: Any, max_tokens: int = 0) -> Any:
        return self.shifted(loaded, task, sum(1 for _ in task.batches(max_tokens)))


@dataclass(frozen=True)
class OfTheFirst(Counted):
    def of(self, loaded: Any, task: Any, max_tokens: int = 0) -> Any:
        return self.shifted(loaded, task, int(task.length_N[0]))


@dataclass(frozen=True)
class Twice(Counted):
    """It adds what a killed run has measured to what is measured after it."""

    def measured(self, loaded: Any, task: Any, context: Any) -> Measured:
        left = context.state and context.state / "left"
        before = int(left is not None and left.exists())
        if left is not None:
            left.parent.mkdir(parents=True, exist_ok=True)
            left.touch()
        list(context.watched(task, "counting").batches(context.max_tokens))
        return Measured({"counted": self.shifted(loaded, task, before)})


@dataclass(frozen=True)
class Touching(Counted):
    def of(self, loaded: Any, task: Any, max_tokens: int = 0) -> Any:
        vars(loaded.model)["touched"] = True
        return super().of(loaded, task)


@dataclass(frozen=True)
class Unsigned(Counted):
    def signed(self, max_tokens: int) -> Any:
        return {}


class Undecorated(Counted):
    lost: float = 1.0


@dataclass(frozen=True)
class Undefined(Counted):
    definition = "none"


def doubled(score: Any, loaded: Any, task: Any) -> dict[str, float]:
    return {str(head): 2.0 * head.index for head in loaded.heads}


# ------------------------------------------------------------ tasks


class Apart(TextsTask):
    """A task that passes, of which the others are broken copies."""

    name, metric, higher_is_better = "apart", "distance", True
    reads: ClassVar[Any] = {"one": Column(("one",)), "other": Column(("other",))}

    def losses_of(self, output: Any, batch: Any) -> Losses:
        one_EW, other_EW = self.means(output, batch).unbind(1)
        distance_E = (one_EW - other_EW).square().mean(1)
        return Losses((-distance_E).exp(), torch.ones_like(batch.index_E), distance_E.detach())

    def score(self, evaluation: Any, index_S: Any = None) -> float:
        chosen = slice(None) if index_S is None else index_S
        return float(evaluation.outcome_N[chosen].mean())


class Endless(Apart):
    def score(self, evaluation: Any, index_S: Any = None) -> float:
        return float("nan")


class Lossy(Apart):
    def batches(self, max_tokens: int = 0) -> Any:
        yield self.batch(np.arange(self.num_examples - 1))


class Padded(Apart):
    def means(self, output: Any, batch: Any) -> Any:
        return output.last_hidden_state.mean(1).unflatten(0, (len(self.reads), -1)).transpose(0, 1)


class Alike(Apart):
    def some(self, index_N: Any) -> Any:
        part = super().some(index_N)
        part.sha256 = self.sha256
        return part


class Restless(Apart):
    def __init__(self, *given: Any, **how: Any) -> None:
        super().__init__(*given, **how)
        self.sha256 = uuid4().hex


class OfTheLast(Apart):
    def score(self, evaluation: Any, index_S: Any = None) -> float:
        return float(evaluation.outcome_N[-1 if index_S is None else index_S[-1]])


class Marking(Apart):
    def losses_of(self, output: Any, batch: Any) -> Losses:
        vars(reader().model)["touched"] = True
        return super().losses_of(output, batch)


class Headless(Apart):
    def output(self, model: Any, batch: Any, **more: Any) -> Any:
        states = model.get_input_embeddings()(batch.inputs["input_ids"])
        return SimpleNamespace(last_hidden_state=states)


class Inverse(Apart):
    higher_is_better = False


class Nameless(Apart):
    metric = " distance"


# ------------------------------------------------------------ methods


@dataclass(frozen=True)
class Last(Ranking):
    """Prunes the last heads first."""

    name: ClassVar[str] = "last"

    def order(self, context: Any, keep: Any = None) -> Any:
        return dict.fromkeys([*context.units.heads][::-1], float("nan"))


@dataclass(frozen=True)
class Everything(Last):
    def choose(self, context: Any, keep: Any) -> Any:
        heads = context.loaded.heads
        return Selection(Plan.keeping(heads, heads), context.loaded)


@dataclass(frozen=True)
class Whim(Last):
    calls: ClassVar[list[int]] = []

    def order(self, context: Any, keep: Any = None) -> Any:
        self.calls.append(0)
        return dict([*super().order(context).items()][:: (-1) ** len(self.calls)])


@dataclass(frozen=True)
class ByBudget(Last):
    def order(self, context: Any, keep: Any = None) -> Any:
        step = 1 if keep == BUDGETS[0] else -1
        return dict([*super().order(context).items()][::step])


@dataclass(frozen=True)
class Careless(Last):
    def choose(self, context: Any, keep: Any) -> Any:
        heads = [*context.loaded.heads]
        return Selection(Plan.keeping(context.loaded.heads, heads[1:][:keep]), context.loaded)


@dataclass(frozen=True)
class Scribbling(Last):
    def order(self, context: Any, keep: Any = None) -> Any:
        vars(context.loaded.model)["touched"] = True
        return super().order(context)


@dataclass(frozen=True)
class Mumbling(Last):
    """prunes."""


# ------------------------------------------------------------ skills


class Even(Skill):
    """A skill that passes, of which the others are broken copies."""

    name, does, least = "even", "is even by {}", 0.5
    about, source = "nothing at all", "this test"

    def scores(self, loaded: Any, texts: Any, seed: int) -> Any:
        return np.zeros((4, len(loaded.heads)))


class Narrow(Even):
    def scores(self, loaded: Any, texts: Any, seed: int) -> Any:
        return np.zeros((4, 3))


class Unseeded(Even):
    def scores(self, loaded: Any, texts: Any, seed: int) -> Any:
        return super().scores(loaded, texts, seed) + np.random.default_rng().random()


class ByPlace(Even):
    """It is what a head's number is, whatever the head does."""

    def scores(self, loaded: Any, texts: Any, seed: int) -> Any:
        return super().scores(loaded, texts, seed) + np.arange(len(loaded.heads))


class Marked(Even):
    def scores(self, loaded: Any, texts: Any, seed: int) -> Any:
        vars(loaded.model)["touched"] = True
        return super().scores(loaded, texts, seed)


class Speechless(Even):
    does = "is even"


# ------------------------------------------------------------ traits


class Vowels(Trait):
    """It gives its weight to words that begin with a vowel."""

    name, letter, target = "vowels", "W", "words that begin with a vowel"

    def has(self, piece: str) -> bool:
        return piece.strip()[:1].lower() in tuple("aeiou")


class AnyWord(Vowels):
    def has(self, piece: str) -> bool:
        return True


class Unstripped(Vowels):
    def has(self, piece: str) -> bool:
        return piece[:1].lower() in tuple("aeiou")


class OfTheBlock(Vowels):
    """Every other query has no keys, counted from where it is asked."""

    def keys(self, sides: Any, rows: slice, queries: slice) -> Any:
        found_BQK = super().keys(sides, rows, queries).clone()
        found_BQK[:, 1::2] = False
        found_BQK[1::2] = False
        return found_BQK


class OfThePadding(Vowels):
    """The keys of the second half of a batch."""

    def keys(self, sides: Any, rows: slice, queries: slice) -> Any:
        found_BQK = super().keys(sides, rows, queries).clone()
        found_BQK[:] = torch.arange(found_BQK.shape[-1]) * 2 > found_BQK.shape[-1]
        return found_BQK


# ------------------------------------------------------------ commands


class Undecided(Command):
    top: int = 3


def spoken(run: Any) -> Any:
    return Document("Heads", (Text("1 heads of {all}"),))


def command(sentence: str = "List heads.", place: str = "Undecided", **more: Any) -> Capability:
    named = {"name": "idle", "group": "More", "sentence": sentence}
    return Capability(**named, command=f"{__name__}:{place}", **more)


# ------------------------------------------------------------ all


@pytest.mark.once("the score is nan")
@pytest.mark.parametrize(
    ("thing", "check", "saw"),
    [
        (NotANumber, "numbers", "have no finite effect|not finite|nan"),
        (Secondly, "numbers", "Expected a second prompt, got none. Write needs = frozenset"),
        (OfTheBatch, "batches", "one by one"),
        (OfTheBatch, "order", "in another order"),
        (Leaking, "causal", "token 0 of layer 0 changes with what follows, by .*"),
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
        (NoNumber, "numbers", "dec.0.0, dec.0.1, .* of gpt2 have no number"),
        (Drifting, "repeats", "dec.0.0: .* in place of .*, when repeated"),
        (OfBatches, "batches", "in small batches"),
        (OfTheFirst, "order", "in another order"),
        (Twice, "resumes", "after a kill at step"),
        (Touching, "trace", "the model has other attributes: .*touched"),
        (Unsigned, "options", "with gain=0.5, which is signed like 1.0"),
        (Undecorated, "options", "lost of Undecorated is no option: write @dataclass"),
        (Counted, "separates", "needed 1 or more, dead 3 or less in gpt2"),
        (Undefined, "words", "the definition is no sentence: 'none'"),
        (Endless, "numbers", "the score is nan"),
        (Lossy, "once", r"examples \[7\] are in no batch"),
        (Padded, "batches", "the loss of example .: .*, one by one"),
        (Padded, "repeated", "the loss of example .: .*, repeated"),
        (Alike, "some", "have the hash of all of them"),
        (Restless, "signed", "the hash changes when the task is made again"),
        (OfTheLast, "order", "in place of .*, backwards"),
        (Marking, "trace", "the model has other attributes: .*touched"),
        (Headless, "gates", "no loss changes by more than 0"),
        (Inverse, "learns", "the score gets worse, if lower is better: loss .* to .*, distance"),
        (Nameless, "words", "the metric begins or ends with a blank"),
        (Everything, "budget", "Expected 1 heads of those that can be pruned"),
        (Whim, "repeats", "kept, then"),
        (ByBudget, "nested", "kept of 1, not of 3"),
        (Careless, "protected", "dec.0.0 is protected, but dec.0.1, dec.0.2 are kept|Expected 2"),
        (Scribbling, "trace", "the model has other attributes: .*touched"),
        (Last, "separates", "dec.0.0, dec.0.1 kept, where the task needs dec.0.1, dec.1.2"),
        (Mumbling, "words", "the docstring is no sentence: 'prunes.'"),
        (Narrow, "numbers", r"finite numbers .* of the skill even .*float64 of shape .4, 3."),
        (Unseeded, "repeats", "when repeated"),
        (ByPlace, "exchanged", "dec.0.0: 0 in place of 3, when heads change places"),
        (ByPlace, "chance", "dec.0.1 has 1 .at least 1., above 0.5"),
        (Marked, "trace", "the model has other attributes: .*touched"),
        (Speechless, "words", "what it does has no single place"),
        (Never, "links", "none of .* sentences has a link"),
        (Remembering, "order", "sentence [01] has "),
        (Fixed, "found", "is of no head, .* .the word at -2 alone is right in 100.% of the links"),
        (Untold, "words", "the first line of the docstring is no sentence: 'links.'"),
        (AnyWord, "classes", "100.% of the keys .* are in the class: give other texts"),
        (OfTheBlock, "classes", "the keys of one query are others alone than among all"),
        (Unstripped, "blanks", "'.*' is True, and ' .*' is not"),
        (OfThePadding, "adds", "of layer . differs in one batch and one by one"),
        (type("Strict", (Vowels,), {"threshold": 1.1}), "found", "is of no head, not of enc.1.2"),
        (type("Bare", (Vowels,), {"target": ""}), "words", "got no target"),
        (command(place="Lost"), "places", "AttributeError: .* has no attribute 'Lost'"),
        (command(), "places", "top of Undecided is no option|Undecided is no dataclass"),
        (command("lists"), "words", "the sentence is no sentence: 'lists'"),
        (
            command(sections=(Section("idle", "idle", 300, f"{__name__}:spoken"),)),
            "sections",
            "the section idle has a (brace|plural of one)",
        ),
    ],
)
def test_a_check_catches(thing: Any, check: str, saw: str) -> None:
    found = outcome(thing, check)
    assert re.search(saw, found), found


@pytest.mark.slow
def test_a_role_by_chance_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """If what is called random is a model in which a head has the trait."""
    model = TraitSubject.model
    monkeypatch.setattr(TraitSubject, "model", lambda self, which: model(self, "planted"))
    assert outcome(Vowels, "chance") == "the role vowels is of enc.1.2"


def outcome(thing: Any, check: str) -> str:
    """What a check that fails saw."""
    family = FAMILIES[thing.registry]
    (its,) = [each for each in family.checks if each.name == check]
    (found,) = Checked.of("it", [its], family.subject(thing)).outcomes
    assert found.state == "failed", found
    return found.saw


@pytest.mark.parametrize(("thing", "other"), [(First, half), (Counted, doubled)])
def test_a_twin_that_differs_is_quoted(thing: Any, other: Any) -> None:
    family = FAMILIES[thing.registry]
    (twin,) = [each for each in family.checks if each.name == "twin"]
    (found,) = Checked.of("it", [twin], family.subject(thing, twin=other)).outcomes
    assert found.state == "failed" and "in place of" in found.saw


@pytest.mark.slow
def test_what_fails_is_listed_and_what_should_fail_must() -> None:
    with pytest.raises(Failed, match="The relation next fails 1 check:\n- links failed: It links"):
        check_relation(Never)
    assert {each.name for each in checked(Never).outcomes if each.state == "passed"} >= {"words"}
    with pytest.raises(Failed, match="a failure was expected .why., but it passed"):
        check_relation(Next, expected_failures={"order": "why"})
    with pytest.raises(InputError, match="Expected a check .*got 'other'"):
        parametrize(Next, expected_failures={"other": "why"})
    with pytest.raises(
        InputError, match="Expected a plug-in .*relation.*, got 3. Only these have checks"
    ):
        checked(3)
    with pytest.raises(InputError, match="Expected a score, got the relation next. Check it with"):
        check_score(Never)
    with pytest.raises(Failed, match="finds failed: .* Saw: no head in place of dec.0.1"):
        check_skill(Even, heads=["dec.0.1"])


def test_a_fault_of_words_is_quoted_from_the_first_letter() -> None:
    with pytest.raises(Failed, match=re.escape("its words has a brace: ...{Name} looks...")):
        expect_readable("its words", "{Name} looks")
