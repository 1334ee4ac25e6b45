"""Token classification against the textbook, one sentence at a time, and what is not asked."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score

from headcount.core import CorpusError, InputError, ModelError
from headcount.models import Loaded
from headcount.tasks import TaskSplits, TokenClassification, build, drawn, evaluate
from tests.tasks import loaded as small
from tests.textbook import tasks as textbook

TREEBANK = """\
# sent_id = 1
1-2\tvom\t_\t_\t_\t_\t_\t_\t_\t_
1\tvon\tvon\tADP\tAPPR\t_\t3\tcase\t_\t_
2\tdem\tder\tDET\tART\tCase=Dat|Number=Sing\t3\tdet\t_\t_
3\tHund\tHund\tNOUN\tNN\tNumber=Sing\t0\troot\t_\tNER=B-X|SpaceAfter=No
3.1\tgibt\t_\t_\t_\t_\t_\t_\t_\t_

1\tHunde\tHund\tNOUN\tNN\tNumber=Plur\t2\tnsubj\t_\tNER=O
2\tbellen\tbellen\tVERB\t_\t_\t0\troot\t_\tNER=O
"""


def model(*names: str) -> Loaded:
    names = names or ("LABEL_0", "LABEL_1", "LABEL_2")
    loaded = small.loaded("BertForTokenClassification", num_labels=len(names))
    config: Any = loaded.model.config
    config.label2id = {name: number for number, name in enumerate(names)}
    config.id2label = {number: name for number, name in enumerate(names)}
    return loaded


def slow(loaded: Loaded) -> tuple[list[tuple[float, int]], list[int], list[int]]:
    """Losses of sentences, and right and predicted classes of all words."""
    tokenizer: Any = loaded.tokenizer
    losses, right, predicted = [], [], []
    for words, labels in zip(*small.WORDS.values(), strict=True):
        rows = (
            [*words[:1], *(f" {word}" for word in words[1:])]
            if "gpt2" in str(type(tokenizer).__name__).lower()
            else words
        )
        encoding = tokenizer([rows], is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            logits = loaded.model(**encoding).logits[0].double().numpy()
        total, seen = 0.0, set()
        for place, word in enumerate(encoding.word_ids(0)):
            if word is not None and word not in seen:
                seen.add(word)
                total += textbook.surprise(logits[place], labels[word])
                right.append(labels[word])
                predicted.append(int(logits[place].argmax()))
        assert len(seen) == len(words)
        losses.append((total, len(words)))
    return losses, right, predicted


@pytest.mark.parametrize("name", ["words-bert", "words-gpt2"])
def test_words_are_the_textbook(name: str) -> None:
    loaded, task = small.TASKS[name]()
    evaluation = evaluate(loaded.model, task)
    losses, right, predicted = slow(loaded)
    np.testing.assert_allclose(evaluation.loss_N, [loss for loss, _ in losses], rtol=3e-5)
    assert evaluation.count_N.tolist() == [count for _, count in losses]
    assert len(set(predicted)) > 1
    if task.metric == "macro-f1":
        assert task.score(evaluation) == pytest.approx(textbook.macro_f1(right, predicted))
        assert task.score(evaluation) == pytest.approx(f1_score(right, predicted, average="macro"))
    else:
        assert task.score(evaluation) == pytest.approx(accuracy_score(right, predicted))


def test_later_pieces_and_special_tokens_are_not_asked() -> None:
    from headcount.importance.lrp.relevance import start_of

    loaded, task = small.TASKS["words-bert"]()
    tokenizer: Any = loaded.tokenizer
    (batch,) = task.batches(10**6)
    num_pieces = int(batch.inputs["attention_mask"].sum())
    asked_EN = batch.labels["labels"] != -100
    pieces = tokenizer.convert_ids_to_tokens(batch.inputs["input_ids"][asked_EN].tolist())
    assert not any(piece.startswith(("##", "[CLS]", "[SEP]", "[PAD]")) for piece in pieces)
    assert 0 < asked_EN.sum() == sum(map(len, small.WORDS["words"])) < num_pieces - 14
    steps = start_of(task)(loaded.model, batch)
    assert torch.equal(steps.is_step_ES, asked_EN)


def test_a_part_has_the_scores_of_its_sentences_and_differences_have_p_values() -> None:
    from headcount.importance import score_deltas

    loaded, task = small.TASKS["words-bert"]()
    evaluation = evaluate(loaded.model, task)
    part = drawn(task, 4, seed=3)
    found = evaluate(loaded.model, part)
    index_N = np.sort(np.random.default_rng(3).choice(7, 4, replace=False))
    assert part.score(found) == pytest.approx(task.score(evaluation, index_N))
    assert found.outcome_N.shape == (4, 2, 3)
    worse = evaluate(small.shaken(loaded.model), task)
    deltas = score_deltas(task, [worse, evaluation], evaluation)
    expected = task.score(evaluation) - task.score(worse)
    assert deltas.delta.tolist() == pytest.approx([expected, 0.0]) and abs(expected) > 0.01
    assert deltas.p[1] == 1 and 0 < deltas.p[0] <= 1


def test_an_interrupted_sweep_keeps_counts_of_classes(tmp_path: Path) -> None:
    from headcount.importance import AblationSetting, single_heads, sweep

    loaded, task = small.TASKS["words-bert"]()
    setting = AblationSetting(loaded.model, task, loaded.anatomy)
    first, again = (
        sweep(setting, single_heads(loaded.heads)[:2], tmp_path / "sweep", "key") for _ in range(2)
    )
    np.testing.assert_array_equal(again.outcome_AN, first.outcome_AN)
    assert again.outcome_AN.shape == (2, 7, 2, 3) and again.outcome_AN.max() > 0
    assert np.isfinite(again.base.outcome_N).all()


@pytest.mark.parametrize(
    ("column", "names", "counts", "unasked"),
    [
        (None, ("ADP", "DET", "NOUN", "VERB"), [1, 1, 2, 1], 0),
        ("xpos", ("APPR", "ART", "NN"), [1, 1, 2], 1),
        ("xpos", ("APPR", "ART", "NN", "_"), [1, 1, 2, 1], 0),
        ("deprel", ("root", "case", "det", "nsubj"), [2, 1, 1, 1], 0),
        ("feats.Number", ("Sing", "Plur"), [2, 1], 2),
        ("misc.NER", ("O", "B-X"), [2, 1], 2),
    ],
)
def test_treebanks_have_labels(
    tmp_path: Path, column: str | None, names: tuple[str, ...], counts: list[int], unasked: int
) -> None:
    (path := tmp_path / "a.conllu").write_text(TREEBANK)
    columns = None if column is None else {"labels": column}
    task = build("token-classification", model(*names), path, columns)
    assert isinstance(task, TokenClassification)
    (batch,) = task.batches(10**6)
    labels = batch.labels["labels"]
    assert torch.bincount(labels[labels >= 0], minlength=len(names)).tolist() == counts
    assert (task.num_words, task.num_unasked) == (5, unasked)
    warned = [f"words without a label or without a piece are not asked: {unasked} of 5"]
    assert task.warnings() == (warned if unasked else [])


def test_tables_have_lists(tmp_path: Path) -> None:
    rows = ['{"tokens": ["the", "dog"], "ner_tags": [0, 2]}', '{"tokens": ["a"], "ner_tags": [1]}']
    (path := tmp_path / "a.jsonl").write_text("\n".join(rows))
    data = {"words": [["the", "dog"], np.array(["a"], dtype=object)], "labels": [[0, 2], [1]]}
    found, same = (build("token-classification", model(), each) for each in (path, data))
    other = {"words": [["the dog"], ["a"]], "labels": [["0 2"], [1]]}
    with pytest.raises(CorpusError, match="row 1: expected one of the model's 3 classes"):
        build("token-classification", model(), other)
    for each in (found, same):
        (batch,) = each.batches(100)
        assert sorted(batch.labels["labels"][batch.labels["labels"] >= 0].tolist()) == [0, 1, 2]
    assert found.sha256 == same.sha256
    parts = {"words": [["a", "b"]], "labels": [[0, 1]]}, {"words": [["a b"]], "labels": [[0]]}
    assert len({build("token-classification", model(), each).sha256 for each in parts}) == 2


def test_sentences_that_two_data_sets_share_are_reported() -> None:
    few = {role: cells[:2] for role, cells in small.WORDS.items()}
    splits = TaskSplits.build("token-classification", model(), train=small.WORDS, dev=few)
    assert splits.warnings[0].startswith("2 of 2 examples of dev are in train too")


def test_words_beyond_the_limit_are_counted() -> None:
    many = {"words": [["dog"] * 70, ["a"]], "labels": [[1] * 70, [0]]}
    task = build("token-classification", model(), many)
    assert isinstance(task, TokenClassification)
    assert task.num_unasked == 8 and task.num_truncated == 1
    assert task.warnings() == [
        "texts longer than the model's limit are truncated: 1 of them",
        "words without a label or without a piece are not asked: 8 of 71",
    ]


@pytest.mark.parametrize(
    ("data", "columns", "error", "message"),
    [
        ({"words": ["a dog"], "labels": [[0, 1]]}, None, CorpusError, "row 1: expected a list in"),
        ({"words": [["a"]], "labels": [[0, 1]]}, None, CorpusError, "each of 1 word, got 2"),
        ({"words": [[]], "labels": [[]]}, None, CorpusError, "'words', got an empty list"),
        ({"words": [["a"]], "labels": [["x"]]}, None, CorpusError, "row 1: expected one of the mo"),
        ({"words": [["a"]], "labels": [["_"]]}, None, CorpusError, "row 1: expected a word with a"),
        ("a.conllu", {"labels": "lemma"}, InputError, "of a treebank, got labels=lemma"),
        ("a.conllu", {"labels": "misc."}, InputError, "of a treebank, got labels=misc."),
        ("a.conllu", {"words": "form"}, InputError, "of a treebank, got words=form"),
        (["a.conllu", "b.jsonl"], None, CorpusError, "treebanks only or tables only, got a.conllu"),
    ],
)
def test_what_can_not_be_asked_is_refused(
    data: Any, columns: dict | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        build("token-classification", model(), data, columns)


def test_broken_treebanks_name_the_line(tmp_path: Path) -> None:
    (path := tmp_path / "a.conllu").write_text(TREEBANK.replace("\tvon\tvon\t", "\tvon\t"))
    with pytest.raises(CorpusError, match=r"a\.conllu:3: expected 10 columns .* got 9"):
        build("token-classification", model(), path)
    path.write_text("# nothing\n")
    with pytest.raises(CorpusError, match="Expected at least one sentence, got none in"):
        build("token-classification", model(), path)


def test_one_class_is_no_choice() -> None:
    loaded = small.loaded("BertForTokenClassification", num_labels=1)
    with pytest.raises(ModelError, match="one of several classes, got .* with 1 label"):
        build("token-classification", loaded, small.WORDS)
