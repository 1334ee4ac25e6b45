"""Job: one training as requested, and what must not change when it is resumed."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, final

from headcount.core import InputError, check_seed, name_of
from headcount.corpora import Columns, Data
from headcount.papers.pretraining.recipe import ModelRecipe
from headcount.papers.pretraining.rows import Rows

ObjectiveName = Literal["translation", "masked-lm", "causal-lm"]


@final
@dataclass(frozen=True)
class PretrainingConfig:
    """What is trained, and on which data.

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
    hold_out: tuple[int, ...] = ()
    """Sizes of a development set and optionally a test set to draw from `data`."""
    pieces: str | None = None
    """Model whose tokenizer is used; None to learn the pieces from the data."""
    start: str | None = None
    """Model of the same shape whose weights and tokenizer to start from; None for new ones."""
    seed: int = 1
    """Seed of weights, batches, dropout, masks and the draw of held-out sets."""
    save_every: int = 1000
    """Steps between two checkpoints, each with an evaluation on the development set."""
    patience: int | None = None
    """Evaluations without a better score after which training stops; None for never."""
    device: str = "cpu"
    """Device to train on: `cpu` or `cuda`."""

    def __post_init__(self) -> None:
        if self.save_every < 1:
            raise InputError(f"Expected save_every of at least 1 step, got {self.save_every}.")
        if self.dev is not None and self.hold_out:
            raise InputError(
                "Expected a development set that is given or held out, got both. Drop one of "
                "--dev and --hold-out."
            )
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
        if self.recipe.swapped and self.objective != "translation":
            raise InputError(
                f"Expected swapped=0 for {self.objective}, which would predict the swapped tokens, "
                f"got {self.recipe.swapped}. Only a translation's source can be swapped."
            )
        check_seed(self.seed)
        if self.patience is not None and self.patience < 1:
            raise InputError(f"Expected patience of at least 1 evaluation, got {self.patience}.")
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
