"""What the hub reads of a head card: the model that it was made from, its licence, and scores.

Reference: https://huggingface.co/docs/hub/model-cards#model-card-metadata
"""

import re
from collections.abc import Mapping
from pathlib import Path

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from headcount.artifact.verdict import judged_on
from headcount.core import amount
from headcount.models import Loaded, NotLookedUpError, file_of
from headcount.results import Base, PruneRecord

TAGS = ("headcount", "pruned")

KINDS: Mapping[str, str] = {
    "translation": "translation",
    "classification": "text-classification",
    "causal-lm": "text-generation",
    "masked-lm": "fill-mask",
    "similarity": "sentence-similarity",
    "search": "sentence-similarity",
    "image-classification": "image-classification",
    "token-classification": "token-classification",
    "choice": "multiple-choice",
}
"""The hub's name of every task; tasks of plug-ins have none."""


def base_of(loaded: Loaded) -> Base:
    """The model that a pruned one is made from.

    Its licence is what its own card says; none if there is no card, or it can't be looked up.
    """
    name = loaded.model.config.name_or_path or ""
    is_of_hub = "/" in name and not Path(name).exists() and not name.startswith(("/", "."))
    try:
        card = file_of(name, "README.md")
    except NotLookedUpError:
        card = None
    said = {} if card is None else _data(card)
    return Base(name if is_of_hub else "", *(_text(said.get(each)) for each in _LICENCE))


_LICENCE = ("license", "license_name", "license_link")


def _data(card: Path) -> dict[str, object]:
    """What a card says to the hub; nothing if that can't be read."""
    try:
        return ModelCard(
            card.read_text(encoding="utf-8"), ignore_metadata_errors=True
        ).data.to_dict()
    except (ValueError, OSError):
        return {}


def _text(value: object) -> str:
    """A text without what Markdown or HTML would read in it; empty for anything else."""
    kept = re.sub(r"[^\w .,+:/()-]", " ", value) if isinstance(value, str) else ""
    return " ".join(kept.split())


def front_matter(record: PruneRecord) -> str:
    """The YAML at the start of a head card, with the score on the data that judged the model."""
    base = record.base or Base()
    kept = len(record.kept)
    data = ModelCardData(
        base_model=base.name or None,
        library_name="transformers",
        tags=[*TAGS],
        model_name=f"{_text(record.model)}, {kept} of {amount(kept + len(record.pruned), 'head')}",
        eval_results=_results(record),
        license=base.license or None,
        license_name=base.license_name or None,
        license_link=base.license_link or None,
    )
    return f"---\n{data.to_yaml()}\n---\n"


def _results(record: PruneRecord) -> list[EvalResult] | None:
    """The score of the pruned model; None without one, or for a task that the hub does not know."""
    key, kind = judged_on(record), KINDS.get(str(record.data_arguments.get("task")))
    if key is None or kind is None:
        return None
    files = record.data_arguments.get(key)
    names = [*map(_text, files)] if isinstance(files, list | tuple) else [key]
    score = record.data_sets[key].score
    return [
        EvalResult(
            task_type=kind,
            dataset_type="local",
            dataset_name=", ".join(names),
            metric_type=score.name,
            metric_value=round(score.after, 6),
        )
    ]
