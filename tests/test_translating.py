"""The model's own translations: kept as they are made, of these sources and no others."""

from pathlib import Path

import pytest
import torch

from headcount import translating
from headcount.corpora import Corpus
from headcount.errors import InputError
from headcount.models.load import Loaded, load
from headcount.translating import translated
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
    """The lines that are left, after the corpus has been read with them."""
    path = folder / "targets.txt"
    with_targets = translated(
        loaded.model, loaded.encoder(), corpus, path, folder / "state", 0.0, *progress
    )
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [sentence.target for sentence in with_targets] == lines
    return lines


def test_each_is_the_models_greedy_one(loaded: Loaded, corpus: Corpus, tmp_path: Path) -> None:
    lines = run(loaded, corpus, tmp_path)
    tokenizer = loaded.encoder().tokenizer
    for source, line in zip(SOURCES, lines, strict=True):
        inputs = tokenizer(source, return_tensors="pt")
        longest = {"num_beams": 1, "do_sample": False, "max_new_tokens": 20}
        with torch.no_grad():
            (ids,) = loaded.model.generate(**inputs, **longest)  # type: ignore[operator]
        text = " ".join(str(tokenizer.decode(ids, skip_special_tokens=True)).split())
        assert text and line.startswith(text)  # which goes on to the limit of its batch


def test_a_killed_run_goes_on(
    loaded: Loaded, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(loaded, corpus, tmp_path / "whole")

    def kill(done: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(loaded, corpus, tmp_path / "broken", kill)
    seen: list[int] = []
    translate = translating._greedy

    def counted(model, encoder, sentences):
        seen.append(len(sentences))
        return translate(model, encoder, sentences)

    monkeypatch.setattr(translating, "_greedy", counted)
    assert run(loaded, corpus, tmp_path / "broken") == whole
    assert seen == [1]
    assert run(loaded, corpus, tmp_path / "broken") == whole
    assert seen == [1]


def test_other_sources_in_the_same_file_are_refused(
    loaded: Loaded, corpus: Corpus, tmp_path: Path
) -> None:
    run(loaded, corpus, tmp_path)
    (tmp_path / "sources.txt").write_text("Another dog.\n" * 5)
    with pytest.raises(InputError, match=r"targets-0\.json is of the run"):
        run(loaded, corpus, tmp_path)
