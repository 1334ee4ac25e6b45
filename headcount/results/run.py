"""The record of an analysis, `run.json`; the rows of its tables, and its examples."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import UInt8

from headcount import numbers
from headcount.core import VERSION, Grid, JsonObject, LayerId, amount, omitted
from headcount.results.profiles import Role
from headcount.results.signature import Signature
from headcount.results.store import Record
from headcount.vocabulary import (
    IMAGES,
    SOUND,
    TEXTS,
    ColumnEntry,
    Inputs,
    LinkWords,
    RoleEntry,
    Thresholds,
    TraitEntry,
    roles_of,
    traits_of,
)

FORMATS: Mapping[str, Callable[[float], str]] = {
    each.__name__: each
    for each in (
        *(numbers.weight, numbers.percent, numbers.count, numbers.signed, numbers.points),
        *(numbers.effect, numbers.probability, numbers.significant, numbers.correlation),
    )
}
"""What can write the numbers of a plug-in's column."""

_IMAGE = re.compile(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/]+=*")
"""Pattern of an image within a page."""


@final
@dataclass(frozen=True)
class Example:
    """One sentence, or one image, as one head sees it."""

    role: str
    """Role that the sentence shows; `none` for a head without a role."""
    caption: str
    """How well the sentence shows the role, in words."""
    queries: tuple[str, ...]
    """Words that attend."""
    keys: tuple[str, ...]
    """Words that are attended to."""
    weights: bytes
    """Attention weights, a byte each, row by row; 255 is the weight 1."""
    arcs: tuple[tuple[int, int], ...]
    """Pairs (query, key) that the role is about."""
    image: str = omitted("")
    """The image, made small, as the text of a `data:` address; empty for a sentence."""
    largest: tuple[float, ...] = omitted(())
    """On an image, the weight of each query that 255 stands for, in place of 1."""
    regions: tuple[tuple[float, float, float, float], ...] = omitted(())
    """On a picture beside a text, left, top, right and bottom of each key, as shares of its width
    and height."""
    size: tuple[int, int] = omitted((0, 0))
    """Width and height of that picture, in pixels; 0 for others."""

    def __post_init__(self) -> None:
        shape = (len(self.queries), len(self.keys))
        if len(self.weights) != shape[0] * shape[1]:
            raise ValueError(f"expected {shape[0]} x {shape[1]} weights, got {len(self.weights)}")
        for arc in self.arcs:
            if arc[0] not in range(shape[0]) or arc[1] not in range(shape[1]):
                raise ValueError(f"expected arcs inside {shape[0]} x {shape[1]} words, got {arc}")
        if self.image and not _IMAGE.fullmatch(self.image):
            raise ValueError(f"expected an image as a data: address, got {self.image[:40]!r}")
        if self.regions and (len(self.regions) != shape[1] or min(self.size) < 1):
            raise ValueError(f"expected {shape[1]} regions of a picture, got {len(self.regions)}")
        if self.image and len(self.largest) != shape[0]:
            raise ValueError(f"expected {shape[0]} largest weights, got {len(self.largest)}")

    @property
    def weights_QK(self) -> UInt8[np.ndarray, "query key"]:
        """The weights by query and key."""
        return np.frombuffer(self.weights, np.uint8).reshape(len(self.queries), len(self.keys))


def read_examples(path: Path) -> dict[str, tuple[Example, ...]]:
    """The examples by head name; empty if there is no such file.

    Raises:
        InputError: if the file is damaged.
    """
    if not path.exists():
        return {}
    found = JsonObject.read(path, "headcount analyze")
    return {head: found.field(head, tuple[Example, ...]) for head in found.values}


MOST_TEXTS = 2**16
"""Largest number of texts whose hashes an analysis keeps."""


