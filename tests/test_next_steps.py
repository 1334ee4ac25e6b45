"""What commands propose to do next follows from their numbers, and can be pasted."""

import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from headcount.analysis.command import Analyze
from headcount.artifact.command import Finetune, SpeedCommand
from headcount.artifact.prune_command import Prune, after_prune
from headcount.commands.arguments import recorded
from headcount.commands.command_line import parse
from headcount.core import Head
from headcount.corpora import HowRead
from headcount.explanation import Explained
from headcount.explanation.command import Explain, after_explain
from headcount.explanation.options import ExplainOptions
from headcount.importance.command import after_importance
from headcount.pages import curve_command
from headcount.pruning.command import Curve, TrialArguments, after_curve
from headcount.reporting.command import Report
from headcount.results import (
    ALL,
    RANDOM,
    ChoiceRecord,
    CurvePoint,
    CurvePoints,
    DataSetChange,
    MetricChange,
    PruneRecord,
)
from tests.commanding import headcount

ON = TrialArguments(
    "my models/bert",
    task="translation",
    data=("train one.tsv", "more.tsv"),
    dev=("dev.tsv",),
    test=("test.tsv",),
    columns=("source=en", "target=de"),
    prefix="to German: ",
    limit=99,
    site=("encoder.self", "decoder.cross"),
    groups=False,
    reading=HowRead(as_is=True),
)
NAMES = [f"enc.0.{index}" for index in range(8)]


def pruned(low: float, high: float, num_kept: int = 4) -> PruneRecord:
    """A record of a drop between two ends on --test, and of none on --dev."""
    drop = (low + high) / 2
    score = MetricChange("bleu", True, 30.0, 30.0 - drop, drop, low, high, 0.01)
    none = MetricChange("bleu", True, 30.0, 30.0, 0.0, -1.0, 1.0, 1.0)
    loss = MetricChange("loss", False, 1.0, 1.1, 0.1, 0.0, 0.2, 0.1)
    return PruneRecord(
        model="bert",
        heads={"encoder.self": (8,)},
        kept=tuple(NAMES[:num_kept]),
        pruned=tuple(NAMES[num_kept:]),
        choice=ChoiceRecord("fisher, one head per group spared", "", {"keep": 4}, 4),
        data_sets={"dev": DataSetChange(9, none, loss), "test": DataSetChange(9, score, loss)},
    )


def commands(lines: list[str]) -> list[object]:
    """The commands among some lines, parsed as a shell and headcount parse them."""
    return [parse(shlex.split(line)[1:]) for line in lines if line.startswith("  headcount ")]


def after(lines: list[str]) -> list[object]:
    """The commands after a pruning; the last two, which draw its page, are checked."""
    *others, looked_at, page = commands(lines)
    assert isinstance(looked_at, Analyze) and isinstance(page, Report)
    assert (looked_at.model, looked_at.corpus) == (ON.model, ("CORPUS",))
    assert (page.out, page.pruned) == (looked_at.out, Path("out"))
    return others


def test_a_loss_asks_for_training_or_more_heads() -> None:
    lines = list(after_prune(ON, pruned(7.0, 9.0), Path("out")))
    assert "loses on test (−8.00; 95 %: −9.00 to −7.00)" in lines[0]
    further, curve = after(lines)
    assert isinstance(further, Finetune) and isinstance(curve, Curve)
    assert (further.on.model, further.teacher, further.out) == ("out", ON.model, Path("out-tuned"))
    same = ("task", "data", "dev", "test", "columns", "prefix", "limit")
    for each in (further.on, curve.on):
        assert [getattr(each, name) for name in same] == [getattr(ON, name) for name in same]
    assert (curve.on, curve.methods) == (ON, ("fisher", "random"))
    assert curve.keep == (7, 6, 5), "between the kept heads and all heads"
    assert not any("--num-beams" in line for line in lines), "it has its default"
    (_, curve) = after(list(after_prune(ON, pruned(7.0, 9.0, 2), Path("out"), size=2)))
    assert isinstance(curve, Curve) and curve.keep == (6, 4), "groups of two"


