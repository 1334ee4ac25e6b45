"""The three models: one encoder, the tokens each sees, and folders that load without headcount."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from headcount import Corpus, analyze, load
from headcount.corpora import Sentence
from headcount.models import Loaded
from headcount.papers import RECIPES, causal_model, masked_model, translation_model
from headcount.tap import examine
from headcount.tasks import fitting

TINY = RECIPES["tiny"]
IDS = torch.tensor([[9, 20, 31, 42, 53, 2], [60, 71, 82, 2, 1, 1]])
IS_TOKEN = (IDS != 1).long()


def test_one_encoder(tokenizer: PreTrainedTokenizerFast) -> None:
    """One seed gives all three models the same encoder; another seed gives another encoder."""
    whole = translation_model(TINY, tokenizer, 3)
    encoder = whole.model.encoder.eval()
    masked, causal = masked_model(TINY, tokenizer, 3), causal_model(TINY, tokenizer, 3)
    for model in (masked, causal):
        state = model.base_model.state_dict()
        assert state.keys() == encoder.state_dict().keys()
        assert all(torch.equal(state[name], each) for name, each in encoder.state_dict().items())
    expected = encoder(IDS, IS_TOKEN).last_hidden_state @ whole.model.shared.weight.T
    found = masked.eval()(IDS, attention_mask=IS_TOKEN).logits
    torch.testing.assert_close(found[IS_TOKEN.bool()], expected[IS_TOKEN.bool()])
    other = masked_model(TINY, tokenizer, 4).base_model.state_dict()["embed_tokens.weight"]
    assert not torch.equal(other, encoder.embed_tokens.weight)


def test_new_weights(tokenizer: PreTrainedTokenizerFast) -> None:
    """Maps and embeddings have the recipe's standard deviation."""
    weights = translation_model(replace(TINY, init_std=0.5), tokenizer, 3).state_dict()
    for name in ("model.shared.weight", "model.encoder.layers.0.fc1.weight"):
        assert weights[name].std().item() == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("masked", [False, True])
def test_what_is_seen(tokenizer: PreTrainedTokenizerFast, attention: str, masked: bool) -> None:
    """A later token changes earlier outputs only in the masked model; padding changes none."""
    model = (masked_model if masked else causal_model)(TINY, tokenizer, 3).eval()
    model.set_attn_implementation(attention)
    for mask in (IS_TOKEN, torch.ones_like(IS_TOKEN)):
        before = model(IDS, attention_mask=mask).logits
        changed = IDS.clone()
        changed[0, 4] = 99
        after = model(changed, attention_mask=mask).logits
        apart = (after - before)[0].abs().amax(1) > 1e-6
        assert apart.tolist() == ([True] * 6 if masked else [False] * 4 + [True] * 2)
        assert torch.equal(before[1], after[1])
    alone = model(IDS[1:, :4]).logits
    torch.testing.assert_close(model(IDS, attention_mask=IS_TOKEN).logits[1:, :4], alone)


@pytest.mark.slow
def test_heard_by_the_tap(tokenizer: PreTrainedTokenizerFast) -> None:
    causal, masked = causal_model(TINY, tokenizer, 3), masked_model(TINY, tokenizer, 3)
    assert dict(examine(causal).heads.counts) == {"decoder.self": (4, 4)}
    assert dict(examine(masked).heads.counts) == {"encoder.self": (4, 4)}
    translating = examine(translation_model(TINY, tokenizer, 3)).heads.counts
    assert set(translating) == {"encoder.self", "decoder.self", "decoder.cross"}
    assert (fitting(causal), fitting(masked)) == (["causal-lm", "choice"], ["masked-lm"])
    states = masked.eval()(IDS, output_hidden_states=True).hidden_states
    assert states is not None and len(states) == TINY.layers + 1


@pytest.mark.slow
def test_what_is_measured_is_causal(tokenizer: PreTrainedTokenizerFast) -> None:
    """Measures run the model's body, which is causal by itself."""
    causal, masked = causal_model(TINY, tokenizer, 3).eval(), masked_model(TINY, tokenizer, 3)
    corpus = Corpus.from_sentences([Sentence("ein Hund läuft"), Sentence("der alte Hund")])
    found = analyze(Loaded(causal, tokenizer, "causal"), corpus).heads.frame
    assert set(found["attn_next"]) == {0}
    both = analyze(Loaded(masked.eval(), tokenizer, "masked"), corpus).heads.frame
    assert min(both["attn_next"]) > 0
    whole = causal(IDS, attention_mask=IS_TOKEN).logits
    states = causal.base_model(IDS, attention_mask=IS_TOKEN).last_hidden_state
    assert torch.equal(causal.lm_head(states), whole)


@pytest.mark.slow
@pytest.mark.parametrize("make", [masked_model, causal_model])
def test_folder_loads(make: type, tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    model: PreTrainedModel = make(TINY, tokenizer, 3).eval()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = load(tmp_path)
    assert type(loaded.model) is type(model)
    logits = model(IDS, attention_mask=IS_TOKEN).logits
    assert torch.equal(loaded.model(IDS, attention_mask=IS_TOKEN).logits, logits)


@pytest.mark.slow
def test_folder_loads_without_headcount(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    """Plain transformers load it, in a process that can't import headcount."""
    model = causal_model(TINY, tokenizer, 3).eval()
    model.save_pretrained(tmp_path / "model")
    program = f"""
import sys
sys.modules["headcount"] = None
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained({str(tmp_path / "model")!r}, trust_remote_code=True)
print(model(torch.tensor({IDS.tolist()})).logits.double().sum().item())
"""
    environment = {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    expected = model(IDS).logits.double().sum().item()
    assert float(done.stdout) == pytest.approx(expected, abs=1e-4)
