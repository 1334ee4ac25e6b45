"""A model is identified by its parameters, wherever it came from."""

from pathlib import Path

import torch
from tokenizers.normalizers import Lowercase
from transformers import AutoTokenizer

from headcount.models import Loaded, revision, signature, tokenizer_revision
from headcount.results import SAME_MODEL, Signature
from tests import tiny, tiny_tokenizers


def test_a_copy_that_learned_is_another_model() -> None:
    model = tiny.MODELS["bert"]()
    before = revision(model)
    model.config._commit_hash = "f" * 40  # some versions of transformers set it, copies keep it
    signed = signature(Loaded(model, None, "model"), "0" * 64)
    assert revision(model) == before == Signature.parse(signed).revision
    assert "tokenizer" not in signed
    with torch.no_grad():
        next(model.parameters()).view(-1)[3] += 1e-3
    assert revision(model) != before


def test_a_tokenizer_that_reads_otherwise_is_another(tmp_path: Path) -> None:
    """Its last call and its folder do not matter; its normalizer does, even with one vocabulary."""
    tokenizer = tiny_tokenizers.byte_level("roberta")
    before = tokenizer_revision(tokenizer)
    tokenizer(
        ["The dog", "a"], truncation=True, max_length=2, padding=tokenizer.pad_token is not None
    )
    assert tokenizer_revision(tokenizer) == before
    tokenizer.save_pretrained(tmp_path)
    assert tokenizer_revision(AutoTokenizer.from_pretrained(tmp_path)) == before
    tokenizer.backend_tokenizer.normalizer = Lowercase()
    assert tokenizer_revision(tokenizer) != before
    slow = tiny_tokenizers.byt5()
    assert tokenizer_revision(slow) == tokenizer_revision(tiny_tokenizers.byt5()) != before
    model = tiny.MODELS["bert"]()
    assert f"|tokenizer:{before}|" not in signature(Loaded(model, slow, "model"), "0" * 64)
    assert f"|tokenizer:{tokenizer_revision(slow)}|" in signature(Loaded(model, slow, ""), "0" * 64)


def test_a_signature_states_every_part_that_numbers_depend_on() -> None:
    model = tiny.MODELS["bert"]()
    signed = Signature.parse(signature(Loaded(model, None, "model"), "0" * 64))
    stated = {name for name, part in SAME_MODEL.items() if part.is_stated}
    assert stated <= set(signed.parts)
    assert (signed.get("kernel"), signed.get("dtype")) == ("sdpa", "float32")
    model.config._attn_implementation = "eager"
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        signed = Signature.parse(signature(Loaded(model, None, "model"), "0" * 64))
        half = Signature.parse(signature(Loaded(model.half(), None, "model"), "0" * 64))
    finally:
        torch.set_float32_matmul_precision(before)
    assert (signed.get("kernel"), signed.get("dtype")) == ("eager", "float32-bf16")
    assert half.get("dtype") == "float16"
