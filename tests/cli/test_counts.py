"""A count with a few zeros too many ends in seconds with a sentence, in many commands."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from fnmatch import fnmatch
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

import pytest

from headcount.capabilities import CAPABILITIES as COMMANDS
from headcount.commands.command_line import command_class
from tests import saved
from tests.commanding import PARALLEL, SAMPLE, headcount

SHIPPED = Path(str(files("headcount") / "data" / "prompts" / "indirect-objects.jsonl"))
MANY = 10**9
"""More than any of these commands can do in a day, or hold."""

TASK = ("--task", "masked-lm", "--data", "{train}")
SPLITS = (*TASK, "--dev", "{dev}", "--test", "{test}")
SKILLS = ("skills", "{llama}", "--lengths", 150, "--depths", 0.5, "--prompts", 4, "--draws", 1)
CACHE = ("cache", "{llama}", "--lengths", 150, 200, "--per-length", 2, "--needles", 1)
CACHE = (*CACHE, "--recent", 40, "--score", "distance")
EXPLAIN = ("explain", "{llama}", "The old dog", "--target", " barked", "--together", 1)
LEARNED = (*EXPLAIN[:2], "--prompts", "{prompts}", "--effects", "estimate", "--circuit")
EVOLVE = ("evolve", "{bert}", SAMPLE, "--occurrences", 5, "--types", 8, "--clusters", 6)
GATES = ("importance", "{bert}", *TASK, "--methods", "causal-gates")
TRAIN = ("train", "translation", "--data", PARALLEL, "--columns", "source=0", "target=1")
TRAIN = (*TRAIN, "--recipe", "tiny", "--set", "layers=1", "pieces=150", "batch_tokens=600")
MODELS = ("--models", "{a}.models", "--data", PARALLEL, "--dev", PARALLEL)
PRUNE = ("prune", "{bert}", *SPLITS)
PROBE = ("probe", "{bert}", "--train", "{a}", "--test", "{b}")
SIZES = ("--batch", 1, "--length", 8, "--rounds", 2)
SPEED = ("speed", "{bert}", "{bert}", *SIZES)

DAY = "Expected work of at most a day, but "
MEMORY = " of free memory for "

COUNTS: dict[str, tuple[tuple[object, ...], str]] = {
    "align how.samples": (
        ("align", "{marian}", "{pairs}", "--gold", "{gold}", "--split-punctuation", "--samples"),
        MEMORY,
    ),
    "analyze how.window": (
        ("analyze", "{bert}", SAMPLE, "--limit", 9, "--window"),
        "Expected --window of at most 64 tokens",
    ),
    "cache how.draws": ((*CACHE, "--draws"), MEMORY),
    "cache how.lengths": ((*CACHE, "--lengths", 150), "Expected lengths of at most 1,988 tokens"),
    "cache how.needles": ((*CACHE, "--needles"), "Expected at most 50 needles in a text"),
    "cache how.per_length": ((*CACHE, "--per-length"), MEMORY),
    "cache how.recent": ((*CACHE, "--recent"), "Expected lengths above the 4 + 1,000,000,000"),
    "cache how.sink": ((*CACHE, "--sink"), "Expected lengths above the 1,000,000,000 + 40"),
    "cluster how.permutations": (
        ("cluster", "{bert}", SAMPLE, "--limit", 9, "--permutations"),
        MEMORY,
    ),
    "coreference how.samples": (("coreference", "{bert}", "{coreference}", "--samples"), MEMORY),
    "curve keep": (
        ("curve", "{bert}", *SPLITS, "--methods", "norm", "--keep"),
        "Expected at most 6 heads to keep",
    ),
    "curve seeds": (
        ("curve", "{bert}", *SPLITS, "--keep", 3, "--methods", "random", "--seeds"),
        MEMORY,
    ),
    "evaluate num_beams": (
        ("evaluate", "{marian}", "--task", "translation", "--data", "{pairs}", "--num-beams"),
        "Expected 1 to 198 beams",
    ),
    "evolve how.clusters": (
        (*EVOLVE, "--clusters"),
        "Expected at least as many states as clusters",
    ),
    "evolve how.occurrences": ((*EVOLVE, "--occurrences"), "Expected at least 2 tokens with"),
    "explain how.draws": ((*EXPLAIN, "--draws"), MEMORY),
    "explain how.learners": ((*LEARNED, "--steps", 2, "--learners"), MEMORY),
    "explain how.steps": ((*LEARNED, "--steps"), DAY),
    "finetune updates": (("finetune", "{bert}", *SPLITS, "--set", "updates={many}"), DAY),
    "importance how.samples": (("importance", "{bert}", *TASK, "--samples"), MEMORY),
    "importance how.starts": ((*GATES, "--starts"), MEMORY),
    "importance how.steps": (
        ("importance", "{bert}", *TASK, "--methods", "matryoshka", "--steps"),
        DAY,
    ),
    "importance how.updates": ((*GATES, "--updates"), DAY),
    "probe how.layers": (
        (*PROBE, "--probes", "layers", "--layers"),
        "Expected hidden states from 0 to 2 in --layers",
    ),
    "probe how.samples": ((*PROBE, "--samples"), MEMORY),
    "prune budget.keep": (
        (*PRUNE, "--method", "norm", "--keep"),
        "Expected at most 6 heads to keep",
    ),
    "prune compensation.recover": (
        (*PRUNE, "--keep", 3, "--method", "norm", "--recover"),
        DAY,
    ),
    "prune on.max_length": (
        (*PRUNE, "--keep", 3, "--method", "norm", "--max-length"),
        "Expected pieces of at most 64 tokens",
    ),
    "prune timing.batch": ((*PRUNE, "--keep", 3, "--method", "norm", "--batch"), "it needs"),
    "prune timing.length": (
        (*PRUNE, "--keep", 3, "--method", "norm", "--length"),
        "it needs 1,000,000,000 positions",
    ),
    "prune sweep": (
        (*PRUNE, "--keep", 3, "--method", "l0", "--method.tuning.updates", 2, "--method.sweep"),
        DAY,
    ),
    "reproduce paper.samples": (
        ("reproduce", "kobayashi2020", "{bert}", SAMPLE, "--limit", 5, "--samples"),
        MEMORY,
    ),
    "reproduce paper.seeds": (
        ("reproduce", "voita2019evolution", *MODELS, "--seeds"),
        MEMORY,
    ),
    "sensitivity samples": (("sensitivity", "{bert}", *TASK, "--samples"), MEMORY),
    "serve port": (("serve", "{bert}", "--port"), "Expected a port between 0 and 65535"),
    "skills how.draws": ((*SKILLS, "--draws"), MEMORY),
    "skills how.lengths": ((*SKILLS, "--lengths", 150), "Expected lengths of at most 1,988 tokens"),
    "skills how.needles": ((*SKILLS, "--needles"), MEMORY),
    "skills how.prompts": ((*SKILLS, "--prompts"), MEMORY),
    "skills how.removed": ((*SKILLS, "--removed"), "Expected numbers of removed heads of at most"),
    "speed how.batch": ((*SPEED, "--batch"), "it needs 1,"),
    "speed how.length": ((*SPEED, "--length"), "it needs 1,000,000,000 positions"),
    "speed how.new_tokens": (
        ("speed", "{marian}", "{marian}", *SIZES, "--modes", "generate", "--new-tokens"),
        "it needs 1,000,000,001 positions",
    ),
    "speed how.rounds": ((*SPEED, "--rounds"), MEMORY),
    "train epochs": ((*TRAIN, "epochs={many}"), DAY),
    "train feed_forward": ((*TRAIN, "feed_forward={many}"), MEMORY),
    "train how.hold_out": ((*TRAIN, "--hold-out"), "rows to hold out that share no side, got"),
    "train layers": ((*TRAIN, "layers={many}"), MEMORY),
    "train max_length": ((*TRAIN, "max_length={many}"), MEMORY),
    "train pieces": ((*TRAIN, "pieces={many}"), MEMORY),
    "train width": ((*TRAIN, "width={many}"), MEMORY),
}
"""Commands to which a number is added, and what they answer."""


@pytest.fixture(scope="module")
def places(
    bert: Path, marian: Path, data: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Models and data by the names above."""
    from tests.coreference.test_command import TEXT

    folder = tmp_path_factory.mktemp("counts")
    sentences = SAMPLE.read_text(encoding="utf-8").strip().split("\n\n")
    texts = {
        "a": "\n\n".join(sentences[:20]) + "\n\n",
        "b": "\n\n".join(sentences[20:30]) + "\n\n",
        "coreference": TEXT.format(0) + TEXT.format(1),
        "pairs": "A dog barked.\tEin Hund bellte.\nHe sleeps.\tEr bellte.\n",
        "prompts": "".join(SHIPPED.read_text(encoding="utf-8").splitlines(True)[:4]),
        "gold": "0-0 1-1 2-2 3-3\n0-0 1p1\n",
    }
    ends = {
        "a": ".conllu",
        "b": ".conllu",
        "coreference": ".conll",
        "pairs": ".tsv",
        "prompts": ".jsonl",
    }
    found = {name: folder / f"{name}{ends.get(name, '')}" for name in texts}
    for name, text in texts.items():
        found[name].write_text(text, encoding="utf-8")
    named = zip(("train", "dev", "test"), data, strict=True)
    return {
        **found,
        **dict(named),
        "bert": bert,
        "marian": marian,
        "llama": saved.llama(folder / "m"),
    }


