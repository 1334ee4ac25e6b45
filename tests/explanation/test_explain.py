"""Explanations as a whole: effects of every kind, halves, and several heads together."""

import copy
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headcount
from headcount.core import CorpusError, Head, InputError, LayerId, Warned
from headcount.corpora import Corpus
from headcount.explanation import (
    EFFECTS,
    OURS,
    Explained,
    ExplainOptions,
    Prompt,
    Replacement,
    explain,
    explanation_summary,
    read_prompts,
)
from headcount.explanation.blocks import Blocks
from headcount.explanation.changes import Change
from headcount.explanation.prompt_runs import gradients
from headcount.explanation.reader import Reader
from headcount.explanation.runs import Row, Run
from headcount.models import Loaded
from headcount.pages import document_of
from tests.tasks.loaded import loaded
from tests.textbook import explanation as book

LLAMA = "LlamaForCausalLM"
PROMPTS = [
    Prompt("The old dog barked at the", " moon", " dog", "The old moon barked at the"),
    Prompt("She doesn't believe that her", " sister", " dog", "She doesn't hear that her"),
    Prompt("A painter bought two green", " old", " and", "A dog bought two green"),
    Prompt("Did you hear the rain", " last", " night", "Did you hear the village"),
    Prompt("The train stopped", " and", " ran", "The rain stopped"),
]
HEADS = ("dec.0.1", "dec.0.4", "dec.1.0", "dec.1.3", "dec.1.5")


@pytest.fixture(scope="module")
def found() -> Explained:
    return explain(
        loaded(LLAMA), PROMPTS, options=ExplainOptions(heads=HEADS, together=(1, 2), draws=2)
    )


@pytest.mark.slow
def test_effects_are_those_of_the_book(found: Explained) -> None:
    """Zero, the mean over prompts, and patching in both directions, by one hook at a time."""
    held = loaded(LLAMA)
    asked = [_Asked(held, each) for each in PROMPTS]
    first = [each.clean[0] for each in asked]
    means = {key: torch.cat([each[key] for each in first]).double().mean(0) for key in first[0]}
    for name in HEADS:
        layer, number = (int(each) for each in name.split(".")[1:])
        head = ("decoder.self", layer, number)
        expected = {
            effect: [each.effect(effect, head, means) for each in asked] for effect in KINDS
        }
        for effect, values in expected.items():
            row = found.of(effect)[name]
            ends = (row.value, row.first, row.second)
            halves = np.mean(values[::2]), np.mean(values[1::2])
            assert ends == pytest.approx((np.mean(values), *halves), abs=5e-5), effect
            assert np.isnan((row.low, row.high, row.p)).all(), "five prompts have no interval"
    values, second = [each.value for each in asked], [each.second for each in asked]
    record = found.record
    ends = (record.value, record.second)
    assert ends == pytest.approx((np.mean(values), np.mean(second)), abs=2e-5)
    assert np.isnan(record.low) and "from 2 blocks are wide or missing" in record.warnings[-1]
    assert [row.value for row in found.prompts] == pytest.approx(values, abs=2e-5)
    assert [row.second for row in found.prompts] == pytest.approx(second, abs=2e-5)
    assert found.measured == ("attribution", *KINDS, "estimate")


KINDS = ("zero", "mean", "corrupt", "restored")


