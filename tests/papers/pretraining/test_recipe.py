"""Recipes: allowed changes and refusals."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from headcount.commands.data_arguments import field_values
from headcount.core import InputError
from headcount.papers import RECIPES, ModelRecipe


def changed(recipe: ModelRecipe, settings: Sequence[str]) -> ModelRecipe:
    """A recipe with fields as `headcount train --set` changes them."""
    return replace(recipe, **field_values(type(recipe), settings))


def test_changed() -> None:
    recipe = changed(RECIPES["tiny"], ["epochs=9", "peak=1e-4", "schedule=inverse_sqrt"])
    assert (recipe.epochs, recipe.peak, recipe.schedule) == (9, 1e-4, "inverse_sqrt")
    assert recipe.width == RECIPES["tiny"].width
    assert changed(recipe, []) == recipe


@pytest.mark.parametrize(
    ("setting", "reported"),
    [
        ("epoch=9", "Expected NAME=VALUE with a NAME out of batch_tokens, .*, got 'epoch=9'"),
        ("epochs", "got 'epochs'"),
        ("epochs=2.5", "Expected a whole number for epochs, got '2.5'"),
        ("epochs=0", "Expected a finite number above 0 for epochs, got 0"),
        (
            "schedule=cosine",
            "Expected one of linear, inverse_sqrt, constant_with_warmup for schedule, got 'cosine'",
        ),
        ("optimizer=sgd", "Expected one of adamw, muon for optimizer, got 'sgd'"),
        ("dropout=1", "a number of at least 0 and below 1 for dropout, got 1.0"),
        ("peak=inf", "Expected a finite number above 0 for peak, got inf"),
        ("clip=nan", "Expected a finite number above 0 for clip, got nan"),
        ("consistency=-1", "at least 0 for consistency, got -1.0"),
        ("warmup=-1", "warmup of at least 0 steps, got -1"),
        ("heads=5", "a width that 5 heads can share in even parts, got 32"),
    ],
)
def test_refusals(setting: str, reported: str) -> None:
    with pytest.raises(InputError, match=reported):
        changed(RECIPES["tiny"], [setting])


def test_consistency_needs_dropout() -> None:
    assert changed(RECIPES["tiny"], ["consistency=5"]).consistency == 5
    with pytest.raises(InputError, match="Expected dropout above 0 where consistency is above 0"):
        changed(RECIPES["tiny"], ["consistency=5", "dropout=0"])


def test_base_is_the_paper_s() -> None:
    base = RECIPES["base"]
    assert (base.width, base.feed_forward, base.layers, base.heads) == (512, 2048, 6, 8)
    assert (base.dropout, base.label_smoothing, base.batch_tokens) == (0.1, 0.1, 16000)
    assert (base.schedule, base.warmup, base.beta2) == ("inverse_sqrt", 16000, 0.98)
