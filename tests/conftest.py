"""Settings of all tests: shapes and types are checked, hypothesis keeps no files."""

import gc

import hypothesis
import pytest
import torch

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
