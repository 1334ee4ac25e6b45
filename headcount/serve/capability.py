"""The manifest of `headcount serve`."""

from headcount.core import Capability

SERVE = Capability(
    name="serve",
    group="Look at what heads do",
    sentence="Type a sentence in the browser: attention, gates, predictions.",
    docs="live",
    command="headcount.serve.command:Serve",
)