@pytest.mark.once
@pytest.mark.parametrize("name", COUNTS)
def test_a_billion_ends_in_a_sentence(
    name: str, places: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine with a gigabyte, whose clock goes on by a second whenever it is asked."""
    monkeypatch.setattr("headcount.core.memory.free_memory", lambda: 10**9)
    monkeypatch.setattr("headcount.core.progress.monotonic", count(0.0, 1.0).__next__)
    arguments, says = COUNTS[name]
    words = {**places, "many": MANY}
    given = [str(each).format(**words) for each in arguments]
    if not any("{many}" in str(each) for each in arguments):
        given = [*replaced(given), str(MANY)]
    if {"out", "paper"} & {each.name for each in fields(cast(Any, command_class(given[0])))}:
        given += ["--out", str(tmp_path / "out")]
    status, _, errors = headcount(*given)
    assert status == 2 and says in errors, errors


def replaced(given: list[str]) -> list[str]:
    """Arguments without the values that the last option was given before."""
    places = [n for n, each in enumerate(given) if each.startswith("--")]
    (*_, last), option = places, given[places[-1]]
    before = given.index(option)
    end = next(n for n in (*places, last) if n > before or n == last)
    return given[:before] + given[end:]


# ------------------------------------------------------------------------- none is forgotten

NO_COUNTS = {
    "a seed": ("*.seed",),
    "at most what the files hold": ("*.*limit", "TreebankOptions.max_words", "*.calibration"),
    "at most what the texts hold": ("CacheOptions.sentences", "CacheOptions.scored"),
    "at most what the corpus holds": (
        *("EvolutionOptions.queries", "EvolutionOptions.sentences", "EvolutionOptions.types"),
        *("CausalGatesOptions.update_examples", "MatryoshkaOptions.step_examples"),
        "AblationOptions.ablated_examples",
        *("*Options.pool", "Options.limit_tokens"),
    ),
    "at most what the model has": (
        *(
            "ExplainOptions.together",
            "ExplainOptions.reasons",
            "ExplainOptions.exact",
            "ExplainOptions.backups",
            "*.ranks",
            "EvolutionOptions.nearest",
        ),
        *("*Options.window", "Li2021.keep", "PruningArguments.keep"),
    ),
    "batches hold no more than there is": (
        *("*.max_tokens", "*.batch_tokens", "ClusterOptions.max_weights"),
    ),
    "at most as many as are asked before": ("SkillOptions.again",),
    "thresholds": ("Thresholds.*", "ProbeOptions.min_cases"),
    "what would come after the end does not happen": (
        *("*.save_every", "*.patience", "Optimization.warmup", "ModelRecipe.average"),
    ),
    "so many batches must be there": ("Optimization.accumulate",),
    "must divide the width": ("ModelRecipe.heads",),
    "passed on to what is tested": ("Voita2019.sweep",),
}
"""Integer options, by the class that declares them, by which no run gets longer or larger."""


def declared(kind: Any) -> Iterator[tuple[str, str]]:
    """The integer options of a command: their names, and the class and field that declare them."""
    kinds = get_type_hints(kind)
    for each in fields(kind):
        own = next(
            base
            for base in kind.__mro__[::-1]
            if each.name in vars(base).get("__annotations__", ())
        )
        for part in (kinds[each.name], *get_args(kinds[each.name])):
            if is_dataclass(part):
                yield from ((f"{each.name}.{name}", by) for name, by in declared(part))
        if has_integers(kinds[each.name]):
            yield each.name, f"{own.__name__}.{each.name}"


def has_integers(kind: Any) -> bool:
    """Whether values of a type are, or hold, integers."""
    return kind is int or any(map(has_integers, get_args(kind)))


def test_every_count_is_tested_or_says_why_not() -> None:
    """A new option that takes integers belongs into one of the two tables."""
    from headcount.papers.pretraining.recipe import ModelRecipe
    from headcount.pruning.options import METHOD_OPTIONS
    from headcount.training import FinetuneConfig

    kinds: dict[str, tuple[Any, ...]] = {name: (command_class(name),) for name in COMMANDS}
    kinds["train"] += (ModelRecipe,)
    kinds["finetune"] += (FinetuneConfig,)
    kinds["prune"] += (*METHOD_OPTIONS.values(),)
    found = [
        (f"{command} {option}", by)
        for command, some in kinds.items()
        for kind in some
        for option, by in declared(kind)
    ]
    assert not COUNTS.keys() - {option for option, _ in found}, "options that there are not"
    tested = {by for option, by in found if option in COUNTS}
    left = sorted({by for _, by in found} - tested)
    patterns = [each for some in NO_COUNTS.values() for each in some]
    assert [by for by in left if not any(fnmatch(by, each) for each in patterns)] == []
    assert [each for each in patterns if not any(fnmatch(by, each) for by in left)] == []
