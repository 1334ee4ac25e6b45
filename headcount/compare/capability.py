"""The manifest of `headcount compare`."""

from headcount.core import Capability

COMPARE = Capability(
    name="compare",
    group="More",
    sentence="Compare two runs on one page.",
    docs="matching",
    command="headcount.compare.command:Compare",
)
