"""The manifest of `headcount atlas`."""

from headcount.core import Capability

ATLAS = Capability(
    name="atlas",
    group="More",
    sentence="Put the heads of several runs on one site that can be searched.",
    docs="gallery",
    command="headcount.atlas.command:AtlasCommand",
)
