"""Sums in a file: nothing is lost, and nothing wrong is accepted."""

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from headcount.core import InputError, LayerId
from headcount.measures import Confidence
from headcount.measures.registry import MEASURES
from headcount.measures.streaming import Totals, load_state, save_state
from headcount.testing import laws
from tests.measures.cases import attend, batches


def _totals() -> Totals:
    attention = attend(batches("self")[0])
    places = [LayerId("encoder.self", 0), LayerId("encoder.self", 11), LayerId("decoder.self", 0)]
    sums = {(measure, place): measure.of(attention) for measure in MEASURES for place in places}
    return Totals(sums, num_batches=3, num_sentences=5)


def test_everything_comes_back(tmp_path: Path):
    totals = _totals()
    save_state(tmp_path / "state" / "0.safetensors", totals, "model=a; corpus=é")
    again = load_state(tmp_path / "state" / "0.safetensors", "model=a; corpus=é", MEASURES)
    assert (again.num_batches, again.num_sentences) == (3, 5)
    assert again.sums.keys() == totals.sums.keys()
    for key, sums in totals.sums.items():
        laws.assert_same_sums(again.sums[key], sums, rtol=0)


def test_empty_sums_come_back(tmp_path: Path):
    save_state(tmp_path / "state", Totals(), "signature")
    assert load_state(tmp_path / "state", "signature", MEASURES) == Totals()


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_damaged_file(tmp_path: Path, keep: int):
    path = tmp_path / "state"
    save_state(path, _totals(), "signature")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError) as refusal:
        load_state(path, "signature", MEASURES)
    message = str(refusal.value)
    assert message.startswith(
        f"Expected the sums of an interrupted run in {path}, but it can't be read: "
    )
    assert message.endswith(". Start again with --overwrite instead of --resume.")


def test_flipped_bytes(tmp_path: Path):
    path = tmp_path / "state"
    save_state(path, _totals(), "signature")
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="can't be read: it was changed since it was written"):
        load_state(path, "signature", MEASURES)


def test_a_file_of_measures_with_other_sums(tmp_path: Path):
    path = tmp_path / "state"
    save_state(path, _totals(), "signature")
    with safe_open(path, framework="pt") as file:
        left = {key: file.get_tensor(key) for key in file.keys() if not key.endswith("/segmented")}
        metadata = file.metadata()
    del metadata["sha256"]
    save_file(left, path, metadata)
    with pytest.raises(InputError, match="can't be read: .*segmented.*. Start again with --over"):
        load_state(path, "signature", MEASURES)


def test_the_file_of_another_run(tmp_path: Path):
    path = tmp_path / "state"
    save_state(path, _totals(), "model=a")
    with pytest.raises(InputError) as refusal:
        load_state(path, "model=b", MEASURES)
    message = str(refusal.value)
    assert "--resume needs the same model, data and options" in message
    assert "  model=a\n" in message and "  model=b\n" in message


def test_a_file_that_is_not_ours(tmp_path: Path):
    save_file({"weight": torch.ones(3)}, tmp_path / "state")
    with pytest.raises(InputError, match="--resume needs the same model"):
        load_state(tmp_path / "state", "signature", MEASURES)


def test_sums_of_a_file_go_on_where_the_model_is() -> None:
    """`load_state` returns them on the CPU."""
    here = _totals().sums[Confidence, LayerId("encoder.self", 0)]
    there = Confidence(**{name: each.to("meta") for name, each in here.state().items()})
    assert {each.device.type for each in (here + there).state().values()} == {"meta"}


def test_a_write_that_fails_leaves_the_last_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "state"
    save_state(path, _totals(), "signature")

    def fail(tensors: object, file: Path, metadata: object) -> None:
        Path(file).write_bytes(b"half a fi")
        raise OSError("no space left on device")

    monkeypatch.setattr("safetensors.numpy.save_file", fail)
    with pytest.raises(OSError, match="no space left"):
        save_state(path, Totals(), "signature")
    assert [each.name for each in tmp_path.iterdir()] == ["state"]
    assert load_state(path, "signature", MEASURES).num_batches == 3


def test_saving_does_not_change_the_sums(tmp_path: Path):
    totals = _totals()
    before = totals.sums[Confidence, LayerId("encoder.self", 0)].state()["peak"].clone()
    save_state(tmp_path / "state", totals, "signature")
    assert torch.equal(totals.sums[Confidence, LayerId("encoder.self", 0)].state()["peak"], before)
