"""Memory is planned: what attention over a text needs is known before the model reads it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

import headcount
from headcount import tasks
from headcount.core import InputError, free_memory
from headcount.corpora import Corpus, Links
from headcount.models import Loaded, attention_bytes, batch_tokens
from tests import saved, tiny_tokenizers
from tests.commanding import headcount as command
from tests.forked import Forked

SIZES: dict[str, Any] = {
    "vocab_size": 1000,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 8,
}
LONG: dict[str, Any] = {**SIZES, "max_position_embeddings": 300_000}
MODELS: dict[str, Callable[[], hf.PreTrainedModel]] = {
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**LONG)),
    "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**LONG)),
    "t5": lambda: hf.T5EncoderModel(
        hf.T5Config(vocab_size=1000, d_model=16, d_kv=4, num_layers=2, num_heads=4, d_ff=8)
    ),
    "bloom": lambda: hf.BloomForCausalLM(
        hf.BloomConfig(vocab_size=1000, hidden_size=16, n_layer=2, n_head=4)
    ),
}
PER_PAIR = {"llama": 6, "bert": 0, "t5": 12 * 4, "bloom": 6 + 16 * 4}
"""Bytes for each pair of tokens of one text."""


def loaded(name: str) -> Loaded:
    return Loaded(MODELS[name]().eval(), tiny_tokenizers.wordpiece(10**7), name)


@pytest.mark.once
@pytest.mark.parametrize("name", MODELS)
def test_bytes_grow_with_the_square_of_the_length(name: str):
    model = loaded(name)
    assert attention_bytes(model, 1, 1000) == PER_PAIR[name] * 10**6
    assert attention_bytes(model, 1, 3000) == 9 * attention_bytes(model, 1, 1000)
    masks = 3 * PER_PAIR[name] if name in ("llama", "bloom") else PER_PAIR[name] + 18
    assert attention_bytes(model, 3, 1000) == masks * 10**6
    whole = masks * 10**6 if name in ("t5", "bloom") else 0
    assert attention_bytes(model, 3, 1000, measured=True) == whole, "masks are made in strips"


def test_batches_are_smaller_where_logits_or_a_graph_are_large() -> None:
    """A quarter of a GiB, or half the weights; encoders without a vocabulary have no logits."""
    llama = loaded("llama")
    many: dict[str, Any] = {**LONG, "vocab_size": 200_000}
    wide = hf.LlamaForCausalLM(hf.LlamaConfig(**many))
    assert batch_tokens(llama.model, 4096) == batch_tokens(MODELS["t5"](), 4096) == 4096
    assert batch_tokens(wide, 4096) == 2**28 // (2 * 4 * 200_000)
    assert batch_tokens(wide, 100) == 100 and batch_tokens(wide.double(), 4096) == 167
    graph = 4 * 4 * 1000 + 17 * 4 * 16 * 2
    assert batch_tokens(llama.model, 10**6, llama.anatomy) == 2**28 // graph


MEASURED = """
import sys, threading, time, torch
from tests.models.test_memory import loaded
from headcount.tap import FunctionListener, Tap
model, length, peak, ended = loaded(sys.argv[1]), int(sys.argv[2]), 0, threading.Event()
def size():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
def run(length):
    ids = torch.full((1, length), 7)
    with torch.inference_mode(), Tap(model.model, model.anatomy, FunctionListener(str)):
        model.model(input_ids=ids, attention_mask=torch.ones_like(ids))
def watch():
    global peak
    while not ended.wait(0.002):
        peak = max(peak, size())
run(1000)
watching, before = threading.Thread(target=watch), size()
watching.start(); run(length); ended.set(); watching.join()
print(peak - before)
"""


def _measured(name: str, length: int) -> int:
    """Bytes that a listener's run over a text needs at most beyond what was there before."""
    output, errors = Forked("-c", MEASURED, name, length).communicate()
    assert output, errors
    return int(output)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t5", "bloom"])
def test_a_run_needs_what_was_planned_or_more(name: str):
    planned = attention_bytes(loaded(name), 1, 3000, measured=True)
    assert 0.7 < _measured(name, 3000) / planned < 3, "blocks and outputs come on top"


@pytest.mark.slow
def test_a_listener_s_run_holds_no_mask():
    """Logits, 2 x 32 MB, are among what is measured; the mask alone would be 384 MB."""
    assert _measured("llama", 8000) < attention_bytes(loaded("llama"), 1, 8000) * 0.6


@pytest.mark.slow
def test_what_can_not_fit_is_refused_before_the_model_reads_anything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    from headcount import analysis, papers, training
    from headcount.importance import assess
    from headcount.pruning import PruneSettings

    model = loaded("llama")
    model.anatomy  # noqa: B018
    text = "the dog " * 14_999
    monkeypatch.setattr("headcount.models.memory.free_memory", lambda: 10**9)

    def read(*_: object, **__: object) -> None:
        raise AssertionError("the model was run")

    monkeypatch.setattr(hf.LlamaModel, "forward", read)
    refused = (
        r"Expected [\d.,]+ GB of free memory for the attention of llama over 1 text of 30,000 "
        r"tokens, got [\d.,]+ GB\. Read longer texts in windows, for example with --window 2048\."
    )
    corpus = Corpus([text])
    with pytest.raises(InputError, match=refused):
        headcount.cluster(model, corpus)
    for run in (analysis.analyze, analysis.measure):
        with pytest.raises(InputError, match=refused.replace("llama", "bloom")):
            run(loaded("bloom"), corpus)
    task = tasks.build("causal-lm", model, {"text": [text]})
    for ask in (
        lambda: assess(model, task),
        lambda: PruneSettings().context(model, task),
        lambda: tasks.score(model, task),
        lambda: training.check_finetuning(model, task, training.FinetuneConfig()),
    ):
        with pytest.raises(InputError, match="shorter pieces, for example with --max-length 2048"):
            ask()
    with pytest.raises(InputError, match="llama over 1 text .* Leave out longer texts, or cut"):
        papers.evolve([model], corpus, papers.EvolutionOptions(occurrences=100), tmp_path)


