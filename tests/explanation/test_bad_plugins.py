"""An effect that fails: a sentence, and what others measured is kept."""

import copy
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import headcount
from headcount import ExplainOptions
from headcount.core import ChangedModelError, PluginError
from headcount.explanation import EFFECTS, Direct, Explained, Replacement
from headcount.models import Loaded, revision
from tests import saved


class Halved(Replacement):
    """Half of the output."""

    name, label, source = "halved", "halved", "this test"
    about = "what is lost if the head gives half of its output"

    def outputs(self, prompt: Any, row: int) -> Any:
        return {layer: each / 2 for layer, each in prompt.clean[row].outputs.items()}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.llama(tmp_path_factory.mktemp("llama")))


def raises(*_: Any) -> Any:
    raise ValueError("nothing works")


def test_an_effect_that_changes_the_model_is_left_out(
    llama: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    llama, does = copy.deepcopy(llama), Halved.outputs
    before, clean = revision(llama.model), explained(llama, "zero").effects

    def touching(*given: Any) -> Any:
        next(llama.model.parameters()).data.mul_(1.01)
        return does(*given)

    monkeypatch.setattr(Halved, "outputs", touching)
    found = explained(llama, "halved", "zero")
    assert found.measured == ("zero",) and str(found.effects) == str(clean), "NaN is the same"
    assert revision(llama.model) == before
    (warning,) = [each for each in found.record.warnings if "plug-in" in each]
    assert re.search("to leave the model as it is, got changed .* It is left out.", warning)
    with pytest.raises(ChangedModelError):
        explained(llama, "halved")


def explained(llama: Loaded, *effects: str) -> Explained:
    """The effects of two heads."""
    headcount.register(Halved)
    try:
        asked = {"effects": effects, "heads": ("dec.0.0", "dec.1.1"), "together": (1,), "draws": 1}
        options = ExplainOptions(**asked)
        return headcount.explain(llama, "The old dog", " moon", options=options)
    finally:
        EFFECTS.remove("halved")


@pytest.mark.once
@pytest.mark.parametrize(
    ("does", "expected"),
    [
        (raises, "to compute the effect halved, got ValueError: nothing works"),
        (lambda *_: {}, "Expected outputs .* of every layer, got 0 layers"),
        (lambda *_: 3, "Expected outputs .* of every layer, got int"),
        (lambda *_: None, "Expected outputs .* of every layer, got NoneType"),
        (
            lambda self, prompt, row: {k: v[..., :1] for k, v in prompt.clean[row].outputs.items()},
            r"got shape \(\d+, \d+, 1\) in place of",
        ),
        (
            lambda self, prompt, row: {
                k: v * torch.nan for k, v in prompt.clean[row].outputs.items()
            },
            "torch.float32 that is not finite",
        ),
    ],
)
def test_an_effect_that_fails_is_left_out_and_the_others_are_kept(
    llama: Loaded, monkeypatch: pytest.MonkeyPatch, does: Any, expected: str
) -> None:
    monkeypatch.setattr(Halved, "outputs", does)
    found = explained(llama, "zero", "halved")
    assert found.measured == ("zero",)
    (warning,) = [each for each in found.record.warnings if "plug-in" in each]
    assert re.search(expected, warning), warning
    with pytest.raises(PluginError, match=expected):
        explained(llama, "halved")


class Along(Direct):
    """The gradient times outputs, under another name."""

    name, label, source = "along", "along", "this test"
    about = "what the head adds if everything behind it were linear"

    def of(self, prompt: Any) -> Any:
        return prompt.along([run.outputs for run in prompt.clean])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda found: 3, "got int. Repair"),
        (lambda found: None, "got NoneType"),
        (lambda found: {k: v * np.nan for k, v in found.heads.items()}, "got NaN or infinity in"),
        (
            lambda found: {k: v[:1] for k, v in found.heads.items()},
            r"of shape \(1,\) for dec.1",
        ),
        (lambda found: {k: v > 0 for k, v in found.heads.items()}, "got bool of shape"),
        (lambda found: {**found.heads, "dec.99.1": 1}, "of 'dec.99.1', which the model lacks"),
    ],
)
def test_a_direct_effect_of_other_heads_is_left_out(
    llama: Loaded, monkeypatch: pytest.MonkeyPatch, change: Any, expected: str
) -> None:
    of = Along.of

    def changed(self: Any, prompt: Any) -> Any:
        found = of(self, prompt)
        other = change(found)
        return SimpleNamespace(heads=other) if isinstance(other, dict) else other

    monkeypatch.setattr(Along, "of", changed)
    headcount.register(Along)
    try:
        options = ExplainOptions(effects=("zero", "along"), heads=("dec.0.0",), together=())
        found = headcount.explain(llama, "The old dog", " moon", options=options)
    finally:
        EFFECTS.remove("along")
    assert found.measured == ("zero",)
    (warning,) = [each for each in found.record.warnings if "plug-in" in each]
    assert re.search(expected, warning), warning


def test_an_effect_without_words_is_left_out(
    llama: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Halved, "about")
    found = explained(llama, "zero", "halved")
    assert found.measured == ("zero",)
    (warning,) = [each for each in found.record.warnings if "plug-in" in each]
    assert "Expected words, got no about. Say" in warning
