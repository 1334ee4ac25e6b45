"""Gates trained on all texts: heads that help, hinder or do neither; no loss on other texts."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

from causal_head_gating import CHGAnalyzer

texts = Path("few.txt").read_text().splitlines()
prompts, targets = zip(*(text.rsplit(" ", 1) for text in texts), strict=True)
analyzer = CHGAnalyzer.from_pretrained("small", device="cpu")
found = analyzer.fit(
    list(prompts), list(targets), num_masks=2, num_updates=5, num_reg_updates=5, batch_size=4
)
Path("answer.json").write_text(json.dumps({"summary": str(found.summary())}))
