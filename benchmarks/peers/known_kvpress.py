"""How far groups look by its score of caches, on our texts, since its own lie in the hub."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

from datasets import Dataset
from kvpress.presses import duo_attention_press
from transformers import AutoModelForCausalLM

texts = Path("few.txt").read_text().splitlines()
duo_attention_press.load_dataset = lambda *_, **__: Dataset.from_dict({"chapter": texts})
model = AutoModelForCausalLM.from_pretrained("small")
scores = duo_attention_press.duo_attention_on_the_fly(model)
Path("answer.json").write_text(json.dumps({"distance": scores.flatten().tolist()}))
