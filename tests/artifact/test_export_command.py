import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree

import gguf
import onnx
import onnxruntime
import pytest
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from headcount.artifact import certificate_corpus, save_compact
from headcount.core import ModelError, Plan
from headcount.models import Loaded
from headcount.results import Certificate, Comparison
from tests import tiny, tiny_tokenizers
from tests.commanding import headcount, run

pytestmark = pytest.mark.usefixtures("quick")


def compact(model: Path, folder: Path, kept: dict[str, dict[str, list[int]]]) -> Path:
    (folder / "plan.json").write_text(json.dumps({"version": 1, "kept": kept}))
    out = folder / "small"
    status, _, errors = headcount(
        "compact", model, "--plan", folder / "plan.json", "--out", out, "--limit", 5
    )
    assert status == 0, errors
    return out


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*weights differ from those that were compared")
def test_onnx(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of other sizes than the exported one, through ONNX Runtime."""
    out = compact(bert, tmp_path, {"encoder.self": {"0": [0, 2], "1": []}})
    status, output, errors = headcount("export", out, "--to", "onnx", "--limit", 7)
    assert status == 0, errors
    assert "Equal on 7 sentences: ONNX and reloaded" in output
    names = [each.what for each in Certificate.read(out).comparisons]
    assert names == ["compact and gated", "reloaded and gated", "ONNX and reloaded"]
    session = onnxruntime.InferenceSession(out / "onnx" / "model.onnx")
    given = {each.name for each in session.get_inputs()}
    assert given == {"input_ids", "attention_mask", "token_type_ids"}
    assert [each.name for each in session.get_outputs()] == ["logits"]
    card = (out / "README.md").read_text()
    assert re.search(r"\| ONNX and reloaded +\| +7 \|", card)
    assert "weights changed" not in output
    before = (out / "onnx" / "model.onnx").read_bytes()
    other = onnx.load_model_from_string(before)
    other.doc_string = "the same once more"

    def again(model: object, inputs: object, path: Path) -> None:
        copytree(out / "onnx", path.parent, dirs_exist_ok=True)
        path.write_bytes(other.SerializeToString())

    monkeypatch.setattr("headcount.artifact.exporting.export_onnx", again)
    weights = out / "model.safetensors"
    save_file(load_file(weights), weights, {"format": "pt", "trained": "on"})
    status, output, errors = headcount("export", out, "--to", "onnx", "--limit", 7)
    assert status == 0 and "weights changed after heads were pruned" in output, errors
    names = [each.what for each in Certificate.read(out).comparisons]
    assert names == ["ONNX and reloaded"]
    before = (out / "onnx" / "model.onnx").read_bytes()
    other.doc_string = "the same a third time"

    def refuse(self: Comparison) -> None:
        raise ModelError("not equal")

    with monkeypatch.context() as patch:
        patch.setattr(Comparison, "check_equal", refuse)
        status, _, errors = headcount("export", out, "--to", "onnx", "--limit", 7)
    assert status == 2 and "not equal" in errors
    assert (out / "onnx" / "model.onnx").read_bytes() == before

    @contextmanager
    def killed(folder: Path) -> Iterator[Path]:
        yield tmp_path
        raise KeyboardInterrupt

    monkeypatch.setattr("headcount.artifact.exporting.replaced", killed)
    assert headcount("export", out, "--to", "onnx", "--limit", 7)[0] == 130
    assert Certificate.read(out).comparisons == (), "of whichever file is there nothing is claimed"
    assert "ONNX and reloaded" not in (out / "README.md").read_text()
    (out / "prune.json").write_text("{")
    status, _, errors = headcount("export", out, "--to", "onnx", "--limit", 7)
    assert status == 2 and "prune.json" in errors


@pytest.mark.slow
def test_onnx_of_an_encoder_decoder(marian: Path, tmp_path: Path) -> None:
    kept = {"encoder.self": {"0": [1]}, "decoder.self": {"0": []}, "decoder.cross": {"1": [0, 2]}}
    out = compact(marian, tmp_path, kept)
    status, output, errors = headcount("export", out, "--to", "onnx", "--limit", 7)
    assert status == 0 and "ONNX and reloaded" in output, errors


@pytest.mark.slow
def test_a_model_that_learned_on(
    bert: Path, data: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of a fine-tuned compact model has neither certificate nor card at first."""
    small, out = compact(bert, tmp_path, {"encoder.self": {"0": [0, 2]}}), tmp_path / "out"
    status, _, errors = run("finetune", small, data, out, "--set", "updates=2", "batch_tokens=99")
    assert status == 0, errors

    def again(model: object, inputs: object, path: Path) -> None:
        copytree(out / "onnx", path.parent, dirs_exist_ok=True)

    for number in range(2):
        if number:
            monkeypatch.setattr("headcount.artifact.exporting.export_onnx", again)
        status, output, errors = headcount("export", out, "--to", "onnx", "--limit", 7)
        assert status == 0 and "does not show equality with a gated model" in output, errors
        found = Certificate.read(out)
        assert [each.what for each in found.comparisons] == ["ONNX and reloaded"]
        assert found.plan_sha256 == Certificate.read(small).plan_sha256
        assert found.weights_sha256 != Certificate.read(small).weights_sha256
    assert not (out / "README.md").exists()
    (small / "certificate.json").unlink()
    status, _, errors = headcount("export", small, "--to", "onnx", "--limit", 7)
    assert status == 2 and "Expected the folder of a compact model, but" in errors


def test_refusals(bert: Path, tmp_path: Path) -> None:
    status, _, errors = headcount("export", bert)
    assert status == 2 and "Add --to onnx" in errors
    status, _, errors = headcount("export", bert, "--to", "onnx")
    assert status == 2 and "Expected the folder of a compact model, but" in errors
    status, _, errors = headcount("export", bert, "--to", "gguf", "--cache")
    assert status == 2 and "Expected --to onnx beside --cache" in errors
    out = compact(bert, tmp_path, {"encoder.self": {"0": [0, 2]}})
    status, _, errors = headcount("export", out, "--to", "gguf")
    assert status == 2 and "Expected a model of a type out of llama" in errors
    assert not (out / "gguf").exists()


def even_llama(folder: Path, kept: dict[int, tuple[int, ...]]) -> Path:
    """A Llama with a tokenizer, two of three heads of each group, and fewer neurons."""
    tokenizer = tiny_tokenizers.byte_level("gpt2")
    sizes = {"hidden_size": 48, "intermediate_size": 24, "num_hidden_layers": 2, "head_dim": 8}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 2, "rms_norm_eps": 1e-5}
    config = LlamaConfig(vocab_size=len(tokenizer) + 3, **sizes, **heads)
    model = tiny.seeded(LlamaForCausalLM(config)).eval()
    loaded = Loaded(model, tokenizer, "tiny")
    plan = Plan({"decoder.self": kept}, neurons={"decoder.mlp": dict.fromkeys((0, 1), (0, 5, 9))})
    save_compact(loaded, plan, folder / "small", certificate_corpus(loaded, limit=5))
    return folder / "small"


