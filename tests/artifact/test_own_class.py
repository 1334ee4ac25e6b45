"""A class of the user's own: what can be reloaded with it, and what without it."""

import copy
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn
from transformers import BertModel, BertPreTrainedModel
from transformers.modeling_outputs import TokenClassifierOutput

import headcount
from headcount.artifact import save
from headcount.compaction import compact
from headcount.core import InputError, ModelError
from headcount.models import compact_class
from headcount.tap import difference, examine
from tests import tiny
from tests.compaction.plans import some_heads
from tests.compaction.test_compact import run, run_gated


class Tagger(BertPreTrainedModel):
    """BERT with a head that transformers does not have."""

    def __init__(self, config: Any, tags: int = 3) -> None:
        super().__init__(config)
        self.bert = BertModel(config)
        self.tagger = nn.Linear(config.hidden_size, tags)
        self.post_init()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **more: Any) -> Any:
        states = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
        return TokenClassifierOutput(logits=self.tagger(states))


class Named(Tagger):
    """A tagger that the names of its tags are passed to."""

    def __init__(self, config: Any, names: list[str]) -> None:
        super().__init__(config, len(names))


def config() -> Any:
    return copy.deepcopy(tiny.MODELS["bert"]().config)


def test_with_the_class_everything_is_loaded(tmp_path: Path) -> None:
    model = tiny.seeded(Tagger(config()))
    plan, batch = some_heads(examine(model), 1), tiny.inputs(model)
    smaller = compact(model, plan)
    assert difference(run(smaller, batch), run_gated(model, plan, batch)) < 1e-5
    smaller.save_pretrained(tmp_path / "small")
    again = compact_class(Tagger).from_pretrained(tmp_path / "small").eval()
    assert difference(run(again, batch), run(smaller, batch)) == 0
    says = r"got Tagger. With that class, headcount.models.compact_class\(Tagger\).from_pretr"
    with pytest.raises(ModelError, match=says):
        headcount.load(tmp_path / "small")


def test_without_the_class_the_body_is_loaded(tmp_path: Path) -> None:
    model = tiny.seeded(Tagger(config()))
    plan, batch = some_heads(examine(model), 1), tiny.inputs(model)
    says = r"got Tagger. With the class.*compact_class\(Tagger\).*save the body, a BertModel"
    with pytest.raises(InputError, match=says):
        save(compact(model, plan), tmp_path / "small")
    assert not (tmp_path / "small").exists()
    body: Any = model.base_model
    save(compact(body, plan), tmp_path / "body")
    found = headcount.load(tmp_path / "body").model
    assert difference(run(found, batch), run_gated(body, plan, batch)) < 1e-5


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (
            Tagger(config(), tags=7),
            r"Expected tagger.weight of the shape.*\(3, 55\), got \(7, 55\)",
        ),
        (Named(config(), ["B", "I"]), "made from a configuration alone, got Named .*'names'"),
    ],
)
def test_a_class_that_its_configuration_does_not_rebuild(model: Tagger, says: str) -> None:
    tiny.seeded(model)
    with pytest.raises(ModelError, match=says):
        compact(model, some_heads(examine(model), 1))
