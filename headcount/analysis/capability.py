"""The manifest of `headcount analyze`."""

from headcount.core import Capability, Section

ANALYZE = Capability(
    name="analyze",
    group="Look at what heads do",
    sentence="Measure what every head does on a corpus; write a report.",
    command="headcount.cli.look:Analyze",
    result="headcount.results.analysis:Analysis",
    sections=(
        Section(
            "confirmed",
            "other texts",
            60,
            "headcount.reports.documents.confirmation:confirmed_shown",
        ),
        Section("syntax", "syntax", 70, "headcount.reports.documents.syntax:syntax_document"),
        Section("links", "links", 75, "headcount.reports.documents.links:links_document"),
        Section("layers", "layers", 120, "headcount.reports.documents.layers:layers_document"),
        Section("null", "chance", 130, "headcount.reports.documents.confirmation:chance_document"),
        Section("numbers", "all numbers", 140, "headcount.reports.page.sections:numbers_shown"),
        Section("methods", "methods", 150, "headcount.reports.documents.methods:methods_document"),
    ),
    shares_work=True,
)
