"""Settings of all tests: shapes and types are checked, hypothesis keeps no files."""

import gc
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch
from matplotlib.figure import Figure

from tests import checked

checked.install("headcount")
pytest.register_assert_rewrite("tests.laws", "tests.measures.cases")
hypothesis.settings.register_profile("headcount", deadline=None, database=None, derandomize=True)
hypothesis.settings.load_profile("headcount")
torch.set_num_threads(1)  # tensors are tiny: a second thread costs more than it does


def pytest_collection_finish() -> None:
    """Spare the garbage collector what was imported: every training starts and ends with it."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def one_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw figures as SVG alone: tests/reports/test_figures.py checks every format."""
    savefig = Figure.savefig

    def saved(figure: Figure, path: Path, *, format: str, **options: Any) -> None:
        if format == "svg":
            savefig(figure, path, format=format, **options)
        else:
            path.write_text(format)

    monkeypatch.setattr(Figure, "savefig", saved)
