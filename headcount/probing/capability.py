"""The manifest of `headcount probe`."""

from headcount.core import Capability, Section

PROBE = Capability(
    name="probe",
    group="Look at what heads do",
    sentence="Train probes of trees on attention and hidden states.",
    docs="probes",
    command="headcount.probing.command:Probe",
    result="headcount.probing.result:Probed",
    document="headcount.probing.document:probes_document",
    notes="headcount.probing.document:probes_notes",
    beside=True,
    page="headcount.probing.document:PART",
    sections=(Section("probes", "probes", 80),),
    shares_work=True,
)
