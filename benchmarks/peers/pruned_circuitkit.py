"""A checkpoint with zeros in place of heads, of the same shapes; chosen on tasks of its own."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

import circuitkit

model = circuitkit.load_model("small", dtype="float32", device="cpu", algorithm="eap")
circuit = circuitkit.discover(
    model, "ioi", algorithm="eap", n_examples=8, batch_size=4, sparsity=1 / 3, scope="heads"
)
circuitkit.export_checkpoint(model, circuit, "pruned")

size = sum(file.stat().st_size for file in Path("pruned").glob("*.safetensors"))
Path("answer.json").write_text(json.dumps({"bytes": size}))
