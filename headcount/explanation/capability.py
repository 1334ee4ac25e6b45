"""The manifest of `headcount explain`."""

from headcount.core import Capability, Section

EXPLAIN = Capability(
    name="explain",
    group="Explain a prediction or a skill",
    sentence="Measure by how much every head raises what a model predicts.",
    command="headcount.cli.explain:Explain",
    result="headcount.results.explanation:Explained",
    document="headcount.reports.documents.explanation:explanation_document",
    beside=True,
    sections=(Section("explained", "prediction", 20),),
    shares_work=True,
)
