"""One process at a time writes into a folder."""

from pathlib import Path

import pytest

from headcount.core import InputError, locked


def test_a_folder_is_locked_once(tmp_path: Path):
    with locked(tmp_path):
        with pytest.raises(InputError, match="Another process is writing out. Wait until it ends"):
            with locked(tmp_path, Path("out")):
                pass
    with locked(tmp_path):
        pass
