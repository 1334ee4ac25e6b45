"""A folder that loads, checked to equal the masked model; loss before and after, interval."""

import json
from pathlib import Path

import headcount

loaded = headcount.load("small")
splits = headcount.TaskSplits.build("causal-lm", loaded, train="few.txt", dev="texts.txt")
pruned = headcount.prune(loaded, splits, method="fisher", keep=36)
headcount.save_pruned(pruned, "pruned", overwrite=True)

size = sum(file.stat().st_size for file in Path("pruned").glob("*.safetensors"))
Path("answer.json").write_text(json.dumps({"bytes": size}))
