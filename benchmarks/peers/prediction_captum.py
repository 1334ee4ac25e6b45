"""What each token of the prompt adds to the log-probability of " Mary"; nothing about heads."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

from captum.attr import FeatureAblation, LLMAttribution, TextTokenInput
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("model")
tokenizer = AutoTokenizer.from_pretrained("model")
prompt = TextTokenInput(Path("prompt.txt").read_text(), tokenizer)
attribution = LLMAttribution(FeatureAblation(model), tokenizer)
found = attribution.attribute(prompt, target=" Mary")
Path("answer.json").write_text(json.dumps({"tokens": found.seq_attr.tolist()}))
