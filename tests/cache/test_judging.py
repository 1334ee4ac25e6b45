"""Judging a plan: texts with questions, what is answered under masks, and differences."""

import re
from collections.abc import Sequence
from dataclasses import replace
from math import nan
from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import Qwen2Config, Qwen2ForCausalLM

import headcount
from headcount.cache import DENSE, NEEDLES, NEXT, able_in_words
from headcount.cache.judging import Answered, answered, judged
from headcount.cache.plan import CacheOptions, CachePlan
from headcount.cache.planning import plan_cache, plan_of
from headcount.cache.questions import KINDS, AskedText, Question, Questions
from headcount.core import InputError, ModelError
from headcount.corpora import Corpus
from headcount.models import Loaded
from headcount.numbers import percent
from headcount.pages import document_of
from headcount.results import RANDOM
from headcount.skills import needles as skills
from headcount.statistics import wilson_interval
from tests import saved, tiny
from tests.textbook import streaming

WORDS = "old new red big small green quiet empty narrow wide".split()
TEXTS = [
    f"The {one} garden was full of {other} people and dogs ." for one in WORDS for other in WORDS
]
OPTIONS = CacheOptions(lengths=(400, 500), per_length=3, needles=4, sentences=2, recent=40)
FULL = ((True, False), (False, False))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.llama(tmp_path_factory.mktemp("llama")))


@pytest.fixture(scope="module")
def texts(loaded: Loaded) -> tuple[AskedText, ...]:
    return Questions(loaded, TEXTS, OPTIONS).all


def _found_at(ids: Sequence[int], part: Sequence[int]) -> list[int]:
    size = len(part)
    return [n for n in range(len(ids) - size + 1) if tuple(ids[n : n + size]) == tuple(part)]


@pytest.mark.parametrize("sentences", [1, 5])
def test_needles_stand_once_and_before_the_recent_tokens(loaded: Loaded, sentences: int) -> None:
    """Also between long paragraphs."""
    lines = [" ".join(TEXTS[n : n + sentences]) for n in range(0, len(TEXTS), sentences)]
    options = replace(OPTIONS, sink=60)
    texts = Questions(loaded, lines, options).all
    assert [len(text.ids) for text in texts] == [400] * 3 + [500] * 3
    for text in texts:
        asked = [each for each in text.questions if each.kind != NEXT]
        assert len(asked) == OPTIONS.needles and {each.place for each in asked} == {len(text.ids)}
        assert len({each.cue for each in asked}) == OPTIONS.needles
        for each in asked:
            (place,) = _found_at(text.ids, (*each.cue, *each.answers[0]))
            assert place + len(each.cue + each.answers[0]) <= len(text.ids) - OPTIONS.recent
            assert place + len(each.cue) >= options.sink
    kinds = {each.kind for text in texts for each in text.questions} - {NEXT}
    assert kinds == set(KINDS) and not kinds & set(skills.KINDS)


def test_the_first_choice_is_what_follows(texts: tuple[AskedText, ...]) -> None:
    asked = [(text, each) for text in texts for each in text.questions if each.kind == NEXT]
    assert len(asked) == 6 * 2
    for text, each in asked:
        right, *wrong = each.answers
        after = each.place + 1
        assert each.cue == text.ids[each.place : after]
        assert right == text.ids[after : after + len(right)] and len(wrong) == 3
        assert right not in wrong and after > len(text.ids) / 4


def test_no_wrong_choice_stood_in_the_text_before(loaded: Loaded) -> None:
    """There a model copies it, also where it would follow nothing."""
    lines = TEXTS[:60]
    few = Questions(loaded, lines, replace(OPTIONS, lengths=(600,), per_length=8)).all
    asked = [(text, each) for text in few for each in text.questions if each.kind == NEXT]
    assert len(asked) == 8 * 2
    for text, each in asked:
        assert not any(_found_at(text.ids[: each.place + 1], one) for one in each.answers[1:])
        assert len({*each.answers}) == 4


def test_texts_that_share_sentences_are_warned_of(loaded: Loaded) -> None:
    (shared,) = Questions(loaded, TEXTS[:60], OPTIONS).warnings()
    assert shared.startswith("6 texts of 2,700 tokens in all are drawn from ")
    options = CacheOptions(lengths=(400,), per_length=2, needles=4, recent=40)
    assert not [*Questions(loaded, TEXTS, options).warnings()]


def test_questions_depend_on_the_seed(loaded: Loaded, texts: tuple[AskedText, ...]) -> None:
    assert Questions(loaded, TEXTS, OPTIONS).all == texts
    assert Questions(loaded, TEXTS, replace(OPTIONS, seed=1)).all != texts