class _Asked:
    """A prompt by the book: the sum over its rows of tokens."""

    def __init__(self, held: Loaded, prompt: Prompt, first: bool = False) -> None:
        case = Reader(held, ExplainOptions(first=first)).case(prompt)
        assert case.corrupt is not None
        self._held, self.rows, self.others = held, case.rows, case.corrupt
        self.clean, self.corrupt = (
            [book.head_inputs(held.model, row.inputs(held)) for row in rows]
            for rows in (case.rows, case.corrupt)
        )
        self.value, self.second = (
            sum(self.read(row, None, {}) for row in rows) for rows in (case.rows, case.corrupt)
        )

    def read(self, row: Row, head: Any, instead: Any) -> float:
        def read(logits: torch.Tensor) -> float:
            log = logits.log_softmax(-1)
            return sum(each.sign * float(log[each.place, each.token]) for each in row.readings)

        heads = [] if head is None else [head]
        return book.without(self._held.model, row.inputs(self._held), heads, instead, read)

    def effect(self, effect: str, head: tuple[str, int, int], means: Any) -> float:
        """By how much a head raises what is predicted."""
        after = 0.0
        for n, (row, other) in enumerate(zip(self.rows, self.others, strict=True)):
            clean, corrupt = self.clean[n], self.corrupt[n]
            if effect == "restored":
                given = {key: each[[*other.in_other]] for key, each in clean.items()}
                after += self.read(other, head, given)
                continue
            instead = {
                "zero": {key: torch.zeros_like(each) for key, each in clean.items()},
                "mean": {key: means[key].float().expand_as(each) for key, each in clean.items()},
                "corrupt": {key: each[[*row.in_other]] for key, each in corrupt.items()},
            }
            after += self.read(row, head, instead[effect])
        return after - self.second if effect == "restored" else self.value - after


@pytest.mark.slow
def test_attribution_adds_up_and_patching_is_estimated(found: Explained) -> None:
    every = explain(loaded(LLAMA), PROMPTS, options=ExplainOptions(effects=("attribution",)))
    rows = every.of("attribution")
    assert sum(row.value for row in rows.values()) == pytest.approx(every.record.logit, abs=1e-4)
    assert {name for name, row in rows.items() if row.is_head} == {*map(str, loaded(LLAMA).heads)}
    assert not every.joint and every.measured == ("attribution",)
    for name in HEADS:
        assert found.of("attribution")[name].value == rows[name].value
    held, estimate = loaded(LLAMA), found.of("estimate")
    for name in HEADS:
        layer, number = (int(each) for each in name.split(".")[1:])
        expected = []
        for each in PROMPTS:
            case = Reader(held, ExplainOptions()).case(each)
            assert case.corrupt is not None
            total = 0.0
            for row, other in zip(case.rows, case.corrupt, strict=True):
                clean, second = Run(held, row).outputs, Run(held, other).outputs
                key = LayerId("decoder.self", layer)
                slope = gradients(held, row)[key]
                change = clean[key] - second[key][[*row.in_other]]
                total += float((slope * change)[:, number].sum())
            expected.append(total)
        assert estimate[name].value == pytest.approx(np.mean(expected), abs=1e-5)


def test_so_many_heads_as_there_are_are_not_removed_together() -> None:
    options = ExplainOptions(effects=("zero",), heads=HEADS, together=(1, 5, 9), draws=1)
    assert {row.heads for row in explain(loaded(LLAMA), PROMPTS[:2], options=options).joint} == {1}


@pytest.mark.slow
def test_several_heads_together(found: Explained) -> None:
    """Each half's heads are the other half's best; random ones are of the same layers."""
    held = loaded(LLAMA)
    rows = [row for row in found.joint if (row.effect, row.ranking) == ("zero", "zero")]
    assert [row.heads for row in rows] == [1, 2]
    alone = {name: [] for name in HEADS}
    for each in PROMPTS:
        one = explain(held, [each], options=ExplainOptions(effects=("zero",), heads=HEADS))
        for name in HEADS:
            alone[name].append(one.of("zero")[name].value)
    best = [sorted(HEADS, key=lambda name: -np.mean(alone[name][half::2]))[:2] for half in (1, 0)]
    assert rows[1].names == " | ".join(dict.fromkeys(" ".join(each) for each in best))
    singles = [sum(alone[name][n] for name in best[n % 2]) for n in range(len(PROMPTS))]
    assert rows[1].singles == pytest.approx(np.mean(singles), abs=1e-5)
    together = []
    for n, each in enumerate(PROMPTS):
        asked = _Asked(held, each)
        case = Reader(held, ExplainOptions()).case(each)
        left = 0.0
        for row in case.rows:
            run = Run(held, row)
            zero = {layer: torch.zeros_like(out[:1]) for layer, out in run.outputs.items()}
            left += run.values([Change([Head.parse(name) for name in best[n % 2]], zero)])[0]
        together.append(asked.value - left)
    assert rows[1].value == pytest.approx(np.mean(together), abs=2e-5)
    assert np.isnan((rows[1].excess_low, rows[1].excess_high)).all()
    values = np.array([row.value for row in found.prompts])
    assert rows[1].preferred == (values - together > 0).sum()
    (restored,) = [row for row in found.joint if (row.effect, row.heads) == ("restored", 1)]
    best, preferred = restored.names.split(" | ") * 2, 0
    for n, (each, row) in enumerate(zip(PROMPTS, found.prompts, strict=True)):
        one = explain(held, [each], options=ExplainOptions(effects=("restored",), heads=HEADS))
        preferred += row.second + one.of("restored")[best[n % 2]].value > 0
    assert restored.preferred == preferred != (values > 0).sum()
    rankings = {(row.effect, row.ranking) for row in found.joint}
    assert rankings == {("zero", "attribution"), *((name, name) for name in KINDS)}


