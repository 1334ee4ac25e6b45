"""Sections of the page on distances, antecedents and links: what they show of a run."""

from dataclasses import replace
from typing import Any

import pytest

from headcount.reports import render, report_view
from headcount.reports.page import alignment_view, cluster_view, coreference_view
from headcount.results import (
    Alignment,
    AlignmentRecord,
    AlignmentRow,
    Analysis,
    HeadPlace,
    read_run,
)
from tests.reports.run_folder import Wish, write_run
from tests.reports.test_head_relations_text import clusters, coreference


def alignment() -> Alignment:
    def row(head: str, level: str, aer: float) -> AlignmentRow:
        numbers = {"aer_low": aer - 0.01, "aer_high": aer + 0.01, "precision": 0.5, "recall": 0.6}
        return AlignmentRow(
            head=head, level=level, quantity="weights", direction="input", aer=aer, **numbers
        )

    rows = (row("enc.0.1", "head", 0.4), row("enc.0.0", "head", 0.25), row("enc.0", "layer", 0.3))
    facts: dict[str, Any] = {"pairs": 1234, "sure": 30, "possible": 40, "cases": 35}
    rows += (row("IBM 1", "aligner", 0.35),)
    record = AlignmentRecord(signature="s", model="m", corpora=(), gold="g", **facts)
    return Alignment(record, rows)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return read_run(write_run(tmp_path_factory.mktemp("run"), Wish(layers=4, heads=3)))


def test_nothing_is_shown_without_results(run: Analysis) -> None:
    for module in (alignment_view, cluster_view, coreference_view):
        assert module.section(run) is None


def shown_by(module: Any, run: Analysis, **found: Any) -> Any:
    return module.section(replace(run, **found)).view


def test_clusters_have_a_map_with_true_proportions(run: Analysis) -> None:
    at = {"enc.0.0": (0.0, 0.0), "enc.1.0": (0.4, 0.1), "enc.3.1": (0.2, 0.0)}
    places = tuple(HeadPlace(head=head, group=0, order=0, x=x, y=y) for head, (x, y) in at.items())
    shown = shown_by(cluster_view, run, clusters=replace(clusters(0.01), places=places))
    assert shown.lede == (
        "Within 0.1 nats: 3 heads in 1 group of two or more; 0 heads without a near one."
    )
    assert "nearer to each other" in shown.tests[0]
    first, second, third = shown.maps[0].dots
    size = cluster_view.SIZE - 2 * cluster_view.MARGIN
    assert (second.x - first.x, third.x - first.x) == (size, size / 2)
    assert second.y - first.y == size / 4, "one scale for both axes"
    assert [dot.shade for dot in shown.maps[0].dots] == [0.25, 0.5, 1.0], "by layer"
    assert shown.pairs[0] == ("enc.0.0", "enc.0.1", "0.051")
    assert shown.groups == (("enc.0.0", "enc.1.0", "enc.3.1"),)


def test_antecedents_stand_beside_their_baselines(run: Analysis) -> None:
    shown = shown_by(coreference_view, run, coreference=coreference(0.65))
    assert shown.lede.startswith("enc.2.1 points at an antecedent of 65.0 % of the mentions")
    assert shown.lede.endswith("50 mentions in 5 documents have an antecedent in reach.")
    (half,) = shown.halves
    assert (half.head, half.accuracy, half.cases) == ("enc.2.1", "65\u202f%", "25")
    assert half.baselines == ("30\u202f%", "60\u202f%", "70\u202f%")
    assert [each.head for each in shown.heads] == ["enc.2.0", "enc.2.1", "enc.2.2"]


def test_links_are_ordered_by_error(run: Analysis) -> None:
    shown = shown_by(alignment_view, run, alignment=alignment())
    assert [(line.name, line.is_head) for line in shown.lines] == [
        ("IBM 1", False),
        ("enc.0.0", True),
        ("enc.0.1", True),
        ("enc.0", False),
    ]
    assert "enc.0.0 links words best (input): its error rate is 0.250" in shown.lede
    assert shown.lede.endswith("1,234 pairs with 30 sure and 40 possible links.")


@pytest.mark.parametrize("key", ["clusters", "coreference", "alignment"])
def test_the_page_has_a_section_for_each(key: str, run: Analysis) -> None:
    assert f'id="{key}"' not in render(report_view(run))
    found = {"clusters": clusters(0.01), "coreference": coreference(0.6), "alignment": alignment()}
    page = render(report_view(replace(run, **{key: found[key]})))
    assert f'<section id="{key}"' in page and 'href="#enc.0.0"' in page
