"""The demo: from the shipped model to a report and its story."""

import json
from pathlib import Path

import pytest

from headcount.reporting import command as more
from tests.commanding import headcount

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.slow
@pytest.mark.usefixtures("page")
def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(more, "PAIRS", 3)  # every head is ablated on all of them
    status, output, errors = headcount("demo", "--out", tmp_path / "demo")
    assert status == 0, errors
    assert "of 144 heads" in output.splitlines()[0] and "Start with " in output
    assert "No head has the role positional" in output and "No head has the role rare" in output
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
