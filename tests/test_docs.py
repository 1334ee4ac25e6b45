"""Python of pages that show a way runs as printed, on tiny models in place of those of the hub."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from transformers import T5Config, T5ForConditionalGeneration, WhisperFeatureExtractor

from headcount import Plan, export, load, save_compact
from headcount.models import Loaded
from tests import saved, tiny, tiny_tokenizers

ROOT = Path(__file__).parents[1]
DATA = ROOT / "headcount" / "data"


def whisper(folder: Path) -> Path:
    model = tiny.MODELS["whisper"]()
    model.save_pretrained(folder)
    bins, positions = model.config.num_mel_bins, model.config.max_source_positions
    extract: Any = WhisperFeatureExtractor
    extract(
        feature_size=bins, chunk_length=1, hop_length=16_000 // (2 * positions)
    ).save_pretrained(folder)
    return folder


def translator(folder: Path) -> Path:
    """A compact model with graphs for generation and a fast tokenizer."""
    tokenizer = tiny_tokenizers.t5()
    make: Any = T5Config
    sizes = {"d_model": 24, "d_kv": 8, "d_ff": 31, "num_heads": 3, "num_layers": 1}
    ids = {"decoder_start_token_id": tokenizer.pad_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = make(vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id, **sizes, **ids)
    model = tiny.seeded(T5ForConditionalGeneration(config))
    loaded = Loaded(model, tokenizer, "tiny")
    plan = Plan({"decoder.self": {0: (1,)}, "decoder.cross": {0: (0, 2)}})
    save_compact(loaded, plan, folder)
    export(load(folder), folder, cache=True)
    return folder


def shapes(folder: Path) -> Path:
    """A model of pictures and words after one step, with its data."""
    script = ROOT / "benchmarks" / "shapes_and_words.py"
    subprocess.run([sys.executable, str(script), str(folder), "1"], check=True)
    return folder


PLACES: dict[str, Callable[[Path], Path]] = {
    "bert-base-uncased": saved.bert,
    "HuggingFaceTB/SmolLM2-135M-Instruct": saved.gpt2,
    "openai/whisper-tiny.en": whisper,
    "PRUNED": translator,
    "SHAPES": shapes,
}
"""Names of the pages and the tiny models that stand in for them."""

PAGES = sorted(
    path
    for path in (
        *(ROOT / "docs" / "howto").glob("*.md"),
        *(ROOT / "docs" / f"{name}.md" for name in ("cache", "truth")),
    )
    if "```python" in path.read_text()
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*saw no image")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow if page.stem == "onnx" else ()) for page in PAGES],
    ids=lambda page: page.stem,
)
def test_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trees = (DATA / "sample.conllu").read_text().split("\n\n")
    Path("treebank.conllu").write_text("\n\n".join(trees[:12]) + "\n\n")
    copy(DATA / "sample.tsv", "dev.tsv")
    lines = (DATA / "sample.tsv").read_text().splitlines()[:12]
    Path("dev.txt").write_text("\n".join(line.split("\t")[0] for line in lines))
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        for name, make in PLACES.items():
            if name in block:
                place = tmp_path / name.replace("/", "-")
                block = block.replace(name, str(place if place.exists() else make(place)))
        block = block.replace("EPOCHS = 40", "EPOCHS = 1").replace("digits()", "digits(n_class=2)")
        exec(compile(block, page.name, "exec"), names)


def test_pages_are_there() -> None:
    assert [page.stem for page in PAGES] == [
        "cache", "bert", "causal_lm", "large_models", "onnx", "opus_mt", "pictures",
        "trainer", "vit", "whisper", "truth",
    ]  # fmt: skip


def test_a_release_is_forty_lines_and_contributing_seventy() -> None:
    """At most; what is not released yet is cut when it is."""
    _, *releases = re.split(r"^(?=## \[\d)", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    assert len(releases) > 2 and max(len(each.splitlines()) for each in releases) <= 40
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 70


def test_no_line_of_the_changelog_is_too_long() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    assert [line for line in lines if len(line) > 120] == []
