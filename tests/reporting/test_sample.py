"""Our data sets as files: those that the package holds, and parts of the translations."""

import shlex
from pathlib import Path

from headcount.commands.command_line import parse
from headcount.core import DATA
from headcount.explanation import OURS
from tests.commanding import headcount


def test_all_data_sets_are_written(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "sample"
    status, output, errors = headcount("sample", folder)
    assert status == 0, errors
    found = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    assert f"Wrote {len(found)} files" in output and "headcount analyze MODEL" in output
    parts = [found.pop(Path(f"{name}.tsv")).read_text() for name in ("train", "dev", "test")]
    lines = [line for part in parts for line in part.splitlines(keepends=True)]
    pairs = (DATA / "sample.tsv").read_text().splitlines(keepends=True)
    assert sorted(lines) == sorted(pairs) and {part.count("\n") for part in parts} == {56}
    for name, path in found.items():
        assert path.read_bytes() == (DATA / name).read_bytes()
    assert {OURS / path.name for path in OURS.iterdir()} <= {DATA / name for name in found}
    assert not any(path.suffix == ".safetensors" for path in found)


def test_other_files_are_kept(tmp_path: Path) -> None:
    assert headcount("sample", tmp_path)[0] == 0
    assert headcount("sample", tmp_path)[0] == 0, "the same files again"
    (tmp_path / "dev.tsv").write_text("mine")
    (tmp_path / "sample.de").unlink()
    status, _, errors = headcount("sample", tmp_path)
    assert status == 2 and "dev.tsv is there and is not the file that would be" in errors
    assert (tmp_path / "dev.tsv").read_text() == "mine" and not (tmp_path / "sample.de").exists()
    (tmp_path / "file").write_text("")
    assert headcount("sample", tmp_path / "file")[0] == 2


def test_the_next_step_is_a_command(tmp_path: Path) -> None:
    output = headcount("sample", tmp_path / "a b")[1]
    next_step = output.rpartition("Next: headcount ")[2]
    parsed = parse(shlex.split(next_step))
    assert vars(parsed)["corpus"] == (str(tmp_path / "a b" / "sample.conllu"),)