@pytest.mark.slow
def test_one_prompt_has_no_intervals(tmp_path: Path) -> None:
    held = loaded(LLAMA)
    found = explain(held, "The old dog", " moon", options=ExplainOptions(together=(1,), draws=1))
    assert found.measured == ("attribution", "zero", "mean")
    assert all(isnan(row.low) and isnan(row.first) for row in found.effects)
    (row,) = found.prompts
    assert row.value == pytest.approx(np.log(row.probability)) and isnan(row.second)
    plain = explain(
        held.model,
        "The old dog",
        " moon",
        options=ExplainOptions(together=(1,), draws=1),
        tokenizer=held.tokenizer,
    )
    assert plain.joint == found.joint or str(plain.joint) == str(found.joint)
    assert all(isnan(each.preferred) for each in found.joint), "it has no rival"
    found.write(tmp_path)
    assert str(Explained.read(tmp_path).effects) == str(found.effects)
    text = document_of(found).markdown()
    assert "gives “ moon” a log-probability of" in text and "their joint log-probability" in text


@pytest.mark.once
@pytest.mark.parametrize(
    ("model", "prompt", "target", "against", "corrupt"),
    [
        ("BertForMaskedLM", "The old [MASK] barked", "dog", "moon", "The green [MASK] barked"),
        ("BertForSequenceClassification", "The old dog", "1", "2", "The old moon"),
        ("T5ForConditionalGeneration", "The old dog", "Hund", "Mond", "The old moon"),
        ("BartForConditionalGeneration", "The old dog", "Hund", None, "The old moon"),
        ("GPT2LMHeadModel", "The old dog", " barked", None, "The old moon"),
        ("Gemma2ForCausalLM", "The old dog", " barked", " ran", "The old moon"),
    ],
)
def test_every_kind_of_model(
    model: str, prompt: str, target: str, against: str | None, corrupt: str
) -> None:
    """Where attribution is not exact, gradient x output stands under its own name."""
    options = ExplainOptions(together=(2,), draws=1)
    found = explain(loaded(model), prompt, target, against, corrupt, options)
    is_exact = model.startswith(("T5", "GPT2", "Gemma2"))
    first = "attribution" if is_exact else "gradient"
    assert found.measured == (first, *KINDS, "estimate")
    assert isnan(found.record.logit) != is_exact
    text = document_of(found).markdown()
    assert ("What adds up to the logit" in text) == is_exact
    assert ("| promotes" in text) == bool(found.written) == is_exact
    assert ("The tokens that heads promote are not listed" in text) != is_exact
    assert ("so gradient x output takes the place of attribution" in text) != is_exact
    assert all(np.isfinite(row.value) for row in found.effects)
    assert any(row.value for row in found.effects if row.effect == "restored")


