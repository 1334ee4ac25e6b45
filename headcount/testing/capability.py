"""The manifest of `headcount check`."""

from headcount.core import Capability

CHECK = Capability(
    name="check",
    group="More",
    sentence="Check plug-ins: laws, planted models, chance, words.",
    command="headcount.testing.command:Check",
)
