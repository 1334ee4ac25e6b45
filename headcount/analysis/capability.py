"""The manifest of `headcount analyze`."""

from headcount.core import Capability, Section

ANALYZE = Capability(
    name="analyze",
    group="Look at what heads do",
    sentence="Measure what every head does on a corpus; write a report.",
    docs="tour",
    command="headcount.analysis.command:Analyze",
    result="headcount.results.analysis:Analysis",
    notes="headcount.analysis.methods_section:cited_notes",
    page="headcount.analysis.syntax_section:PART",
    sections=(
        Section(
            "confirmed",
            "other texts",
            60,
            "headcount.analysis.confirmation_section:confirmed_shown",
        ),
        Section("syntax", "syntax", 70, "headcount.analysis.syntax_section:syntax_document"),
        Section("links", "links", 75, "headcount.analysis.syntax_section:links_document"),
        Section("layers", "layers", 120, "headcount.analysis.layers_section:layers_document"),
        Section("null", "chance", 130, "headcount.analysis.confirmation_section:chance_document"),
        Section("numbers", "all numbers", 140, "headcount.pages.sections:numbers_shown"),
        Section("methods", "methods", 150, "headcount.analysis.methods_section:methods_document"),
    ),
    shares_work=True,
    usual=(
        *("out", "overwrite", "resume", "source", "target", "limit", "device"),
        *("windows", "null", "links", "pairs", "language", "max_tokens"),
    ),
)
