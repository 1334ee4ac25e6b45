"""The manifests of `headcount importance`, `headcount sensitivity` and `headcount evaluate`."""

from headcount.core import Capability, Section

IMPORTANCE = Capability(
    name="importance",
    group="Score what heads are worth",
    sentence="Score every head on a task, by ablation and other scores.",
    docs="importance",
    command="headcount.importance.command:Importance",
    result="headcount.importance.folder:Assessment",
    document="headcount.importance.document:worth_document",
    notes="headcount.importance.page:assessment_notes",
    page="headcount.importance.page:PART",
    sections=(Section("worth", "worth", 30, "headcount.importance.document:worth_shown"),),
    shares_work=True,
    usual=(
        *("task", "data", "columns", "metric", "limit", "out", "overwrite", "resume"),
        *("methods", "instead", "quantity", "layers", "one_left", "device", "max_tokens"),
    ),
)

SENSITIVITY = Capability(
    name="sensitivity",
    group="Score what heads are worth",
    sentence="Measure how the loss reacts to attention on separators.",
    docs="importance",
    command="headcount.importance.command:SensitivityCommand",
    result="headcount.importance.sensitivity_result:Sensitivity",
    document="headcount.importance.sensitivity_document:sensitivity_document",
    notes="headcount.importance.sensitivity_document:sensitivity_notes",
    shares_work=True,
    usual=(
        *("task", "data", "columns", "metric", "limit", "out", "overwrite", "device", "max_tokens"),
    ),
)

EVALUATE = Capability(
    name="evaluate",
    group="Score what heads are worth",
    sentence="Measure a model's loss and score on a task.",
    docs="howto/evaluation",
    command="headcount.importance.command:Evaluate",
    shares_work=True,
    usual=("task", "data", "columns", "metric", "limit", "out", "device", "max_tokens"),
)
