"""Every method reports the examples that it has seen: no model runs outside of a stage."""

import pytest

import headcount
from headcount.importance import SCORES, Options, assess
from tests.tasks.loaded import TASKS, few_translated
from tests.watched import Watched


@pytest.mark.slow
@pytest.mark.parametrize("task", ["causal-gpt2", "translation"])
def test_assess(task: str) -> None:
    from tests.pruning.context import TRAINED

    loaded, data = few_translated() if task == "translation" else TASKS[task]()
    assert loaded.anatomy
    watched = Watched()
    options = Options(methods=SCORES.names(), instead="mean", samples=50, **TRAINED["causal-gates"])
    with watched.watching():
        assess(loaded, data, options, progress=watched, max_tokens=40)
    assert not watched.silent_after and watched.ended() == set(watched.reports)
    assert set(watched.reports) == {"dense model", "mean outputs", *SCORES}
    gates = watched.reports.pop("causal-gates")  # updates, then checks
    assert [done for done, _ in gates] == [*range(13), *range(len(gates) - 13)]
    nested = watched.reports.pop("matryoshka")  # steps
    assert nested == [(step, 120) for step in range(121)]
    for stage, reports in watched.reports.items():
        assert {total for _, total in reports} == {data.num_examples}
        assert len({done for done, _ in reports}) > 2, stage


@pytest.mark.slow
def test_analyze() -> None:
    loaded, _ = TASKS["causal-gpt2"]()
    assert loaded.anatomy
    watched = Watched()
    corpus = headcount.Corpus.from_sentences(["a dog sees a cat", "the cat runs"] * 3)
    with watched.watching():
        headcount.analyze(loaded, corpus, headcount.analysis.Options(null=True), progress=watched)
    assert not watched.silent_after
    stages = {"measuring", "null", "examples"}
    assert watched.ended() >= stages and set(watched.reports) >= {*stages, "reading"}
