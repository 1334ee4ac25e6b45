"""Recipes: everything that decides how a model is trained; and a job, with the data.

Reference: `base` is the Transformer of Analyzing Multi-Head Self-Attention (Voita et al., 2019),
appendix A, https://arxiv.org/abs/1905.09418, after Attention Is All You Need (Vaswani et al.,
2017), https://arxiv.org/abs/1706.03762
Departure: the two sides of a translation share one vocabulary and all their embeddings.
"""

from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal, final

from headcount.core import (
    ABOVE_0,
    BELOW_1,
    FROM_0,
    FROM_0_TO_1,
    InputError,
    Seed,
    amount,
    at_least,
    check_free_memory,
    check_options,
    name_of,
)
from headcount.corpora import Columns, Data
from headcount.papers.pretraining.rows import Rows
from headcount.training import Optimization, Precision


@final
@dataclass(frozen=True)
class ModelRecipe(Optimization):
    """The model's size and the settings of its training.

    Raises:
        InputError: for an invalid value; the error names the field.
    """

    batch_tokens: Annotated[int, ABOVE_0] = 500
    peak: Annotated[float, ABOVE_0] = 1e-3
    warmup: Annotated[int, at_least(0, "step")] = 1000
    beta2: Annotated[float, BELOW_1] = 0.98
    precision: Precision = "bfloat16"
    label_smoothing: Annotated[float, BELOW_1] = 0.1
    width: Annotated[int, ABOVE_0] = 256
    """Size of the residual stream."""
    feed_forward: Annotated[int, ABOVE_0] = 1024
    """Size of the inner layer of a feed-forward block."""
    layers: Annotated[int, ABOVE_0] = 6
    """Number of layers of the encoder, and of the decoder."""
    heads: Annotated[int, ABOVE_0] = 8
    """Number of heads in every attention layer."""
    pieces: Annotated[int, ABOVE_0] = 8000
    """Size of the vocabulary, special tokens included."""
    max_length: Annotated[int, ABOVE_0] = 256
    """Longest example in tokens; longer ones are left out of training, and counted."""
    init_std: Annotated[float, ABOVE_0] = 0.02
    """Standard deviation of new weights."""
    dropout: Annotated[float, BELOW_1] = 0.1
    """Dropout rate of embeddings and sublayers' outputs."""
    attention_dropout: Annotated[float, BELOW_1] = 0.0
    """Dropout rate of attention weights."""
    consistency: Annotated[float, FROM_0] = 0.0
    """Weight of the distance between two passes through dropout (R-Drop's alpha); 0: one pass."""
    bpe_dropout: Annotated[float, BELOW_1] = 0.0
    """Probability to skip a merge when words are split; it makes examples and batches longer."""
    swapped: Annotated[float, BELOW_1] = 0.0
    """Probability that a token of the source is replaced by one drawn from all sources' tokens."""
    concatenated: Annotated[float, FROM_0_TO_1] = 0.0
    """Share of the examples that are concatenated in pairs, which change in every epoch."""
    epochs: Annotated[int, ABOVE_0] = 7
    """Largest number of passes over the training data."""
    average: Annotated[int, ABOVE_0] = 5
    """Number of last checkpoints that are kept, and averaged into the model."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.consistency and not (self.dropout or self.attention_dropout):
            raise InputError(
                "Expected dropout above 0 where consistency is above 0, since two passes are equal "
                "without, got dropout=0. Set dropout, or set consistency to 0."
            )
        if self.width % (2 * self.heads):
            raise InputError(
                f"Expected a width that {amount(self.heads, 'head')} can share in even parts, got "
                f"{self.width}. Use a multiple of {2 * self.heads}."
            )

    def check_memory(self, has_pieces: bool) -> None:
        """Check that the weights, and what learns the vocabulary, fit into main memory.

        Args:
            has_pieces: whether the vocabulary is that of another model.

        Raises:
            InputError: if they do not.
        """
        if not has_pieces:
            check_free_memory(PIECE_BYTES * self.pieces, f"learning {self.pieces:,} pieces")
        layer = 4 * self.width**2 + 2 * self.width * self.feed_forward
        pieces = 0 if has_pieces else self.pieces
        weights = self.layers * layer + self.width * (pieces + self.max_length)
        check_free_memory(4 * weights, "the weights of this recipe in float32")


PIECE_BYTES = 71
"""Bytes for each piece that a vocabulary may have, which tokenizers takes before it learns any."""

RECIPES = {
    "tiny": ModelRecipe(
        width=32,
        feed_forward=64,
        layers=2,
        heads=4,
        pieces=200,
        max_length=64,
        epochs=4,
        init_std=0.18,
        batch_tokens=256,
        peak=3e-3,
        warmup=10,
        precision="float32",
        average=2,
    ),
    "small": ModelRecipe(
        epochs=9,
        batch_tokens=1500,
        optimizer="muon",
        peak=2e-3,
        warmup=500,
        dropout=0.2,
        concatenated=0.5,
    ),
    "base": ModelRecipe(
        width=512,
        feed_forward=2048,
        pieces=32000,
        attention_dropout=0.1,
        epochs=40,
        batch_tokens=16000,
        peak=7e-4,
        warmup=16000,
        schedule="inverse_sqrt",
    ),
}
"""`tiny` is for tests (seconds), `small` for two cores (hours), `base` is the paper's (GPUs)."""


