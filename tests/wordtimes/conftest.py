"""One tiny Whisper for all."""

from pathlib import Path

import pytest

from tests import speech


@pytest.fixture(scope="session")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return speech.whisper(tmp_path_factory.mktemp("whisper"))


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return speech.recordings(tmp_path_factory.mktemp("sound"))
