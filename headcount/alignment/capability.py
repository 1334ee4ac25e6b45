"""The manifest of `headcount align`."""

from headcount.core import Capability, Section

ALIGN = Capability(
    name="align",
    group="Look at what heads do",
    sentence="Measure how well heads link words to translations or sound.",
    docs="alignment",
    command="headcount.alignment.command:Align",
    result="headcount.alignment.result:Alignment",
    document="headcount.alignment.document:alignment_document",
    notes="headcount.alignment.document:alignment_notes",
    beside=True,
    sections=(Section("alignment", "translations", 110),),
    shares_work=True,
    variants=("headcount.wordtimes.capability:WORD_TIMES",),
    usual=("source", "target", "gold", "out", "overwrite", "device", "compare"),
)
