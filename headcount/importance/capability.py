"""The manifests of `headcount importance`, `headcount sensitivity` and `headcount evaluate`."""

from headcount.core import Capability, Section

IMPORTANCE = Capability(
    name="importance",
    group="Score what heads are worth",
    sentence="Score every head on a task, by ablation and other scores.",
    command="headcount.cli.score:Importance",
    result="headcount.importance.folder:Assessment",
    document="headcount.reports.documents.worth:worth_document",
    page="headcount.importance.page:PART",
    sections=(Section("worth", "worth", 30, "headcount.reports.documents.worth:worth_shown"),),
    shares_work=True,
)

SENSITIVITY = Capability(
    name="sensitivity",
    group="Score what heads are worth",
    sentence="Measure how the loss reacts to attention on separators.",
    command="headcount.cli.score:SensitivityCommand",
    result="headcount.results.sensitivity:Sensitivity",
    document="headcount.reports.documents.sensitivity:sensitivity_document",
    shares_work=True,
)

EVALUATE = Capability(
    name="evaluate",
    group="Score what heads are worth",
    sentence="Measure a model's loss and score on a task.",
    command="headcount.cli.score:Evaluate",
    shares_work=True,
)
