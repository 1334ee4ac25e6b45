"""A plan by its score, whose texts are replaced since they lie in the hub; not what is lost."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

from datasets import Dataset
from kvpress import DuoAttentionPress
from kvpress.presses import duo_attention_press
from transformers import AutoModelForCausalLM

texts = Path("long.txt").read_text().splitlines()[:50]
duo_attention_press.load_dataset = lambda *_, **__: Dataset.from_dict({"chapter": texts})
model = AutoModelForCausalLM.from_pretrained("model")
press = DuoAttentionPress(head_compression_ratio=0.5, on_the_fly_scoring=True)
press.post_init_from_model(model)

full = (~press.streaming_mask).flatten().tolist()
Path("answer.json").write_text(json.dumps({"keeps all keys": full}))
