"""How tasks encode their data (masks, pieces, labels), and which tasks fit which model."""

import re
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor

from headcount.core import CorpusError, InputError, ModelError
from headcount.corpora import Table
from headcount.models import Loaded
from headcount.tasks import (
    IGNORED,
    TASKS,
    CausalLanguageModelling,
    Classification,
    MaskedLanguageModelling,
    Masking,
    TaskBatch,
    Translation,
    build,
    fitting,
)
from headcount.tasks.classification import by_number, class_numbers
from tests import tiny
from tests.tasks import loaded as small

MANY = {"text": [" ".join(small.TEXTS[1:3])] * 60}


def masked(data: dict = MANY, **options: Any) -> MaskedLanguageModelling:
    return MaskedLanguageModelling(small.loaded("BertForMaskedLM"), data, **options)


def translation(**options: Any) -> Translation:
    return Translation(small.loaded("MarianMTModel"), small.TRANSLATIONS, **options)


def whole(task: MaskedLanguageModelling | CausalLanguageModelling) -> TaskBatch:
    (batch,) = task.batches(10**6)
    return batch


def masks(task: MaskedLanguageModelling) -> Tensor:
    return whole(task).labels["labels"] != IGNORED


def test_masks_are_the_same_every_time_and_others_for_another_seed() -> None:
    first, again, other = (masks(masked(masking=Masking(seed))) for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert len({tuple(row.tolist()) for row in first}) > 30  # examples differ from each other
    few = masks(masked({"text": MANY["text"][:3]}))
    assert torch.equal(first[:3], few)  # and do not depend on later examples


def test_a_training_draws_masks_for_every_batch() -> None:
    """The same number gives the same masks again, so that a killed training can resume."""
    task, index_E = masked(), np.arange(60)
    measured = masks(task)
    batches = [task.training_batch(index_E, number) for number in (0, 1, 2, 0)]
    drawn = [batch.labels["labels"] != IGNORED for batch in batches]
    assert torch.equal(drawn[0], drawn[3])
    for first, second in combinations([measured, *drawn[:3]], 2):
        assert (first != second).any(1).sum() > 50
    for batch, is_masked_EN in zip(batches, drawn, strict=True):
        assert torch.equal(is_masked_EN.sum(1), measured.sum(1))
        right = batch.inputs["input_ids"].where(~is_masked_EN, batch.labels["labels"])
        assert (right == right[0]).all()  # all examples have the same text
    other = masked(masking=Masking(1)).training_batch(index_E, 0)
    assert not torch.equal(other.labels["labels"], batches[0].labels["labels"])
    assert torch.equal(masks(task), measured)


@pytest.mark.parametrize("share", [0.15, 0.5, 1.0])
def test_the_share_of_content_tokens_is_masked(share: float) -> None:
    task = masked(masking=Masking(share=share))
    batch, is_masked_EN = whole(task), masks(task)
    ids_EN, labels_EN = batch.inputs["input_ids"], batch.labels["labels"]
    num_content = int(batch.inputs["attention_mask"][0].sum()) - 2
    assert is_masked_EN.sum(1).unique().tolist() == [round(share * num_content)]
    assert not is_masked_EN[:, 0].any() and not is_masked_EN[:, -1].any()  # [CLS], [SEP]
    tokenizer = small.tokenizer("bert")
    assert ids_EN[is_masked_EN].unique().tolist() == [tokenizer.mask_token_id]
    original = torch.tensor(tokenizer(MANY["text"][0])["input_ids"])
    assert torch.equal(torch.where(is_masked_EN, labels_EN, ids_EN), original.expand_as(ids_EN))


def test_the_shortest_text_has_one_mask() -> None:
    assert masks(masked({"text": ["dog", "a"]}, masking=Masking(share=0.01))).sum(1).tolist() == [
        1,
        1,
    ]


def test_the_masks_of_bert_are_of_three_kinds() -> None:
    task = masked(masking=Masking(share=0.8, replacement="bert"))
    is_masked_EN, batch = masks(task), whole(task)
    shown, right = batch.inputs["input_ids"][is_masked_EN], batch.labels["labels"][is_masked_EN]
    tokenizer: Any = small.tokenizer("bert")
    is_mask, is_same = shown.eq(tokenizer.mask_token_id), shown.eq(right)
    assert len(shown) > 1000
    assert is_mask.float().mean().item() == pytest.approx(0.8, abs=0.04)
    assert is_same.float().mean().item() == pytest.approx(0.1, abs=0.04)
    random = shown[~is_mask & ~is_same]
    assert len(random.unique()) > 50
    assert not set(random.tolist()) & set(tokenizer.all_special_ids)


def test_long_texts_are_cut_into_framed_pieces_of_which_no_token_is_lost() -> None:
    task = masked({"text": small.TEXTS}, max_length=9)
    tokenizer = small.tokenizer("bert")
    begin, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    pieces = []
    for batch in sorted(task.batches(1), key=lambda one: int(one.index_E)):
        labels = batch.labels["labels"][0]
        row = torch.where(labels != -100, labels, batch.inputs["input_ids"][0]).tolist()
        assert row[0] == begin and row[-1] == end and len(row) <= 9
        pieces += row[1:-1]
    content = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in small.TEXTS]
    assert pieces == sum(content, [])
    assert (task.num_texts, task.num_cut) == (7, sum(len(ids) > 7 for ids in content))
    assert task.num_examples == sum(-(-len(ids) // 7) for ids in content)


def test_long_texts_for_a_causal_model_are_chained() -> None:
    loaded = small.loaded("LlamaForCausalLM")
    task = CausalLanguageModelling(loaded, {"text": small.TEXTS}, max_length=5)
    other = CausalLanguageModelling(loaded, {"text": small.TEXTS}, max_length=6)
    assert task.sha256 != other.sha256
    tokenizer = small.tokenizer("llama")
    ids = [tokenizer(text)["input_ids"] for text in small.TEXTS]
    rows: list[list[int]] = []
    for batch in sorted(task.batches(1), key=lambda one: int(one.index_E)):
        row = batch.inputs["input_ids"][0].tolist()
        assert 2 <= len(row) <= 5 and row[0] == tokenizer.bos_token_id
        if rows and row[1] == rows[-1][-1]:
            rows[-1] += row[2:]
            assert batch.labels["labels"][0, :2].tolist() == [-100, row[2]]
        else:
            rows.append(row)
    assert rows == ids
    assert task.num_cut == sum(len(row) > 5 for row in ids)


def test_a_text_of_one_token_is_counted_and_left_out() -> None:
    loaded = small.loaded("GPT2LMHeadModel")
    task = CausalLanguageModelling(loaded, {"text": ["the dog", "a", "old dogs"]})
    assert (task.num_texts, task.num_unpredictable, task.num_examples) == (3, 1, 2)
    assert task.warnings() == ["texts of one token have nothing to predict and are skipped: 1 of 3"]
    with pytest.raises(CorpusError, match="got 2 texts of one token"):
        CausalLanguageModelling(loaded, {"text": ["a", "b"]})


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        (Masking, {"share": 0}, "Expected a number above 0 and at most 1 for share, got 0"),
        (masked, {"max_length": 2}, "Expected more than 2 tokens .* got max_length=2"),
        (
            lambda **options: CausalLanguageModelling(
                small.loaded("GPT2LMHeadModel"), MANY, **options
            ),
            {"max_length": 1},
            "at least 2 tokens in a piece, got max_length=1",
        ),
        (
            lambda **options: CausalLanguageModelling(
                small.loaded("LlamaForCausalLM"), MANY, **options
            ),
            {"max_length": 2},
            "at least 3 tokens in a piece, since every piece begins with 1 of its own, got",
        ),
        (translation, {"tokenize": "foo"}, "a tokenizer of BLEU out of .*13a.*got 'foo'"),
        (translation, {"num_beams": 0}, "Expected 1 to [0-9,]+ beams, .*, got 0"),
        (translation, {"num_beams": 10**9}, "Expected 1 to [0-9,]+ beams, .*, got 1,000,000,000"),
    ],
)
def test_options_out_of_range_are_refused(task: Any, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        task(**options)


def test_batches_of_no_token_are_refused() -> None:
    with pytest.raises(InputError, match="at least 1 token a batch, got 0"):
        next(masked().batches(0))


def test_masks_need_a_mask_token() -> None:
    loaded = small.loaded("BertForMaskedLM")
    bare = Loaded(loaded.model, small.tokenizer("t5"), "tiny")
    with pytest.raises(ModelError, match="with a mask token, got the T5Tok"):
        MaskedLanguageModelling(bare, MANY)


def test_a_limit_keeps_the_first_examples_and_the_hash_is_that_of_the_data() -> None:
    few, first, all_ = (
        masked({"text": small.TEXTS}, limit=3),
        masked({"text": small.TEXTS[:3]}),
        masked({"text": small.TEXTS}),
    )
    assert few.num_texts == 3 and few.sha256 == first.sha256 != all_.sha256
    assert torch.equal(whole(few).inputs["input_ids"], whole(first).inputs["input_ids"])
    other_masks = masked({"text": small.TEXTS[:3]}, masking=Masking(7))
    assert other_masks.sha256 != first.sha256
    with pytest.raises(InputError, match="Expected a limit of at least 1 example, got 0"):
        masked(limit=0)


# ------------------------------------------------------------------ labels


def classification(labels: list, **changed: Any) -> Classification:
    loaded = small.loaded("BertForSequenceClassification")
    config: Any = loaded.model.config
    loaded = Loaded(hf.BertForSequenceClassification(config), loaded.tokenizer, "tiny")
    for name, value in changed.items():
        setattr(loaded.model.config, name, value)
    return Classification(loaded, {"text": small.TEXTS[: len(labels)], "label": labels})


@pytest.fixture(autouse=True)
def _same_names() -> Any:
    config = small.loaded("BertForSequenceClassification").model.config
    kept = config.label2id, config.id2label
    yield
    config.label2id, config.id2label = kept
    config.problem_type = None


STARS = {"1": 0, "2": 1, "3": 2}
WORDS = {"no": 0, "maybe": 1, "yes": 2}


@pytest.mark.parametrize(
    ("label2id", "labels", "numbers"),
    [
        (WORDS, ["yes", "no", "maybe"], [2, 0, 1]),
        (WORDS, [2, 0, "1"], [2, 0, 1]),
        (STARS, [3, 1, 2], [2, 0, 1]),
        (STARS, [0, 1, 2], [0, 1, 2]),
        (STARS, [1, 2], [0, 1]),  # both kinds fit: names
    ],
)
def test_labels_are_names_or_numbers(label2id: dict, labels: list, numbers: list) -> None:
    assert classification(labels, label2id=label2id).gold_N.tolist() == numbers


@pytest.mark.parametrize("other", [None, {"LABEL_0": 0, "LABEL_1": 1}, STARS])
def test_either_map_of_a_config_names_classes(other: dict | None) -> None:
    """Configs made with only `id2label` lack the other map, or have one of two classes."""
    names = {number: name for name, number in WORDS.items()}
    task = classification(["yes", "no", "maybe"], label2id=other, id2label=names)
    assert task.gold_N.tolist() == [2, 0, 1]
    assert classification([2, 0], label2id=other, id2label=names).gold_N.tolist() == [2, 0]
    if other is not STARS:
        with pytest.raises(CorpusError, match=re.escape("(0 no, 1 maybe, 2 yes)")):
            classification(["what"], label2id=other, id2label=names)


def test_classes_that_data_and_model_name_are_found_by_name() -> None:
    """MNLI models number the classes differently from GLUE."""
    config: Any = hf.BertConfig(id2label={0: "No", 1: "MAYBE", 2: "yes"})
    config.label2id = {"No": 0, "MAYBE": 1, "yes": 2}

    def of(*names: str) -> tuple[list[int], list[str]]:
        table = Table({"label": ["0", "1", "2"]}, ["a", "b", "c"], {"label": [*names]})
        return class_numbers(table, config).tolist(), by_number(table, config)

    assert of("yes", "maybe", "no") == ([2, 1, 0], [])
    assert of() == ([0, 1, 2], [])
    numbers, (reported,) = of("ja", "vielleicht", "nein")
    assert numbers == [0, 1, 2]
    assert reported == (
        "labels are taken by number: the data set calls its classes ja, vielleicht, nein, the "
        "model No, MAYBE, yes"
    )


@pytest.mark.parametrize(
    ("labels", "line", "label"),
    [
        ([0, 3, 1], 2, "3"),
        ([1, -1], 2, "-1"),
        (["yes", "No"], 2, "No"),
        ([1, 2, "yes"], 3, "yes"),
        (["A"], 1, "A"),
        ([1.5], 1, "1.5"),
    ],
)
def test_labels_that_the_model_has_not_are_refused(labels: list, line: int, label: str) -> None:
    message = (
        f"row {line}: expected one of the model's 3 classes (0 no, 1 maybe, 2 yes), got {label!r}. "
        "Labels are numbers from 0 to 2, or names of classes"
    )
    with pytest.raises(CorpusError, match=re.escape(message)):
        classification(labels, label2id=WORDS)


def test_models_that_choose_no_class_are_refused() -> None:
    with pytest.raises(ModelError, match="one of several .* with 3 labels and problem_type 'regr"):
        classification([0], problem_type="regression")
    one = small.loaded("BertForSequenceClassification", num_labels=1)
    with pytest.raises(ModelError, match="one of several .* with 1 label and problem_type None"):
        Classification(one, {"text": ["a"], "label": [1]})
    loaded = small.loaded("GPT2ForSequenceClassification")
    with pytest.raises(ModelError, match="a pad_token_id in .* got none, .* Set model.config.pad"):
        Classification(loaded, {"text": ["a"], "label": [1]})


def test_decoders_classify_by_their_last_token() -> None:
    loaded = small.loaded("GPT2ForSequenceClassification", pad_token_id=1)
    task = Classification(loaded, small.CLASSES)
    (batch,) = task.batches(10**6)
    with torch.no_grad():
        loss_E = task.losses(loaded.model, batch).loss_E
        for index, text in enumerate(small.TEXTS):
            ids = torch.tensor([small.tokenizer("gpt2")(text)["input_ids"]])
            logits = loaded.model(ids).logits[0]
            slow = -logits.log_softmax(0)[small.CLASSES["label"][index]]
            torch.testing.assert_close(loss_E[batch.index_E.tolist().index(index)], slow)


def test_texts_that_are_too_long_are_counted_and_the_tokenizer_is_as_before() -> None:
    long = " ".join(small.TEXTS[:3]) * 3
    loaded = small.loaded("BertForSequenceClassification")
    task = Classification(loaded, {"text": ["a dog", long], "label": [0, 1]})
    assert task.num_truncated == 1
    assert task.warnings() == ["texts longer than the model's limit are truncated: 1 of them"]
    assert not small.TASKS["classes-bert"]()[1].warnings()
    (batch,) = task.batches(10**6)
    assert batch.inputs["input_ids"].shape == (2, 64)
    assert batch.inputs["input_ids"][1, -1] == small.tokenizer("bert").sep_token_id
    tokenizer: Any = small.tokenizer("bert")
    assert tokenizer.backend_tokenizer.truncation is None
    assert len(tokenizer(long, verbose=False)["input_ids"]) > 64


# ------------------------------------------------------------------ which tasks fit

CAUSAL = ["causal-lm", "choice"]
ENCODER_LM = ["masked-lm"]
FITTING = {
    "bert": ENCODER_LM,
    "roberta": ENCODER_LM,
    "distilbert": ENCODER_LM,
    "electra": ENCODER_LM,
    "albert": ENCODER_LM,
    "modernbert": ENCODER_LM,
    "gpt2": CAUSAL,
    "gpt_neox": CAUSAL,
    "llama": CAUSAL,
    "qwen3": CAUSAL,
    "gemma2": CAUSAL,
    "gemma3_text": CAUSAL,
    "marian": ["translation"],
    "bart": ["translation"],
    "m2m_100": ["translation"],
    "t5": ["translation"],
    "whisper": ["transcription"],
    "vit": ["image-classification"],
}


@pytest.mark.parametrize("name", tiny.MODELS)
def test_tasks_that_fit(name: str) -> None:
    assert fitting(tiny.MODELS[name]()) == FITTING[name]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (hf.BertModel, ["similarity", "search"]),
        (hf.BertForSequenceClassification, ["classification"]),
        (hf.BertForTokenClassification, ["token-classification"]),
        (hf.BertForMaskedLM, ["masked-lm"]),
        (hf.BertLMHeadModel, []),  # sees later tokens too
        (hf.BertForQuestionAnswering, []),
        (hf.BertForMultipleChoice, []),
        (hf.BertForNextSentencePrediction, []),
        (hf.BertForPreTraining, []),
        (hf.T5EncoderModel, ["similarity", "search"]),
        (hf.T5ForTokenClassification, ["token-classification"]),
        (hf.T5ForSequenceClassification, ["classification"]),
        (hf.T5ForQuestionAnswering, []),
        (hf.T5Model, []),
        (hf.BartForSequenceClassification, ["classification"]),
        (hf.BartForQuestionAnswering, []),
        (hf.BartForCausalLM, CAUSAL),
        (hf.GPT2ForTokenClassification, ["token-classification"]),
        (hf.LlamaForSequenceClassification, ["classification"]),
        (hf.LlamaForTokenClassification, ["token-classification"]),
        (hf.LlamaForQuestionAnswering, []),
        (hf.LlamaModel, []),
    ],
)
def test_tasks_score_the_head_that_was_trained(model: Any, expected: list[str]) -> None:
    """A model whose head no task scores has none: the cosine of its states is not its answer."""
    kind = model.config_class.model_type
    assert fitting(model(tiny.MODELS[kind]().config)) == expected


