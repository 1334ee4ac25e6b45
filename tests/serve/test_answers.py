"""What a live model answers is what the model computes."""

import base64
import copy
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import headcount
from headcount.core import InputError, PluginError
from headcount.explanation import EFFECTS, ExplainOptions, Replacement
from headcount.measures import word_attention
from headcount.serve import LiveModel, open_model
from headcount.serve.live_model import MAX_BODY, ZEROED, Question, parse_question
from headcount.tap import gated
from tests import tiny_pictures, tiny_tokenizers
from tests.corpora.test_told import QWEN
from tests.tasks.loaded import loaded

TEXT = "Three tired children jumped."
GATES = {"enc.0.1": 0.0, "enc.1.2": 0.5}


def live(name: str) -> LiveModel:
    return LiveModel(loaded(name))


def test_maps_are_those_of_the_gated_model() -> None:
    answer = live("BertForMaskedLM").answer(Question(TEXT, None, GATES))
    expected = word_attention(loaded("BertForMaskedLM"), TEXT, None, GATES)
    (site,) = answer["attention"]["sites"]
    assert len(site["maps"]) == len(expected.sites[0].maps) == 2
    for layer, maps in expected.sites[0].maps.items():
        for text, map_QK in zip(site["maps"][str(layer)], maps, strict=True):
            found = np.frombuffer(base64.b64decode(text), np.uint8).reshape(map_QK.shape)
            np.testing.assert_allclose(found / 255, map_QK, atol=0.5 / 255 + 1e-6)


def test_a_masked_model_fills_every_mask() -> None:
    model = loaded("BertForMaskedLM")
    text = "Three [MASK] children [MASK]."
    answer = live("BertForMaskedLM").answer(Question(text, None, GATES))
    assert "[MASK]" in answer["attention"]["sites"][0]["queries"]
    assert model.tokenizer is not None
    inputs = model.tokenizer([text], return_tensors="pt")
    with torch.no_grad():
        dense = model.model(**inputs).logits.softmax(-1)[0]
        with gated(model.model, GATES, model.anatomy):
            under = model.model(**inputs).logits.softmax(-1)[0]
    places = (inputs["input_ids"][0] == model.tokenizer.mask_token_id).nonzero()[:, 0].tolist()
    assert len(answer["predictions"]) == len(places) == 2
    for place, prediction in zip(places, answer["predictions"], strict=True):
        row = prediction["rows"][0]
        best = int(dense[place].argmax())
        assert row["text"] == str(model.tokenizer.decode([best])).strip()
        assert row["dense"] == pytest.approx(float(dense[place, best]), abs=1e-6)
        assert row["gated"] == pytest.approx(float(under[place, best]), abs=1e-6)
    assert live("BertForMaskedLM").answer(Question(TEXT))["predictions"] == []


