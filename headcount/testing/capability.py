"""The manifest of `headcount check`."""

from headcount.core import Capability

CHECK = Capability(
    name="check",
    group="More",
    sentence="Check plug-ins: laws, planted models, chance, words.",
    docs="extending",
    command="headcount.testing.command:Check",
)
