"""Search: the textbook's loss and measures, BEIR's folders, and what is refused."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity

from headcount import load
from headcount.core import CorpusError, InputError
from headcount.models import Loaded
from headcount.tasks import Evaluation, Search, TaskSplits, build, evaluate
from headcount.tasks.search import OTHERS, SCALE
from tests.models.test_sentence_transformer import folder
from tests.tasks import loaded as small

PASSAGES = [f"{one} {other}" for one in small.TEXTS for other in ("The dog", "the moon ran")]
DATA: dict[str, list[Any]] = {
    # The first query has two answers, the last rows are passages of no query
    "query": [small.TEXTS[0], *small.TEXTS, *[""] * 6],
    "passage": [PASSAGES[7], *PASSAGES[:7], *PASSAGES[8:14]],
    "grade": [2] + [1] * 13,
}


def bert() -> Loaded:
    return small.loaded("BertModel")


def embedded(loaded: Loaded, text: str) -> torch.Tensor:
    """The mean state of a text's tokens, which runs alone."""
    ids = loaded.encoder().tokenizer(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        return loaded.model(ids).last_hidden_state[0].mean(0)


def cosines(loaded: Loaded) -> dict[str, list[float]]:
    """The cosine of each query with each passage, in the order of the data."""
    passages = [embedded(loaded, text) for text in DATA["passage"]]
    return {
        query: [float(cosine_similarity(embedded(loaded, query), each, dim=0)) for each in passages]
        for query in small.TEXTS
    }


@pytest.mark.parametrize("metric", ["ndcg@10", "mrr@10", "recall@10"])
def test_the_measures_are_the_textbook_s(metric: str) -> None:
    loaded, expected = bert(), []
    task = build("search", loaded, DATA, metric=metric)
    for number, (query, found) in enumerate(cosines(loaded).items()):
        grades = {number + 1: 1} | ({0: 2} if query == small.TEXTS[0] else {})
        order = sorted(range(len(found)), key=lambda each, found=found: -found[each])[:10]
        gains = [grades.get(each, 0) for each in order]
        best = sorted(grades.values(), reverse=True)
        hits = [place for place, gain in enumerate(gains) if gain]
        expected.append(
            {
                "ndcg@10": _dcg(gains) / _dcg(best),
                "mrr@10": 1 / (1 + hits[0]) if hits else 0.0,
                "recall@10": len(hits) / len(grades),
            }[metric]
        )
    evaluation = evaluate(loaded.model, task, max_tokens=40, texts=True)
    np.testing.assert_allclose(evaluation.outcome_N, expected, atol=1e-6)
    assert task.score(evaluation) == pytest.approx(np.mean(expected))
    sums = task.statistics(evaluation)
    assert sums is not None
    assert task.of_sums(sums[:3].sum(0)[None])[0] == pytest.approx(np.mean(expected[:3]))
    assert 0 < task.score(evaluation) <= 1


def _dcg(gains: list[int]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))


@pytest.mark.slow
def test_the_loss_is_the_cross_entropy_of_the_answer() -> None:
    """Of the best answer, among passages that are no answer."""
    loaded, task = bert(), Search(bert(), DATA)
    evaluation, found = evaluate(loaded.model, task), cosines(loaded)
    for number, (query, each) in enumerate(found.items()):
        answers = {0, 1} if query == small.TEXTS[0] else {number + 1}
        best, *others = task._compared[number]
        assert best == min(answers) and len(others) == OTHERS
        assert len({*others}) == OTHERS and not {*others} & answers
        exponents = [math.exp(SCALE * each[one]) for one in (best, *others)]
        expected = -math.log(exponents[0] / sum(exponents))
        assert evaluation.loss_N[number] == pytest.approx(expected, rel=1e-3)


def test_each_text_is_read_once() -> None:
    """An evaluation reads no passage twice, and its losses are those of batches."""
    loaded, task, seen = bert(), Search(bert(), DATA), list[tuple[int, int]]()
    rows = list[int]()
    embeddings = loaded.model.get_input_embeddings()
    hook = embeddings.register_forward_pre_hook(lambda _, args: rows.append(len(args[0])))
    watched = task.watched(lambda done, total: seen.append((done, total)))
    found = evaluate(loaded.model, watched, max_tokens=60, texts=True)
    assert sum(rows) == len(task._queries) + len(task._passages)
    rows.clear()
    without = evaluate(loaded.model, task, max_tokens=60)
    needed = {number for each in task._compared for number in each}
    assert sum(rows) == len(task._queries) + len(needed)
    hook.remove()
    with torch.no_grad():
        for batch in task.batches(60):
            losses = task.losses(loaded.model, batch).loss_E.numpy()
            for each in (found, without):
                np.testing.assert_allclose(each.loss_N[batch.index_E], losses, rtol=1e-4)
    assert seen[0] == (0, 7) and seen[-1] == (7, 7) and seen == sorted(seen)
    assert np.isnan(without.outcome_N).all() and np.isfinite(found.outcome_N).all()


