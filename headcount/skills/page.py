"""What skills add to the page of an analysis: its first words, heads to start with, maps, cards."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import final

from headcount import numbers
from headcount.core import amount
from headcount.numbers import percent
from headcount.pages import CardPart, Map, PagePart, Score, head_map
from headcount.results import Analysis
from headcount.skills.result import Skills, TaskRow
from headcount.vocabulary import SKILLS, ColumnEntry


def skills_headline(found: Skills) -> str:
    """What a model finds and does, for the opening of a page."""
    return f"It {finds(found)}. {does(found.tasks)}"


def best_heads(found: Skills) -> str:
    """The best head by each skill, for the opening of a page."""
    best = []
    for skill in SKILLS.values():
        if (ranked := found.ranked(skill.key)) and (top := ranked[0]).score(skill.key)[0] > 0:
            best.append(f"{top.head} {skill.does.format(top.said(skill.key))}")
    return f"{'; '.join(best)}." if best else ""


def finds(found: Skills) -> str:
    """How many needles a model finds."""
    dense = next(row for row in found.recalls if row.asked == "needles" and not row.heads)
    within = f"({percent(dense.exact_low)} to {percent(dense.exact_high)})"
    needles = amount(dense.cases, "needle")
    return f"finds {percent(dense.exact)} {within} of {needles}, facts hidden in long texts"


def does(tasks: Sequence[TaskRow]) -> str:
    """Which few-shot tasks a model does."""
    done = [f"{row.task} {percent(row.right)}" for row in tasks if row.is_done]
    number = amount(len(tasks), "few-shot task")
    return f"Of {number} it does {len(done)}" + (f": {', '.join(done)}." if done else ".")


def _skill_maps(run: Analysis) -> Iterator[Map]:
    """A map for each skill that was measured."""
    skills = run.of(Skills)
    for skill in SKILLS.values():
        ranked = [] if skills is None else skills.ranked(skill.key)
        if not ranked:
            continue
        found = {row.head: row.score(skill.key) for row in ranked}
        key, label = f"skill_{skill.key}", skill.label + skill.where
        column = ColumnEntry(key, label, "Skills", skill.about, skill.show, "", skill.has_signs)
        values = [found[row.head][0] for row in run.rows]
        shown = head_map(column, values, f"{skill.label} skill {skill.about}")
        sure = tuple(found[row.head][1] >= skill.least for row in run.rows)
        about = f"at least {skill.least:g}, as is the whole 95 % interval"
        yield replace(shown, sure=sure, sure_about=about)


def _scores(run: Analysis) -> dict[str, tuple[Score, ...]]:
    """The scores of every head by skills, each with the head's rank."""
    scores: dict[str, list[Score]] = {row.head: [] for row in run.rows}
    skills = run.of(Skills)
    for skill in SKILLS.values():
        ranked = [] if skills is None else skills.ranked(skill.key)
        for place, row in enumerate(ranked):
            rank = numbers.rank(place, len(ranked))
            scores[row.head].append(Score(skill.label, skill.about, row.said(skill.key), rank))
    return {head: tuple(found) for head, found in scores.items()}


@final
class SkillsPart(PagePart):
    """What a model can do, and its best heads."""

    def headline(self, run: Analysis) -> str:
        """What the model finds and does."""
        found = run.of(Skills)
        return "" if found is None else skills_headline(found)

    def answers(self, run: Analysis) -> Iterable[tuple[str, str]]:
        """The best head by each skill."""
        found = run.of(Skills)
        return () if found is None else (("Best heads", best_heads(found)),)

    def starts(self, run: Analysis) -> Iterable[tuple[str, str]]:
        """The best head by each skill that some head surely has."""
        found = run.of(Skills)
        for skill in SKILLS.values():
            for row in [] if found is None else found.ranked(skill.key)[:1]:
                if row.score(skill.key)[1] >= skill.least:
                    yield row.head, skill.does.format(row.said(skill.key))

    def maps(self, run: Analysis) -> Iterable[Map]:
        """A map for each skill."""
        return _skill_maps(run)

    def cards(self, run: Analysis) -> Mapping[str, CardPart]:
        """What each head does with needles and tasks, and its scores."""
        found, scores = run.of(Skills), _scores(run)
        does = {row.head: row.does for row in (found.heads if found else ())}
        return {head: CardPart(does.get(head, ()), each) for head, each in scores.items()}


PART = SkillsPart()
