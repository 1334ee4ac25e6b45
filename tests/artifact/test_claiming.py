"""Whether a run may write a model: nothing of a run that goes on is touched."""

import errno
import fcntl
from pathlib import Path

import pytest

from headcount.artifact import claim_artifact
from headcount.artifact.staging import COMPACT, FINETUNED, Kind, replaced
from headcount.core import InputError, ResumePolicy, hold, locked, release
from headcount.core.files import LOCK
from headcount.training.checkpoints import claim


def test_the_state_of_a_run_that_goes_on_is_not_overwritten(tmp_path: Path):
    claim_artifact(tmp_path / "out", ResumePolicy.REFUSE)
    release()
    state = tmp_path / "out.state"
    (state / "steps.json").write_text("{}")
    with locked(state), pytest.raises(InputError, match="Another process is writing .*out.state"):
        claim_artifact(tmp_path / "out", ResumePolicy.OVERWRITE)
    assert (state / "steps.json").exists()


@pytest.mark.parametrize(("one", "other"), [(COMPACT, FINETUNED), (FINETUNED, COMPACT)])
def test_the_state_of_another_kind_of_run_is_left_alone(one: Kind, other: Kind, tmp_path: Path):
    out = tmp_path / "out"
    claim_artifact(out, ResumePolicy.REFUSE, one)
    (tmp_path / "out.state" / "steps.json").touch()
    release()
    refused = f"holds the interrupted run of {one.name}, not of {other.name}"
    with pytest.raises(InputError, match=refused):
        claim_artifact(out, ResumePolicy.OVERWRITE, other)


@pytest.mark.parametrize("policy", [ResumePolicy.OVERWRITE, ResumePolicy.RESUME])
def test_a_training_that_goes_on_is_not_overwritten(policy: ResumePolicy, tmp_path: Path):
    claim(tmp_path / "out", {"steps": 4}, ResumePolicy.REFUSE)
    release()
    with locked(tmp_path / "out"), pytest.raises(InputError, match="Another process is writing"):
        claim(tmp_path / "out", {"steps": 4}, policy)
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "training.json"]


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)


def _names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


@pytest.mark.usefixtures("no_locks")
def test_a_folder_that_is_made_again_is_held_again_by_a_file(tmp_path: Path):
    out, state = tmp_path / "out", tmp_path / "out.state"
    for policy in (ResumePolicy.REFUSE, ResumePolicy.OVERWRITE, ResumePolicy.OVERWRITE):
        claim_artifact(out, policy)
        assert (state / LOCK).exists()
        (state / "steps.json").touch()
    release()
    assert _names(state) == {"kind.txt", "steps.json"}


@pytest.mark.usefixtures("no_locks")
def test_a_training_is_overwritten_where_a_file_locks(tmp_path: Path):
    out = tmp_path / "out"
    for policy in (ResumePolicy.REFUSE, ResumePolicy.OVERWRITE):
        claim(out, {"steps": 4}, policy)
        assert (out / LOCK).exists()
    release()
    assert _names(out) == {"training.json"}


@pytest.mark.usefixtures("no_locks")
def test_a_lock_file_is_no_part_of_a_model(tmp_path: Path):
    hold(tmp_path)
    with replaced(tmp_path / "out") as new:
        (new / "config.json").touch()
        with pytest.raises(InputError, match="Another process is writing .*out"):
            with replaced(tmp_path / "out"):
                pass
    release()
    assert _names(tmp_path) == {"out", "out/config.json"}
