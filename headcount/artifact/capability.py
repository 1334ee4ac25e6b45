"""The manifests of the commands in this package."""

from headcount.core import Capability, Section

PRUNE = Capability(
    name="prune",
    group="Make the cache or the model smaller",
    sentence="Choose heads under a budget, prune them, and measure the change.",
    docs="pruning",
    command="headcount.artifact.prune_command:Prune",
    page="headcount.artifact.page:PART",
    sections=(
        Section("pruned", "before and after", 50, "headcount.artifact.page:pruned_document"),
    ),
    shares_work=True,
    usual=(
        *("out", "method", "preset", "resume", "overwrite", "task", "data", "dev", "test"),
        *("columns", "metric", "limit", "site", "protect", "seed", "device", "max_tokens"),
    ),
)

COMPACT = Capability(
    name="compact",
    group="Make the cache or the model smaller",
    sentence="Cut out the heads that a plan prunes, check equality, and save.",
    docs="compact",
    command="headcount.artifact.command:Compact",
)

EXPORT = Capability(
    name="export",
    group="Make the cache or the model smaller",
    sentence="Export a compact model to ONNX and other formats, and check it.",
    docs="howto/onnx",
    command="headcount.artifact.command:Export",
)

FINETUNE = Capability(
    name="finetune",
    group="Train",
    sentence="Train a model on a task's data, before or after pruning.",
    docs="pruning",
    command="headcount.artifact.command:Finetune",
    usual=(
        *("task", "data", "dev", "test", "columns", "metric", "limit"),
        *("seed", "device", "max_tokens"),
    ),
)

SPEED = Capability(
    name="speed",
    group="Make the cache or the model smaller",
    sentence="Time a pruned model beside the dense one.",
    docs="speed",
    command="headcount.artifact.command:SpeedCommand",
)