@pytest.mark.slow
def test_an_even_llama_in_every_format(tmp_path: Path) -> None:
    """llama.cpp's file is read back by transformers, and all compute the same."""
    out = even_llama(tmp_path, {0: (0, 1, 4, 5), 1: (0, 2, 3, 4)})
    status, output, errors = headcount("export", out, "--to", "gguf", "torch-export", "--limit", 7)
    assert status == 0, errors
    for form in ("GGUF", "torch.export"):
        assert f"{form} and reloaded differ by at most" in output
    found = Certificate.read(out).comparisons
    forms = ["compact", "reloaded", "stock"]
    exported = ["GGUF and reloaded", "torch.export and reloaded"]
    assert [each.what for each in found] == [*(f"{form} and gated" for form in forms), *exported]
    read = gguf.GGUFReader(out / "gguf/model.gguf")
    assert int(read.fields["llama.attention.head_count"].contents()) == 4
    assert int(read.fields["llama.feed_forward_length"].contents()) == 3
    assert {each.tensor_type.name for each in read.tensors} == {"F32"}
    stock = LlamaForCausalLM.from_pretrained(out / "gguf", gguf_file="model.gguf")
    assert stock.config.num_attention_heads == 4 and stock.config.head_dim == 8
    assert headcount("export", out, "--to", "torch-export", "--limit", 3)[0] == 0
    assert [each.what for each in Certificate.read(out).comparisons][3:] == exported


def test_an_uneven_llama_is_no_gguf(tmp_path: Path) -> None:
    out = even_llama(tmp_path, {0: (0, 1, 3, 4), 1: (0, 1, 2, 3, 4, 5)})
    status, _, errors = headcount("export", out, "--to", "gguf")
    assert status == 2 and "Prune with --even" in errors
