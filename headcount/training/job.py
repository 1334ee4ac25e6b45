"""Job: one training as it was asked for, and what must not change when it is resumed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any, final

from headcount.errors import InputError
from headcount.files import write_json
from headcount.folders import refuse_earlier, refuse_file
from headcount.keyed import reading
from headcount.options import refuse_negative
from headcount.tasks import Columns, Data
from headcount.training.objectives import Name
from headcount.training.recipe import Recipe
from headcount.training.rows import Rows

RECORD = "training.json"


@final
@dataclass(frozen=True)
class Job:
    """What is trained on what.

    Raises:
        InputError: for values that don't go together.
    """

    objective: Name
    recipe: Recipe
    data: Data
    """Files, `hf://...`, or columns held in memory."""
    dev: Data | None = None
    """The same for the development set."""
    columns: Columns | None = None
    """Names or numbers of the columns, where files are tables."""
    hold_out: tuple[int, ...] = ()
    """Sizes of a development and, if there are two, a test set to draw from `data`."""
    pieces: str | None = None
    """A model whose tokenizer is taken; the pieces are learned from the data if None."""
    start: str | None = None
    """A model of the same shape whose weights and tokenizer are trained on; None for new ones."""
    seed: int = 1
    """Of weights, batches, dropout, masks and the draw of held-out sets."""
    save_every: int = 1000
    """Steps between two checkpoints, with an evaluation on the development set at each."""
    patience: int | None = None
    """Evaluations without a better score after which the training stops; None for never."""
    device: str = "cpu"
    """Where to run: `cpu` or `cuda`."""

    def __post_init__(self) -> None:
        if self.save_every < 1:
            raise InputError(f"save_every is at least 1 step; came {self.save_every}")
        if self.dev is not None and self.hold_out:
            raise InputError(
                "a development set is given or held out, not both; drop one of --dev and --hold-out"
            )
        if len(self.hold_out) > 2 or any(size < 1 for size in self.hold_out):
            raise InputError(
                "sizes of one or two held-out sets (development, test), each at least 1, were "
                f"expected; came {self.hold_out}"
            )
        if self.start is not None and self.pieces is not None:
            raise InputError(
                "a model that is trained on keeps its pieces: drop one of --start and --pieces"
            )
        refuse_negative(self.seed)
        if self.patience is not None and self.patience < 1:
            raise InputError(f"patience is at least 1 evaluation; came {self.patience}")
        if self.patience is not None and self.dev is None and not self.hold_out:
            raise InputError(
                "stopping early needs a development set; give one with --dev or --hold-out"
            )

    def identity(self, rows: Rows, dev: Rows | None, processes: int) -> dict[str, Any]:
        """Everything that a resumed training must share with the one that was interrupted."""
        recipe = {f"recipe.{name}": value for name, value in asdict(self.recipe).items()}
        return {
            "objective": self.objective,
            **recipe,
            "data": rows.sha256,
            "dev": None if dev is None else dev.sha256,
            "pieces": self.pieces,
            "start": self.start,
            "seed": self.seed,
            "save_every": self.save_every,
            "patience": self.patience,
            "processes": processes,
            "device": self.device,
        }


def claim(out: Path, identity: dict[str, Any], resume: bool, overwrite: bool) -> None:
    """See that a training may write into a folder, and note there what it is.

    Raises:
        InputError: the folder holds something else; an earlier training that is neither to be
            resumed nor overwritten; or one to be resumed that was another: says what differs.
    """
    refuse_file(out)
    record = out / RECORD
    if out.exists() and any(out.iterdir()) and not record.exists():
        raise InputError(f"{out} holds files of something else: name a folder that is new or empty")
    if record.exists() and resume:
        with reading(record, "what a training was begun with"):
            before = dict(json.loads(record.read_text(encoding="utf-8")))
        _refuse_differing(out, before, identity)
    elif record.exists():
        refuse_earlier(out, "an earlier training", resume, overwrite)
        if _replaced(out).exists():
            rmtree(out)  # was killed before it began
        else:
            out.rename(_replaced(out))
    write_json(record, identity)


@contextmanager
def coming_back(out: Path) -> Iterator[None]:
    """If a block fails, the training that was to be replaced in it is there again."""
    try:
        yield
    except BaseException:
        if _replaced(out).exists():
            rmtree(out, ignore_errors=True)
            _replaced(out).rename(out)
        raise
    rmtree(_replaced(out), ignore_errors=True)


def _replaced(out: Path) -> Path:
    """Where an earlier training is until a new one has begun."""
    return out.resolve().with_name(f".{out.resolve().name}.replaced")


def _refuse_differing(out: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    for name in {**before, **now}:
        earlier, asked = before.get(name, "nothing"), now.get(name, "nothing")
        if earlier != asked:
            raise InputError(
                f"{out} was begun with {name} {_shown(earlier)}, and this command has "
                f"{_shown(asked)}; resume with the same {name}, or train into another folder"
            )


def _shown(value: object) -> str:
    """Hashes are shortened."""
    return f"{value[:12]}..." if isinstance(value, str) and len(value) == 64 else str(value)
