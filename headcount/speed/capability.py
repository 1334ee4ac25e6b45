"""The manifest of `headcount speed`."""

from headcount.core import Capability

SPEED = Capability(
    name="speed",
    group="Make the cache or the model smaller",
    sentence="Time a pruned model beside the dense one.",
    command="headcount.artifact.speed_command:SpeedCommand",
)
