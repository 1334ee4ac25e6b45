"""The notebooks of the docs run from top to bottom, and what is stored is what they say now.

`make notebooks` stores it.
"""

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FILES = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))
STORES = "HEADCOUNT_NOTEBOOKS" in os.environ


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_notebook_runs(file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = nbformat.read(file, as_version=4)
    stored = said(notebook)
    place: Any = {"metadata": {"path": tmp_path}}
    NotebookClient(notebook, timeout=300, record_timing=False, resources=place).execute()
    for cell in notebook.cells:  # progress bars and the machine's warnings are no results
        cell["outputs"] = [each for each in outputs(cell) if each.get("name") != "stderr"]
        if cell.cell_type != "code":
            del cell["outputs"]
    shown = [each for cell in notebook.cells for each in outputs(cell)]
    pages = [each for each in shown if "<iframe" in each.get("data", {}).get("text/html", "")]
    assert len(pages) >= 2
    assert not [each for each in shown if each.get("output_type") == "error"]
    if STORES:
        nbformat.write(notebook, file)
    else:
        assert said(notebook) == stored, "Run `make notebooks`."


def outputs(cell: Any) -> list[Any]:
    """The outputs of a cell."""
    return cell.get("outputs", [])


def said(notebook: Any) -> list[str]:
    """What every output says in plain text; its page is the same in other words."""
    shown = [each for cell in notebook.cells for each in outputs(cell)]
    return [each.get("text") or each["data"]["text/plain"] for each in shown]


def test_there_are_two() -> None:
    assert len(FILES) == 2
