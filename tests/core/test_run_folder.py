"""What a run does with an earlier one in its folder."""

from pathlib import Path

import pytest

from headcount.core import (
    InputError,
    ResumePolicy,
    check_no_earlier_run,
    check_only_ours,
    claim,
    entries,
    is_begun,
    mark,
    marked,
    new_figure,
    save,
    start_over,
)

POLICIES = list(ResumePolicy)
KILLED = 2**22 + 1
"""The number of a process that no Linux gives."""


def test_resume_policy(tmp_path: Path) -> None:
    assert ResumePolicy.of(resume=False, overwrite=False) is ResumePolicy.REFUSE
    assert ResumePolicy.of(resume=True, overwrite=False) is ResumePolicy.RESUME
    assert ResumePolicy.of(resume=False, overwrite=True) is ResumePolicy.OVERWRITE
    with pytest.raises(InputError, match="Expected one of --resume and --overwrite, got both"):
        ResumePolicy.of(resume=True, overwrite=True)
    with pytest.raises(InputError, match="holds an earlier run. Give --resume to resume it"):
        check_no_earlier_run(tmp_path, "an earlier run", ResumePolicy.REFUSE)
    for policy in (ResumePolicy.RESUME, ResumePolicy.OVERWRITE):
        check_no_earlier_run(tmp_path, "an earlier run", policy)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["curve.json", "state/kind.txt", "state/points.json"])
def test_a_half_written_file_is_no_hindrance(tmp_path: Path, policy: ResumePolicy, name: str):
    """As a process leaves that is killed while it writes its first file."""
    out = tmp_path / "out"
    half = (out / name).with_name(f".{Path(name).name}.{KILLED}.part")
    half.parent.mkdir(parents=True)
    half.write_text("{")
    assert not is_begun(out / "state")
    claim(out, ("curve.json",), out / "state", policy)
    assert not half.exists() and entries(out) == [out / "state"]


def test_a_figure_takes_the_place_of_a_half_written_one(tmp_path: Path):
    half, other = (tmp_path / f".{name}.svg.{KILLED}.part" for name in ("sites", "mine"))
    half.touch()
    other.touch()
    save(new_figure(1.0, 1.0), tmp_path / "sites.svg")
    assert {path.name for path in tmp_path.iterdir()} == {"sites.svg", other.name}


def test_a_file_that_another_process_is_writing_stays(tmp_path: Path):
    half = tmp_path / ".curve.json.1.part"
    half.write_text("{")
    with pytest.raises(InputError, match="which holds other files"):
        claim(tmp_path, ("curve.json",), tmp_path / "state", ResumePolicy.OVERWRITE)
    assert half.exists()


def test_half_written_files_of_others_stay(tmp_path: Path):
    half = tmp_path / f".thesis.tex.{KILLED}.part"
    half.write_text("mine")
    claim(tmp_path, ("curve.json",), tmp_path / "state", ResumePolicy.OVERWRITE)
    assert half.read_text() == "mine"


def test_a_state_that_is_not_ours_is_not_deleted(tmp_path: Path):
    (tmp_path / "curve.json").touch()
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "mine").write_text("notes")
    with pytest.raises(InputError, match="state holds files that this run did not write"):
        claim(tmp_path, ("curve.json",), tmp_path / "state", ResumePolicy.OVERWRITE)
    assert (tmp_path / "state" / "mine").read_text() == "notes"


def test_a_kind_that_is_no_text(tmp_path: Path):
    mark(tmp_path, "curve")
    (tmp_path / "kind.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"Expected the kind of a run in .*kind.txt, but it can't"):
        marked(tmp_path)


def test_only_our_files_are_replaced(tmp_path: Path):
    for name in ("config.json", "state/deep/file", "tokenizer.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    ours = ("*.json", "state/*")
    check_only_ours(tmp_path, ours)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.json").touch()
    with pytest.raises(InputError, match=r"files that headcount did not write \(notes/mine.json\)"):
        check_only_ours(tmp_path, ours)


def test_a_run_that_was_killed_after_it_started_over_can_be_overwritten(tmp_path: Path) -> None:
    """Its state is deleted once all input is read, and keeps the mark of its kind."""
    out, state = tmp_path / "out", tmp_path / "out" / "state"
    claim(out, ["a.json"], state, ResumePolicy.REFUSE)
    (state / "unit").write_text("of the first")
    claim(out, ["a.json"], state, ResumePolicy.OVERWRITE)
    assert (state / "unit").exists(), "a typo in the model's name costs nothing"
    start_over(state)
    assert not is_begun(state)
    (state / "unit").write_text("of the second, which is killed")
    for policy in (ResumePolicy.OVERWRITE, ResumePolicy.RESUME):
        claim(out, ["a.json"], state, policy)
