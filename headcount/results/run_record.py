"""The record of an analysis: the contents of `run.json`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from headcount.results.json_file import VERSION, JsonObject, encoded, write_record
from headcount.results.roles import Role, Thresholds


@final
@dataclass(frozen=True, kw_only=True)
class Counts:
    """The amounts that an analysis measured and left out."""

    sentences: int
    """Number of sentences."""
    tokens: int
    """Number of source tokens after truncation, special tokens included."""
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
    """Number of tokens of the longest source after truncation."""


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
    """Numbers of sentences, tokens and words."""
    sites: Mapping[str, tuple[int, ...]]
    """Number of heads in each layer, by site."""
    roles: Mapping[str, tuple[Role, ...]]
    """Roles by head name; heads without a role may be missing."""
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
            InputError: if there is no such file, or it is damaged or of a newer version.
        """
        return JsonObject.read(path, "headcount analyze").decode(cls)

    def write(self, path: Path) -> None:
        """Write the record, completely or not at all."""
        write_record(path, self)
