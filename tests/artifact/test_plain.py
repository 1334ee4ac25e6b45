"""Plain transformers, in a virtual environment without headcount."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from headcount.artifact import save
from headcount.compaction import compact
from headcount.models import EncoderConfig, EncoderForMaskedLM
from headcount.tap import difference, examine
from tests import tiny
from tests.compaction.plans import compacted, some_heads

PLAIN = Path(__file__).with_name("plain.py")
CASES = {
    "bart": "AutoModelForSeq2SeqLM",
    "bert": "AutoModelForMaskedLM",
    "distilbert": "AutoModelForMaskedLM",
    "electra": "AutoModelForMaskedLM",
    "gemma2": "AutoModelForCausalLM",
    "gemma3_text": "AutoModelForCausalLM",
    "gpt2": "AutoModelForCausalLM",
    "gpt_neox": "AutoModelForCausalLM",
    "llama": "AutoModelForCausalLM",
    "m2m_100": "AutoModelForSeq2SeqLM",
    "marian": "AutoModelForSeq2SeqLM",
    "modernbert": "AutoModelForMaskedLM",
    "own": "AutoModelForMaskedLM",
    "qwen3": "AutoModelForCausalLM",
    "roberta": "AutoModelForMaskedLM",
    "t5": "AutoModelForSeq2SeqLM",
    "vit": "AutoModelForImageClassification",
}


@pytest.mark.slow
def test_without_this_package(tmp_path: Path) -> None:
    """Outputs and beams are the same, also after saving and loading once more."""
    models = {name: _compact(name) for name in CASES}
    for name, model in models.items():
        save(model, tmp_path / name)
        torch.save(tiny.inputs(model), tmp_path / f"{name}.inputs")
    (tmp_path / "cases.json").write_text(json.dumps(CASES))
    _run_plain(tmp_path)
    for name, model in models.items():
        batch = tiny.inputs(model)
        with torch.inference_mode():
            expected = model(**batch)[0]
        for found in ("first", "again"):
            output, tokens = torch.load(tmp_path / f"{name}.{found}")
            # Another process may add in another order: alignment of memory decides
            assert difference([output], [expected]) < 1e-6, name
            if tokens is not None:
                beams = model.generate(batch["input_ids"], num_beams=2, max_new_tokens=9)  # type: ignore[operator]
                assert torch.equal(tokens, beams), name


def _compact(name: str) -> PreTrainedModel:
    if name == "t5":
        model = tiny.even_t5()
    elif name == "own":
        config = EncoderConfig(**tiny.UNEQUAL_SIDES, encoder_layerdrop=0.0)  # type: ignore[arg-type]
        model = EncoderForMaskedLM(config).eval()
    else:
        return compacted(name, 0)[1]
    return compact(model, some_heads(examine(model), 0))


def _run_plain(folder: Path) -> None:
    """A Python in its own virtual environment.

    It has the packages of this one, but not ours: `.pth` files, by which an editable package is
    found, only count in an environment's own folder. `make versions` has two folders of packages.
    """
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    there = {"base": str(environment), "platbase": str(environment)}
    own = Path(sysconfig.get_path("purelib", "venv", there))
    folders = [each for each in sys.path if Path(each).name == "site-packages"]
    (own / "packages.pth").write_text("\n".join(folders))
    variables = os.environ | {"HF_MODULES_CACHE": str(folder / "cache")}
    command = [environment / "bin" / "python", "-I", PLAIN, folder]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