ObjectiveName = Literal["translation", "masked-lm", "causal-lm"]


@dataclass(frozen=True, kw_only=True)
class PretrainingOptions:
    """How a training runs, in Python and as options of the command.

    Raises:
        InputError: for values that can't be combined.
    """

    hold_out: tuple[int, ...] = ()
    """Draw a development set, or development and test sets, of these sizes from --data into --out;
    they share no sentence with the rest."""
    pieces: str | None = None
    """Model whose vocabulary to use; by default a vocabulary is learned from --data."""
    start: str | None = None
    """Model of the same shape to start from, with its vocabulary; random weights by default."""
    save_every: Annotated[int, at_least(1, "step")] = 1000
    """Number of steps between two checkpoints, each with a score on the development set."""
    patience: Annotated[int | None, at_least(1, "evaluation")] = None
    """Number of checkpoints without a better --dev score before stopping; never by default."""
    seed: Seed = 1
    """Seed of weights, order, dropout, masks and held-out sets."""

    def __post_init__(self) -> None:
        check_options(self)
        if len(self.hold_out) > 2 or any(size < 1 for size in self.hold_out):
            raise InputError(
                "Expected sizes of one or two held-out sets (development, test), each at least 1, "
                f"got {self.hold_out}."
            )
        if self.start is not None and self.pieces is not None:
            raise InputError(
                "A model that training starts from keeps its pieces. Drop one of --start and "
                "--pieces."
            )


@final
@dataclass(frozen=True)
class PretrainingConfig(PretrainingOptions):
    """What is trained, on which data, and how.

    Raises:
        InputError: for values that can't be combined.
    """

    objective: ObjectiveName
    recipe: ModelRecipe
    data: Data
    """Training data: files, `hf://...`, or columns held in memory."""
    dev: Data | None = None
    """Development set, given like `data`."""
    columns: Columns | None = None
    """Names or numbers of the columns, if files are tables."""
    device: str = "cpu"
    """Device to train on: `cpu` or `cuda`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dev is not None and self.hold_out:
            raise InputError(
                "Expected a development set that is given or held out, got both. Drop one of "
                "--dev and --hold-out."
            )
        if self.recipe.swapped and self.objective != "translation":
            raise InputError(
                f"Expected swapped=0 for {self.objective}, which would predict the swapped tokens, "
                f"got {self.recipe.swapped}. Only a translation's source can be swapped."
            )
        if self.patience is not None and self.dev is None and not self.hold_out:
            raise InputError(
                "Expected a development set for early stopping, got none. Give one with --dev or "
                "--hold-out."
            )

    def identity(self, rows: Rows, dev: Rows | None, processes: int) -> dict[str, Any]:
        """Everything that a resumed training must have in common with the interrupted one."""
        recipe = {f"recipe.{name}": value for name, value in asdict(self.recipe).items()}
        return {
            "objective": self.objective,
            **recipe,
            "data": rows.sha256,
            "dev": None if dev is None else dev.sha256,
            "pieces": self.pieces and name_of(self.pieces),
            "start": self.start and name_of(self.start),
            "seed": self.seed,
            "save_every": self.save_every,
            "patience": self.patience,
            "processes": processes,
            "device": self.device,
        }


def as_today(before: dict[str, Any]) -> dict[str, Any]:
    """The identity of a training as this version would have recorded it.

    Earlier versions had fewer fields, and trained as by the defaults. They recorded the paths of
    models.
    """
    added = {f"recipe.{field.name}": field.default for field in fields(ModelRecipe)}
    named = {
        name: name_of(before[name])
        for name in ("pieces", "start")
        if isinstance(before.get(name), str)
    }
    return added | before | named
