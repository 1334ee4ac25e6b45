"""Skills as a whole: scores, halves, overlaps, and answers without heads."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headcount
from headcount.core import InputError, Text, silent_steps
from headcount.corpora import Corpus
from headcount.models import Loaded
from headcount.models.forward import Removal, mean_outputs
from headcount.skills import SkillOptions, SkillRow, Skills, skills
from headcount.skills.document import skills_document
from headcount.skills.function_vectors import Prompts, answer, read_tasks
from headcount.skills.removals import Asked, Removals, Score, head_rows, overlaps
from headcount.vocabulary import SKILLS
from tests import saved
from tests.textbook.function_vectors import last_inputs

TEXTS = [
    f"The {word} garden was full of people and dogs ." for word in "old new red big".split() * 8
]
OPTIONS = SkillOptions(lengths=(150,), depths=(0.2, 0.8), needles=1, prompts=4, draws=1)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.llama(tmp_path_factory.mktemp("llama")))


@pytest.mark.slow
def test_a_model_that_finds_and_does_nothing(loaded: Loaded, tmp_path: Path) -> None:
    """Random weights have no retrieval head; the run says so and scores what it can."""
    found = skills(loaded, Corpus(TEXTS), OPTIONS)
    assert len(found.heads) == len(loaded.heads) and len(found.needles) == 8
    few, not_asked, left = found.record.warnings
    assert "too few to score retrieval" in few
    assert not_asked.startswith("this model can't be asked for needles in other words")
    assert len(found.answers) == 40 and all(np.isnan(row.answers) for row in found.heads)
    assert (
        "are left out, so that no head has a score of function vectors: antonyms (0\u202f%" in left
    )
    assert [(row.asked, row.removed, row.replaced) for row in found.recalls] == [
        ("needles", "none", ""),
        ("needles", "induction", "mean"),
        ("needles", "random", "mean"),
    ]
    assert all(
        np.isnan(row.retrieval_first) and np.isnan(row.function_vector) for row in found.heads
    )
    assert [row.is_done for row in found.tasks] == [False] * 5
    assert all(np.isnan(row.shuffled) and 0 < row.clean < 0.1 for row in found.tasks)
    plain = skills(loaded.model, Corpus(TEXTS), OPTIONS, tokenizer=loaded.tokenizer)
    assert plain.recalls == found.recalls and plain.needles == found.needles
    found.write(tmp_path)
    assert Skills.read(tmp_path).recalls == found.recalls
    assert {each.one for each in found.record.overlaps} == {*SKILLS} - {
        "retrieval",
        "answers",
        "function_vector",
    }


@pytest.mark.slow
def test_some_needles_are_asked_again_without_heads(loaded: Loaded) -> None:
    """As many of either half; the document says what all of them would give."""
    found = skills(loaded, Corpus(TEXTS), replace(OPTIONS, again=4))
    assert [row.cases for row in found.recalls] == [8, 4, 4]
    texts = [each.text for each in skills_document(found).blocks if isinstance(each, Text)]
    assert (
        "Without heads, 4 of 8 needles were asked again: intervals of up to 49\u202f% on either "
        "side. --again 8 makes them 35\u202f%, in 2.0 times the time."
    ) in texts
    with pytest.raises(InputError, match="Expected at least 2 needles and prompts that are asked"):
        SkillOptions(again=1)


@pytest.mark.slow
def test_kinds_and_replacements_are_chosen(loaded: Loaded) -> None:
    options = SkillOptions(
        kinds=("gift",), lengths=(150,), depths=(0.5,), prompts=4, draws=1, replace=("mean",)
    )
    found = skills(loaded, Corpus(TEXTS), options)
    assert {row.kind for row in found.needles} == {
        "gift"
    } and "kinds:gift" in found.record.signature
    assert {row.replaced for row in found.recalls} == {"", "mean"}


@pytest.mark.slow
def test_tasks_that_are_done_are_scored_and_the_others_named(
    loaded: Loaded, tmp_path: Path
) -> None:
    """A model that always says the same word does the task whose answer that is."""
    tokenizer, model = loaded.tokenizer, loaded.model
    assert tokenizer is not None
    word = tokenizer("A: dog", add_special_tokens=False)["input_ids"][2]
    output: Any = model.get_output_embeddings()
    kept, bias = output.weight.detach().clone(), torch.zeros(len(output.weight))
    bias[word] = 3.0
    hook = output.register_forward_hook(lambda module, given, logits: logits * 0.01 + bias)
    lines = (f"{n} {n}\t{str(tokenizer.decode([word])).strip()}\n" for n in range(12))
    (tmp_path / "same.tsv").write_text("".join(lines))
    try:
        found = skills(
            loaded,
            Corpus(TEXTS),
            SkillOptions(
                **{**vars(OPTIONS), "tasks": tmp_path, "removed": (1,), "replace": ("zero",)}
            ),
        )
    finally:
        hook.remove()
    assert torch.equal(kept, output.weight)
    assert [row.task for row in found.tasks if row.is_done] == ["same"]
    assert 0 < found.tasks[-1].shuffled < 1 and found.tasks[-1].right == 1.0
    assert all(np.isfinite(row.function_vector) for row in found.heads)
    asked = [row for row in found.recalls if row.asked == "tasks"]
    assert [row.removed for row in asked] == ["none", "induction", "function_vector", "random"]
    assert [row.cases for row in asked] == [4] * 4
    assert "same" not in found.record.warnings[-1] and "plural" in found.record.warnings[-1]


def bounds(row: SkillRow, skill: str) -> list[float]:
    """A score with the ends of its interval."""
    return [getattr(row, f"{skill}{end}") for end in ("", "_low", "_high")]


def _scores(loaded: Loaded) -> tuple[Score, Score]:
    random, num = np.random.default_rng(0), len(loaded.heads)
    second = np.array([False, True, True, False, True])
    return (
        Score("retrieval", random.random((5, num)), second),
        Score("induction", random.random((5, num)), second),
    )


def test_means_and_intervals_of_halves(loaded: Loaded) -> None:
    from scipy import stats

    retrieval, induction = _scores(loaded)
    one = Score("function_vector", np.full((1, len(loaded.heads)), -0.5), np.array([True]), -1.0)
    none = Score("previous_token", retrieval.value_NH[:0], np.zeros(0, bool))
    rows = [
        *head_rows(
            loaded.heads, (retrieval, one, induction, none, *_named("duplicate_token", induction))
        )
    ]
    for h, row in enumerate(rows):
        column = retrieval.value_NH[:, h]
        low, high = stats.t.interval(0.95, 4, column.mean(), stats.sem(column))
        assert np.allclose(bounds(row, "retrieval"), (column.mean(), max(low, 0), min(high, 1)))
        assert np.isclose(row.retrieval_first, column[[0, 3]].mean())
        assert np.isclose(row.retrieval_second, column[[1, 2, 4]].mean())
        for unknown in ("function_vector", "previous_token"):
            assert np.isnan(bounds(row, unknown)).all(), "a half without a run"
        assert np.isnan(row.function_vector_second)
    assert not one.is_known and not none.is_known and retrieval.is_known


def _named(name: str, score: Score) -> tuple[Score]:
    return (Score(name, score.value_NH, score.in_second_N),)


def test_overlaps_of_scores_and_of_halves(loaded: Loaded) -> None:
    retrieval, induction = _scores(loaded)
    found = [*overlaps(loaded.heads, (retrieval, induction), 2)]
    best = {
        name: {*np.argsort(-values)[:2].tolist()}
        for name, values in (
            ("retrieval", retrieval.value_NH.mean(0)),
            ("induction", induction.value_NH.mean(0)),
            ("first", retrieval.halves[0]),
            ("second", retrieval.halves[1]),
        )
    }
    assert [(each.one, each.other) for each in found] == [
        ("retrieval", "retrieval"),
        ("retrieval", "induction"),
        ("induction", "induction"),
    ]
    assert found[0].shared == len(best["first"] & best["second"])
    assert found[1].shared == len(best["retrieval"] & best["induction"])
    assert {each.expected for each in found} == {4 / len(loaded.heads)}


def test_heads_are_chosen_on_the_other_half(loaded: Loaded) -> None:
    """And random heads are none of the chosen ones."""
    retrieval, induction = _scores(loaded)
    seen: list[tuple[list[int], list[str]]] = []

    def answers(cases: Sequence[int], removal: Removal) -> np.ndarray:
        names = [
            str(head)
            for head in loaded.heads
            if head.layer_id in removal.gates and removal.gates[head.layer_id][head.index] == 0
        ]
        seen.append(([*cases], names))
        return np.stack([np.array(cases) % 2, np.full(len(cases), 0.25)], axis=1).astype(float)

    in_second_N = np.array([False, True, False, True, True, False])
    asked = Asked("needles", retrieval, np.zeros((6, 2)), in_second_N, answers)
    options = SkillOptions(removed=(2,), draws=1, replace=("zero",))
    rows = [*Removals(loaded, asked, [induction], options, None, (1,)).rows(silent_steps)]
    assert [(row.removed, row.heads, row.cases) for row in rows] == [
        ("none", 0, 6),
        ("induction", 2, 6),
        ("retrieval", 2, 6),
        ("random", 2, 6),
    ]
    assert {row.exact for row in rows[1:]} == {0.5} and {row.recall for row in rows[1:]} == {0.25}
    heads = [str(head) for head in loaded.heads]

    def best(values: np.ndarray) -> list[str]:
        return sorted(heads[number] for number in np.argsort(-values)[:2])

    first, second = retrieval.halves
    everywhere = best(induction.value_NH.mean(0))
    assert seen[:4] == [
        ([0, 2, 5], everywhere),
        ([1, 3, 4], everywhere),
        ([0, 2, 5], best(second)),
        ([1, 3, 4], best(first)),
    ]
    chosen = {*everywhere, *best(first), *best(second)}
    assert seen[4][1] == seen[5][1] and not chosen & {*seen[4][1]}


def test_the_best_heads_of_the_other_kind_are_left(loaded: Loaded) -> None:
    """Induction heads without the best by function vectors, and the other way round."""
    num, second = len(loaded.heads), np.array([False, True])
    one = Score("function_vector", np.tile(np.arange(num, 0.0, -1), (2, 1)), second)
    values_NH = one.value_NH[:, [0, 2, 1, *range(3, num)]]
    other = Score("induction", values_NH, second)
    seen: list[list[str]] = []

    def answers(cases: Sequence[int], removal: Removal) -> np.ndarray:
        closed = [removal.gates.get(head.layer_id, 1 - torch.zeros(9)) for head in loaded.heads]
        zero = [gate[head.index] == 0 for head, gate in zip(loaded.heads, closed, strict=True)]
        seen.append(
            [str(head) for head, is_zero in zip(loaded.heads, zero, strict=True) if is_zero]
        )
        return np.zeros((len(cases), 2))

    asked = Asked("tasks", one, np.zeros((2, 2)), second, answers)
    heads = [str(head) for head in loaded.heads]
    for apart, expected in ((0.0, [heads[0], heads[0]]), (1 / num, [heads[2], heads[1]])):
        seen.clear()
        options = SkillOptions(removed=(1,), draws=1, replace=("zero",), apart=apart)
        rows = [*Removals(loaded, asked, [other], options, None, (1,)).rows(silent_steps)]
        assert [row.removed for row in rows] == ["none", "induction", "function_vector", "random"]
        assert seen[::2][:2] == [[each] for each in expected]


def test_more_heads_than_the_model_has_are_refused(loaded: Loaded) -> None:
    num = len(loaded.heads)
    options = replace(OPTIONS, removed=(1, num + 1))
    with pytest.raises(InputError, match=f"of at most {num}, as many as .* has, got {num + 1}"):
        skills(loaded, Corpus(TEXTS), options)


@pytest.mark.slow
@pytest.mark.parametrize("is_mean", [False, True])
def test_removed_heads_give_zero_or_their_mean(loaded: Loaded, is_mean: bool) -> None:
    """As in the stock model with other inputs of its output projections, at every token."""
    model: Any = loaded.model
    ids_BT = torch.randint(7, 60, (3, 11), generator=torch.Generator().manual_seed(1))
    means = mean_outputs(loaded, ids_BT)
    inputs: list[list[torch.Tensor]] = [[], []]
    for ids_T in ids_BT:
        for place in range(len(ids_T)):
            for layer, each in enumerate(last_inputs(model, ids_T[: place + 1].tolist())[0]):
                inputs[layer].append(each)
    size = model.config.head_dim
    for layer_id, mean_HD in means.items():
        expected = torch.stack(inputs[layer_id.layer]).mean(0).unflatten(0, (-1, size))
        torch.testing.assert_close(mean_HD, expected.double(), rtol=1e-4, atol=1e-7)
    heads = [head for head in loaded.heads if str(head) in ("dec.0.1", "dec.1.0")]
    hooks = []
    for head in heads:
        value = means[head.layer_id][head.index].float() if is_mean else torch.zeros(size)

        def put(module: Any, given: tuple, at: int = head.index, value: Any = value) -> tuple:
            given[0][..., at * size : (at + 1) * size] = value
            return given

        projection = model.model.layers[head.layer].self_attn.o_proj
        hooks.append(projection.register_forward_pre_hook(put))
    prompts = Prompts(loaded, read_tasks()[:1], SkillOptions(prompts=4)).all
    expected_N = answer(loaded, prompts).probability_N
    for hook in hooks:
        hook.remove()
    removal = Removal(loaded, heads, means if is_mean else None)
    assert set(removal.gates) == {head.layer_id for head in heads}
    found_N = answer(loaded, prompts, removal).probability_N
    np.testing.assert_allclose(found_N, expected_N, rtol=1e-4)
    assert abs(found_N / answer(loaded, prompts).probability_N - 1).max() > 1e-3
