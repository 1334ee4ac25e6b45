"""The manifest of `headcount curve`."""

from headcount.core import Capability, Section

CURVE = Capability(
    name="curve",
    group="Make the cache or the model smaller",
    sentence="Plot score against kept heads for every method, and random.",
    docs="pruning",
    command="headcount.pruning.command:Curve",
    result="headcount.results.curve:Curve",
    document="headcount.pruning.document:curve_document",
    notes="headcount.pruning.document:curve_notes",
    takes_roles=True,
    page="headcount.pruning.document:PART",
    sections=(Section("curve", "pruning", 40, "headcount.pruning.document:curve_shown"),),
    shares_work=True,
    usual=(
        *("keep", "methods", "out", "overwrite", "resume", "task", "data", "dev", "test"),
        *("columns", "metric", "limit", "site", "protect", "seed", "device"),
    ),
)
