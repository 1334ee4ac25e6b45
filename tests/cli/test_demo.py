"""The demo: from the shipped model to a report and its story."""

import json
from pathlib import Path

import pytest

from headcount.cli import demo
from tests.cli.conftest import headcount


@pytest.mark.slow
def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PAIRS", 5)  # every head is ablated on all of them
    status, output, errors = headcount("demo", "--out", tmp_path / "demo")
    assert status == 0, errors
    first, positional, syntactic, rare, *_ = output.splitlines()
    assert first.startswith("Of 144 heads, ") and syntactic.startswith("Syntactic: enc.")
    assert "comes nearest" in positional and "comes nearest" in rare
    assert "without any decoder attention to the encoder" in output
    record = json.loads((tmp_path / "demo" / "importance.json").read_text(encoding="utf-8"))
    assert [one["site"] for one in record["sites"]] == [
        "encoder.self",
        "decoder.self",
        "decoder.cross",
    ]
    page = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert "Whole sites" in page and "cross.5.7" in page
