"""Runs in a process without headcount: `plain.py FOLDER AUTO_CLASS INPUTS OUTPUTS`.

Loads with transformers alone, saves what the model gives, and loads what that model saves again.
"""

import importlib.util
import sys

import torch
import transformers


def main(folder: str, auto: str, inputs: str, found: str) -> None:
    assert importlib.util.find_spec("headcount") is None, "headcount must not be importable here"
    model = _run(folder, auto, inputs, found)
    model.save_pretrained(f"{folder}-again")
    _run(f"{folder}-again", auto, inputs, f"{found}-again")


def _run(folder: str, auto: str, inputs: str, found: str):
    model = getattr(transformers, auto).from_pretrained(folder, trust_remote_code=True).eval()
    batch = torch.load(inputs)
    with torch.inference_mode():
        output = model(**batch)[0]
        tokens = model.generate(batch["input_ids"], num_beams=2) if "Seq2Seq" in auto else None
    torch.save((output, tokens), found)
    return model


if __name__ == "__main__":
    main(*sys.argv[1:])