def test_a_bert_that_is_a_decoder_continues_text() -> None:
    config = hf.BertConfig(**tiny.ENCODER, is_decoder=True)
    assert fitting(hf.BertLMHeadModel(config)) == CAUSAL


@pytest.mark.parametrize(
    ("task", "model", "message"),
    [
        (
            "translation",
            "BertModel",
            "an encoder-decoder for translation, .* a BertModel (an encoder). Tasks that fit: "
            "similarity",
        ),
        (
            "similarity",
            "GPT2LMHeadModel",
            "or a sentence-transformers folder for similarity, .* a GPT2LMHeadModel (a decoder). "
            "Tasks that fit: causal-lm, choice",
        ),
        (
            "classification",
            "MarianMTModel",
            "Expected a ...ForSequenceClassification for classification, .* a MarianMTModel (an "
            "encoder-decoder). Tasks that fit: translation",
        ),
        ("causal-lm", "BertForMaskedLM", "Tasks that fit: masked-lm."),
        ("similarity", "BertForMaskedLM", "Expected a text encoder without a head (AutoModel) or "),
        (
            "similarity",
            "BertForSequenceClassification",
            "a BertForSequenceClassification (an encoder). Tasks that fit: classification.",
        ),
        ("similarity", "BertForQuestionAnswering", "(an encoder). Tasks that fit: none."),
        (
            "classification",
            "BertForTokenClassification",
            "(an encoder). Tasks that fit: token-classification.",
        ),
        ("masked-lm", "LlamaForCausalLM", "Tasks that fit: causal-lm, choice"),
    ],
)
def test_a_task_that_does_not_fit_says_which_do(task: str, model: str, message: str) -> None:
    pattern = re.escape(message).replace(r"\.\*", ".*")
    with pytest.raises(ModelError, match=pattern):
        build(task, small.loaded(model), {"text": ["a"]})


def test_build_knows_tasks_and_their_options() -> None:
    loaded = small.loaded("BertForSequenceClassification")
    task = build("classification", loaded, small.CLASSES, metric="f1")
    assert isinstance(task, Classification) and task.metric == "f1"
    message = r"Expected a task \(one of translation, .*\), got 'summary'"
    with pytest.raises(InputError, match=message):
        build("summary", loaded, small.CLASSES)
    with pytest.raises(InputError, match="an option of classification .metric.*, got 'beams'"):
        build("classification", loaded, small.CLASSES, beams=3)
    assert list(TASKS) == list(fitting_names())


def fitting_names() -> list[str]:
    return [
        "translation",
        "classification",
        "causal-lm",
        "masked-lm",
        "similarity",
        "search",
        "image-classification",
        "token-classification",
        "choice",
        "transcription",
    ]
