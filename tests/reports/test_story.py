"""The story says what the report opens with."""

from pathlib import Path

from headcount.reports import read_run, report_view
from headcount.reports.story import story
from tests.reports.run_folder import Wish, write_run


def test_roles_with_their_clearest_heads_then_sites_then_heads(tmp_path: Path) -> None:
    write_run(tmp_path, Wish(importance=True))
    run = read_run(tmp_path)
    view, lines = report_view(run), story(run)
    assert view.worth is not None
    assert lines[0] == view.headline
    assert lines[-2:] == [view.worth.sites, view.worth.lede]
    told = {lead.role.name: lead.heads for lead in view.leads}
    roles = [line.partition(":")[0].lower() for line in lines[1:-2]]
    assert roles == [name for name in told if name in ("positional", "syntactic", "rare")] != []
    for line, name in zip(lines[1:], roles, strict=False):
        for head, evidence in told[name]:
            assert f"{head} ({evidence})" in line


def test_without_an_assessment_it_ends_with_the_roles(tmp_path: Path) -> None:
    write_run(tmp_path, Wish())
    lines = story(read_run(tmp_path))
    assert not any("rises" in line for line in lines)
