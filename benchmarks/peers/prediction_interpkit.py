"""What each head adds to " Mary" against " John", without the final norm: other units."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

import interpkit

model = interpkit.load("model", device="cpu")
prompt, sums = Path("prompt.txt").read_text(), {}
for token, sign in ((" Mary", 1), (" John", -1)):
    for part in model.dla(prompt, token=token)["head_contributions"]:
        name = (part["layer"], part["head"])
        sums[name] = sums.get(name, 0) + sign * part["logit_contribution"]
heads = [value for _, value in sorted(sums.items())]
Path("answer.json").write_text(json.dumps({"attribution without the norm": heads}))
