"""Checks of a thing of any family, called from a test, as tests of pytest, or by the command."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, final

from headcount.core import Capability, InputError, check_known
from headcount.corpora import Relation
from headcount.explanation import Effect
from headcount.importance import Score
from headcount.measures import Sums, Trait
from headcount.pruning import Method
from headcount.skills import Skill
from headcount.tasks import Task
from headcount.testing.checks import Check, Checked, Outcome
from headcount.testing.command_checks import COMMAND_CHECKS, command_subject
from headcount.testing.effect_checks import EFFECT_CHECKS, effect_subject
from headcount.testing.measure_checks import MEASURE_CHECKS, measure_subject
from headcount.testing.method_checks import METHOD_CHECKS, method_subject
from headcount.testing.relation_checks import RELATION_CHECKS, relation_subject
from headcount.testing.score_checks import SCORE_CHECKS, score_subject
from headcount.testing.skill_checks import SKILL_CHECKS, skill_subject
from headcount.testing.task_checks import TASK_CHECKS, task_subject
from headcount.testing.trait_checks import TRAIT_CHECKS, trait_subject


@final
@dataclass(frozen=True)
class Family:
    """What is asked of everything of a family."""

    noun: str
    checks: tuple[Check, ...]
    subject: Callable[..., Any]
    """What checks look at, of a thing."""

    @property
    def takes_data(self) -> bool:
        """Whether it can be checked on data of one's own."""
        return "data" in signature(self.subject).parameters

    def check(
        self, thing: Any, *, expected_failures: Mapping[str, str] | None = None, **about: Any
    ) -> Checked:
        """Run every check of a thing of this family, and raise if one fails.

        Args:
            thing: A class of the family, or an object with options of its own.
            expected_failures: Why some checks fail, by their names.
            about: What some families take besides. A measure, a score and a skill take `twin`: the
                same again, as slowly as need be, to compare with. A relation, a trait and a skill
                take `data`, texts in place of our English sample, and a task what it is made of. A
                task and a skill take `model`, in place of a random encoder and a planted decoder;
                a skill also `heads`: the names of the heads of the model that have it. A trait
                takes `looks`: what a planted head looks at that has it, if its keys are no class of
                words, such as "first".

        Raises:
            Failed: If a check fails, or one that should fail does not; says what each saw.
            InputError: If the thing is of another family.
        """
        if family_of(thing) is not self:
            raise InputError(
                f"Expected a {self.noun}, got the {family_of(thing).noun} {thing.name}. Check it "
                f"with check_{family_of(thing).noun}."
            )
        return checked(thing, expected_failures, **about).raise_failed()


FAMILIES: Mapping[str, Family] = {
    Capability.registry: Family("command", COMMAND_CHECKS, command_subject),
    Effect.registry: Family("effect", EFFECT_CHECKS, effect_subject),
    Sums.registry: Family("measure", MEASURE_CHECKS, measure_subject),
    Relation.registry: Family("relation", RELATION_CHECKS, relation_subject),
    Score.registry: Family("score", SCORE_CHECKS, score_subject),
    Skill.registry: Family("skill", SKILL_CHECKS, skill_subject),
    Method.registry: Family("method", METHOD_CHECKS, method_subject),
    Task.registry: Family("task", TASK_CHECKS, task_subject),
    Trait.registry: Family("trait", TRAIT_CHECKS, trait_subject),
}
"""What is asked of each family, by where its registry is."""

check_command = FAMILIES[Capability.registry].check
check_effect = FAMILIES[Effect.registry].check
check_measure = FAMILIES[Sums.registry].check
check_method = FAMILIES[Method.registry].check
check_relation = FAMILIES[Relation.registry].check
check_score = FAMILIES[Score.registry].check
check_skill = FAMILIES[Skill.registry].check
check_task = FAMILIES[Task.registry].check
check_trait = FAMILIES[Trait.registry].check


def family_of(thing: Any) -> Family:
    """The family of a thing.

    Raises:
        InputError: If nothing can be asked of it.
    """
    place = getattr(thing, "registry", None)
    if not isinstance(place, str) or place not in FAMILIES:
        *nouns, last = (each.noun for each in FAMILIES.values())
        known = f"{', '.join(nouns)} or {last}"
        raise InputError(f"Expected a plug-in ({known}), got {thing!r}. Only these have checks.")
    return FAMILIES[place]


def checked(
    thing: Any, expected_failures: Mapping[str, str] | None = None, **about: Any
) -> Checked:
    """Run all checks of a thing, whatever becomes of them.

    Args:
        thing: A class or an object of a family that a registry has.
        expected_failures: Why some checks fail, by their names.
        about: What the family's `check_` function takes besides, such as a twin.
    """
    family = family_of(thing)
    subject = family.subject(thing, **about)
    return Checked.of(f"the {family.noun} {thing.name}", family.checks, subject, expected_failures)


def parametrize(
    *things: Any, expected_failures: Mapping[str, str] | None = None, **about: Any
) -> Any:
    """Make a test of pytest run every check of some things, each as a test of its own.

    >>> @parametrize(Mine, expected_failures={"batches": "by design"})  # doctest: +SKIP
    ... def test_mine(check):
    ...     check()

    Args:
        things: Classes or objects of any family.
        expected_failures: Why some checks fail, by their names; such tests are marked `xfail`, and
            fail if the check does not.
        about: What the `check_` function of the things' family takes besides, such as a twin.
    """
    import pytest  # only here: nothing else needs it

    reasons, tests = expected_failures or {}, list[Any]()
    names = [its.name for thing in things for its in family_of(thing).checks]
    for name in reasons:
        check_known("a check", name, dict.fromkeys(names), "(one of {})")
    for thing in things:
        for its, run in _tests(thing, about):
            reason = reasons.get(its.name)
            marks = () if reason is None else (pytest.mark.xfail(reason=reason, strict=True),)
            tests.append(pytest.param(run, id=f"{thing.name}-{its.name}", marks=marks))
    return pytest.mark.parametrize("check", tests)


def _tests(thing: Any, about: Mapping[str, Any]) -> Iterator[tuple[Check, Callable[[], Outcome]]]:
    family = family_of(thing)
    subject = family.subject(thing, **about)
    for each in family.checks:
        yield each, _test(each, subject, f"the {family.noun} {thing.name}")


def _test(its: Check, subject: Any, what: str) -> Callable[[], Outcome]:
    def run() -> Outcome:
        import pytest  # only here: nothing else needs it

        found = Checked.of(what, [its], subject)
        (only,) = found.outcomes
        if only.state == "left out":
            pytest.skip(only.saw)
        found.raise_failed()
        return only

    return run