@pytest.mark.slow
def test_knockout_alone_and_by_layers() -> None:
    """Of every prompt: the target's word, from the last token of a causal model."""
    held = loaded(LLAMA)
    asked = [
        Prompt("The old dog and the moon saw the", " dog"),
        Prompt("The rain was louder than the old", " rain"),
        Prompt("The river and the dog ran, and the", " river"),
    ]
    options = ExplainOptions(effects=("knockout",), together=(1,), draws=1)
    found = explain(held, asked, options=options)
    assert found.measured == ("knockout",)
    lost: dict[str, list[float]] = {}
    for each in asked:
        (row,) = Reader(held, ExplainOptions()).case(each).rows
        run = Run(held, row)
        for head in held.heads:
            after = run.values([Change([head], None)])[0]
            lost.setdefault(str(head), []).append(run.value - after)
        for layer in (0, 1):
            heads = [head for head in held.heads if head.layer == layer]
            after = run.values([Change(heads, None)])[0]
            lost.setdefault(f"{layer} to {layer}", []).append(run.value - after)
        after = run.values([Change([*held.heads], None)])[0]
        lost.setdefault("0 to 1", []).append(run.value - after)
    for name, row in found.of("knockout").items():
        assert row.value == pytest.approx(np.mean(lost[name]), abs=1e-5) and row.value
    assert [f"{row.first} to {row.last}" for row in found.layers] == ["0 to 0", "1 to 1", "0 to 1"]
    for row in found.layers:
        values = lost[f"{row.first} to {row.last}"]
        assert row.value == pytest.approx(np.mean(values), abs=1e-4) and np.isnan(row.low)
    said = (
        "from where the prediction is made at the target's word, wherever it occurs in the prompt"
    )
    assert found.record.looks == said
    (one,) = {explain(held, asked[:1], options=options).record.looks}
    assert one == said.replace("word,", "word “dog”,")
    with pytest.raises(InputError, match="' moon' is not in the prompt. Name one as --key."):
        explain(held, [*asked, Prompt("The old dog", " moon")], options=options)
    assert "knockout" not in explain(held, "The old dog", " moon").measured


@pytest.mark.slow
def test_a_planted_head_is_found_exactly() -> None:
    """A model in which one head alone writes, which copies: nothing else has any effect."""
    held = loaded(LLAMA)
    held = replace(held, model=copy.deepcopy(held.model))
    model: Any = held.model
    output = model.get_output_embeddings().weight
    with torch.no_grad():
        for layer in model.model.layers:
            layer.mlp.down_proj.weight.zero_()
            layer.self_attn.o_proj.weight.zero_()
        attention = model.model.layers[1].self_attn
        attention.q_proj.weight.zero_()  # so it looks at all tokens alike
        dim, width = attention.head_dim, output.shape[1]
        value, written = attention.v_proj.weight[dim : 2 * dim], attention.o_proj.weight
        value.zero_()
        value[:, :dim] = torch.eye(dim)  # what the token is, as far as a head can hold it
        back = torch.linalg.lstsq(model.model.embed_tokens.weight[:, :dim], output).solution
        written[:, 4 * dim : 5 * dim] = 20 * back.T
        assert written.shape[0] == width
    prompt = Prompt("The old moon and", " moon", " dog", "The old dog and")
    found = explain(held, [prompt])
    for effect in found.measured:
        sizes = {name: abs(row.value) for name, row in found.of(effect).items() if row.is_head}
        planted = sizes.pop("dec.1.4")
        assert planted > 0.01 and max(sizes.values()) < 1e-5, effect
    rows = found.of("attribution")
    rest = rows["dec.1.4"].value + rows["embeddings"].value
    assert rest == pytest.approx(found.record.logit, abs=1e-5)


def test_means_over_texts() -> None:
    held = loaded(LLAMA)
    texts = Corpus(["The moon.", "Three tired children jumped out."])
    found = explain(held, PROMPTS[:1], options=ExplainOptions(effects=("mean",)), texts=texts)
    assert found.record.means_over == "2 texts"
    assert held.tokenizer is not None
    rows = [Row(tuple(held.tokenizer(each.text)["input_ids"]), None, ()) for each in texts]
    outputs = [book.head_inputs(held.model, row.inputs(held)) for row in rows]
    means = {key: torch.cat([each[key] for each in outputs]).mean(0) for key in outputs[0]}
    expected = _Asked(held, PROMPTS[0]).effect("mean", ("decoder.self", 1, 3), means)
    assert found.of("mean")["dec.1.3"].value == pytest.approx(expected, abs=1e-5)
    with pytest.raises(InputError, match="Expected no texts for tiny T5ForConditionalGeneration"):
        explain(loaded("T5ForConditionalGeneration"), "The dog", "Hund", texts=texts)


