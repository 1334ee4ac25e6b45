"""A run: the record of an analysis, `run.json`, and all of its results as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from headcount.core import Grid, LayerId, amount
from headcount.results.alignment import Alignment
from headcount.results.clusters import Clusters
from headcount.results.coreference import Coreference
from headcount.results.curve import CurvePoints, CurveRecord
from headcount.results.examples import Example
from headcount.results.importance import ImportanceRecord
from headcount.results.json_file import VERSION, JsonObject, encoded, omitted, write_sealed
from headcount.results.probe import Probed
from headcount.results.profiles import Profiles
from headcount.results.prune import PruneRecord
from headcount.results.roles import Role, Thresholds
from headcount.results.sealing import Described


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
    missing: int = 0
    """Number of tokens that these are too short by; 0 if traits were tested."""

    @property
    def words(self) -> str:
        """What a finding holds for: `this text` or `these 3 texts`."""
        return "this text" if self.texts == 1 else f"these {amount(self.texts, 'text')}"


@final
@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """Facts about an analysis that its tables do not hold."""

    version: int = VERSION
    """Version of the format."""
    signature: str
    """Model, corpus, options and versions that the numbers depend on, in one text."""
    model: str
    """Name of the model, as given."""
    model_type: str = "unknown"
    """Architecture of the model, by transformers' name."""
    corpora: tuple[str, ...]
    """Names of the corpus files."""
    counts: Counts
    """Numbers of sentences (or images), tokens and words."""
    grid: Grid | None = omitted(None)
    """Patches of the images and tokens before them; None for sentences."""
    sites: Mapping[str, tuple[int, ...]]
    """Number of heads in each layer, by site."""
    roles: Mapping[str, tuple[Role, ...]]
    """Roles by head name; heads without a role may be missing."""
    few_texts: FewTexts | None = omitted(None)
    """The texts that findings hold for, if these are few; None if a test compares many texts."""
    untested: Mapping[str, Untested] = field(default_factory=dict, metadata={"omitted": True})
    """Traits of which no head could be tested."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    """Thresholds by which roles were assigned."""
    warnings: tuple[str, ...] = ()
    """Sentences about what was truncated, lost or not measured."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each step, and sentences per second."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of Python and of the packages that the numbers depend on."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the command; empty if the analysis was made in Python."""

    def to_json(self) -> dict[str, Any]:
        """The contents of `run.json`."""
        return encoded(self)

    @classmethod
    def read(cls, path: Path) -> "RunRecord":
        """The record in a `run.json`.

        Raises:
            InputError: if there is no such file, it is damaged or of a newer version, or a file
                that it describes is missing or another.
        """
        return JsonObject.read_sealed(path, "headcount analyze").decode(cls)

    def write(self, path: Path, files: Described | None = None) -> None:
        """Write the record with the hashes of the files that it describes, which exist."""
        write_sealed(path, self, files or {})


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


@final
@dataclass(frozen=True)
class Run:
    """All results of one run."""

    record: RunRecord
    """Facts about the analysis: the contents of `run.json`."""
    heads: tuple[HeadRow, ...]
    offsets: Mapping[str, Mapping[int, float]]
    """Share of queries at each offset, by head."""
    relations: tuple[RelationResult, ...] | None
    """Accuracies of the relations; None if the corpus has no trees."""
    null_heads: tuple[HeadRow, ...] | None
    """The table of heads at random weights; None without `--null`."""
    null_relations: tuple[RelationResult, ...] | None
    examples: Mapping[str, tuple[Example, ...]]
    roles: Mapping[str, tuple[Role, ...]]
    """Roles of every head in the order of `heads`, the main role first; empty if none."""
    profiles: Profiles | None = None
    """Traits of every head; None in folders from before there were profiles."""
    importance: ImportanceRecord | None = None
    """Importance of the heads for a task; None until `headcount importance` was run."""
    probes: Probed | None = None
    """Numbers of probes; None until `headcount probe` was run."""
    coreference: Coreference | None = None
    """Antecedents that heads point at; None until `headcount coreference` was run."""
    clusters: Clusters | None = None
    """Distances between heads; None until `headcount cluster` was run."""
    alignment: Alignment | None = None
    """Links between words by heads; None until `headcount align` was run."""
    curve: tuple[CurvePoints, CurveRecord] | None = None
    """The curve in the folder `curve/` of the run; None until `headcount curve` wrote one there."""
    pruned: PruneRecord | None = None
    """How a model was pruned from this one; None unless its folder was named."""

    @property
    def measures(self) -> tuple[str, ...]:
        """The number columns, in the order of the table."""
        return tuple(self.heads[0].values)

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that occur, in the order of the table."""
        return tuple(dict.fromkeys(row.site for row in self.heads))

    def by_site(self) -> list[tuple[str, list[HeadRow]]]:
        """The rows of each site, in the order of the table."""
        return [(site, [row for row in self.heads if row.site == site]) for site in self.sites]

    @property
    def num_layers(self) -> int:
        """Number of layers of the deepest site."""
        return max(row.layer for row in self.heads) + 1
