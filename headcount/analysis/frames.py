"""What heads show on frames of sound: the traits of keys by site, and the moments they look at.

The encoder's heads look from frames at frames, so an offset is a time. Heads of cross-attention
look from the tokens of a transcript at frames: the place of a token among the others says nothing
of a frame, so that offsets, and columns that compare places, have no meaning there. Heads of the
decoder have the traits of text.

In a profile (see `profiles`), a moment is the frame that gets most weight in the first half of the
recordings; its null is the larger of chance and of the mean weight on the frames beside it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

from headcount.analysis.images import on_spot
from headcount.analysis.profile_cells import ProfileRow, chosen_rows
from headcount.core import Grid, LayerId
from headcount.measures import NEAR, TRAITS, FrameMoments
from headcount.vocabulary import FRAME_TRAITS, TEXT_TRAITS, TraitEntry
from headcount.vocabulary import TRAITS as ENTRIES

UNPLACED = ("positional_offset", "positional_share", "attn_self", "attn_prev", "attn_next")
"""Columns that compare the place of a query with that of a key."""


def looks_at_sound(site: str, frame_ms: float | None) -> bool:
    """Whether heads look from the tokens of a transcript at frames of sound."""
    return frame_ms is not None and site == "decoder.cross"


@final
@dataclass(frozen=True)
class LookedAt:
    """The traits of looking at keys of one kind."""

    at_offsets: Mapping[int, TraitEntry]
    """Traits with an offset of their own, by offset."""
    other: TraitEntry | None
    """The trait of any other offset; None where offsets say nothing."""
    classes: Mapping[str, TraitEntry]
    """Traits by the class of keys, see `measures/traits.py`."""
    frame_ms: float | None = None
    """Milliseconds of a frame; None for tokens."""

    @classmethod
    def by(cls, site: str, frame_ms: float | None) -> "LookedAt":
        """What the heads of a site look at; frames have a length if the run is on sound."""
        if frame_ms is None or site == "decoder.self":
            return TOKENS
        frames = FRAMES_FROM_TOKENS if looks_at_sound(site, frame_ms) else FRAMES
        return replace(frames, frame_ms=frame_ms)

    def at(self, offset: int) -> dict[str, Any]:
        """An offset, in words if it is one of frames: "60 ms earlier"."""
        if self.frame_ms is None:
            return {"offset": offset}
        side = "earlier" if offset < 0 else "later"
        return {"offset": offset, "direction": f"{abs(offset) * self.frame_ms:g} ms {side}"}

    @property
    def nearby(self) -> dict[str, Any]:
        """How far nearby frames are, in words."""
        return {"direction": f"{NEAR * (self.frame_ms or 0) / 1000:g} s"}

    def moments(self, place: LayerId, moments: FrameMoments) -> Iterator[ProfileRow]:
        """The rows of the moment that each head of a layer looks at most."""
        chosen, num_frames = moments.weight[0].argmax(-1).tolist(), moments.weight.shape[-1]
        seconds = (frame * (self.frame_ms or 0) / 1000 for frame in chosen)
        named = [{"direction": f"{each:.2f} s"} for each in seconds]
        cells_at = partial(on_spot, moments, Grid(1, num_frames, 0))
        yield from chosen_rows(place, ENTRIES["moment"], chosen, cells_at, named)


TOKENS = LookedAt(
    {each.offset: each for each in TEXT_TRAITS if each.offset is not None},
    ENTRIES["offset"],
    {trait: ENTRIES[trait] for trait in TRAITS},
)
FRAMES_FROM_TOKENS = LookedAt(
    {}, None, {"first": ENTRIES["start"], "separator": ENTRIES["silence"]}
)
"""Frames of sound, looked at by the tokens of a transcript."""
FRAMES = replace(
    FRAMES_FROM_TOKENS,
    at_offsets={each.offset: each for each in FRAME_TRAITS if each.offset is not None},
    other=ENTRIES["delay"],
)
"""Frames of sound, looked at by frames."""
