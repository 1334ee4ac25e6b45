"""A plan by the same score; needles found under it, under a random one and without, intervals."""

import json
from pathlib import Path

import headcount

loaded = headcount.load("model")
options = headcount.CacheOptions(lengths=(300,), per_length=2, needles=3, sentences=1)
found = headcount.plan_cache(loaded, headcount.Corpus("long.txt"), options)
headcount.cache.plan_of(found).write("plan.json")

full = [row.full for row in found.groups]
Path("answer.json").write_text(json.dumps({"keeps all keys": full}))
