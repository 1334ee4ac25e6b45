"""The manifests of the commands in this package."""

from headcount.core import Capability, Section

PRUNE = Capability(
    name="prune",
    group="Make the cache or the model smaller",
    sentence="Choose heads under a budget, prune them, and measure the change.",
    command="headcount.cli.prune:Prune",
    page="headcount.artifact.page:PART",
    sections=(
        Section(
            "pruned",
            "before and after",
            50,
            "headcount.reports.documents.pruned:pruned_document",
        ),
    ),
    shares_work=True,
)

COMPACT = Capability(
    name="compact",
    group="Make the cache or the model smaller",
    sentence="Cut out the heads that a plan prunes, check equality, and save.",
    command="headcount.cli.smaller:Compact",
)

EXPORT = Capability(
    name="export",
    group="Make the cache or the model smaller",
    sentence="Export a compact model to ONNX and check it.",
    command="headcount.cli.smaller:Export",
)

FINETUNE = Capability(
    name="finetune",
    group="Train",
    sentence="Train a model on a task's data, before or after pruning.",
    command="headcount.cli.train:Finetune",
)
