"""`headcount probe`: tables, folders, and errors."""

from pathlib import Path

import pytest

from headcount.probing import Probed
from tests.commanding import SAMPLE, headcount

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("treebanks")
    sentences = SAMPLE.read_text(encoding="utf-8").strip().split("\n\n")
    for name, part in (("train", sentences[:20]), ("test", sentences[20:30])):
        (folder / f"{name}.conllu").write_text("\n\n".join(part) + "\n\n", encoding="utf-8")
    return folder / "train.conllu", folder / "test.conllu"


def test_probe_writes_tables_and_prints_them(
    bert: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    given = ("probe", bert, "--train", files[0], "--test", files[1], "--samples", 20)
    out = tmp_path / "out"
    status, output, errors = headcount(*given, "--out", out)
    assert status == 0, errors
    assert "Probe of heads of words, from attention" in output and "95 % interval" in output
    assert (out / "probes.md").exists()
    assert {path.name for path in out.iterdir()} >= {
        "probes.parquet",
        "probe_weights.parquet",
        "probes.json",
    }
    assert not list(out.rglob("*.f16"))
    assert Probed.read(out).record.arguments["samples"] == 20
    status, _, errors = headcount(*given, "--out", out)
    assert status == 2 and "holds earlier probes" in errors
    status, _, errors = headcount(*given, "--out", out, "--overwrite")
    assert status == 0, errors


@pytest.mark.usefixtures("page")
@pytest.mark.slow
def test_probes_are_added_to_an_analysis_and_survive_it(
    bert: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert headcount("analyze", bert, files[0], "--out", out)[0] == 0
    given = ("probe", bert, "--train", files[0], "--test", files[1], "--samples", 20)
    status, _, errors = headcount(*given, "--out", out)
    assert status == 0, errors
    assert (out / "run.json").exists() and Probed.read(out).weights
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "What the heads know together" in page and '"from_dependent":"' in page
    assert (out / "figures" / "probe_accuracies.svg").exists()
    (out / "figures" / "probe_accuracies.svg").unlink()
    assert headcount("report", out)[0] == 0
    assert (out / "figures" / "probe_accuracies.svg").exists()


def test_a_folder_with_other_files_is_refused(
    bert: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "thesis.tex").write_text("")
    given = ("probe", bert, "--train", files[0], "--test", files[1], "--out", tmp_path)
    status, _, errors = headcount(*given)
    assert status == 2 and "thesis.tex" in errors


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--vectors", "glove-6b-50d"), "--vectors only affects the probe words"),
        (("--ranks", 3), "--ranks only affects the probe structure"),
        (("--layers", 1), "--layers only affects hidden states"),
    ],
)
def test_options_of_other_probes_are_refused(
    bert: Path, files: tuple[Path, Path], tmp_path: Path, option: tuple, message: str
) -> None:
    given = ("probe", bert, "--train", files[0], "--test", files[1], "--out", tmp_path / "out")
    status, _, errors = headcount(*given, *option)
    assert status == 2 and message in errors
    assert not (tmp_path / "out").exists()