def test_links_of_pairs_hold_whole_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where a layer is one block, all of its weights count: 16 bytes a pair and head, not 6."""
    from headcount import alignment

    model, length = loaded("llama"), 500
    assert attention_bytes(model, 1, 1000, whole=True) == (6 + 16 * 4) * 10**6
    (tmp_path / "a.txt").write_text("dog " * (length // 2))
    pairs = Corpus(source=tmp_path / "a.txt", target=tmp_path / "a.txt")
    gold = [Links(frozenset({(0, 0)}), frozenset({(0, 0)}))]
    monkeypatch.setattr("headcount.models.memory.free_memory", lambda: 30 * length**2)
    with pytest.raises(InputError, match="free memory for the attention .* Leave out longer"):
        alignment.align(model, pairs, gold)


def test_fewer_texts_at_a_time_are_advised_where_that_helps(monkeypatch: pytest.MonkeyPatch):
    from headcount import analysis

    free = free_memory()
    assert free is not None
    model = loaded("bloom")
    length = int((free / PER_PAIR["bloom"] / 2) ** 0.5)  # one needs half, four twice as much
    corpus = Corpus(["dog " * length] * 4)
    with pytest.raises(InputError, match=r"over 4 texts of [\d,]+ tokens.*Lower --max-tokens to"):
        analysis.analyze(model, corpus, analysis.Options(max_tokens=5 * length))


def test_windows_of_a_length_read_what_does_not_fit(tmp_path: Path):
    from headcount import analysis

    model, corpus = loaded("llama"), Corpus(["the dog barked " * 40])
    options = analysis.Options(window=32, induction=False)
    found = analysis.analyze(model, corpus, options).record
    assert found.counts.windows > 3 and "|max_length:32|windows:True|" in found.signature
    assert any("longer than a window of 32 tokens, read in" in each for each in found.warnings)
    table = analysis.measure(model, corpus, window=32).frame
    assert len(table) == 8
    short = Loaded(model.model, tiny_tokenizers.wordpiece(16), "m")
    with pytest.raises(InputError, match="Expected --window of at most 16 tokens, which m takes"):
        analysis.analyze(short, corpus, options)
    for wrong in (analysis.Options, headcount.ClusterOptions):
        with pytest.raises(InputError, match="Expected --window of at least 8 tokens, got 7"):
            wrong(window=7)
    with pytest.raises(InputError, match="Expected one of --strict and --windows"):
        analysis.Options(window=32, strict=True)


@pytest.mark.slow
def test_a_run_under_a_limit_of_its_memory(tmp_path: Path):
    """As under `ulimit -v`: refused with both numbers; in windows it ends."""
    config = hf.BloomConfig(vocab_size=1000, hidden_size=16, n_layer=2, n_head=4)
    folder = saved.save(
        tmp_path / "model", hf.BloomForCausalLM, config, tiny_tokenizers.wordpiece(10**7)
    )
    text = tmp_path / "text.txt"
    text.write_text("dog " * 19_998)
    analyze = ("headcount", "analyze", folder, text, "--no-induction", "--limit", 1, "--out")
    limited = Forked(*analyze, tmp_path / "out", addresses=16 * 10**9)
    _, errors = limited.communicate()
    assert limited.returncode == 2 and "Expected 28.00 GB of free memory for the" in errors, errors
    assert "over 1 text of 20,000 tokens, got" in errors and "Traceback" not in errors
    ended = Forked(*analyze, tmp_path / "windows", "--window", 256, addresses=16 * 10**9)
    _, errors = ended.communicate()
    assert ended.returncode == 0, errors


@pytest.mark.slow
def test_an_allocation_that_fails_in_importance_or_windows_keeps_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    bert, text = saved.bert(tmp_path / "bert"), tmp_path / "text.txt"
    text.write_text("the dog barked " * 300)
    short = tmp_path / "short.txt"
    short.write_text("the dog barked\n" * 12)
    asked, calls, sweep = hf.BertModel.forward, list[int](), tmp_path / "importance" / "state"

    def forward(self: hf.BertModel, *arguments: Any, **options: Any) -> object:
        calls.append(1)
        if len(calls) == 18 if not sweep.exists() else any(sweep.glob("sweep*")):
            torch.empty(1 << 56)
        return asked(self, *arguments, **options)

    monkeypatch.setattr(hf.BertModel, "forward", forward)
    task = ("--task", "masked-lm", "--data", short, "--columns", "text=0")
    for name, more in {
        "analyze": (text, "--window", 16, "--max-tokens", 16),
        "importance": (*task, "--max-tokens", 16, "--methods", "ablation"),
    }.items():
        calls.clear()
        out = tmp_path / name
        status, _, errors = command(name, bert, *more, "--out", out)
        assert status == 2 and "headcount: The device is out of memory (" in errors, errors
        assert list((out / "state").iterdir()), "what was done is kept"
        monkeypatch.setattr(hf.BertModel, "forward", asked)
        assert command(name, bert, *more, "--out", out, "--resume")[0] == 0
        monkeypatch.setattr(hf.BertModel, "forward", forward)
