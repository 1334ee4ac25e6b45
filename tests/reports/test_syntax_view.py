"""Relations: one half of the corpus chooses the head, the other half gives its numbers."""

from dataclasses import replace
from pathlib import Path

from headcount.core import Table
from headcount.numbers import percent
from headcount.reports.documents.syntax import syntax_document
from headcount.reports.relation_view import syntax_of
from headcount.results import Analysis, read_run
from tests.reports.changed import changed
from tests.reports.run_folder import shared_run
from tests.results.test_findings import NSUBJ


def with_relations(folder: Path, *traits) -> Analysis:
    run = read_run(folder)
    heads = [row.head for row in run.rows]
    profiles: dict[str, tuple] = {head: () for head in heads}
    for head, trait in zip(heads, traits, strict=False):
        profiles[head] = (replace(trait, head=head),)
    return changed(run, traits=profiles)


def test_the_head_is_the_choice_of_the_first_half_not_the_best_of_the_second(profiled: Path):
    best_in_second = replace(NSUBJ, first_gain=0.1, share=0.99)
    run = with_relations(profiled, best_in_second, replace(NSUBJ, first_gain=0.3))
    table = syntax_of(run)
    assert table is not None
    (row,) = table.rows
    assert (row.head, row.share, row.chance) == ("enc.0.1", 0.58, 0.37)
    shown = syntax_document(run)
    assert shown is not None
    (cells,) = next(block for block in shown.blocks if isinstance(block, Table)).rows
    assert cells[1:6] == (
        "enc.0.1",
        "the subject of a verb",
        *map(percent, (0.58, 0.37)),
        "+21",
    )
    assert table.summary == (
        "Of 1 relation with enough cases, a head finds 1 more often than position explains, "
        "1 by 10 points or more."
    )


def test_the_largest_gain_comes_first_and_few_cases_are_counted(profiled: Path):
    obj = {"trait": "obj", "relation": "obj", "share": 0.7, "verdict": "none"}
    few = {"trait": "iobj", "relation": "iobj", "verdict": "untested"}
    run = with_relations(profiled, NSUBJ, replace(NSUBJ, **obj), replace(NSUBJ, **few))
    table = syntax_of(run)
    assert table is not None and [row.relation for row in table.rows] == ["obj", "nsubj"]
    assert [row.is_beyond_chance for row in table.rows] == [False, True]
    assert table.untested == "1 relation has too few cases to test."


def test_nothing_without_profiles_or_trees(plain: Path, profiled: Path):
    assert syntax_of(shared_run(plain)) is None
    assert syntax_of(with_relations(profiled)) is None