def test_named_negatives_come_first() -> None:
    data = {
        "query": small.TEXTS,
        "passage": PASSAGES[:7],
        "negative": [*PASSAGES[7:13], ""],
    }
    task = Search(bert(), data)
    assert [each[:2] for each in task._compared[:6]] == [[n, 7 + n] for n in range(6)]
    assert len(task._passages) == 13 and task.num_examples == 7


def test_a_limit_is_of_queries_and_a_part_searches_all_passages() -> None:
    loaded = bert()
    whole, few = Search(loaded, DATA), Search(loaded, DATA, limit=3)
    assert few.num_examples == 3 and few.sha256 != whole.sha256
    every = evaluate(loaded.model, whole, texts=True).outcome_N
    np.testing.assert_allclose(evaluate(loaded.model, few, texts=True).outcome_N, every[:3])
    part = whole.some(np.array([5, 2]))
    np.testing.assert_allclose(evaluate(loaded.model, part, texts=True).outcome_N, every[[5, 2]])


def beir(folder: Path) -> Path:
    """The same data as a folder of BEIR's form, with a judgement that is no answer."""
    (folder / "qrels").mkdir()
    queries, passages = list(dict.fromkeys(small.TEXTS)), DATA["passage"]
    lines = [{"_id": f"p{n}", "title": "", "text": text} for n, text in enumerate(passages)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    lines = [{"_id": f"q{n}", "text": text} for n, text in enumerate(queries)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = [f"q{max(n - 1, 0)}\tp{n}\t{DATA['grade'][n]}" for n in range(8)]
    text = "\n".join(["query-id\tcorpus-id\tscore", *rows, "q3\tp9\t0"])
    (folder / "qrels" / "test.tsv").write_text(f"{text}\n")
    return folder / "qrels" / "test.tsv"


def test_a_folder_of_beir_gives_the_same(tmp_path: Path) -> None:
    loaded = bert()
    task = build("search", loaded, beir(tmp_path))
    found = evaluate(loaded.model, task, texts=True).outcome_N
    expected = evaluate(loaded.model, Search(loaded, DATA), texts=True).outcome_N
    np.testing.assert_allclose(found, expected)
    judged = tmp_path / "qrels" / "test.tsv"
    judged.write_text(judged.read_text() + "q1\tp99\t1\n")
    with pytest.raises(
        CorpusError, match=r"test.tsv:11: expected the id of a line of corpus.jsonl"
    ):
        build("search", loaded, judged)


def test_queries_are_not_shared() -> None:
    """Passages are: all data sets may search the same ones."""
    loaded, half = bert(), {name: cells[4:] for name, cells in DATA.items()}
    first = {name: [*cells[:4], *cells[8:]] for name, cells in DATA.items()}
    splits = TaskSplits.build("search", loaded, train=first, dev=half)
    assert not splits.warnings
    with pytest.raises(InputError, match=r"queries of dev that are not in train, got 4 of 4 that"):
        TaskSplits.build("search", loaded, train=DATA, dev=half)


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        ({"query": ["a"], "passage": ["b"]}, "at least two passages to search, got 1"),
        ({"query": ["", ""], "passage": ["b", "c"]}, "Expected queries, got passages only"),
        ({"query": ["a", "a"], "passage": ["b", "c"]}, "got one that all passages answer"),
        ({"query": ["a", "d"], "passage": ["b", "c"], "grade": [1, 0]}, "a grade of 1 or more"),
        ({"query": ["a", "d"], "passage": ["b", ""]}, "passage"),
    ],
)
def test_data_without_a_search(data: dict[str, list[Any]], reported: str) -> None:
    with pytest.raises(CorpusError, match=reported):
        Search(bert(), data)


def test_a_score_needs_a_search() -> None:
    task = Search(bert(), DATA)
    evaluation = evaluate(bert().model, task)
    assert isinstance(evaluation, Evaluation)
    with pytest.raises(InputError, match="Expected a search to compute ndcg@10"):
        task.score(evaluation)


def test_prompts_that_are_left_out_are_equally_long(tmp_path: Path) -> None:
    """One pooling serves queries and passages, which are rows of one batch."""
    model = folder(tmp_path / "model", {"pooling_mode": "mean", "include_prompt": False})
    settings = tmp_path / "model" / "config_sentence_transformers.json"
    for query, is_refused in (("The old dog", True), ("The", False)):
        settings.write_text(json.dumps({"prompts": {"query": query, "document": "dog"}}))
        loaded = load(model)
        if is_refused:
            with pytest.raises(InputError, match="Expected prompts of queries and documents that"):
                Search(loaded, DATA)
        else:
            assert Search(loaded, DATA).embedding.num_skipped > 0
