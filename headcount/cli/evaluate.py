"""`headcount evaluate`: how good a model is at a task."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console
from sacrebleu.metrics.chrf import CHRF

from headcount.cli.columns import named_columns
from headcount.cli.plain import plain
from headcount.errors import InputError
from headcount.files import nulls_for_nan, write_json, write_text
from headcount.models.load import Loaded, load
from headcount.signature import signature
from headcount.tasks import Evaluation, Task, Translation, build, evaluate


@dataclass(frozen=True)
class Evaluate:
    """Evaluate a model on a task: its loss and score; translations by BLEU and chrF."""

    model: tyro.conf.Positional[str]
    """A Hugging Face name, a folder, or headcount:en-de."""
    task: Literal["translation", "classification", "causal-lm", "masked-lm", "similarity"] = field(
        kw_only=True
    )
    """What the model is to be good at."""
    data: tuple[str, ...] = field(kw_only=True)
    """Files: .tsv, .csv, .jsonl, .txt; two text files for a translation; or hf://NAME."""
    columns: tuple[str, ...] = ()
    """Columns as ROLE=NAME, or ROLE=NUMBER (from 0) where the file has no header."""
    metric: str | None = None
    """The task's score where it has several: accuracy, f1, matthews; bleu, chrf."""
    num_beams: int = 4
    """Translation: beams of the search; 1 is greedy."""
    tokenize: str = "13a"
    """Translation: sacreBLEU's tokenizer of BLEU, e.g. zh, ja-mecab, intl."""
    prefix: str = ""
    """Translation: goes before every source, as T5 wants it."""
    limit: int | None = None
    """At most so many examples."""
    out: Path | None = None
    """Folder for evaluation.json and, of a translation, translations.txt."""
    max_tokens: int = 4096
    """Padded tokens in a batch."""
    device: str = "cpu"
    """Where to run, e.g. cuda."""
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    """Number format of the model."""

    def run(self) -> int:
        """Evaluate, print the numbers, and write them where that was asked for."""
        loaded = load(self.model, self.device, self.dtype)
        columns = named_columns(self.columns)
        task = build(self.task, loaded, self.data, columns, **self._options())
        evaluation = evaluate(loaded.model, task, self.max_tokens, texts=True)
        numbers = self._numbers(loaded, task, evaluation)
        console = Console(highlight=False, soft_wrap=True)
        for name, value in numbers.items():
            shown = f"{value:,.4f}" if isinstance(value, float) else value
            console.print(f"{name:<18} {shown}", markup=False)
        if self.out is not None:
            self._write(self.out, numbers, task, evaluation)
        return 0

    def _options(self) -> dict[str, Any]:
        given = {"metric": self.metric, "limit": self.limit}
        self._refuse_options_of_translation()
        options: dict[str, Any] = {name: each for name, each in given.items() if each is not None}
        if self.task == "translation":
            options |= {
                "num_beams": self.num_beams, "tokenize": self.tokenize, "prefix": self.prefix
            }  # fmt: skip
        return options

    def _refuse_options_of_translation(self) -> None:
        if self.task == "translation":
            return
        for name in ("num_beams", "tokenize", "prefix"):
            if getattr(self, name) != getattr(Evaluate, name):
                raise InputError(
                    f"--{name.replace('_', '-')} is an option of translation; the task is "
                    f"{self.task}: leave it out"
                )

    def _numbers(self, loaded: Loaded, task: Task, evaluation: Evaluation) -> dict[str, Any]:
        """Loss in nats a token, score and how they were measured."""
        numbers: dict[str, Any] = {"examples": task.num_examples, "loss": evaluation.loss}
        numbers[task.metric] = task.score(evaluation)
        options: dict[str, object] = {"task": self.task}
        if isinstance(task, Translation):
            numbers |= _translation_numbers(task, evaluation)
        signed = signature(loaded.model, task.sha256, **options)
        return numbers | {"signature": signed}

    def _write(
        self, out: Path, numbers: dict[str, Any], task: Task, evaluation: Evaluation
    ) -> None:
        record = nulls_for_nan(numbers) | {"arguments": plain(asdict(self))}
        write_json(out / "evaluation.json", record)
        if isinstance(task, Translation):
            lines = "".join(f"{text}\n" for text in evaluation.outcome_N)
            write_text(out / "translations.txt", lines)


def _translation_numbers(task: Translation, evaluation: Evaluation) -> dict[str, Any]:
    """The score's signature, and chrF beside BLEU."""
    found: dict[str, Any] = {f"{task.metric} signature": task.signature}
    if task.metric != "chrf":
        chrf = CHRF()
        found["chrf"] = float(
            chrf.corpus_score(list(evaluation.outcome_N), [task.references]).score
        )
        found["chrf signature"] = str(chrf.get_signature())
    if task.num_truncated:
        found["truncated"] = task.num_truncated
    return found
