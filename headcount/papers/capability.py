"""The manifests of the commands in this package."""

from headcount.core import Capability

EVOLVE = Capability(
    name="evolve",
    group="Look at what heads do",
    sentence="Compare what each layer keeps of a token and its neighbours.",
    docs="evolution",
    command="headcount.papers.paper_commands:Evolve",
    result="headcount.papers.evolution.record:Evolution",
    document="headcount.papers.evolution.document:evolution_document",
    notes="headcount.papers.evolution.document:evolution_notes",
    shares_work=True,
)

TRAIN = Capability(
    name="train",
    group="Train",
    sentence="Train a translation, masked or causal language model.",
    docs="training",
    command="headcount.papers.train_command:Train",
    shares_work=True,
)

FOLLOW = Capability(
    name="follow",
    group="Train",
    sentence="Follow heads along a training: importance, roles, prunability.",
    docs="following",
    command="headcount.papers.train_command:Follow",
    result="headcount.papers.following.record:Followed",
    document="headcount.papers.following.document:followed_document",
    notes="headcount.papers.following.document:followed_notes",
    shares_work=True,
    usual=(
        *("task", "data", "columns", "metric", "limit", "out", "overwrite", "resume"),
        *("corpus", "method", "device"),
    ),
)

REPRODUCE = Capability(
    name="reproduce",
    group="More",
    sentence="Print a paper's tables and figures beside our numbers.",
    docs="reproduce",
    command="headcount.papers.reproduce_command:Reproduce",
    files=("clark2019.md", "coenen2019.md", "hewitt2019.md", "michel2019.md", "voita2019.md"),
)
