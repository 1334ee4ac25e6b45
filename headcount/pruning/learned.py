"""Learned: what methods that train gates have in common: the training, then an exact choice."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Float
from torch import Tensor

from headcount.gates import HeadGates
from headcount.pruning.budget import Keep, leaving
from headcount.pruning.method import Choice, Setting
from headcount.pruning.plan import Plan
from headcount.signature import revision
from headcount.training.finetune import finetune
from headcount.training.tuning import Tuning


def learned(
    setting: Setting,
    keep: Keep,
    gates: HeadGates,
    scores: Callable[[], Float[Tensor, " unit"]],
    tuning: Tuning,
    method: Any,
    name: str | None = None,
) -> Choice:
    """Train a copy of the model with gates, and keep the units with the highest scores.

    Args:
        setting: the model, the data, and what may go.
        keep: the budget.
        gates: one for each unit of the sites that the budget names.
        scores: the units' scores when the gates have learned.
        tuning: the training.
        method: what the record says of the options; its `repr` must not change in a resumption.
        name: of a training that is the same for every budget; by default each has its own.
    """
    units = setting.units.named(keep)

    about = {"method": repr(method), "units": units.sha256}
    if name is None:  # every budget is a training of its own, in a folder of its own
        name, about = _budget_name(keep), about | {"keep": repr(keep)}
    tuned = finetune(
        setting.loaded,
        setting.train,
        tuning,
        gates,
        setting.loaded.model,
        setting.seed,
        setting.state and setting.state / name,
        about,
        setting.telling("gates"),
    )
    score_U = scores().detach().double().cpu().tolist()
    score_of = {
        head: score for unit, score in zip(units.units, score_U, strict=True) for head in unit
    }
    order = sorted(score_of, key=score_of.__getitem__)
    stay = set(setting.units.heads) - set(leaving(order, setting.units, keep))
    plan = Plan.keeping(setting.units.heads, stay, revision(tuned.loaded.model))
    record = about | {
        "keep": repr(keep),
        "scores": {str(head): score for head, score in score_of.items()},
        "history": tuned.history,
    }
    return Choice(plan, tuned.loaded, record)


def _budget_name(keep: Keep) -> str:
    sites = {"all": keep} if isinstance(keep, int) else keep
    return "-".join(f"{site}-{number}" for site, number in sites.items())
