"""Jobs: incompatible options, and folders that may not be overwritten."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from headcount.core import InputError, ResumePolicy, write_json
from headcount.papers import RECIPES, PretrainingConfig, Rows
from headcount.papers.pretraining.recipe import as_today
from headcount.training import claim as claim_folder
from headcount.training import coming_back

JOB = PretrainingConfig("translation", RECIPES["tiny"], "a.tsv")
claim = partial(claim_folder, as_today=as_today)
ROWS = Rows(("text",), [("a",)])


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"save_every": 0}, "save_every of at least 1 step, got 0"),
        ({"dev": "b.tsv", "hold_out": (3,)}, "given or held out, got both"),
        ({"hold_out": (1, 2, 3)}, r"one or two held-out sets .* got \(1, 2, 3\)"),
        ({"hold_out": (0,)}, "each at least 1"),
        ({"patience": 0, "dev": "b.tsv"}, "patience of at least 1 evaluation, got 0"),
        ({"seed": -1}, "Expected a seed of at least 0, got -1"),
        (
            {"objective": "causal-lm", "recipe": replace(RECIPES["tiny"], swapped=0.1)},
            "Expected swapped=0 for causal-lm, which would predict the swapped tokens, got 0.1",
        ),
        ({"patience": 2}, "Expected a development set for early stopping, got none"),
    ],
)
def test_refusals(change: dict, reported: str) -> None:
    with pytest.raises(InputError, match=reported):
        replace(JOB, **change)


def test_claim(tmp_path: Path) -> None:
    out, identity = tmp_path / "out", JOB.identity(ROWS, None, 1)
    claim(out, identity, ResumePolicy.REFUSE)
    with pytest.raises(InputError, match="holds an earlier training. Give --resume"):
        claim(out, identity, ResumePolicy.REFUSE)
    claim(out, identity, ResumePolicy.RESUME)
    older = {name: value for name, value in identity.items() if name != "recipe.swapped"}
    write_json(out / "training.json", older)
    claim(out, identity, ResumePolicy.RESUME)
    with pytest.raises(InputError, match=r"begun with recipe.swapped 0.0, and .* has 0.1"):
        claim(out, identity | {"recipe.swapped": 0.1}, ResumePolicy.RESUME)
    (out / "checkpoints").mkdir()
    claim(out, identity, ResumePolicy.OVERWRITE)
    assert not (out / "checkpoints").exists()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="got the file .*file. Name another"):
        claim(tmp_path / "file", identity, ResumePolicy.REFUSE)
    with pytest.raises(InputError, match="Expected a new or empty folder, got "):
        claim(tmp_path, identity, ResumePolicy.OVERWRITE)
    assert (tmp_path / "file").exists()


def test_a_replaced_training_comes_back(tmp_path: Path) -> None:
    """The old folder comes back if the new training fails or is killed in its first moments."""
    out, identity = tmp_path / "out", JOB.identity(ROWS, None, 1)
    claim(out, identity, ResumePolicy.REFUSE)
    (out / "result.json").touch()
    claim(out, identity, ResumePolicy.OVERWRITE)
    assert not (out / "result.json").exists(), "as if it were killed here"
    with pytest.raises(ValueError, match="too long"), coming_back(out):
        claim(out, identity, ResumePolicy.OVERWRITE)
        raise ValueError("too long")
    assert (out / "result.json").exists() and list(tmp_path.iterdir()) == [out]
    (tmp_path / "out.replaced").mkdir()  # a user's own folder
    with pytest.raises(InputError, match="holds an earlier"), coming_back(out):
        claim(out, identity, ResumePolicy.REFUSE)
    (tmp_path / "out.replaced").rmdir()
    assert (out / "result.json").exists()
    with coming_back(out):
        claim(out, identity, ResumePolicy.OVERWRITE)
    assert not (out / "result.json").exists() and list(tmp_path.iterdir()) == [out]


def test_resume_of_another_training(tmp_path: Path) -> None:
    """The refusal names the first field that differs."""
    claim(tmp_path, JOB.identity(ROWS, None, 1), ResumePolicy.REFUSE)
    longer = replace(JOB, recipe=replace(JOB.recipe, epochs=9))
    cases = {
        r"with recipe\.epochs 4, and this command has 9": longer.identity(ROWS, None, 1),
        "with seed 1, and this command has 2": replace(JOB, seed=2).identity(ROWS, None, 1),
        "with processes 1, and this command has 2": JOB.identity(ROWS, None, 2),
        "with device cpu, and this command has cuda": (
            replace(JOB, device="cuda").identity(ROWS, None, 1)
        ),
        r"with data [0-9a-f]{12}\.\.\., and": JOB.identity(Rows(("text",), [("b",)]), None, 1),
        r"with dev None, and this command has [0-9a-f]{12}\.\.\.\.": JOB.identity(ROWS, ROWS, 1),
        "with objective translation, and": replace(JOB, objective="causal-lm").identity(
            ROWS, None, 1
        ),
    }
    for reported, identity in cases.items():
        with pytest.raises(InputError, match=reported):
            claim(tmp_path, identity, ResumePolicy.RESUME)
