"""What an atlas says of heads, as `atlas.json` for other programs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from headcount.results import Stored

VERSION = 1
"""Version of the format; a change that breaks readers raises it."""


@final
@dataclass(frozen=True)
class AtlasFinding:
    """A role or a tendency of a head."""

    kind: str
    """Name of what the head looks at, e.g. `previous`."""
    verdict: str
    """`role` or `tendency`."""
    says: str
    """What the head does, with its numbers."""


@final
@dataclass(frozen=True)
class AtlasHead:
    """One head of a model."""

    head: str
    """Name of the head, e.g. `dec.16.0`."""
    depth: float
    """Its layer, from 0 for the first of its site to 1 for the last; 0 if there is one only."""
    roles: tuple[str, ...]
    """Roles, the main one first."""
    findings: tuple[AtlasFinding, ...]
    """Roles and tendencies in words, what leads the head first."""
    skill: str
    """What it does with needles and few-shot tasks; empty if that was not measured."""
    worth: str
    """What happens without it; empty if that was not measured."""
    scores: Mapping[str, float]
    """Its scores of importance by column, as in the run's table of heads."""


@final
@dataclass(frozen=True)
class AtlasModel:
    """One run: a model on some texts."""

    name: str
    """Name of the model with that of its texts if several runs are of the model."""
    page: str
    """Its page, relative to the atlas."""
    model: str
    """Name of the model, as given."""
    model_type: str
    """Architecture, by transformers' name."""
    corpora: tuple[str, ...]
    """Names of the corpus files."""
    signature: str
    """What the numbers depend on."""
    headline: str
    """The heads in a sentence."""
    heads: tuple[AtlasHead, ...]


@final
@dataclass(frozen=True, kw_only=True)
class AtlasRecord(Stored):
    """Every head of every run."""

    FILE = "atlas.json"
    COMMAND = "headcount atlas"
    FOLDER = "the folder of an atlas"

    version: int = VERSION
    """Version of the format."""
    models: tuple[AtlasModel, ...]
