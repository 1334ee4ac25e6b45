"""The manifest of `headcount explain`."""

from headcount.core import Capability, Section

EXPLAIN = Capability(
    name="explain",
    group="Explain a prediction or a skill",
    sentence="Measure by how much every head raises what a model predicts.",
    docs="explain",
    command="headcount.explanation.command:Explain",
    result="headcount.explanation.result:Explained",
    document="headcount.explanation.document:explanation_document",
    notes="headcount.explanation.document:explanation_notes",
    beside=True,
    sections=(Section("explained", "prediction", 20),),
    shares_work=True,
    usual=(
        *("target", "against", "corrupt", "prompts", "out", "overwrite", "device"),
        *("circuit", "effects", "heads", "backups", "at", "query", "key", "known", "chat"),
    ),
)
