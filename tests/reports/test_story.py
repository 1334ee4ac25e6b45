"""The story matches the opening of the report."""

from dataclasses import replace
from pathlib import Path

from headcount.reports import report_view, story
from headcount.results import read_run
from tests.reports.run_folder import Wish, write_run


def test_roles_with_their_clearest_heads_then_sites_then_heads(tmp_path: Path) -> None:
    write_run(tmp_path, Wish(importance=True))
    run = read_run(tmp_path)
    view, lines = report_view(run), story(run)
    assert view.worth is not None
    assert lines[0] == view.headline
    assert lines[-2:] == [view.worth.sites, view.worth.lede]
    reported = {lead.role.name: lead.heads for lead in view.leads}
    for line, name in zip(lines[1:-2], ("positional", "syntactic", "rare"), strict=True):
        for head, evidence in reported[name]:
            assert f"{head} ({evidence})" in line


def test_a_role_that_no_head_has_is_told_with_the_nearest_head(tmp_path: Path) -> None:
    write_run(tmp_path, Wish(roles=False))
    run = read_run(tmp_path)
    lines = story(run)[1:]
    for line, column in ((lines[0], "positional_share"), (lines[2], "rare2_share")):
        best = max(run.heads, key=lambda row: row.values[column])
        assert f"{best.head} comes nearest" in line
        assert f"{best.values[column]:.0%}" in line
    assert run.relations is not None
    gains = [one.gain for one in run.relations if one.cases >= 100 and one.relation != "punct"]
    (best,) = [one for one in run.relations if one.gain == max(gains) and one.cases >= 100]
    assert f"{best.head} comes nearest with {best.relation} {best.direction}, " in lines[1]
    mark = replace(best, relation="punct", accuracy=1.0, baseline=0.0)
    assert story(replace(run, relations=(*run.relations, mark)))[1:] == lines, "a convention of UD"
    assert len(story(replace(run, relations=None))) == 3, "without trees nothing is known of syntax"


def test_without_an_assessment_it_ends_with_the_roles(tmp_path: Path) -> None:
    write_run(tmp_path, Wish())
    lines = story(read_run(tmp_path))
    assert not any("rises" in line for line in lines)