def test_a_target_that_is_hardly_predicted_is_said_first() -> None:
    held = loaded(LLAMA)
    options = ExplainOptions(effects=("attribution",))
    found = explain(held, "The old dog", "zzzzzzzz", options=options)
    first = document_of(found).markdown().split("\n\n")[1]
    assert first.startswith("Warning: the model gives “zzzzzzzz” a probability of")
    assert "with a leading blank?" in first
    (warning,) = found.record.warnings
    for shown in (document_of(found), explanation_summary(found)):
        assert [each.text for each in shown.blocks if isinstance(each, Warned)] == [warning]
    assert not explain(held, "The old dog", " and", options=options).record.warnings
    two = [Prompt("A dog", " and"), Prompt("The old dog", " zzzzzzzz")]
    warning, *_ = explain(held, two, options=options).record.warnings
    assert "after 'The old dog', less than 1e-06, in 1 prompt of 2, so" in warning
    assert warning.endswith("was hardly predicted")


def test_refusals(tmp_path: Path) -> None:
    held = loaded(LLAMA)
    for options, says in [
        (ExplainOptions(heads=("dec.7.0",)), "Expected heads of tiny LlamaForCausalLM"),
        (ExplainOptions(effects=("corrupt",)), "expected a second prompt for the effect corrupt"),
    ]:
        with pytest.raises(InputError, match=says):
            explain(held, "The old dog", " moon", options=options)
    for wrong, says in [
        ({"draws": 0}, "Expected draws of at least 1, got 0"),
        ({"heads": ("7.3",)}, "Expected a head such as"),
        ({"seed": -1}, "seed"),
    ]:
        with pytest.raises(InputError, match=says):
            ExplainOptions(**wrong)
    with pytest.raises(InputError, match="Expected a prompt and its target, or a list of"):
        explain(held, [])
    with pytest.raises(InputError, match="that have targets of their own, got another one, ' dog'"):
        explain(held, PROMPTS, " dog")
    with pytest.raises(InputError, match="expected a target of at least one word"):
        explain(held, "The old dog")


LONG = ("indirect-objects-flipped", "arithmetic")
"""Files of 64 prompts in 16 blocks of four, which share no name or number."""
OTHERS = ("indirect-objects-reworded", "greater-than", "pronouns", "facts", "agreement")


def test_files_of_prompts(tmp_path: Path) -> None:
    ours = {path.stem: read_prompts(path.stem) for path in OURS.glob("*.jsonl")}
    assert {*ours} == {*OTHERS, *LONG, "indirect-objects"}
    assert all(Blocks.of(ours[name]).count == 16 == len(ours[name]) / 4 for name in LONG)
    once = [each for name, each in ours.items() if name not in LONG]
    assert all(Blocks.of(each).count == len(each) >= 16 for each in once), "no name twice"
    assert all(row.against and row.corrupt for each in ours.values() for row in each)
    path = tmp_path / "own.jsonl"
    for line, says in [
        ("", "Expected prompts in .*own.jsonl, one a row, got none"),
        ('{"prompt": "a"}', "own.jsonl:1: expected an object with texts as prompt and target"),
        ('{"prompt": "a", "target": 3}', "own.jsonl:1: expected an object with texts"),
        ('{"prompt": "a", "target": "b", "rival": "c"}', "own.jsonl:1: expected an object"),
        ('{"prompt": "a", "target": " "}', "own.jsonl:1: expected a target of at least one word"),
        ("[", "own.jsonl:1: expected one JSON object on the line"),
    ]:
        path.write_text(line + "\n")
        with pytest.raises((InputError, CorpusError), match=says):
            read_prompts(path)
    path.write_text('{"prompt": "a b", "target": " c"}\n\n{"prompt": "d", "target": " e"}\n')
    assert [each.target for each in read_prompts(path)] == [" c", " e"]
    with pytest.raises(
        InputError, match="or one of agreement, arithmetic, facts, greater-than, indi"
    ):
        read_prompts("nothing")