@final
@dataclass(frozen=True, kw_only=True)
class Counts:
    """The amounts that an analysis measured and left out."""

    sentences: int
    """Number of sentences, or of images."""
    tokens: int
    """Number of source tokens after truncation, special tokens included; context of windows is
    not counted again."""
    target_tokens: int = 0
    """Number of tokens read by the decoder of an encoder-decoder; 0 for other models."""
    words: int = 0
    """Number of treebank words; running text has none."""
    truncated: int = 0
    """Number of sentences with a side too long for the model."""
    words_cut: int = 0
    """Number of words that truncation removed completely."""
    words_lost: int = 0
    """Number of words that the tokenizer turns into no piece at all."""
    longest: int = 0
    """Number of tokens of the longest source after truncation, or of the longest window."""
    windowed: int = omitted(0)
    """Number of sentences too long for the model that were read in windows."""
    windows: int = omitted(0)
    """Number of windows that they were read in."""
    out_of_reach: int = omitted(0)
    """Number of dependency arcs between words without a common window."""
    arcs_inside: int = omitted(0)
    """Number of dependency arcs between words that share a piece, or a multiword token."""

    def __add__(self, other: "Counts") -> "Counts":
        """The amounts of both; the longest of either.

        >>> (Counts(sentences=1, tokens=7, longest=7) + Counts(sentences=2, tokens=9)).longest
        7
        """
        both = {name: each + getattr(other, name) for name, each in vars(self).items()}
        return Counts(**both | {"longest": max(self.longest, other.longest)})


@final
@dataclass(frozen=True)
class Untested:
    """Why no head could be tested for a trait."""

    role: str
    """Role that the trait can give."""
    reason: str
    """Kind of the reason: `not asked`, `model` (impossible for it), `no trees`, `no pairs`, `few`
    (too few cases) or `no cases` (none, however much of this text there is)."""
    says: str
    """The reason in words."""


@final
@dataclass(frozen=True, kw_only=True)
class FewTexts:
    """A corpus of few texts, in whose segments traits were tested (see `corpora/halves.py`)."""

    texts: int
    """Number of texts with a segment; of all texts if nothing was tested."""
    tokens: int
    """Number of their tokens."""
    short: int = omitted(0)
    """Number of other texts, which are too short for a segment and count in no test."""
    missing: int = 0
    """Number of tokens that these are too short by; 0 if traits were tested."""

    @property
    def words(self) -> str:
        """What a finding holds for: `this text` or `these 3 texts`."""
        total = self.texts + self.short
        return "this text" if total == 1 else f"these {amount(total, 'text')}"


@final
@dataclass(frozen=True, kw_only=True)
class ColumnWords:
    """What a column of a plug-in's measure says, so that it is read without the plug-in."""

    label: str
    group: str
    about: str
    show: str = "weight"
    """Name of the function of `headcount.numbers` that writes its numbers."""
    source: str = omitted("")
    has_signs: bool = omitted(False)

    @classmethod
    def of(cls, column: ColumnEntry) -> "ColumnWords":
        """The words of a column; a format of its own is replaced by three digits."""
        names = [name for name, show in FORMATS.items() if show is column.show]
        return cls(
            label=column.label,
            group=column.group,
            about=column.about,
            show=names[0] if names else "weight",
            source=column.source,
            has_signs=column.has_signs,
        )

    def entry(self, key: str) -> ColumnEntry:
        """The column of a name."""
        show = FORMATS.get(self.show, numbers.weight)
        return ColumnEntry(
            key, self.label, self.group, self.about, show, self.source, self.has_signs
        )


