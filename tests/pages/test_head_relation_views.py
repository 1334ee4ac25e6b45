"""Sections of the page on distances, antecedents and links: what they show of a run."""

from dataclasses import replace
from typing import Any

import pytest

from headcount.core import Table, Text
from headcount.pages import render, report_view
from headcount.pages.sections import sections_of
from headcount.results import Analysis, read_run
from tests.pages.run_folder import Wish, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return read_run(write_run(tmp_path_factory.mktemp("run"), Wish(layers=4, heads=3)))


def section(run: Analysis, key: str, *found: Any) -> Any:
    """What a section shows of a run with more results; None if there is none."""
    views = {each.key: each.view for each in sections_of(replace(run, beside=found))}
    return views.get(key)


def test_nothing_is_shown_without_results(run: Analysis) -> None:
    for key in ("alignment", "clusters", "coreference", "probes"):
        assert section(run, key) is None


def test_links_are_ordered_by_error(run: Analysis) -> None:
    from tests.alignment.test_document import alignment

    shown = section(run, "alignment", alignment())
    (table,) = (block for block in shown.blocks if isinstance(block, Table))
    assert [row[0] for row in table.rows] == ["IBM 1", "enc.0.0", "enc.0.1", "enc.0"]
    lede = next(block for block in shown.blocks if isinstance(block, Text))
    assert lede.kind == "lede" and "enc.0.0 links words best (input)" in lede.text


@pytest.mark.slow
@pytest.mark.parametrize("key", ["clusters", "coreference", "alignment"])
def test_the_page_has_a_section_for_each(key: str, run: Analysis) -> None:
    from tests.alignment.test_document import alignment
    from tests.clusters.test_document import clusters
    from tests.coreference.test_document import coreference

    assert f'id="{key}"' not in render(report_view(run))
    found = {"clusters": clusters(0.01), "coreference": coreference(0.6), "alignment": alignment()}
    page = render(report_view(replace(run, beside=(found[key],))))
    assert f'<section id="{key}"' in page and 'href="#enc.0.0"' in page