@pytest.mark.once
@pytest.mark.parametrize("plan", [None, CachePlan(FULL, 2, 40)], ids=["dense", "plan"])
def test_answers_are_those_of_the_whole_text_read_at_once(
    loaded: Loaded, plan: CachePlan | None
) -> None:
    """Every question with its text from the start, by the stock eager model with its masks."""
    options = replace(OPTIONS, lengths=(200,), per_length=2, needles=2)
    texts = Questions(loaded, TEXTS, options).all
    found = answered(loaded, texts, plan)
    modules = [layer.module for layer in loaded.anatomy.layers]
    full = FULL if plan else ((True, True), (True, True))
    right, losses = [], []
    for text in texts:
        for each in text.questions:
            of_answers = []
            for answer in each.answers:
                read = [*text.ids[: each.place], *each.cue, *answer]
                ids_1N = torch.tensor([read])
                logits = streaming.logits(loaded.model, modules, full, 2, 40, ids_1N, [0])[0]
                tokens = range(len(read) - len(answer), len(read))
                ranked = [int(logits[n - 1].argmax()) == read[n] for n in tokens]
                nats = [-float(logits[n - 1].log_softmax(-1)[read[n]]) for n in tokens]
                of_answers.append((all(ranked), float(np.mean(nats))))
            best = int(np.argmin([loss for _, loss in of_answers]))
            right.append(best == 0 if each.kind == NEXT else of_answers[0][0])
            losses.append(of_answers[0][1])
    np.testing.assert_allclose(found.losses, losses, rtol=1e-4)
    assert found.right == tuple(right)
    assert True in right or plan


def _sliding(loaded: Loaded, *kinds: str) -> Loaded:
    """A model with layers that keep the last 50 tokens."""
    config = Qwen2Config(
        vocab_size=loaded.model.config.vocab_size,
        hidden_size=24,
        intermediate_size=31,
        num_hidden_layers=len(kinds),
        num_attention_heads=4,
        num_key_value_heads=2,
        use_sliding_window=True,
        sliding_window=50,
        layer_types=list(kinds),
    )
    return Loaded(tiny.seeded(Qwen2ForCausalLM(config)), loaded.tokenizer, "sliding")


def test_which_groups_can_stream_is_said_in_words(loaded: Loaded) -> None:
    assert able_in_words(loaded) == "4 of 4 key/value groups can stream (headcount cache)"
    kinds = ("sliding_attention", "full_attention", "sliding_attention")
    assert able_in_words(_sliding(loaded, *kinds)) == (
        "2 of 6 key/value groups can stream (headcount cache); each of the layers 0, 2 keeps the "
        "last 50 tokens"
    )


@pytest.mark.slow
def test_layers_that_stream_already_stay_as_they_are(loaded: Loaded) -> None:
    sliding = _sliding(loaded, "sliding_attention", "full_attention")
    options = replace(OPTIONS, score="distance", lengths=(300,), recent=60)
    found = plan_cache(sliding, Corpus(TEXTS), options)
    assert [row.full for row in found.groups[:2]] == [True, True]
    assert len(plan_of(found).streaming) == 1, "half of the two groups that can stream"
    assert found.record.able == 2
    assert [row.stays for row in found.groups] == ["keeps the last 50 tokens"] * 2 + [""] * 2
    said = re.sub(" +", " ", document_of(found).markdown())
    assert "| layer | keep all tokens | stream | as the model has it |" in said
    assert "| 0 | | | 0, 1: keeps the last 50 tokens |" in said
    assert "--stream 0.5 streams 1 of the 2 groups that can stream (50" in said
    assert any("2 groups with a sliding window" in each for each in found.record.warnings)
    said = document_of(found).markdown()
    size = found.record.size
    assert size is not None and {part.window for part in size.parts} == {None, 50}
    share = size.of(8000, 0.5, found.record.sink + found.record.recent) / size.of(8000)
    assert (
        f"At 8,000 tokens the cache is {percent(share)} as large: ".replace("\u202f", " ") in said
    )
    older = replace(found, record=replace(found.record, size=None))
    said = document_of(older).markdown()
    assert "At 8,000 tokens the cache of the 2 groups that could stream is 50 % as large." in said
    points = "−25.0 percentage points"
    ends = {
        f"{points} (−50.0 to +10.0)": (-0.5, 0.1),
        f"{points} in every text": (-0.25, -0.25),
        points: 2 * (nan,),
    }
    for difference, (low, high) in ends.items():
        it = {"against_dense": -0.25, "against_dense_low": low, "against_dense_high": high}
        rows = tuple(
            replace(row, right=0.7504 if row.plan == "dense" else 0.4996, **it)
            for row in found.judged
        )
        said = document_of(replace(found, judged=rows)).markdown()
        assert "75.0 %" in said and "and 50.0 % under the plan" in said, "as 75.0 − 50.0"
        assert f"under the plan, a change of {difference}." in said
    texts = Questions(sliding, TEXTS, options).all[:1]
    losses = []
    for each in texts[0].questions:
        read = [*texts[0].ids[: each.place], *each.cue, *each.answers[0]]
        with torch.no_grad():
            logits = sliding.model(torch.tensor([read]), use_cache=False).logits[0]
        first = len(read) - len(each.answers[0])
        target = torch.tensor(each.answers[0])
        losses.append(float(torch.nn.functional.cross_entropy(logits[first - 1 : -1], target)))
    np.testing.assert_allclose(answered(sliding, texts).losses, losses, rtol=1e-4)
    with pytest.raises(ModelError, match="none among 4 groups. Its cache streams already"):
        plan_cache(_sliding(loaded, *["sliding_attention"] * 2), Corpus(TEXTS), options)


