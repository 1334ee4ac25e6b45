"""What to do next, by the numbers just measured: a sentence and commands to paste."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from headcount import models, results
from headcount.cli.arguments import DeviceArguments, ModelArguments, TaskArguments
from headcount.cli.data_arguments import LearningArguments, TrialArguments
from headcount.core import Head, amount
from headcount.importance import SCORES
from headcount.numbers import percent
from headcount.reports import command, curve_command

CLOSE = 0.01
"""Largest drop of a score, relative to that of the dense model, that is called close."""
UPDATES = 2000
"""Number of updates of the further training that is proposed."""
PLACEHOLDER_CORPUS = "CORPUS"
"""What stands in a command for texts or images to look at, which the user has not named."""

PLACEHOLDER_TEST = "TEST_FILE"
"""What stands in a command for test data, which the user has not named."""


def given(arguments: Any, kind: type[Any]) -> dict[str, Any]:
    """The arguments that another command shares and whose values are not its defaults."""
    found = dict[str, Any]()
    for each in fields(kind):
        value = getattr(arguments, each.name, each.default)
        if is_dataclass(value):
            found |= given(value, type(value))
        elif each.name != "model" and value != each.default:
            found[each.name] = value
    return found


def between(low: int, high: int, size: int = 1) -> list[int]:
    """Up to three numbers between two, evenly spaced, the largest first.

    Args:
        low: the numbers are above this.
        high: the numbers are below this.
        size: the numbers are multiples of this, the number of heads pruned at once.

    >>> between(0, 144), between(1, 3), between(1, 2)
    ([108, 72, 36], [2], [])
    >>> between(0, 270, 3)
    [201, 135, 66]
    """
    found = (low + (high - low) * quarter // 4 // size * size for quarter in (3, 2, 1))
    return [number for number in dict.fromkeys(found) if low < number < high]


def after_prune(
    on: TrialArguments, record: "results.PruneRecord", out: Path, size: int = 1
) -> Iterator[str]:
    """What to do with a pruned model, of which `size` heads are pruned at once."""
    name, found = list(record.data_sets.items())[-1]
    score = found.score
    num_kept, num_pruned = (_num_at(on.site, each) for each in (record.kept, record.pruned))
    total = num_kept + num_pruned
    lossy = score if score.low > 0 else found.loss
    if lossy.low > 0:
        what = "the pruned model loses" if lossy is score else "the loss of the pruned model rises"
        yield f"Next: {what} on {name} ({lossy}). Train its other weights:"
        how = ["--teacher", on.model, "--set", f"updates={UPDATES}", "distilled=0.5"]
        shared = given(on, LearningArguments)
        yield f"  {command('finetune', [str(out)], shared, *how, '--out', f'{out}-tuned')}"
        yield "or see what more heads are worth:"
        keep = between(num_kept, total, size)
    else:
        found_none = f"Next: no loss beyond chance was found on {name} ({score}){_unseen(score)}."
        if on.task == "image-classification":  # `speed` makes up texts
            yield f"{found_none} See how many more heads can be pruned:"
        else:
            speed = command("speed", [on.model, str(out)], given(on, DeviceArguments), "--card")
            yield f"{found_none} Measure the speed:"
            yield f"  {speed}"
            yield "or see how many more heads can be pruned:"
        keep = between(0, num_kept, size)
    if record.choice is not None and keep:
        more = [
            "--methods",
            record.choice.ranking,
            results.RANDOM,
            "--keep",
            *keep,
        ]
        shared = given(on, TrialArguments)
        yield f"  {command('curve', [on.model], shared, *more, '--out', f'{out}-curve')}"
    yield "or see on a page what its heads do on a corpus, before and after:"
    heads, shared = f"{out}-heads", given(on, DeviceArguments)
    yield f"  {command('analyze', [on.model, PLACEHOLDER_CORPUS], shared, '--out', heads)}"
    yield f"  {command('report', [heads], {}, '--pruned', str(out))}"


def _unseen(score: "results.MetricChange") -> str:
    """The largest loss within the interval of a change in which none was found."""
    if not score.high > 0:  # NaN of a single example, or better beyond chance
        return ""
    change = "drop" if score.higher_is_better else "rise"
    return f"; a {change} of up to {score.high:.3g} can't be excluded"


def _num_at(sites: Sequence[str], names: Iterable[str]) -> int:
    """Number of heads at some sites; of all heads if no site is named."""
    return sum(not sites or Head.parse(name).site in sites for name in names)


def after_curve(
    on: TrialArguments, points: "results.CurvePoints", metric: str, higher_is_better: bool
) -> Iterator[str]:
    """Which budget to take after a curve of scores."""
    if "score" not in points:
        return
    dense, sign = points.dense.numbers["score"], 1 if higher_is_better else -1
    chosen = [
        each for each in points.points if not each.is_control and each.method != results.RANDOM
    ]
    chosen = [
        each for each in chosen if each.method != results.ALL and each.keep < points.dense.keep
    ]
    if not chosen:
        return
    drop = {id(each): sign * (dense - each.numbers["score"]) for each in chosen}
    close = [each for each in chosen if drop[id(each)] <= CLOSE * abs(dense)]
    if close:
        best = min(close, key=lambda each: (each.keep, drop[id(each)]))
        is_smallest = 0 < best.keep == min(each.keep for each in chosen)
        untried = " (fewer were not tried)" if is_smallest else ""
        yield (
            f"Next: {amount(best.keep, 'head')} chosen by {best.method} keep {metric} within "
            f"{percent(CLOSE, 0)} of {dense:.4g} on --dev, the fewest here{untried}. Prune to "
            "that budget "
            "and measure it on data that chose nothing (--test):"
        )
        recovery: list[object] = []
    else:
        best = min(chosen, key=lambda each: drop[id(each)])
        yield (
            f"Next: no budget here keeps {metric} within {percent(CLOSE, 0)} of {dense:.4g}. "
            "Name larger "
            f"ones, or train the other weights after pruning, here to {amount(best.keep, 'head')}:"
        )
        recovery = ["--recover", UPDATES]
    shared = given(on, TrialArguments)
    shared.setdefault("test", (PLACEHOLDER_TEST,))
    keep = [best.kept[site] for site in on.site] or [best.keep]  # one number for each --site
    more = ["--method", best.method, "--keep", *keep, *recovery, "--out", "PRUNED"]
    yield f"  {command('prune', [on.model], shared, *more)}"


def after_importance(
    on: TaskArguments, num_heads: int, score: str | None, size: int = 1
) -> Iterator[str]:
    """How to find out how many heads can be pruned.

    Args:
        on: arguments of the assessment.
        num_heads: number of heads of the model.
        score: column of the score that predicts ablation best; None if none does beyond chance.
        size: number of heads that are pruned at once.
    """
    keep = between(0, num_heads, size)
    if not keep:
        return
    yield "Next: see how good the model is with fewer heads:"
    by_column = {each.column.key: each.name for each in SCORES.values()}
    methods = [by_column[score]] if score in by_column else ["fisher", "gradient"]
    given = vars(on) | vars(on.reading)
    yield f"  {curve_command(on.model, given, keep, 'CURVE', [*methods, results.RANDOM])}"


def after_explain(
    on: ModelArguments, prompts: str | None, found: "results.Explained"
) -> Iterator[str]:
    """How to ask many prompts, and of these for a circuit.

    Args:
        on: arguments of the explanation.
        prompts: the file or task of its prompts; None for a prompt of its own.
        found: what was measured.
    """
    if found.lacks_blank and prompts is None:
        row = found.unlikely[0]
        yield "Next: ask for the word behind the prompt, with a leading blank:"
        rival = ["--against", row.against] if row.against else []
        more = ["--target", f" {row.target}", *rival, "--out", "BLANK"]
        shared = given(on, ModelArguments)
        yield f"  {command('explain', [on.model, row.prompt], shared, *more)}"
    if not found.is_split:
        yield "Next: ask many prompts like this, for intervals (FILE holds one a line, as JSON):"
        more = ["--prompts", "FILE", "--out", "MANY"]
    elif not found.areas and prompts is not None:
        yield "Next: see how few heads are enough:"
        more = ["--prompts", prompts, "--circuit", "--out", "CIRCUIT"]
    else:
        return
    yield f"  {command('explain', [on.model], given(on, ModelArguments), *more)}"


def group_size(loaded: "models.Loaded") -> int:
    """The largest number of heads that share keys and values, which are pruned at once."""
    return max(each.num_heads // each.num_key_value_heads for each in loaded.anatomy.layers)
