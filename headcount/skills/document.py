"""What skills show: the best heads, what is right without them, and which of them are the same.

To the page of an analysis they add its first words, heads to start with, maps and cards.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import final

from headcount import numbers
from headcount.core import Block, Document, Heading, Table, Text, amount, capital
from headcount.numbers import percent
from headcount.pages import CardPart, Map, Note, PagePart, Score, head_map
from headcount.results import Analysis
from headcount.skills.result import Overlap, RecallRow, Skills, TaskRow
from headcount.statistics import wilson_interval
from headcount.vocabulary import SKILLS, ColumnEntry

SHOWN, NAMED = 5, 2
"""Number of heads by each skill, and of those that the first sentence names."""


def skills_notes(found: Skills) -> tuple[Note, ...]:
    """What each skill is that some head was asked for."""
    asked = ((entry, found.ranked(key)) for key, entry in found.skills.items())
    return tuple(
        Note(capital(each.label), f"{capital(each.about)}.", each.source)
        for each, scores in asked
        if any(not isnan(score.mean) for score in scores)
    )


def skills_document(found: Skills) -> Document:
    """The document of skills."""
    if found.is_of_pictures:
        return pictured_document(found)
    record = found.record
    first, who = " ".join(record.first) or "one more random token", _fetching(found)
    return Document(
        "What the heads of a language model do",
        (
            *([Text(who, "lede")] if who else []),
            Text(f"{record.model} {finds(found)}. {does(found.tasks)}", "hint" if who else "lede"),
            Text(
                "Retrieval is a mean over needles of which the model wrote more than half, and the "
                "function vector over prompts of the tasks that it can do. The other scores are "
                f"over texts of random tokens that are repeated once, behind {first}. Intervals "
                "are Student's (95 %); each half has every second needle, prompt or text."
            ),
            *_best(found),
            *_without(found.recalls),
            *_overlaps(record.overlaps),
            *_in_other_words(found),
            Heading("Few-shot tasks"),
            Table.of(
                ("task", "prompts", "right", "95 %", "P(answer)", "shuffled", "scored"),
                map(_task, found.tasks),
                "Few-shot tasks, and the probability of their answers",
            ),
        ),
    )


def _fetching(found: Skills) -> str:
    """Which heads fetch facts, and how many are found without the best; empty if none does."""
    best = [each.head for each in found.ranked("retrieval") if each.is_reached][:NAMED]
    rows = [row for row in found.recalls if row.asked == "needles"]
    without = next((row for row in rows if row.removed == "retrieval"), None)
    if not best or without is None:
        return ""
    return (
        f"{numbers.listed(best)} {'fetches' if len(best) == 1 else 'fetch'} facts from the text. "
        f"Without the {amount(without.heads, 'best such head')}, {percent(without.exact)} of facts "
        f"are found; with all heads, {percent(rows[0].exact)}."
    )


def pictured_document(found: Skills) -> Document:
    """The document of skills on prompts with pictures."""
    record = found.record
    nulls = [
        f"With the tokens of each picture in random places, no head is chosen in more than "
        f"{percent(record.shuffled or 0.0)} of prompts."
    ]
    if record.elsewhere is not None:
        nulls.append(
            "For what other questions are about, no head has a picture retrieval of more than "
            f"{record.elsewhere:z.2f}."
        )
    return Document(
        "What the heads of a language model do with pictures",
        (
            Text(f"{record.model} {finds(found)}.", "lede"),
            Text(
                "Localization is a mean over prompts with pictures, and picture retrieval over "
                "those whose question names a thing with a box. Intervals are Student's (95 %); "
                f"each half has every second prompt. {' '.join(nulls)}"
            ),
            *_best(found),
            *_without(found.recalls),
            *_places(found),
            *_overlaps(record.overlaps),
        ),
    )


_LOOK = {
    "random": "random others",
    "all": "all heads",
    "fixed": "the most frequent place, without looking",
}


def _places(found: Skills) -> Iterator[Block]:
    """How often heads find the part of a picture that a question is about."""
    if not found.places:
        return
    yield Heading("Which heads find what a question is about")
    yield Text(
        "Some heads look together: the largest of their summed weights on the picture, from the "
        "token that the reply is predicted from, lies in the box or not. The best heads by each "
        "score were chosen on the other half of the prompts. Intervals are Wilson's."
    )
    rows = (
        (
            _LOOK.get(row.by, f"best by {_words(row.by)}"),
            str(row.heads or ""),
            percent(row.found),
            f"{percent(row.found_low)} to {percent(row.found_high)}",
            str(row.cases),
        )
        for row in found.places
    )
    yield Table.of(("look", "heads", "found", "95 %", "questions"), rows, "Places that are found")


def _without(recalls: Sequence[RecallRow]) -> tuple[Block, ...]:
    """What is answered without some heads."""
    if not recalls:
        return ()
    headers = ("asked", "removed", "heads", "replaced by", "right", "95 %", "share of the answer")
    rows = (
        (
            *(row.asked, _words(row.removed), str(row.heads), row.replaced, percent(row.exact)),
            f"{percent(row.exact_low)} to {percent(row.exact_high)}",
            percent(row.recall),
        )
        for row in recalls
    )
    cases = "prompts" if recalls[0].asked == "questions" else "needles and prompts"
    return (
        Heading("What the model can do without its best heads"),
        Text(
            f"The best heads by each score were chosen on the other half of the {cases}. Removed "
            "heads output zero, or their mean over the texts. Intervals are over "
            f"{cases} (Wilson)."
        ),
        *_sampled(recalls),
        Table.of(headers, rows),
    )


def _sampled(recalls: Sequence[RecallRow]) -> Iterator[Block]:
    """What asking all needles and prompts again would give."""
    whole = {row.asked: row.cases for row in recalls if row.removed == "none"}
    again = {row.asked: row.cases for row in recalls if row.removed != "none"}
    for name, num in again.items():
        if num < whole[name]:
            wide, narrow = (WIDEST / each**0.5 for each in (num, whole[name]))
            yield Text(
                f"Without heads, {num} of {whole[name]} {_ASKED[name]} were asked again: intervals "
                f"of up to {percent(wide)} on either side. --again {whole[name]} makes them "
                f"{percent(narrow)}, in {whole[name] / num:.1f} times the time."
            )


def _in_other_words(found: Skills) -> Iterator[Block]:
    """Which needles are answered if the question shares no word with them."""
    if not found.answers:
        return
    yield Heading("Needles in other words")
    null = found.record.null
    scored = "Too few kinds are answered to score heads."
    if null is not None:
        scored = (
            "A head's score is what it adds to the answer from the needle, more than from "
            "elsewhere, as a share of what all heads add. With another stretch of the text in the "
            f"needle's place, no head has more than {SKILLS['answers'].show(null)}."
        )
    yield Text(
        "The question shares no word with its needle, so copying does not find the answer. "
        "Needles that are answered even from the text without them are left out, and so are kinds "
        f"of which less than half is answered. {scored}"
    )
    kinds = {row.kind: row.is_asked for row in found.answers}
    for row in found.answers:
        kinds[row.kind] |= row.is_asked
    rows = []
    for kind, is_asked in kinds.items():
        asked = [row for row in found.answers if row.kind == kind]
        left = [row for row in asked if not row.is_guessed]
        right = sum(row.is_right for row in left)
        low, high = wilson_interval(right / len(left), len(left)) if left else (0.0, 1.0)
        share = f"{percent(right / len(left))}" if left else ""
        within = f"{percent(low)} to {percent(high)}"
        guesses = str(len(asked) - len(left))
        rows.append((kind, str(len(left)), share, within, guesses, "yes" if is_asked else "no"))
    headers = ("kind", "needles", "right", "95 %", "right without the needle", "scored")
    yield Table.of(headers, rows, "Needles in other words, by kind")


_ASKED = {
    "needles": "needles",
    "answers": "needles in other words",
    "tasks": "few-shot prompts",
    "questions": "questions about pictures",
}
WIDEST = 0.98
"""Half of the width of the widest 95 % interval of a share, times the root of the number."""


def _words(name: str) -> str:
    return name.replace("_", " ")


def _task(row: TaskRow) -> tuple[str, ...]:
    return (
        row.task,
        str(row.prompts),
        percent(row.right),
        f"{percent(row.right_low)} to {percent(row.right_high)}",
        f"{row.clean:.2f}",
        "not measured" if isnan(row.shuffled) else f"{row.shuffled:.2f}",
        "yes" if row.is_done else "left out",
    )


def _best(found: Skills) -> tuple[Block, ...]:
    """What each score is, and the heads with the largest ones."""
    ranked = {skill: best for skill in found.skills.values() if (best := found.ranked(skill.key))}
    scores = (
        (
            skill.label,
            skill.about,
            f"{skill.least:g}",
            f"{sum(each.is_reached for each in best)} of {len(best)}",
        )
        for skill, best in ranked.items()
    )
    heads = (
        (each.head, skill.label, each.said, skill.show(each.first), skill.show(each.second))
        for skill, best in ranked.items()
        for each in best[:SHOWN]
    )
    return (
        Heading("The best heads by each skill"),
        Table.of(("skill", "score", "threshold", "heads that reach it"), scores, "Skills"),
        Table.of(("head", "skill", "score", "first half", "second half"), heads),
    )


def _overlaps(overlaps: Sequence[Overlap]) -> tuple[Block, ...]:
    """How many of the best heads every two scores share, as a matrix."""
    if not overlaps:
        return ()
    shared = {(each.one, each.other): each for each in overlaps}
    names = [each.one for each in overlaps if each.one == each.other]
    rows = [(_words(one), *(_shared(shared.get((one, other))) for other in names)) for one in names]
    title = "Heads that two scores share"
    return (
        Heading("Which of the best heads are the same"),
        Text(
            f"The table counts how many of the {amount(overlaps[0].heads, 'best head')} by one "
            f"score are also the best by another; chance shares {overlaps[0].expected:.1f}. The "
            "diagonal compares the two halves of the data: an upper limit for the other cells."
        ),
        Table.of(("best by", *map(_words, names)), rows, title),
    )


def _shared(overlap: Overlap | None) -> str:
    return "" if overlap is None else str(overlap.shared)


def _skills_headline(found: Skills) -> str:
    """What a model finds and does, for the opening of a page."""
    return f"It {finds(found)}. {does(found.tasks) if found.tasks else ''}".strip()


OPENING = 2
"""Number of skills that the opening of a page names: the map is on the first screen."""


def best_heads(found: Skills) -> str:
    """The best head by each of the first skills that some head has, for the opening of a page."""
    best = []
    for skill in found.skills:
        if (ranked := found.ranked(skill)) and ranked[0].mean > 0:
            best.append(f"{ranked[0].head} {ranked[0].does}")
    return f"{'; '.join(best[:OPENING])}." if best else ""


def finds(found: Skills) -> str:
    """How many needles a model finds, or how many questions about pictures it answers."""
    if found.is_of_pictures:
        return _answers(found.recalls)
    dense = next(row for row in found.recalls if row.asked == "needles" and not row.heads)
    within = f"({percent(dense.exact_low)} to {percent(dense.exact_high)})"
    needles = amount(dense.cases, "needle")
    return f"finds {percent(dense.exact)} {within} of {needles}, facts hidden in long texts"


def _answers(recalls: Sequence[RecallRow]) -> str:
    """How many questions about pictures a model answers."""
    for row in recalls:
        if not row.heads:
            within = f"({percent(row.exact_low)} to {percent(row.exact_high)})"
            asked = amount(row.cases, "question")
            return f"answers {percent(row.exact)} {within} of {asked} about pictures"
    return "was asked about pictures without answers to compare its own with"


def does(tasks: Sequence[TaskRow]) -> str:
    """Which few-shot tasks a model does."""
    done = [f"{row.task} {percent(row.right)}" for row in tasks if row.is_done]
    number = amount(len(tasks), "few-shot task")
    return f"Of {number} it does {len(done)}" + (f": {', '.join(done)}." if done else ".")


def _skill_maps(run: Analysis) -> Iterator[Map]:
    """A map for each skill that was measured."""
    skills = run.of(Skills)
    for skill in () if skills is None else skills.skills.values():
        assert skills is not None
        found = {each.head: each for each in skills.ranked(skill.key)}
        if not found:
            continue
        key, label = f"skill_{skill.key}", skill.label + skill.where
        column = ColumnEntry(key, label, "Skills", skill.about, skill.show, "", skill.has_signs)
        values = [found[row.head].mean for row in run.rows]
        shown = head_map(column, values, f"{skill.label} skill {skill.about}")
        sure = tuple(found[row.head].is_sure for row in run.rows)
        about = f"at least {skill.least:g}, as is the whole 95 % interval"
        yield replace(shown, sure=sure, sure_about=about)


def _scores(run: Analysis) -> dict[str, tuple[Score, ...]]:
    """The scores of every head by skills, each with the head's rank."""
    scores: dict[str, list[Score]] = {row.head: [] for row in run.rows}
    skills = run.of(Skills)
    for skill in () if skills is None else skills.skills.values():
        assert skills is not None
        ranked = skills.ranked(skill.key)
        for place, each in enumerate(ranked):
            rank = numbers.rank(place, len(ranked))
            scores[each.head].append(Score(skill.label, skill.about, each.said, rank))
    return {head: tuple(found) for head, found in scores.items()}


@final
class _SkillsPart(PagePart):
    """What a model can do, and its best heads."""

    def headline(self, run: Analysis) -> str:
        """What the model finds and does."""
        found = run.of(Skills)
        return "" if found is None else _skills_headline(found)

    def answers(self, run: Analysis) -> Iterable[tuple[str, str]]:
        """The best head by each skill."""
        found = run.of(Skills)
        return () if found is None else (("Best heads", best_heads(found)),)

    def starts(self, run: Analysis) -> Iterable[tuple[str, str]]:
        """The best head by each skill that some head surely has."""
        found = run.of(Skills)
        for skill in () if found is None else found.skills:
            assert found is not None
            for each in found.ranked(skill)[:1]:
                if each.is_sure:
                    yield each.head, each.does

    def maps(self, run: Analysis) -> Iterable[Map]:
        """A map for each skill."""
        return _skill_maps(run)

    def cards(self, run: Analysis) -> Mapping[str, CardPart]:
        """What each head does with needles and tasks, and its scores."""
        found, scores = run.of(Skills), _scores(run)
        does = {} if found is None else found.does()
        return {head: CardPart(does.get(head, ()), each) for head, each in scores.items()}


PART = _SkillsPart()