def test_a_rise_of_the_loss_is_a_loss_where_few_texts_hide_the_drop() -> None:
    record = pruned(-3.0, 9.0)
    test = record.data_sets["test"]
    loss = replace(test.loss, drop=0.1, low=0.05, high=0.17)
    record = replace(record, data_sets={"test": replace(test, loss=loss)})
    lines = list(after_prune(ON, record, Path("out")))
    assert "the loss of the pruned model rises on test (+0.100; 95 %: +0.050 to +0.170)" in lines[0]
    assert isinstance(after(lines)[0], Finetune)


def test_no_loss_asks_for_the_speed_or_fewer_heads() -> None:
    lines = list(after_prune(ON, pruned(-0.5, 0.7), Path("out")))
    interval = "on test (−0.100; 95 %: −0.700 to +0.500)"
    said = f"no loss beyond chance was found {interval}; a drop of up to 0.7 can't be excluded. "
    assert said in lines[0]
    assert "excluded" not in " ".join(after_prune(ON, pruned(-0.7, -0.5), Path("out"))), "better"
    unknown = pruned(float("nan"), float("nan"))
    assert "excluded" not in " ".join(after_prune(ON, unknown, Path("out"))), "a single example"
    speed, curve = after(lines)
    assert isinstance(speed, SpeedCommand) and isinstance(curve, Curve)
    assert (speed.dense, speed.pruned, speed.device) == (ON.model, "out", "cpu")
    on = replace(ON, device="cuda", trust_remote_code=True)
    speed, _ = after(list(after_prune(on, pruned(-0.5, 0.7), Path("out"))))
    assert isinstance(speed, SpeedCommand) and (speed.device, speed.trust_remote_code) == (
        "cuda",
        True,
    )
    assert curve.keep == (3, 2, 1)
    images = replace(ON, task="image-classification")
    (more,) = after(list(after_prune(images, pruned(-0.5, 0.7), Path("out"))))
    assert isinstance(more, Curve), "speed makes up texts"
    assert len(after(list(after_prune(ON, pruned(-1.0, 1.0, 1), Path("out"))))) == 1


def test_only_heads_at_the_sites_count() -> None:
    """Eight more heads, at a site that is not pruned, are in no budget."""
    record = pruned(7.0, 9.0)
    record = replace(record, kept=(*record.kept, *(f"dec.0.{index}" for index in range(8))))
    _, curve = after(list(after_prune(ON, record, Path("out"))))
    assert isinstance(curve, Curve) and curve.keep == (7, 6, 5)


def point(method: str, keep: int, score: float, **more: bool) -> CurvePoint:
    heads = tuple(map(Head.parse, NAMES[:keep]))
    kept = {"encoder.self": keep - 1, "decoder.cross": 1}
    numbers = {"loss": 1.0, "score": score}
    return CurvePoint(
        method=method, seed=0, keep=keep, kept=kept, numbers=numbers, heads=heads, **more
    )


@pytest.mark.once
@pytest.mark.parametrize(
    ("scores", "higher", "best", "recover"),
    [
        ({("norm", 6): 29.9, ("norm", 4): 29.8, ("sink", 4): 29.0, ("sink", 2): 9.0}, True, 4, 0),
        ({("norm", 6): 29.0, ("norm", 4): 20.0, ("sink", 6): 28.0}, True, 6, 2000),
        ({("norm", 6): 30.1, ("norm", 4): 30.2, ("sink", 4): 40.0, ("sink", 2): 90}, False, 4, 0),
    ],
)
@pytest.mark.parametrize("chosen", ["norm", "sink"])
def test_the_fewest_heads_that_are_close(
    scores: dict[tuple[str, int], float], higher: bool, best: int, recover: int, chosen: str
) -> None:
    other = {"norm": "sink", "sink": "norm"}[chosen]
    names = {"norm": chosen, "sink": other}
    points = [point(ALL, 8, 30.0), point(RANDOM, 2, 30.0), point(other, 2, 30.0, is_control=True)]
    points += [point(names[method], keep, score) for (method, keep), score in scores.items()]
    lines = list(after_curve(ON, CurvePoints(tuple(points)), "bleu", higher))
    (found,) = commands(lines)
    assert isinstance(found, Prune) and found.on == ON
    assert (found.method, found.compensation.recover) == (chosen, recover)
    assert found.budget.to_keep(found.on.site) == {"encoder.self": best - 1, "decoder.cross": 1}, (
        "one for each --site"
    )
    assert "not tried" not in lines[0], "two were"
    untested = replace(ON, test=())
    (found,) = commands(list(after_curve(untested, CurvePoints(tuple(points)), "bleu", higher)))
    assert isinstance(found, Prune) and found.on.test == ("TEST_FILE",)
    anywhere = replace(ON, site=())
    (found,) = commands(list(after_curve(anywhere, CurvePoints(tuple(points)), "bleu", higher)))
    assert isinstance(found, Prune) and found.budget.to_keep(found.on.site) == best


