"""What each head adds to " Mary" against " John"; MLPs and embeddings complete the sum."""

import json
from pathlib import Path

import headcount

loaded = headcount.load("model")
options = headcount.ExplainOptions(effects=("attribution",))
found = headcount.explain(loaded, Path("prompt.txt").read_text(), " Mary", " John", options=options)

parts = found.of("attribution")
heads = [parts[str(head)].value for head in loaded.heads]
Path("answer.json").write_text(json.dumps({"attribution": heads}))
