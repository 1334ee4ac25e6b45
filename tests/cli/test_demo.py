"""The demo: from the shipped model to a report and its story."""

import json
from pathlib import Path

import pytest

from headcount.cli import demo
from tests.cli.conftest import headcount


def first_sentences(number: int, folder: Path) -> Path:
    """A folder with the first sentences of the sample that the demo reads."""
    for name, end in (("sample.conllu", "\n\n"), ("sample.de", "\n"), ("sample.tsv", "\n")):
        whole = (demo.DATA / name).read_text(encoding="utf-8").split(end)
        (folder / name).write_text(end.join(whole[:number]) + end, encoding="utf-8")
    return folder


@pytest.mark.slow
def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PAIRS", 5)  # every head is ablated on all of them
    monkeypatch.setattr(demo, "DATA", first_sentences(56, tmp_path))
    status, output, errors = headcount("demo", "--out", tmp_path / "demo")
    assert status == 0, errors
    assert output.startswith("Of 144 heads, ") and "Start with " in output
    assert "No head is positional: enc." in output and "No head is rare: enc." in output
    assert "without any decoder attention to the encoder" in output
    assert "108 of 144 heads were pruned, chosen by fisher" in output, "the smaller model"
    record = json.loads((tmp_path / "demo" / "importance.json").read_text(encoding="utf-8"))
    assert [one["site"] for one in record["sites"]] == [
        "encoder.self",
        "decoder.self",
        "decoder.cross",
    ]
    page = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert "Whole sites" in page and "cross.5.7" in page and "before and after" in page
