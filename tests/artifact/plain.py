"""A script for a process without headcount: `plain.py FOLDER`, with `cases.json` in the folder.

It loads every compact model with transformers alone, stores its outputs, saves it, and reloads it.
"""

import importlib.util
import json
import sys
from pathlib import Path

import torch
import transformers


def main(root: Path) -> None:
    assert importlib.util.find_spec("headcount") is None, "headcount must not be importable here"
    for name, auto in json.loads((root / "cases.json").read_text()).items():
        model = _run(root / name, auto, root / f"{name}.inputs", root / f"{name}.first")
        model.save_pretrained(root / f"{name}-again")
        _run(root / f"{name}-again", auto, root / f"{name}.inputs", root / f"{name}.again")


def _run(folder: Path, auto: str, inputs: Path, found: Path):
    model = getattr(transformers, auto).from_pretrained(folder, trust_remote_code=True).eval()
    batch = torch.load(inputs)
    with torch.inference_mode():
        output = model(**batch)[0]
        tokens = (
            model.generate(batch["input_ids"], num_beams=2, max_new_tokens=9)
            if "Seq2Seq" in auto or "Causal" in auto
            else None
        )
    torch.save((output, tokens), found)
    return model


if __name__ == "__main__":
    main(Path(sys.argv[1]))
