"""GAP's questions: F1 by the book, a planted head found, noise at chance, halves, and files."""

from pathlib import Path

import numpy as np
import pytest
import torch

from headcount.coreference import Coreference, CoreferenceOptions, select_antecedents
from headcount.coreference.antecedents import NameAnswers, chosen_names, nearest_name
from headcount.corpora import Document, Mention, NameQuestion
from tests.tasks.loaded import loaded
from tests.textbook import names as textbook

OPTIONS = CoreferenceOptions(samples=20)
HEADS = ("enc.0.0", "enc.0.1", "enc.0.2", "enc.1.0")


def passage(
    number: int, pronoun: str = "she", is_right: tuple[bool, bool] = (True, False), between: int = 0
) -> Document:
    """Two names, then a pronoun; `between` words are between the second name and the pronoun."""
    words = ("Ann", "met", "Eve", *["x"] * between, pronoun)
    entities = ("it" if is_right[0] else "A", "it" if is_right[1] else "B", "it")
    mentions = tuple(
        Mention(place, place, place, entity, kind)
        for place, entity, kind in zip(
            (0, 2, len(words) - 1), entities, ("proper", "proper", "pronoun"), strict=True
        )
    )
    return Document(
        f"p{number}", (words,), mentions, "gap.tsv:2", NameQuestion(2, (0, 1), is_right)
    )


def test_the_choice_is_read_from_the_row_of_the_pronoun() -> None:
    weights = torch.zeros(2, 3, 3)
    weights[0, 2] = torch.tensor([0.1, 0.3, 0.6])
    weights[1, 2] = torch.tensor([0.4, 0.3, 0.3])
    weights[:, 0, 1] = weights[:, 1, 0] = 0.9
    assert chosen_names(weights, NameQuestion(2, (0, 1), (True, False))).tolist() == [1, 0]
    assert chosen_names(weights, NameQuestion(2, (1, 0), (True, False))).tolist() == [0, 1]


def test_the_nearest_name_is_nearest_in_words() -> None:
    near = passage(0)
    assert near.question is not None and nearest_name(near, near.question) == 1
    mentions = (near.mentions[2], near.mentions[0], near.mentions[1])
    turned = Document("d", near.sentences, mentions, "o")
    assert nearest_name(turned, NameQuestion(0, (2, 1), (True, False))) == 0


def test_scores_by_the_book() -> None:
    rng = np.random.default_rng(0)
    truths = [(True, False), (False, True), (False, False)]
    documents, chosen = list[Document](), dict[int, np.ndarray]()
    for number in range(41):
        is_right = truths[rng.integers(3)]
        pronoun = ("she", "Her", "him")[rng.integers(3)]
        documents.append(passage(number, pronoun, is_right))
        if number % 7 != 3:  # some passages are too long
            chosen[number] = rng.integers(0, 2, 4)
    rows = list(NameAnswers(documents, chosen, HEADS).rows(OPTIONS))
    assert len(rows) == 3 * len(HEADS)
    for row in rows:
        index = HEADS.index(row.head)
        feminine = {"feminine": {"she", "her"}, "masculine": {"him"}}
        asked = feminine.get(row.gender, {"she", "her", "him"})
        places = [n for n in chosen if documents[n].words[-1].lower() in asked]
        right = [documents[n].question.is_right for n in places]  # pyright: ignore
        yes = [(chosen[n][index] == 0, chosen[n][index] == 1) for n in places]
        assert row.passages == len(places)
        assert row.f1 == pytest.approx(textbook.f1(yes, right))
        assert row.nearest == pytest.approx(textbook.f1([(False, True)] * len(places), right))
        known = [place for place, each in enumerate(right) if any(each)]
        hits = [right[place][chosen[places[place]][index]] for place in known]
        assert row.accuracy == pytest.approx(np.mean(hits))
        assert row.low <= row.f1 <= row.high


def test_a_planted_head_is_found_and_noise_is_at_chance() -> None:
    rng = np.random.default_rng(1)
    truths = [((True, False), (False, True))[rng.integers(2)] for _ in range(400)]
    documents = [passage(number, is_right=each) for number, each in enumerate(truths)]
    chosen = {}
    for number, is_right in enumerate(truths):
        weights = torch.tensor(rng.dirichlet(np.ones(3), size=(4, 3)), dtype=torch.float32)
        weights[2, 2, int(is_right[1])] += 1
        chosen[number] = chosen_names(weights, documents[number].question)  # pyright: ignore
    answers = NameAnswers(documents, chosen, HEADS)
    scores = {row.head: row.f1 for row in answers.rows(OPTIONS) if row.gender == "all"}
    assert scores.pop("enc.0.2") == 1
    assert list(scores.values()) == pytest.approx([0.5] * 3, abs=0.07)
    best = {row.gender: row for row in answers.best(OPTIONS)}
    assert set(best) == {"all", "feminine"} and best["all"].passages == 200
    assert best["all"].head == "enc.0.2" and best["all"].f1 == 1


def test_answers_are_written_and_read_back(tmp_path: Path) -> None:
    documents = [passage(n, ("she", "he")[n % 2], (n % 3 == 0, n % 3 == 1)) for n in range(6)]
    found = select_antecedents(loaded("BertModel"), documents, OPTIONS)
    assert {row.gender for row in found.names} == {"all", "feminine", "masculine"}
    assert {row.passages for row in found.names if row.gender == "all"} == {6}
    found.write(tmp_path)
    assert Coreference.read(tmp_path) == found and found.record.best_names
    plain = [Document(d.name, d.sentences, d.mentions, d.origin) for d in documents]
    without = select_antecedents(loaded("BertModel"), plain, OPTIONS)
    assert without.names == () and without.rows == found.rows
    without.write(tmp_path)
    assert not (tmp_path / "coreference_names.parquet").exists()
    assert Coreference.read(tmp_path) == without
