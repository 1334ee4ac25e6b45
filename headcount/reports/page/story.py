"""The story: the opening of the report, as lines of text."""

from headcount.reports.kinds import leading
from headcount.reports.page.answer_view import Given, starts
from headcount.reports.page.opening import opening
from headcount.results import Analysis, TraitStrength, finding
from headcount.vocabulary import ROLES, VOITA


def nearest(run: Analysis, role: str) -> str | None:
    """A sentence on the head that comes nearest to a role; None if that was not tested.

    The first half of the corpus chose the head; its numbers are those of the other half.

    Args:
        run: results of a run in which no head has the role.
        role: name of the role.
    """
    tested = [
        trait
        for traits in (run.traits or {}).values()
        for trait in traits
        if trait.role == role and trait.verdict != "untested" and trait.first_gain > 0
    ]
    best: TraitStrength | None = max(tested, key=lambda each: each.first_gain, default=None)
    return best and f"No head is {role}: {best.head} comes nearest. It {finding(best)}."


def story(run: Analysis, given: Given | None = None) -> list[str]:
    """What the heads do and are worth, heads worth a look, and what would show more.

    Of a role of the paper that no head has, it names the head that comes nearest.

    Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), https://arxiv.org/abs/1905.09418

    Args:
        run: the run.
        given: what the proposed commands name; what the record says if None.
    """
    found = leading(run)
    first = opening(run, found, given)
    having = {name for row in run.rows for name in row.roles}
    lines: list[str | None] = [first.headline, *(text for _, text in first.answers)]
    lines += [f"Start with {start.head}: it {start.why}." for start in starts(run, found)]
    papers = [role for role in run.record.inputs.roles if ROLES[role].source.startswith(VOITA)]
    lines += [nearest(run, role) for role in papers if role not in having]
    if first.steps:
        lines.append(f"To see more: {first.steps[0].replace('`', '')}")
    return [line for line in lines if line]
