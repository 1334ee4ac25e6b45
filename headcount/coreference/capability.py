"""The manifest of `headcount coreference`."""

from headcount.core import Capability, Section

COREFERENCE = Capability(
    name="coreference",
    group="Look at what heads do",
    sentence="Measure how often heads point from a mention at its antecedent.",
    docs="coreference",
    command="headcount.coreference.command:Coreference",
    result="headcount.coreference.result:Coreference",
    document="headcount.coreference.document:coreference_document",
    notes="headcount.coreference.document:coreference_notes",
    beside=True,
    sections=(Section("coreference", "antecedents", 100),),
    shares_work=True,
)
