"""Plain transformers, in a process that can't import headcount."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch

from headcount.artifact.save import save
from headcount.compaction import compact
from headcount.models.encoder_lm import EncoderConfig, EncoderForMaskedLM
from headcount.models.selfcheck import examine
from tests import tiny
from tests.compaction.plans import compacted, some_heads

PLAIN = Path(__file__).with_name("plain.py")
CASES = {
    "bert": "AutoModelForMaskedLM",
    "gpt2": "AutoModelForCausalLM",
    "llama": "AutoModelForCausalLM",
    "marian": "AutoModelForSeq2SeqLM",
    "t5": "AutoModelForSeq2SeqLM",
    "vit": "AutoModelForImageClassification",
    "own": "AutoModelForMaskedLM",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_without_this_package(name: str, tmp_path: Path) -> None:
    if name == "own":
        config = EncoderConfig(**tiny.UNEQUAL_SIDES, encoder_layerdrop=0.0)  # type: ignore[arg-type]
        model = EncoderForMaskedLM(config).eval()
        smaller = compact(model, some_heads(examine(model), 0))
    else:
        smaller = compacted(name, 0)[1]
    save(smaller, tmp_path / "small")
    batch = tiny.inputs(smaller)
    torch.save(batch, tmp_path / "inputs")
    _plain(tmp_path / "small", CASES[name], tmp_path / "inputs", tmp_path / "found", tmp_path)
    with torch.inference_mode():
        expected = smaller(**batch)[0]
    for found in ("found", "found-again"):
        output, tokens = torch.load(tmp_path / found)
        assert torch.equal(output, expected)
        if tokens is not None:
            beams = smaller.generate(batch["input_ids"], num_beams=2)  # type: ignore[operator]
            assert torch.equal(tokens, beams)


def _plain(*arguments: object) -> None:
    """-S: no `.pth` file puts this package on the path; -I: nor does the folder."""
    *arguments, cache = arguments
    packages = sysconfig.get_path("purelib")
    code = f"import sys, runpy; sys.path.append({packages!r}); runpy.run_path({str(PLAIN)!r}, run_name='__main__')"  # noqa: E501
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(cache)}
    command = [sys.executable, "-I", "-S", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
