"""`headcount evolve`: tables, folders, resuming, and errors."""

from pathlib import Path

import pytest

from headcount.results import read_evolution
from tests.cli.conftest import SAMPLE, headcount

FEW = ("--occurrences", 5, "--types", 8, "--clusters", 6)


def test_evolve_writes_tables_and_prints_them(bert: Path, marian: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, output, errors = headcount("evolve", bert, marian, SAMPLE, *FEW, "--out", out)
    assert status == 0, errors
    assert "masked-lm-1, output: 8 tokens x 5 occurrences" in output
    assert "states take" in errors
    found = read_evolution(out)
    assert {row.label for row in found.rows} == {"masked-lm-1", "translation-1"}
    assert found.record.arguments["occurrences"] == 5 and found.record.clusters == 6
    assert "have different tokenizers" in output
    curve = found.curves("mi", "input")["translation"]
    assert list(curve) == [0, 1, 2] and curve[0][0] > 0.4
    assert not list(out.rglob("*.f16"))
    status, _, errors = headcount("evolve", bert, SAMPLE, *FEW, "--out", out)
    assert status == 2 and "an earlier run" in errors


def test_a_killed_run_resumes_to_the_same_numbers(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("evolve", bert, SAMPLE, *FEW)
    assert headcount(*given, "--out", tmp_path / "once")[0] == 0

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "cut"
    with monkeypatch.context() as patch:
        patch.setattr("headcount.evolution.evolving.information_by_position", stop)
        assert headcount(*given, "--out", out)[0] == 130
    assert list(out.rglob("*.f16"))
    status, _, errors = headcount(*given, "--out", out, "--resume")
    assert status == 0 and "states (text)" not in errors and "states (output)" in errors
    once, resumed = (read_evolution(tmp_path / name).frame() for name in ("once", "cut"))
    assert once.equals(resumed)


@pytest.mark.parametrize(
    "given, says",
    [
        (("--occurrences", 5000), "at least 2 tokens with 5,000 occurrences"),
        (("--occurrences", 5, "--clusters", 90_000), "as many states as clusters"),
        (("--measure", "colour"), "colour"),
    ],
)
def test_bad_input_is_refused(bert: Path, tmp_path: Path, given: tuple, says: str) -> None:
    try:
        status, _, errors = headcount("evolve", bert, SAMPLE, *given, "--out", tmp_path / "out")
    except SystemExit as end:
        assert end.code == 2
        return
    assert status == 2 and says in errors


def test_one_model_twice_is_refused(bert: Path, tmp_path: Path) -> None:
    status, _, errors = headcount("evolve", bert, bert, SAMPLE, *FEW, "--out", tmp_path / "out")
    assert status == 2 and "twice" in errors
    status, _, errors = headcount("evolve", SAMPLE, "--out", tmp_path / "out")
    assert status == 2 and "models and a corpus" in errors
