"""The story matches the opening of the report."""

from dataclasses import replace
from pathlib import Path

import pytest

from headcount import numbers
from headcount.pages import Given, report_view, story
from headcount.pages.worth import effect_of, ranked
from headcount.results import read_run
from tests.pages.changed import changed
from tests.pages.run_folder import Wish, shared_run, write_run
from tests.pages.test_profile_view import TRAIT


@pytest.mark.slow
def test_opening_then_starts_then_what_would_show_more(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, Wish(importance=True)))
    view, lines = report_view(run), story(run)
    answers = [text for _, text in view.opening.answers]
    assert lines[: 1 + len(answers)] == [view.opening.headline, *answers]
    first, *others = [
        effect_of(row, "ablation_delta") for row in ranked(run.rows, "ablation_delta")
    ]
    assert lines[0].startswith(f"{first.head} ") and f"{others[1].head} " in lines[0]
    sizes = numbers.listed([numbers.effect(each.delta) for each in (first, *others[:2])])
    assert lines[0].endswith(
        f"matter most: without each, the loss rises by {sizes} squared distance."
    )
    assert "heads have a role" in lines[1] and "neither" not in lines[1]
    assert "heads have a role" in lines[2] and "neither" in lines[2]
    assert lines[3].startswith(f"Without {first.head}, ") and "heads matter" in lines[3]
    assert not view.opening.num_above
    for start in view.starts:
        assert f"Start with {start.head}. It {start.why}." in lines


def test_the_next_command_names_the_model_the_task_and_the_folder(tmp_path: Path) -> None:
    """Those that are given, or else what the records say."""
    run = read_run(write_run(tmp_path, Wish(sites=("decoder.self",))))
    told = story(run, Given("models/my gpt", "out/gpt"))[-1]
    task = "--task causal-lm --data FILE"
    assert f"headcount importance 'models/my gpt' {task} --out out/gpt shows" in told
    run = read_run(write_run(tmp_path / "scored", Wish(layers=2, heads=6, importance=True)))
    assert run.importance is not None
    scored = replace(run.importance, arguments={"data": ["a.tsv"], "columns": ["score=2"]})
    record = replace(run.record, arguments={"out": "runs"})
    told = story(replace(run, importance=scored, record=record))[-1]
    what = f"{run.record.model} --task {scored.task} --data a.tsv --columns score=2"
    assert f"headcount curve {what} --dev DEV_FILE --keep 9 6 3 --out runs/curve shows" in told


def test_the_clearest_head_is_that_of_the_half_that_chose(profiled: Path) -> None:
    """Not the one that is lucky in the half that is shown; sinks come last."""
    run = shared_run(profiled)
    lucky, clear = (
        replace(TRAIT, strength=strength, share=strength, first_gain=gain)
        for strength, gain in ((0.9, 0.1), (0.5, 0.4))
    )
    subject = replace(TRAIT, trait="nsubj", relation="nsubj", role="syntactic", first_gain=0.05)
    subject = replace(subject, direction="head->dependent")
    profiles = {
        head: (replace(trait, head=head),)
        for head, trait in (("enc.0.0", lucky), ("enc.0.1", clear), ("enc.0.2", subject))
    }
    roles = {row.head: () for row in run.rows}
    found = report_view(changed(run, traits=profiles, roles=roles)).starts
    assert [start.head for start in found] == ["enc.0.2", "enc.0.1"]


def test_a_role_that_no_head_has_is_reported_with_the_nearest_head(profiled: Path) -> None:
    """The first half of the corpus chooses the head, the other half gives its number."""
    run = shared_run(profiled)
    assert run.traits is not None
    head = run.rows[3].head
    chosen = [
        replace(trait, first_gain=5.0, share=0.31, null=0.25) if trait.trait == "rare" else trait
        for trait in run.traits[head]
    ]
    heads = tuple(replace(row, roles=()) for row in run.rows)
    without = changed(
        run,
        rows=heads,
        roles={row.head: () for row in heads},
        traits={**run.traits, head: tuple(chosen)},
    )
    (line,) = [each for each in story(without) if each.startswith("No head has the role rare")]
    assert line.replace("\u202f", " ") == (
        f"No head has the role rare. The nearest is {head}: it looks at the two rarest tokens in "
        "31 % of cases; by chance it would be 25 %."
    )
    assert not [each for each in story(changed(without, traits=None)) if "nearest" in each]


def test_without_a_head_that_matters_the_page_opens_with_what_heads_look_at(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, Wish(importance=True)))
    rows = [replace(row, values={**row.values, "ablation_p": 1.0}) for row in run.rows]
    told = story(changed(run, rows=rows))
    assert "have a role" in told[0] and not any("matter most" in line for line in told)
