"""One process at a time writes into a folder."""

from pathlib import Path

import pytest

from headcount.core import InputError, hold, locked, release


def test_a_folder_is_locked_once(tmp_path: Path):
    with locked(tmp_path):
        with pytest.raises(InputError, match="Another process is writing out. Wait until it ends"):
            with locked(tmp_path, Path("out")):
                pass
    with locked(tmp_path):
        pass


def test_a_folder_is_held_until_it_is_released(tmp_path: Path):
    hold(tmp_path)
    hold(tmp_path)  # by the same process
    with pytest.raises(InputError, match="Another process is writing"), locked(tmp_path):
        pass
    release()
    with locked(tmp_path), pytest.raises(InputError, match="Another process is writing"):
        hold(tmp_path)
    release()
