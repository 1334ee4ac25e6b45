"""Feature sets: the features of a model and of its random-weight copy, on two treebanks."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

from headcount.core import Progress, check_disk
from headcount.models import Loaded, random_copy
from headcount.probes.extraction import extract, features_of
from headcount.probes.features import Features
from headcount.probes.options import ProbeOptions
from headcount.probes.treebank import Treebank

TRAINED, RANDOM_INIT = "trained", "random-init"
"""The model as it is, and its copy with random weights."""

TRAIN, TEST = "train", "test"


@final
@dataclass(frozen=True, eq=False)
class FeatureSets:
    """The features of both models on both treebanks, each made when it is first needed."""

    loaded: Loaded
    treebanks: Mapping[str, Treebank]
    """The treebanks `train` and `test`."""
    options: ProbeOptions
    folder: Path
    """Folder of the features."""
    key: str
    """Key of this run; features of another key are refused."""
    progress: Progress
    _made: dict[tuple[str, str], Features] = field(default_factory=dict, init=False)
    _copies: dict[str, Loaded] = field(default_factory=dict, init=False)

    def of(self, variant: str, side: str) -> Features:
        """The features of one model on one treebank, from disk as far as they are there."""
        if (variant, side) not in self._made:
            features = self._planned(variant, side)
            extract(
                self.model(variant),
                features,
                self.folder / variant / side,
                key=self.key,
                max_tokens=self.options.max_tokens,
                stage=f"features, {variant}, {side}: sentences",
                progress=self.progress,
            )
            self._made[variant, side] = features
        return self._made[variant, side]

    def model(self, variant: str) -> Loaded:
        """The model, or its copy with random weights."""
        if variant == TRAINED:
            return self.loaded
        if variant not in self._copies:
            copy = random_copy(self.loaded.model, self.options.seed)
            self._copies[variant] = replace(self.loaded, model=copy)
        return self._copies[variant]

    def num_bytes(self) -> int:
        """Size of all features on disk."""
        return sum(
            self._planned(variant, side).num_bytes
            for variant in (TRAINED, RANDOM_INIT)
            for side in self.treebanks
        )

    def check_disk(self) -> None:
        """Check that all features fit on the disk, before any is made.

        Raises:
            InputError: if they do not.
        """
        there = sum(path.stat().st_size for path in self.folder.rglob("*.f16"))
        advice = (
            "Name a folder on another disk with --out, or lower --train-limit, --test-limit or "
            "--max-words."
        )
        check_disk(self.folder, self.num_bytes() - there, "word-level features", advice)

    def _planned(self, variant: str, side: str) -> Features:
        """The features before the model has run, with their size."""
        return features_of(
            self.loaded,
            self.treebanks[side],
            self.folder / variant / side,
            maps=self.options.needs_maps,
            states=self.options.needs_states,
        )
