"""Several references of a translation: scores are sacreBLEU's, and no column is ignored."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu

from headcount.core import CorpusError
from headcount.tasks import Evaluation, TaskSplits, Translation, evaluate, score
from tests.tasks import loaded as small

FIRST = small.TRANSLATIONS["target"]
SECOND = ["Die Katze schlief.", "", "Ein Kind", "", "", "Der alte Hund bellte laut.", "Kinder"]
THIRD = ["", "", "Zwei Kinder liefen weg.", "", "", "", ""]
DIRECT: dict[str, Any] = {"bleu": sacrebleu.corpus_bleu, "chrf": sacrebleu.corpus_chrf}
METRIC = pytest.mark.parametrize("metric", ["bleu", "chrf"])


def translation(data: Any, columns: dict | None = None, **options: Any) -> Translation:
    return Translation(small.loaded("MarianMTModel"), data, columns, **options)


def evaluation(texts: list[str]) -> Evaluation:
    return Evaluation(np.ones(7), np.ones(7, int), np.array(texts, dtype=object))


def streams(index_S: Any = range(7)) -> list[list[str | None]]:
    """References as sacreBLEU takes them, None where there is none."""
    return [[side[index] or None for index in index_S] for side in (FIRST, SECOND, THIRD)]


TEXTS = [*FIRST[:2], "Ein Kind lief weg.", "Die Katze", "nichts", "Der Hund bellte laut.", "Hunde"]
OTHERS = ["Die Katze schlief.", *FIRST[3:5], "Ein Kind", "laut", "Der alte Hund", "Kinder"]


@METRIC
def test_scores_compare_with_all_references(metric: Any) -> None:
    task = translation(small.TRANSLATIONS | {"target2": SECOND, "target3": THIRD}, metric=metric)
    alone = translation(small.TRANSLATIONS, metric=metric)
    found = task.score(evaluation(TEXTS))
    assert found == pytest.approx(DIRECT[metric](TEXTS, streams()).score)
    assert found > alone.score(evaluation(TEXTS)) + 1
    drawn = np.array([0, 5, 5, 2, 6])
    expected = DIRECT[metric]([TEXTS[index] for index in drawn], streams(drawn)).score
    assert task.score(evaluation(TEXTS), drawn) == pytest.approx(expected)
    part = task.some(np.array([1, 3]))
    assert "nrefs:var" in task.signature and "nrefs:1" in part.signature
    assert part.score(evaluation(["x"] * 2 + TEXTS[2:])) >= 0 and "nrefs:var" in task.signature
    assert task.signed_options["refs"] == "var" and alone.signed_options["refs"] is None
    assert task.sha256 != alone.sha256 and "nrefs:1" in alone.signature


@METRIC
def test_counts_of_each_example_are_of_its_best_or_nearest_reference(metric: Any) -> None:
    """Swapping two systems' translations gives the score of the mixed translations."""
    from headcount.importance import score_deltas

    task = translation(small.TRANSLATIONS | {"target2": SECOND, "target3": THIRD}, metric=metric)
    one, other = evaluation(TEXTS), evaluation(OTHERS)
    counts = [task.statistics(each) for each in (one, other)]
    for swapped in ([0], [1, 5], [0, 2, 3, 6]):
        mixed = [(OTHERS if index in swapped else TEXTS)[index] for index in range(7)]
        sums_K = sum(counts[index in swapped][index] for index in range(7))
        expected = DIRECT[metric](mixed, streams()).score
        assert task.of_sums(np.array([sums_K]))[0] == pytest.approx(expected)
    deltas = score_deltas(task, [other], one)
    expected = DIRECT[metric](TEXTS, streams()).score - DIRECT[metric](OTHERS, streams()).score
    assert deltas.delta[0] == pytest.approx(expected)


