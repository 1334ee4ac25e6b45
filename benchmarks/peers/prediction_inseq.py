"""What each token of the prompt adds to " Mary" against " John"; nothing about heads."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

import inseq

model = inseq.load_model("model", "input_x_gradient", device="cpu")
prompt = Path("prompt.txt").read_text()
found = model.attribute(
    prompt,
    prompt + " Mary",
    attributed_fn="contrast_logits_diff",
    contrast_targets=prompt + " John",
    show_progress=False,
)
tokens = found.aggregate().sequence_attributions[0].target_attributions[:, 0]
Path("answer.json").write_text(json.dumps({"tokens": tokens.tolist()}))
