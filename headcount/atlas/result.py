"""What an atlas says of heads, as `atlas.json` for other programs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

from headcount.core import JsonObject
from headcount.results import ABOUT, Stored

VERSION = 1
"""Version of the format; a change that breaks readers raises it."""


@final
@dataclass(frozen=True)
class KnownHead:
    """A head that a paper, or the authors of the model, name."""

    head: str
    """Name of the head, e.g. `enc.10.5`."""
    does: str
    """What it does, as they say: "maps the atoms of products to those of reactants"."""
    paper: str
    """Who says so: "Schwaller et al. 2021"."""
    url: str
    """Where."""
    found: bool
    """Whether a measurement confirms it."""
    evidence: str
    """What was measured, in a sentence."""

    @property
    def sentence(self) -> str:
        """What is known, and whether it was found.

        >>> KnownHead("enc.1.0", "maps atoms", "Smith 2021", "...", True, "first of 8").sentence
        'Known head (Smith 2021): maps atoms. Found here: first of 8.'
        """
        verdict = "Found here" if self.found else "Not found here"
        return f"Known head ({self.paper}): {self.does}. {verdict}: {self.evidence}."


@final
@dataclass(frozen=True)
class About:
    """What the person who adds a run to an atlas says of it, in a file beside the run."""

    FILE: ClassVar[str] = ABOUT

    model: str
    """Name by which others find the model."""
    source: str
    """Where the weights are from."""
    licence: str
    """Licence of the weights."""
    texts: str
    """What was read, and where it is from."""
    texts_licence: str
    """Licence of the texts."""
    known: tuple[KnownHead, ...] = ()
    """Heads that papers name, found or not."""

    @classmethod
    def read_if_any(cls, folder: Path) -> "About | None":
        """What the file in a run's folder says; None without one.

        Raises:
            InputError: If it is damaged, or a field is missing.
        """
        if not (folder / cls.FILE).exists():
            return None
        return JsonObject.read(folder / cls.FILE, "you", "a run of an atlas").decode(cls)


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
    known: str
    """What a paper says of it, and whether that was found, in a sentence; empty for most."""
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
    """Name of the model, by which others find it where `about` says so, or as given."""
    model_type: str
    """Architecture, by transformers' name."""
    corpora: tuple[str, ...]
    """Names of the corpus files."""
    signature: str
    """What the numbers depend on."""
    about: About | None
    """Where the weights and the texts are from; None if `about.json` is not in the run's folder."""
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