@final
@dataclass(frozen=True, kw_only=True)
class RunRecord(Record):
    """Facts about an analysis that its tables do not hold."""

    FILE = "run.json"
    COMMAND = "headcount analyze"

    version: int = VERSION
    """Version of the format."""
    model: str
    """Name of the model, as given."""
    model_type: str = "unknown"
    """Architecture of the model, by transformers' name."""
    corpora: tuple[str, ...]
    """Names of the corpus files."""
    counts: Counts
    """Numbers of sentences (or images), tokens and words."""
    grid: Grid | None = omitted(None)
    """Patches of the images and tokens before them; None for sentences and sound."""
    frame_ms: float | None = omitted(None)
    """Milliseconds of a frame of sound; None for sentences and images."""
    sites: Mapping[str, tuple[int, ...]]
    """Number of heads in each layer, by site."""
    roles: Mapping[str, tuple[Role, ...]]
    """Roles by head name; heads without a role may be missing."""
    few_texts: FewTexts | None = omitted(None)
    """The texts that findings hold for, if these are few; None if a test compares many texts."""
    untested: Mapping[str, Untested] = field(default_factory=dict, metadata={"omitted": True})
    """Traits of which no head could be tested."""
    links: Mapping[str, LinkWords] = field(default_factory=dict, metadata={"omitted": True})
    """What each kind of link between words is called, by name."""
    further: Mapping[str, TraitEntry] = field(default_factory=dict, metadata={"omitted": True})
    """The traits of plug-ins with their roles, by name."""
    columns: Mapping[str, ColumnWords] = field(default_factory=dict, metadata={"omitted": True})
    """What the columns of plug-ins' measures say, by name."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    """Thresholds by which roles were assigned."""
    kernel: str = omitted("blocks")
    """What computed attention: blocks of torch's operations, or a compiled sweep."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of Python and of the packages that the numbers depend on."""

    @property
    def signed(self) -> Signature:
        """The signature; earlier versions read treebanks as words, and did not say so."""
        found = Signature.parse(self.signature)
        if found.get("treebank") or not any(each.endswith(".conllu") for each in self.corpora):
            return found
        return Signature({**found.parts, "treebank": "as-words"})

    @property
    def inputs(self) -> Inputs:
        """The kind of input that was analysed."""
        if self.frame_ms is not None:
            return SOUND
        return TEXTS if self.grid is None else IMAGES

    @property
    def column_entries(self) -> dict[str, ColumnEntry]:
        """The columns of plug-ins' measures."""
        return {key: each.entry(key) for key, each in self.columns.items()}

    @property
    def possible_roles(self) -> tuple[str, ...]:
        """Names of the roles that its traits can give, in the order of a head's list."""
        return (*roles_of(self.traits), *self.further_roles)

    @property
    def further_roles(self) -> dict[str, RoleEntry]:
        """The roles of plug-ins."""
        return {each.role.name: each.role for each in self.further.values()}

    @property
    def traits(self) -> tuple[TraitEntry, ...]:
        """The traits that were asked for: those of the inputs, links and plug-ins."""
        own = traits_of(self.inputs, has_links=bool(self.links))
        return (*own, *self.further.values())


@final
@dataclass(frozen=True)
class HeadRow:
    """One row of the table of heads."""

    head: str
    site: str
    layer: int
    index: int
    roles: tuple[str, ...]
    values: Mapping[str, float]
    """Every measured number by its column; NaN if it could not be measured."""

    @property
    def layer_id(self) -> LayerId:
        """Site and number of the layer."""
        return LayerId(self.site, self.layer)


@final
@dataclass(frozen=True)
class RelationResult:
    """How well one head finds one relation in one direction."""

    head: str
    relation: str
    direction: str
    accuracy: float
    cases: int
    baseline: float
    baseline_offset: float

    @property
    def gain(self) -> float:
        """Accuracy minus the accuracy of the best fixed offset."""
        return self.accuracy - self.baseline

    @property
    def is_measured(self) -> bool:
        """Whether there are an accuracy and a baseline."""
        return math.isfinite(self.gain)

    def is_few(self, limits: Thresholds) -> bool:
        """Whether there are so few cases that chance can look like skill."""
        return self.cases < limits.syntactic_cases


RELATION_COLUMNS = tuple(each.name for each in fields(RelationResult))
"""Columns of the tables of relations, those first that name a row."""
