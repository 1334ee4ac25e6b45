"""Maps of a text at a time, of the queries behind a first word that is given as the prompt."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

import inseq
import torch

model = inseq.load_model("model", "attention", device="cpu")
peak = entropy = queries = 0
for text in Path("texts.txt").read_text().splitlines():
    prompt = text.split(" ")[0]
    found = model.attribute(prompt, text, show_progress=False).sequence_attributions[0]
    maps = found.target_attributions.nan_to_num().permute(2, 3, 1, 0)
    peak += maps.amax(-1).sum(-1)
    entropy += torch.special.entr(maps).sum((-1, -2))
    queries += maps.shape[2]

sums = {"entropy": entropy, "confidence": peak}
answer = {name: (each / queries).flatten().tolist() for name, each in sums.items()}
Path("answer.json").write_text(json.dumps(answer))