def test_a_needle_is_found_if_every_token_is_the_likeliest(loaded: Loaded) -> None:
    text = tuple(range(10, 40))
    with torch.no_grad():
        made = cast("Any", loaded.model).generate(
            torch.tensor([[*text, 7, 8]]), max_new_tokens=3, do_sample=False, eos_token_id=None
        )
    answer = tuple(made[0, -3:].tolist())
    other = (*answer[:2], answer[2] + 1)
    asked = [Question("dog", 30, (7, 8), (each,)) for each in (answer, other, answer[:1])]
    assert answered(loaded, [AskedText(text, tuple(asked))]).right == (True, False, True)


def test_differences_are_paired_and_intervals_over_texts() -> None:
    needle, choice = (Question(kind, 9, (1,), ((2,),)) for kind in ("dog", NEXT))
    texts = [AskedText((0,) * length, (needle, needle, choice)) for length in (9,) * 4 + (11,) * 4]
    random = np.random.default_rng(0)

    def drawn() -> Answered:
        right = tuple(map(bool, random.integers(2, size=24)))
        return Answered(right, tuple(random.random(24).tolist()))

    found = {DENSE: [drawn()], "both": [drawn()], RANDOM: [drawn() for _ in range(5)]}
    rows = {(row.plan, row.kind, row.length): row for row in judged(texts, found)}
    assert len(rows) == 3 * 2 * 3
    right = {name: np.mean([each.right for each in all_], axis=0) for name, all_ in found.items()}
    needles_SQ = {name: each.reshape(8, 3)[:, :2] for name, each in right.items()}
    row = rows["both", NEEDLES, None]
    assert row.right == pytest.approx(needles_SQ["both"].mean()) and row.questions == 16
    assert row.loss == pytest.approx(
        np.reshape(found["both"][0].losses, (8, 3))[:, :2].mean(), abs=1e-6
    )
    for other, mean, low, high in (
        (DENSE, row.against_dense, row.against_dense_low, row.against_dense_high),
        (RANDOM, row.against_random, row.against_random_low, row.against_random_high),
    ):
        by_text = (needles_SQ["both"] - needles_SQ[other]).mean(1)
        reach = stats.t.ppf(0.975, 7) * stats.sem(by_text)
        means = [np.reshape(each.right, (8, 3))[:, :2].mean() for each in found[other]]
        if len(means) > 1:
            reach = np.hypot(reach, stats.t.ppf(0.975, len(means) - 1) * stats.sem(means))
        assert mean == pytest.approx(by_text.mean())
        bounds = np.clip((mean - reach, mean + reach), -1, 1)
        np.testing.assert_allclose((low, high), bounds, atol=0.02)
    assert (rows["both", NEXT, 9].right_low, rows["both", NEXT, 9].right_high) != (0, 0)
    assert rows[DENSE, NEXT, 9].against_dense == rows[RANDOM, NEXT, 11].against_random == 0
    assert rows["both", NEXT, 11].right == right["both"].reshape(8, 3)[4:, 2].mean()


def test_where_texts_are_alike_the_interval_is_over_texts() -> None:
    """Questions about one text are not independent: 0 of 24 in 8 texts is worth 0 of 8."""
    texts = [AskedText((0,) * 9, (Question("dog", 9, (1,), ((2,),)),) * 3)] * 8
    for right in (False, True):
        (row,) = judged(texts, {DENSE: [Answered((right,) * 24, (0.0,) * 24)]})
        expected = wilson_interval(float(right), 8, float(stats.t.ppf(0.975, 7)))
        assert (row.right, row.questions) == (float(right), 24)
        np.testing.assert_allclose((row.right_low, row.right_high), expected)