def test_every_effect_has_a_row_in_the_docs() -> None:
    page = Path(__file__).parents[2] / "docs" / "explain.md"
    assert all(f"`{name}`" in page.read_text().split("## Several heads")[0] for name in EFFECTS)
    assert headcount.explain is explain


class Halved(Replacement):
    """An effect of one's own."""

    name, label, source = "halved", "half of it", "this test"
    about = "what is lost if the head gives half of its output"

    def outputs(self, prompt: Any, row: int) -> Any:
        return {layer: each / 2 for layer, each in prompt.clean[row].outputs.items()}


@pytest.mark.slow
def test_an_effect_of_ones_own(tmp_path: Path) -> None:
    """It is measured alone and together, and its words are read without it."""
    held, alone = loaded(LLAMA), ExplainOptions(heads=HEADS, together=(1,), draws=1)
    registered = headcount.register(Halved)
    try:
        found = explain(held, PROMPTS[:2], options=replace(alone, effects=("zero", "halved")))
        assert "halved" in explain(held, "The old dog", " moon", options=alone).measured
    finally:
        EFFECTS.remove("halved")
    assert registered is Halved and found.measured == ("zero", "halved")
    assert {row.effect for row in found.joint} == {"zero", "halved"}
    for name in HEADS:
        lost = []
        for each in PROMPTS[:2]:
            asked, head = _Asked(held, each), ("decoder.self", *map(int, name.split(".")[1:]))
            for row, clean in zip(asked.rows, asked.clean, strict=True):
                half = {key: each / 2 for key, each in clean.items()}
                lost.append(asked.read(row, None, {}) - asked.read(row, head, half))
        assert found.of("halved")[name].value == pytest.approx(sum(lost) / 2, abs=5e-5)
    found.write(tmp_path)
    text = document_of(Explained.read(tmp_path)).markdown()
    assert "half of it: what is lost if the head gives half of its output" in text
    with pytest.raises(InputError, match="an effect"):
        replace(alone, effects=("halved",))


def test_effects_of_which_several_heads_are_measured_together_are_not_linear() -> None:
    linear = {name for name in EFFECTS if not issubclass(EFFECTS[name], Replacement)}
    assert linear == {
        "attribution",
        "gradient",
        "estimate",
        "integrated-5",
        "integrated-10",
        "relp",
    }


@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "at"), [(LLAMA, "last"), (LLAMA, "dog"), ("BertForMaskedLM", "old")]
)
def test_heads_are_replaced_at_some_tokens_only(name: str, at: str) -> None:
    """Elsewhere they are as they are; in the second prompt, at the tokens of the same place."""
    held, options = loaded(name), ExplainOptions(at=at, first=True, together=())
    text = "The old [MASK] saw the dog" if "Bert" in name else "The old dog saw the"
    prompt = Prompt(text, " moon", " rain", text.replace("saw", "hear"))
    found = explain(held, [prompt], options=options)
    assert found.measured == ("zero", "mean", "corrupt", "restored", "estimate")
    asked, site = _Asked(held, prompt, first=True), next(iter(held.heads.counts))
    case = Reader(held, ExplainOptions(first=True)).case(prompt)
    (row,), (other,) = asked.rows, asked.others
    places = [n for n, word in enumerate(case.text.word_of) if case.text.words[word] == at]
    if at == "last":
        places = [len(row.ids) - 1]
    assert places
    for head in [*held.heads][::3]:
        key, left = (site, head.layer), dict[str, float]()
        for kind, here in [("zero", row), ("corrupt", row), ("restored", other)]:
            clean = {key: asked.clean[0][key].clone()}
            second = {key: asked.corrupt[0][key].clone()}
            if kind == "zero":
                clean[key][places] = 0
            elif kind == "corrupt":
                for place in places:
                    clean[key][place] = second[key][row.in_other[place]]
            else:
                for place, there in enumerate(other.in_other):
                    if there in places:
                        second[key][place] = clean[key][there]
            instead = second if kind == "restored" else clean
            left[kind] = asked.read(here, (*key, head.index), instead)
        expected = {each: asked.value - left[each] for each in ("zero", "corrupt")}
        expected["restored"] = left["restored"] - asked.second
        for kind, value in expected.items():
            assert found.of(kind)[str(head)].value == pytest.approx(value, abs=5e-5), kind


