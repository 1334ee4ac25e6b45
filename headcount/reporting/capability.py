"""The manifests of the commands in this package."""

from headcount.core import Capability

REPORT = Capability(
    name="report",
    group="More",
    sentence="Rewrite the report of a finished run, and its figures.",
    docs="files",
    command="headcount.reporting.command:Report",
)

CITE = Capability(
    name="cite",
    group="More",
    sentence="Write the methods of a run, and what to cite, for a paper.",
    docs="files",
    command="headcount.reporting.command:Cite",
)

DOCTOR = Capability(
    name="doctor",
    group="More",
    sentence="Report what works for a model, before anything runs.",
    docs="models",
    command="headcount.reporting.command:Doctor",
)

DEMO = Capability(
    name="demo",
    group="More",
    sentence="Analyse our English-German model on our sample, offline.",
    docs="commands",
    command="headcount.reporting.command:Demo",
)

SAMPLE = Capability(
    name="sample",
    group="More",
    sentence="Write our own small data sets as files.",
    docs="gallery",
    command="headcount.reporting.command:Sample",
)