def test_one_random_plan_says_nothing_about_chance() -> None:
    """Five say as much as their spread allows: halves of one model found 0, 0, 0, 57 and 92 %."""
    question = Question("dog", 9, (1,), ((2,),))
    texts = [AskedText((0,) * 9, (question,) * 10)] * 8

    def answers(share: float) -> Answered:
        return Answered(
            (True,) * round(80 * share) + (False,) * round(80 * (1 - share)), (0.0,) * 80
        )

    found = {DENSE: [answers(0.9)], "kvpress": [answers(0.75)]}
    for shares in ((0.0,), (0.0, 0.0, 0.0, 0.57, 0.92), (0.0, 0.05, 0.02, 0.04, 0.0)):
        rows = judged(texts, found | {RANDOM: [answers(share) for share in shares]})
        by_plan = {row.plan: row for row in rows}
        plan, random = by_plan["kvpress"], by_plan[RANDOM]
        assert np.isnan(plan.against_random_low) == np.isnan(random.right_low) == (len(shares) < 2)
        assert not np.isnan(plan.against_dense_low), "the plan itself is not drawn"
        if len(shares) > 1:
            assert (plan.against_random_low > 0) == (shares[-1] == 0.0)


def test_lengths_follow_what_texts_and_model_allow(loaded: Loaded) -> None:
    options = replace(OPTIONS, lengths=())
    for texts, longest in ((TEXTS * 4, 1988), (TEXTS[:40], None)):
        questions = Questions(loaded, texts, options)
        longest = longest or questions.hay.size
        assert questions.options.lengths == (lengths := (longest // 2, longest))
        assert {len(text.ids) for text in questions.all} == {*lengths}
        assert next(iter(questions.warnings())).startswith(f"texts of {lengths[0]} and ")
        assert longest > 1000
    questions = Questions(_sliding(loaded, "full_attention"), TEXTS * 4, options)
    assert questions.options.lengths == (1000, 2000)
    assert not [each for each in questions.warnings() if each.startswith("texts of")]
    with pytest.raises(InputError, match="take, got 57. Give longer texts and larger"):
        Questions(loaded, TEXTS[:4], options)


def test_as_many_needles_as_differ_fit_into_the_length_that_a_refusal_names(loaded: Loaded) -> None:
    options = CacheOptions(lengths=(150,), per_length=2, sink=1, recent=40, needles=50)
    with pytest.raises(InputError, match="larger --lengths, or fewer --needles") as refused:
        Questions(loaded, TEXTS, options)
    (least,) = re.findall(r"lengths of at least ([\d,]+) tokens", str(refused.value))
    length = int(least.replace(",", ""))
    assert Questions(loaded, TEXTS, replace(options, lengths=(length,))).options.needles == 50
    with pytest.raises(InputError, match=f"at least {least} tokens"):
        Questions(loaded, TEXTS, replace(options, lengths=(length - 1,)))


def test_what_can_not_be_asked(loaded: Loaded) -> None:
    with pytest.raises(InputError, match="texts of at least 500 tokens to hide needles in, got 5 "):
        Questions(loaded, TEXTS[:5], OPTIONS)
    paragraphs = [" ".join(TEXTS[n : n + 40]) for n in range(0, 120, 40)]
    with pytest.raises(InputError, match="at least 4 different texts .* next sentence from, got 3"):
        Questions(loaded, paragraphs, OPTIONS)
    with pytest.raises(InputError, match="behind the first 300 and before the last 40 of 400"):
        Questions(loaded, TEXTS, replace(OPTIONS, sink=300))
    with pytest.raises(ModelError, match="lengths of at most 1,988 tokens, .* got 4000.*--lengths"):
        Questions(loaded, TEXTS, CacheOptions(lengths=(4000,)))
    with pytest.raises(InputError, match="at most 50 needles in a text"):
        Questions(loaded, TEXTS, CacheOptions(lengths=(500,), needles=51))
    refused: list[tuple[dict[str, Any], str]] = [
        ({"stream": 0.0}, "share of streaming groups above 0 and at most 1, got 0"),
        ({"stream": 1.5}, "got 1.5"),
        ({"per_length": 1}, "per_length of at least 2, got 1"),
        ({"sink": 0}, "sink of at least 1, got 0"),
        ({"recent": 1000, "lengths": (1000, 2000)}, "lengths above the 4 . 1,000 tokens"),
        ({"scored": (400, 50)}, "numbers of tokens from 100 in scored, got 400, 50"),
        ({"scored": ()}, "numbers of tokens from 100 in scored, got none"),
        ({"seed": -1}, "seed"),
    ]
    for given, says in refused:
        with pytest.raises(InputError, match=says):
            CacheOptions(**given)
