"""Relations: one half of the corpus chooses the head, the other half gives its numbers."""

from dataclasses import replace
from pathlib import Path

from headcount.analysis.syntax_section import best_heads, syntax_document
from headcount.core import Table, Text
from headcount.numbers import percent
from headcount.results import Analysis, RelationResult, read_run
from tests.pages.changed import changed
from tests.pages.run_folder import shared_run
from tests.pages.test_profile_view import TRAIT
from tests.results.test_findings import NSUBJ


def told(run: Analysis) -> list[str]:
    """The sentences of the document."""
    shown = syntax_document(run)
    assert shown is not None
    return [block.text for block in shown.blocks if isinstance(block, Text)]


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
    (row,) = best_heads(run)
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
    assert told(run)[0] == (
        "Of 1 relation with enough cases, a head finds 1 more often than position explains, "
        "1 by 10 points or more."
    )


def test_the_largest_gain_comes_first_and_few_cases_are_counted(profiled: Path):
    obj = {"trait": "obj", "relation": "obj", "share": 0.7, "verdict": "none"}
    few = {"trait": "iobj", "relation": "iobj", "verdict": "untested"}
    run = with_relations(profiled, NSUBJ, replace(NSUBJ, **obj), replace(NSUBJ, **few))
    assert [row.relation for row in best_heads(run)] == ["obj", "nsubj"]
    assert [row.is_beyond_chance for row in best_heads(run)] == [False, True]
    assert told(run)[0].endswith(". 1 relation has too few cases to test.")


def result(head: str, relation: str, accuracy: float, cases: int = 200) -> RelationResult:
    return RelationResult(head, relation, "dependent->head", accuracy, cases, 0.5, -1.0)


def test_a_run_of_0_1_shows_the_head_with_the_largest_gain_on_all_sentences(plain: Path):
    """Punctuation and all relations together count as none there, too."""
    from headcount.compare.comparison import relation_pairs

    results = (
        result("enc.0.0", "obj", 0.6),
        result("enc.0.2", "nsubj", 0.65),
        result("enc.0.1", "nsubj", 0.7),
        result("enc.0.0", "punct", 0.99),
        result("enc.0.0", "all", 0.99),
        result("enc.0.0", "vocative", 0.98, cases=7),
        result("enc.0.0", "iobj", float("nan")),
    )
    run = changed(shared_run(plain), relation_rows=results)
    shown = syntax_document(run)
    assert shown is not None
    assert [(row.relation, row.head) for row in best_heads(run)] == [
        ("nsubj", "enc.0.1"),
        ("obj", "enc.0.0"),
    ]
    (cells, _) = next(block for block in shown.blocks if isinstance(block, Table)).rows
    assert cells[0] == "nsubj, dependent → head"
    assert cells[3:] == (percent(0.7), percent(0.5), "+20", "200", "–")
    summary, how = told(run)
    assert summary == "2 relations have enough cases. 1 relation has too few cases to test."
    assert "on the sentences that it is measured on" in how
    assert relation_pairs(run, run) == ()


def test_nothing_without_trees(profiled: Path, roleless: Path):
    assert syntax_document(with_relations(profiled, TRAIT)) is None
    assert syntax_document(changed(shared_run(roleless), relation_rows=None)) is None
