"""A page on which each head's attention is drawn; no number of the prediction."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

from bertviz import head_view
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("model", attn_implementation="eager")
tokenizer = AutoTokenizer.from_pretrained("model")
ids = tokenizer(Path("prompt.txt").read_text(), return_tensors="pt").input_ids
maps = model(ids, output_attentions=True).attentions
page = head_view(maps, tokenizer.convert_ids_to_tokens(ids[0]), html_action="return")
Path("page.html").write_text(page.data)
Path("answer.json").write_text(json.dumps({"bytes of the page": len(page.data)}))