def test_a_causal_model_gives_the_next_token() -> None:
    model = loaded("LlamaForCausalLM")
    answer = live("LlamaForCausalLM").answer(Question(TEXT))
    assert model.tokenizer is not None
    inputs = model.tokenizer([TEXT], return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        expected = model.model(**inputs).logits[0, -1].softmax(-1)
    (prediction,) = answer["predictions"]
    shares = [row["dense"] for row in prediction["rows"]]
    np.testing.assert_allclose(shares, expected.topk(8).values, rtol=1e-4)
    assert prediction["title"] == "Next token after “.”"


def test_a_message_is_answered_in_the_chat_template() -> None:
    """The page reads what `explain --chat` reads: the template's text with a closed thought."""
    tokenizer: Any = copy.deepcopy(loaded("GPT2LMHeadModel").tokenizer)
    tokenizer.chat_template = QWEN
    model = replace(loaded("GPT2LMHeadModel"), tokenizer=tokenizer)
    how = ExplainOptions(effects=("zero",), together=(), chat=True)
    chats = LiveModel(model, how=how)
    answer = chats.answer(Question("Hi"))
    turns = [{"role": "user", "content": "Hi"}]
    given: dict[str, Any] = {"add_generation_prompt": True, "enable_thinking": False}
    written = tokenizer.apply_chat_template(turns, tokenize=True, return_dict=False, **given)
    with torch.no_grad():
        expected = model.model(input_ids=torch.tensor([written])).logits[0, -1].softmax(-1)
    (prediction,) = answer["predictions"]
    assert prediction["title"] == "First token of the reply"
    shares = [row["dense"] for row in prediction["rows"]]
    np.testing.assert_allclose(shares, expected.topk(8).values, rtol=1e-4)
    target = next(row for row in prediction["rows"] if row["target"] is not None)
    found = chats.effects(Question("Hi", target=target["target"]))
    assert found["value"] == pytest.approx(np.log(target["dense"]), abs=1e-4)
    assert LiveModel(model).answer(Question("Hi"))["predictions"] != answer["predictions"]


@pytest.mark.parametrize(
    ("name", "template", "message"),
    [
        ("BertForMaskedLM", None, "Expected a model that continues texts for --chat, got"),
        ("GPT2LMHeadModel", None, "Expected a tokenizer with a chat template, got"),
        (
            "GPT2LMHeadModel",
            "{% for a in range(99) %}" * 5 + "{% endfor %}" * 5,
            "a chat template that ends",
        ),
    ],
)
def test_a_model_that_takes_no_messages_is_refused_before_its_page_opens(
    name: str, template: str | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headcount.corpora.chats.MOST_STEPS", 10_000)
    model = loaded(name)
    if template is not None:
        model = replace(model, tokenizer=tiny_tokenizers.chatting(template))
    with pytest.raises(InputError, match=message):
        LiveModel(model, how=ExplainOptions(effects=("zero",), chat=True))


class Kept(Replacement):
    """An effect of a plug-in that changes nothing, or fails."""

    name, label, about, source = "kept", "kept", "what is lost if nothing changes", "this test"
    fails: ClassVar[bool] = False

    def outputs(self, prompt: Any, row: int) -> Any:
        assert not self.fails, "it fails"
        return prompt.clean[row].outputs


def test_an_effect_of_a_plug_in(monkeypatch: pytest.MonkeyPatch) -> None:
    headcount.register(Kept)
    try:
        how = replace(ZEROED, effects=("kept",))
        model = LiveModel(loaded("LlamaForCausalLM"), how=how)
        asked = Question("The old dog", target=" dog")
        found = model.effects(asked)
        assert found["about"] == Kept.about and len(found["effects"]) == len([*model.loaded.heads])
        assert max(map(abs, found["effects"].values())) < 1e-4
        monkeypatch.setattr(Kept, "fails", True)
        with pytest.raises(PluginError, match="test_answers.* to compute the effect kept, got Ass"):
            model.effects(asked)
    finally:
        EFFECTS.remove("kept")
    with pytest.raises(InputError, match="Expected an effect of one prompt, got corrupt, which ne"):
        open_model("anything", effect="corrupt")


@pytest.mark.parametrize("name", ["BertForMaskedLM", "LlamaForCausalLM"])
def test_effects_are_what_switching_a_head_off_costs(name: str) -> None:
    text = "The old dog [MASK]." if "Masked" in name else "The old dog"
    model = live(name)
    rows = model.answer(Question(text))["predictions"][0]["rows"]
    target, against, *_ = [row for row in rows if row["target"] is not None]
    asked = Question(text, target=target["target"], against=against["target"])
    found = model.effects(asked)
    dense = np.log(target["dense"] / against["dense"])
    assert found["value"] == pytest.approx(dense, abs=1e-3)
    assert {*found["effects"]} == {str(head) for head in model.loaded.heads}
    assert abs(found["effects"][found["head"]]) == max(map(abs, found["effects"].values()))
    for head, effect in [*found["effects"].items()][:3]:
        off = model.answer(Question(text, gates={head: 0.0}))["predictions"][0]["rows"]
        shares = {row["target"]: row["gated"] for row in off}
        without = np.log(shares[target["target"]] / shares[against["target"]])
        assert effect == pytest.approx(dense - without, abs=1e-3)


def test_a_classifier_gives_labels_also_for_pairs() -> None:
    (single,) = live("BertForSequenceClassification").answer(Question(TEXT))["predictions"]
    (pair,) = live("BertForSequenceClassification").answer(Question(TEXT, "A dog."))["predictions"]
    assert sum(row["dense"] for row in single["rows"]) == pytest.approx(1, abs=1e-5)
    assert {row["text"] for row in pair["rows"]} == {"LABEL_0", "LABEL_1", "LABEL_2"}
    assert single["rows"] != pair["rows"]


def test_an_encoder_compares_two_sentences() -> None:
    model = live("BertModel")
    (same,) = model.answer(Question(TEXT, TEXT))["predictions"]
    (other,) = model.answer(Question(TEXT, "A dog barked.", GATES))["predictions"]
    assert same["dense"] == pytest.approx(1, abs=1e-5)
    assert other["dense"] != pytest.approx(other["gated"], abs=1e-4)
    assert model.answer(Question(TEXT))["predictions"] == []


@pytest.mark.slow
def test_a_translator_translates_and_scores_a_target(translator: LiveModel) -> None:
    loaded_ = translator.loaded
    own = translator.answer(Question(TEXT))
    (translation,) = own["predictions"]
    assert own["second"] == translation["dense"] == translation["gated"]
    given = translator.answer(Question(TEXT, "Der Hund bellte.", {"dec.1.3": 0.0}))
    title, loss = given["predictions"][1]["title"], given["predictions"][1]["dense"]
    assert loaded_.tokenizer is not None and title.startswith("Loss of your target")
    labels = loaded_.tokenizer(text_target=["Der Hund bellte."], return_tensors="pt")["input_ids"]
    source = loaded_.tokenizer([TEXT], return_tensors="pt")
    with torch.no_grad():
        # The last token of the target is not read, but the end of it is predicted, too
        expected = float(loaded_.model(**source, labels=labels).loss)
    assert loss == pytest.approx(expected, abs=1e-5)
    assert given["predictions"][1]["gated"] != pytest.approx(loss, abs=1e-6)


LONG = [
    ("BertForMaskedLM", "[MASK] dog " * 100, None, "a sentence of at most"),
    ("BertForMaskedLM", TEXT, "dog " * 150, "a sentence of at most"),
    ("BertForSequenceClassification", "dog " * 200, None, "a sentence of at most"),
    ("BertModel", "dog " * 200, None, "a sentence of at most"),
    ("BertModel", "dog " * 200, TEXT, "a sentence of at most"),
    ("BertModel", TEXT, "dog " * 200, "a second sentence of at most"),
    ("GPT2LMHeadModel", "dog " * 200, None, "a sentence of at most"),
    ("LlamaForCausalLM", "dog " * 200, None, "a sentence of at most"),
    ("MarianMTModel", "dog " * 200, None, "a sentence of at most"),
    ("MarianMTModel", TEXT, "Hund " * 200, "a target of at most"),
    ("T5ForConditionalGeneration", "dog " * 300, None, "a sentence of at most"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text", "second", "says"), LONG)
def test_a_long_text_is_refused_before_the_model_reads_it(
    name: str, text: str, second: str | None, says: str
) -> None:
    model = live(name)

    def read(*_: object) -> None:
        raise AssertionError("Expected a refusal, but the model reads the text.")

    handles = [each.register_forward_pre_hook(read) for each in model.loaded.model.modules()]
    try:
        with pytest.raises(InputError, match=f"Expected {says} [0-9]+ tokens, got .*Shorten it"):
            model.answer(Question(text, second))
    finally:
        for handle in handles:
            handle.remove()


def test_numbers_that_overflow_get_a_sentence() -> None:
    model = LiveModel(copy.deepcopy(loaded("BertForSequenceClassification")))
    dict(model.loaded.model.named_parameters())["classifier.bias"].data[0] = float("nan")
    with pytest.raises(InputError, match="Expected finite numbers of the model"):
        model.answer(Question(TEXT))


def test_threads_that_ask_at_once_get_the_answers_of_their_own_gates() -> None:
    model = live("BertForMaskedLM")
    questions = [Question("The [MASK] dog.", gates={f"enc.0.{n}": n / 4}) for n in range(3)] * 4
    expected = [model.answer(question) for question in questions[:3]] * 4
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(model.answer, questions))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours["predictions"] == theirs["predictions"]
        assert ours["attention"] == theirs["attention"]


@pytest.mark.filterwarnings("ignore:.*saw no image")
def test_a_question_may_have_a_picture(tmp_path: Path) -> None:
    """Which is read in front of the text, in the model's template."""
    path = Path(tiny_pictures.picture(tmp_path / "a.png"))
    model = tiny_pictures.loaded("llava")
    asked = {"text": "what is it ?", "image": f"data:image/png;base64,{_base64(path)}"}
    question = parse_question(json.dumps(asked).encode(), model.heads)
    asking = LiveModel(model)
    answer = asking.answer(question)
    processor: Any = model.processor
    content = [{"type": "image"}, {"type": "text", "text": asked["text"]}]
    text = processor.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True
    )
    images = [[tiny_pictures.opened(str(path))]]
    with torch.no_grad():
        logits = model.model(**processor(text=[text], images=images, return_tensors="pt")).logits
    probability = logits[0, -1].softmax(-1)
    (row, *_) = answer["predictions"][0]["rows"]
    assert row["dense"] == pytest.approx(float(probability.max()), abs=1e-5)
    assert answer["attention"]["picture"]["words"][-1] == ":"
    gates = {str(head): 0.0 for head in model.heads}
    off = asking.answer(replace(question, gates=gates))["predictions"][0]["rows"][0]
    assert off["dense"] == row["dense"] != off["gated"]
    effects = asking.effects(replace(question, target="dog"))
    assert set(effects["effects"]) == {*map(str, model.heads)}
    with pytest.raises(InputError, match="begins with data:image/, got 'file:///etc/passwd'"):
        parse_question(json.dumps(asked | {"image": "file:///etc/passwd"}).encode(), model.heads)
    assert asking.max_body > live("BertForMaskedLM").max_body == MAX_BODY


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
