"""Entropy and confidence of every head over the texts; `analyze` adds roles, and a test of each."""

import json
from pathlib import Path

import headcount
from headcount.measures import Confidence, Entropy

loaded = headcount.load("model")
texts = headcount.Corpus("texts.txt")
table = headcount.measure(loaded, texts, [Entropy, Confidence]).frame

answer = {name: table[name].tolist() for name in ("entropy", "confidence")}
Path("answer.json").write_text(json.dumps(answer))
