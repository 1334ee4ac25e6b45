"""The model's own translations: stored as they are made, for exactly these sources."""

from pathlib import Path
from typing import Any

import pytest
import torch

from headcount.core import CorpusError, InputError
from headcount.corpora import Corpus
from headcount.models import Loaded, load
from headcount.models import pseudo_targets as translating
from headcount.models.pseudo_targets import translated
from tests import saved

SOURCES = ["The old dog.", "Nobody could sleep.", "The moon!", "She ran home.", "Rain?"]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return load(saved.marian(tmp_path_factory.mktemp("marian")))


@pytest.fixture(autouse=True)
def two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translating, "SENTENCES_AT_ONCE", 2)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    path = tmp_path / "sources.txt"
    path.write_text("".join(f"{source}\n" for source in SOURCES))
    return Corpus(path)


def run(loaded: Loaded, corpus: Corpus, folder: Path, *progress) -> list[str]:
    """The lines that remain after the corpus was read with them."""
    path = folder / "targets.txt"
    with_targets = translated(
        loaded.model, loaded.encoder(), corpus, path, folder / "state", 0.0, *progress
    )
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [sentence.target for sentence in with_targets] == lines
    return lines


@pytest.mark.slow
def test_each_is_the_models_greedy_one(loaded: Loaded, corpus: Corpus, tmp_path: Path) -> None:
    lines = run(loaded, corpus, tmp_path)
    tokenizer = loaded.encoder().tokenizer
    for source, line in zip(SOURCES, lines, strict=True):
        inputs = tokenizer(source, return_tensors="pt")
        longest = {"num_beams": 1, "do_sample": False, "max_new_tokens": 20}
        with torch.no_grad():
            (ids,) = loaded.model.generate(**inputs, **longest)  # type: ignore[operator]
        text = " ".join(str(tokenizer.decode(ids, skip_special_tokens=True)).split())
        assert text and line.startswith(text)  # which continues to the limit of its batch


@pytest.mark.slow
def test_a_killed_run_resumes(
    loaded: Loaded, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(loaded, corpus, tmp_path / "whole")

    def kill(done: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(loaded, corpus, tmp_path / "broken", kill)
    seen: list[int] = []
    generate: Any = loaded.model.generate

    def counted(**inputs):
        seen.append(len(inputs["input_ids"]))
        return generate(**inputs)

    monkeypatch.setattr(loaded.model, "generate", counted)
    assert run(loaded, corpus, tmp_path / "broken") == whole
    assert seen == [1]
    assert run(loaded, corpus, tmp_path / "broken") == whole
    assert seen == [1]


@pytest.mark.slow
def test_other_sources_in_the_same_file_are_refused(
    loaded: Loaded, corpus: Corpus, tmp_path: Path
) -> None:
    run(loaded, corpus, tmp_path)
    (tmp_path / "sources.txt").write_text("Another dog.\n" * 5)
    with pytest.raises(InputError, match=r"targets\.json belongs to the run"):
        run(loaded, corpus, tmp_path)


def test_targets_are_not_replaced(loaded: Loaded, corpus: Corpus, tmp_path: Path) -> None:
    """A corpus of sources, then of pairs; nothing is kept from a refused run."""
    (tmp_path / "pairs.tsv").write_text("The moon!\tDer Mond!\n")
    both = Corpus([tmp_path / "sources.txt", tmp_path / "pairs.tsv"])
    with pytest.raises(CorpusError, match=r"pairs\.tsv:1: expected no target"):
        run(loaded, both, tmp_path)
    (tmp_path / "pairs.tsv").unlink()
    with pytest.raises(CorpusError, match="sources.txt:1: expected"):
        run(loaded, Corpus(tmp_path / "sources.txt", pairs=True), tmp_path / "refused")
    assert not (tmp_path / "refused" / "state").exists()


@pytest.mark.slow
def test_a_model_without_a_head_translates_nothing(
    loaded: Loaded, corpus: Corpus, tmp_path: Path
) -> None:
    from headcount.doctor import diagnose

    bare = Loaded(loaded.model.base_model, loaded.tokenizer, "bare")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="Expected parallel text .* A MarianModel reads targets"):
        run(bare, corpus, tmp_path)
    bare.model.save_pretrained(tmp_path / "bare")
    loaded.encoder().tokenizer.save_pretrained(tmp_path / "bare")
    corpora = [each.text for each in diagnose(tmp_path / "bare") if each.subject == "corpus"]
    assert len(corpora) == 1 and "parallel text" in corpora[0] and "greedy" not in corpora[0]