@pytest.mark.slow
def test_effects_at_every_word_add_up() -> None:
    """The estimate is linear, so those at the words of a prompt are that at all of its tokens."""
    held, options = loaded(LLAMA), ExplainOptions(effects=("estimate",), first=True)
    prompt = Prompt("The old dog saw the", " moon", " rain", "The old dog hear the")
    whole = explain(held, [prompt], options=options).of("estimate")
    words = ("The", "old", "dog", "saw", "the")
    parts = [explain(held, [prompt], options=replace(options, at=word)) for word in words]
    for head in map(str, held.heads):
        total = sum(each.of("estimate")[head].value for each in parts)
        assert total == pytest.approx(whole[head].value, abs=1e-5)
    assert any(each.of("estimate")["dec.1.0"].value for each in parts)


def test_refusals_of_tokens() -> None:
    held = loaded(LLAMA)
    with pytest.raises(InputError, match="'moon' among the words of the prompt"):
        explain(held, "The old dog", " moon", options=ExplainOptions(at="moon"))
    with pytest.raises(InputError, match="at all tokens for a circuit, got --at 'last'"):
        ExplainOptions(at="last", circuit=True)
    with pytest.raises(InputError, match="at all tokens for attribution, got --at 'last'"):
        ExplainOptions(at="last", effects=("attribution",))
    with pytest.raises(InputError, match="got a label, which is read off the whole text"):
        labels = loaded("BertForSequenceClassification")
        explain(labels, "The old dog", "1", options=ExplainOptions(at="last"))


def test_prompts_that_bring_the_tokenizers_first_token_are_counted() -> None:
    """They are read with one, and a warning counts them."""
    held = loaded(LLAMA)
    assert held.tokenizer is not None
    start = str(held.tokenizer.bos_token)
    prompts = [replace(each, prompt=f"{start}{each.prompt}", corrupt=None) for each in PROMPTS[:2]]
    found = explain(
        held, [*prompts, *PROMPTS[2:]], options=ExplainOptions(effects=("attribution",))
    )
    (said,) = [each for each in found.record.warnings if "which is read once" in each]
    assert said.endswith(": 2")


def test_prompts_that_the_model_fails_are_left_out_and_counted() -> None:
    """Those of which it prefers the rival; swapped, they are those that are left."""
    options = ExplainOptions(effects=("attribution",), heads=HEADS, reasons=0)
    every = explain(loaded(LLAMA), PROMPTS, options=options)
    fails = [row.value <= 0 for row in every.prompts]
    assert 0 < sum(fails) < len(PROMPTS)
    found = explain(loaded(LLAMA), PROMPTS, options=replace(options, known=True))
    kept = [each.prompt for each, is_out in zip(PROMPTS, fails, strict=True) if not is_out]
    assert [row.prompt for row in found.prompts] == kept
    assert found.record.warnings[0].startswith(f"{sum(fails)} of 5 prompts ")
    failed = [each for each, is_out in zip(PROMPTS, fails, strict=True) if is_out]
    for prompts, said in (
        (failed, "of which it prefers the rival. Give others, or leave --known out"),
        ([replace(PROMPTS[0], against=None)], "expected a rival, to which the target must be"),
    ):
        with pytest.raises(InputError, match=said):
            explain(loaded(LLAMA), prompts, options=replace(options, known=True))