@pytest.mark.slow
def test_lists_are_references_and_the_first_has_the_loss(tmp_path: Path) -> None:
    from headcount.papers import texts_of

    lists = [[a, *filter(None, (b, c))] for a, b, c in zip(FIRST, SECOND, THIRD, strict=True)]
    rows = zip(small.TEXTS, lists, strict=True)
    lines = [json.dumps({"source": source, "target": target}) for source, target in rows]
    (path := tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (plain := tmp_path / "plain.jsonl").write_text(
        "\n".join(
            json.dumps(dict(zip(("source", "target", "target_2", "reference3"), row, strict=True)))
            for row in zip(small.TEXTS, FIRST, SECOND, THIRD, strict=True)
        ),
        encoding="utf-8",
    )
    loaded, alone = small.loaded("MarianMTModel"), translation(small.TRANSLATIONS)
    expected = evaluate(loaded.model, alone).loss_N
    for task in (
        translation(path),
        translation(plain),
        translation({"source": small.TEXTS, "target": lists}),
    ):
        assert task.references == [tuple(each) for each in lists]
        np.testing.assert_array_equal(evaluate(loaded.model, task).loss_N, expected)
    found = score(loaded, translation(path))
    texts = found.evaluation.outcome_N.tolist()
    assert found.record.scores["bleu"] == pytest.approx(DIRECT["bleu"](texts, streams()).score)
    assert found.record.scores["chrf"] == pytest.approx(DIRECT["chrf"](texts, streams()).score)
    assert all("nrefs:var" in each for each in found.record.score_signatures.values())
    assert "nrefs:var" in found.record.signature
    (first, *_) = texts_of("translation", path)
    assert first.target == FIRST[0]


def test_two_references_everywhere_are_counted() -> None:
    both = small.TRANSLATIONS | {"target2": [text[::-1] for text in FIRST]}
    task = translation(both)
    assert "nrefs:2" in task.signature and task.signed_options["refs"] == 2
    splits = TaskSplits.build("translation", small.loaded("MarianMTModel"), train=both, dev=both)
    assert "refs:2" in splits.signature(small.loaded("MarianMTModel"), 0)
    assert splits.warnings[0].startswith("7 of 7 examples of dev are in train too")


def test_a_target_that_is_named_is_the_only_one() -> None:
    both = small.TRANSLATIONS | {"target2": SECOND}
    named = {"target": "target2", "source": "source"}
    data = both | {"target2": FIRST, "target": SECOND}
    assert translation(data, named).references == [(text,) for text in FIRST]
    renamed = translation(both | {"src": small.TEXTS}, {"source": "src"})
    assert renamed.references[0] == (FIRST[0], SECOND[0])
    asked = translation(both, {"target": "target", "target2": "target2"})
    assert asked.references == renamed.references


def test_files_with_and_without_a_header(tmp_path: Path) -> None:
    (bare := tmp_path / "a.tsv").write_text("The dog.\tDer Hund.\n", encoding="utf-8")
    header = "source\ttarget\ttarget2\nThe dog.\tDer Hund.\tEin Hund.\n"
    (named := tmp_path / "b.tsv").write_text(header, encoding="utf-8")
    assert translation(bare).references == [("Der Hund.",)]
    assert translation(named).references == [("Der Hund.", "Ein Hund.")]
    for files in ([bare, named], [named, bare]):
        with pytest.raises(CorpusError, match="expected a column for 'target2' in all files"):
            translation(files)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"source": [["a", "b"]]}, "row 1: expected text or a number in column 'source', got list"),
        ({"target2": [["a"]]}, "row 1: expected text or a number in column 'target2', got list"),
        ({"target": [[]]}, "row 1: expected some text in column 'target', got an empty list"),
        ({"target": [["a", ""]]}, "row 1: expected some text in column 'target', got ''"),
        ({"target": [["a", ["b"]]]}, "expected text or a number in column 'target', got list"),
    ],
)
def test_lists_elsewhere_are_refused(changed: dict, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        translation({"source": ["a"], "target": ["b"]} | changed)
