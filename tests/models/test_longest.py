"""A model runs the longest text it takes, and fails with one token more."""

from typing import Any

import pytest
import torch
import transformers as hf

from headcount.models import max_length

SIZES: dict[str, Any] = {
    "vocab_size": 30,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 20,
}
MODELS = {
    "bert": lambda: hf.BertModel(hf.BertConfig(**SIZES)),
    "roberta": lambda: hf.RobertaModel(hf.RobertaConfig(**SIZES)),
    "camembert": lambda: hf.CamembertModel(hf.CamembertConfig(**SIZES)),
    "mpnet": lambda: hf.MPNetModel(hf.MPNetConfig(**SIZES)),
    "data2vec": lambda: hf.Data2VecTextModel(hf.Data2VecTextConfig(**SIZES)),
    "xmod": lambda: hf.XmodModel(hf.XmodConfig(**SIZES, default_language="en_XX")),
    "electra": lambda: hf.ElectraModel(hf.ElectraConfig(**SIZES)),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_table_of_positions_is_used_up(name: str) -> None:
    model = MODELS[name]().eval()
    longest = max_length(model, None)
    assert longest is not None
    with torch.no_grad():
        assert model(torch.full((1, longest), 7)).last_hidden_state.shape[1] == longest
        with pytest.raises((IndexError, RuntimeError)):
            model(torch.full((1, longest + 1), 7))


def stretched(stated: int, kind: str = "yarn", **others: Any) -> int | None:
    rotary = {"rope_type": kind, "rope_theta": 1e4, "original_max_position_embeddings": 32}
    given = {"max_position_embeddings": stated, "rope_parameters": rotary | others}
    model = hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES | given))
    return max_length(model, None)


def test_stretched_positions_count_whether_the_stated_limit_was_raised_or_not() -> None:
    assert stretched(32, factor=4.0) == stretched(128, factor=4.0) == 128
    assert stretched(200, factor=4.0) == 200
    assert stretched(64, "linear", factor=1.5) == 64


def test_each_kind_of_layer_may_stretch_its_own_positions() -> None:
    plain = {"rope_type": "default", "rope_theta": 1e4}
    yarn = plain | {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 20}
    kinds = {"sliding_attention": plain, "full_attention": yarn}
    config = hf.Gemma3TextConfig(**SIZES, head_dim=4, rope_parameters=kinds)
    assert max_length(hf.Gemma3ForCausalLM(config), None) == 80
