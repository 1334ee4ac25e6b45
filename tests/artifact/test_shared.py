"""Shared parameters are still shared in the folder, by whichever way it is loaded."""

from pathlib import Path

import pytest
import torch
import transformers
from safetensors import safe_open

import headcount
from headcount.artifact import save_compact
from headcount.artifact.saving import auto_class_of
from headcount.compaction.stock import sources
from headcount.models import Loaded
from headcount.results import Certificate
from headcount.tap import Tap, difference, outputs
from tests import tiny
from tests.compaction.test_stock import SHARED, changed, same_heads


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED)
def test_shared_parameters_are_loaded_as_one(name: str, tmp_path: Path) -> None:
    """By headcount and by transformers, also after saving again; and the certificate agrees."""
    model = changed(name)
    loaded, plan, batch = Loaded(model, None, "shared"), same_heads(model), tiny.inputs(model)
    certificate = save_compact(loaded, plan, tmp_path / "small")
    assert Certificate.read(tmp_path / "small") == certificate.of_now(tmp_path / "small")
    with torch.inference_mode(), Tap(model, loaded.anatomy, gates=plan.gates(loaded.heads)):
        gated = outputs(model(**batch))
    with safe_open(tmp_path / "small" / "model.safetensors", "pt") as file:
        assert not sources(model).keys() & file.keys(), "each parameter is in the file once"
    auto = getattr(transformers, auto_class_of(model))
    plain = auto.from_pretrained(tmp_path / "small", trust_remote_code=True)
    plain.save_pretrained(tmp_path / "again")
    again = auto.from_pretrained(tmp_path / "again", trust_remote_code=True)
    for found in (headcount.load(tmp_path / "small").model, plain, again):
        with torch.inference_mode():
            assert difference(outputs(found.eval()(**batch)), gated) < 1e-5
        assert sources(found) == sources(model)


@pytest.mark.slow
def test_the_body_alone(tmp_path: Path) -> None:
    """Names of parameters are those of the model with its head."""
    model = changed("norm")
    save_compact(Loaded(model, None, "shared"), same_heads(model), tmp_path / "small")
    body = transformers.AutoModel.from_pretrained(tmp_path / "small", trust_remote_code=True)
    assert sources(body) == {"layers.1.input_layernorm.weight": "layers.0.input_layernorm.weight"}
    again = changed("head")
    save_compact(Loaded(again, None, "shared"), same_heads(again), tmp_path / "tied")
    body = transformers.AutoModel.from_pretrained(tmp_path / "tied", trust_remote_code=True)
    assert sources(body) == {}
    tokens = again.get_parameter("model.embed_tokens.weight")
    assert torch.equal(body.embed_tokens.weight, tokens)