def test_that_fewer_heads_were_not_tried() -> None:
    points = (point(ALL, 8, 30.0), point("norm", 6, 30.0), point("norm", 4, 29.9))
    lines = list(after_curve(ON, CurvePoints(points), "bleu", True))
    assert "on --dev, the fewest here (fewer were not tried). Prune to that" in lines[0]


@pytest.mark.parametrize(
    ("score", "methods"),
    [("norm_score", ("norm", "random")), ("confidence", ("fisher", "gradient", "random"))],
)
def test_importance_asks_for_a_curve(score: str, methods: tuple[str, ...]) -> None:
    (found,) = commands(list(after_importance(ON, 8, score)))
    assert isinstance(found, Curve)
    assert (found.keep, found.methods, found.on.data) == ((6, 4, 2), methods, ON.data)
    assert found.on.dev == ("DEV_FILE",)
    assert not list(after_importance(ON, 1, None)), "a single head can't be pruned"


def test_a_page_names_what_the_terminal_names() -> None:
    """The columns, and all else that is not the default, also from a record of the arguments."""
    keep, methods = (6, 4, 2), ("norm", "random")
    (line,) = (each for each in after_importance(ON, 8, "norm_score") if "headcount" in each)
    assert "--columns source=en target=de" in line and "--as-is" in line
    assert curve_command(ON.model, recorded(ON), keep, "CURVE", methods) == line.strip()


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_the_commands_print_what_to_do_next(bert: Path, data: list[Path], tmp_path: Path) -> None:
    """A proposed curve is run as it is printed, with a file for its placeholder."""
    task = ("--task", "masked-lm", "--data", data[0], "--methods", "norm", "sink")
    status, output, errors = headcount("importance", bert, *task, "--out", tmp_path / "worth")
    assert status == 0, errors
    (curve,) = (line for line in output.splitlines() if line.startswith("  headcount curve"))
    assert isinstance(parse(shlex.split(curve)[1:]), Curve)
    words = shlex.split(curve.replace("DEV_FILE", str(data[1])))[1:]
    words[words.index("CURVE")] = str(tmp_path / "curve")
    status, output, errors = headcount(*words, "--no-scores", "--limit", 3)
    assert status == 0, errors
    assert "Next:" not in output, "a curve without scores says nothing about them"


def explained(**facts: object) -> Any:
    """What a proposal reads of an explanation."""
    known = {"lacks_blank": False, "is_split": False, "areas": (), **facts}
    return Mock(spec=Explained, **known)


def test_after_a_prompt_the_next_commands_measure_the_same_effects() -> None:
    how = ExplainOptions(effects=("zero", "mean"), at="last", first=True, draws=2)
    on = Explain("my gpt", "A dog", "ran", out=Path("out"), overwrite=True, how=how)
    row = SimpleNamespace(prompt="A dog", target="ran", against="sat")
    blank, many = commands([*after_explain(on, explained(lacks_blank=True, unlikely=(row,)))])
    assert isinstance(blank, Explain) and isinstance(many, Explain)
    assert (blank.prompt, blank.target, blank.against) == ("A dog", " ran", "sat")
    assert (many.prompts, many.prompt, many.target) == ("FILE", None, None)
    kept = ExplainOptions(effects=("zero", "mean"), first=True, draws=2)
    assert blank.how == many.how == kept and not many.overwrite


def test_after_many_prompts_the_circuit_reads_the_same_columns() -> None:
    how = ExplainOptions(effects=("zero",), heads=("dec.0.1",), backups=2)
    columns = ("prompt=asked", "prompt.target=said")
    on = Explain("gpt", prompts="my file.csv", columns=columns, out=Path("out"), how=how)
    (circuit,) = commands([*after_explain(on, explained(is_split=True))])
    assert isinstance(circuit, Explain)
    assert (circuit.prompts, circuit.columns) == ("my file.csv", columns)
    assert circuit.how == ExplainOptions(effects=("zero",), circuit=True)
    assert not [*after_explain(on, explained(is_split=True, areas=(1,)))]
