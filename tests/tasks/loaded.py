"""Tiny models with matching tokenizers, and one task for each, made once."""

import copy
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from headcount.models import Loaded
from headcount.tasks import (
    CausalLanguageModelling,
    Choice,
    Classification,
    MaskedLanguageModelling,
    Masking,
    Regression,
    Search,
    Similarity,
    Task,
    TokenClassification,
    Translation,
)
from tests import tiny, tiny_tokenizers

TEXTS = [*tiny_tokenizers.SENTENCES[:5], "The dog.", "Old dogs and three tired children ran."]
PAIRS = {
    "sentence1": TEXTS,
    "sentence2": [text[::-1] for text in reversed(TEXTS)],
    "score": [0, 5, 2.5, 1, 4.25, 3, 3],
}
TRANSLATIONS = {
    "source": TEXTS,
    "target": [*tiny_tokenizers.GERMAN, "Der Hund bellte.", "Hunde und Kinder"],
}
CLASSES = {"text": TEXTS, "label": [0, 2, 1, 1, 0, 2, 2]}


@cache
def tokenizer(kind: str) -> Tokenizer:
    """The tokenizer that matches a model type."""
    if kind == "marian":
        return tiny_tokenizers.marian(Path(tempfile.mkdtemp()))
    makers: dict[str, Callable[[], Tokenizer]] = {
        "bert": tiny_tokenizers.wordpiece,
        "roberta": lambda: tiny_tokenizers.byte_level("roberta"),
        "bart": lambda: tiny_tokenizers.byte_level("roberta"),
        "gpt2": lambda: tiny_tokenizers.byte_level("gpt2"),
        "llama": tiny_tokenizers.llama,
        "gemma2": tiny_tokenizers.llama,
        "t5": tiny_tokenizers.t5,
        "m2m_100": tiny_tokenizers.t5,
    }
    return makers[kind]()


@cache
def loaded(class_name: str, **changed: Any) -> Loaded:
    """A tiny model of a transformers class, with a vocabulary of the tokenizer's size."""
    kind = next(kind for kind, name in KINDS.items() if class_name.startswith(name))
    tokens = tokenizer(kind)
    special = {
        "pad_token_id": tokens.pad_token_id,
        "bos_token_id": tokens.bos_token_id,
        "eos_token_id": tokens.eos_token_id,
    }
    config = tiny.MODELS[kind]().config
    config.update({"vocab_size": len(tokens), "num_labels": 3} | special | changed)
    if config.is_encoder_decoder:
        start = tokens.eos_token_id if kind in ("bart", "m2m_100") else tokens.pad_token_id
        config.update({"decoder_start_token_id": start, "forced_eos_token_id": None})
        config.update({"decoder_vocab_size": len(tokens)} if kind == "marian" else {})
    model = tiny.seeded(getattr(hf, class_name)(config))
    if "Classification" in class_name:
        model = _centred(model, tokens)
    return Loaded(model, tokens, f"tiny {class_name}")


def _centred(model: PreTrainedModel, tokens: Tokenizer) -> PreTrainedModel:
    """A classifier whose answers differ between texts: its mean logits are 0."""
    shape = (model.config.num_labels,)
    head = next((each for each in model.parameters() if each.shape == shape), None)
    if head is None:  # GPT-2's has no bias
        return model
    with torch.no_grad():
        rows = [model(torch.tensor([tokens(text)["input_ids"]])).logits[0] for text in TEXTS]
        head -= torch.stack([row.reshape(-1, *shape).mean(0) for row in rows]).mean(0)
    return model


def shaken(model: PreTrainedModel) -> PreTrainedModel:
    """A copy of a model whose answers differ: every weight is moved at random."""
    other = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for weight in other.parameters():
            weight += 0.3 * torch.randn(weight.shape, generator=generator)
    return other


KINDS = {
    "bert": "Bert",
    "roberta": "Roberta",
    "gpt2": "GPT2",
    "llama": "Llama",
    "gemma2": "Gemma2",
    "marian": "Marian",
    "bart": "Bart",
    "t5": "T5",
    "m2m_100": "M2M100",
}
TASKS: dict[str, Callable[[], tuple[Loaded, Task]]] = {}


def _add(
    name: str,
    model: str,
    task: Callable[..., Task],
    data: dict,
    config: tuple[tuple[str, Any], ...] = (),
    **options: Any,
) -> None:
    @cache
    def make() -> tuple[Loaded, Task]:
        made = loaded(model, **dict(config))
        return made, task(made, data, **options)

    TASKS[name] = make


WORDS = {
    "words": [text.split() for text in TEXTS],
    "labels": [
        [(index + number) % 3 for number, _ in enumerate(text.split())]
        for index, text in enumerate(TEXTS)
    ],
}
NUMBERS = {"text": TEXTS, "second": PAIRS["sentence2"], "label": PAIRS["score"]}
ONE_OUTPUT = (("num_labels", 1),)

_add("words-bert", "BertForTokenClassification", TokenClassification, WORDS, metric="macro-f1")
_add("words-gpt2", "GPT2ForTokenClassification", TokenClassification, WORDS)
_add("numbers", "BertForSequenceClassification", Regression, NUMBERS, ONE_OUTPUT)
CHOICES = {
    "prompt": [
        "The old dog",
        "In the kitchen",
        "A",
        "What did you see",
        "Dogs",
        "The dog",
        "Tired",
    ],
    "choices": [
        ["barked at the moon.", "slept"],
        ["three children ran", "was the river", "a"],
        ["dog", "the", "old", "ran"],
        ["dogs", "last night?"],
        ["and", "of the river and the moon", "the"],
        ["ran.", "ran away"],
        ["children ran.", "children"],
    ],
    "answer": [1, 0, 3, 0, 2, 1, 0],
}
_add("choice-gpt2", "GPT2LMHeadModel", Choice, CHOICES)
_add("choice-llama", "LlamaForCausalLM", Choice, CHOICES, likelihood_per="token")
_add("classes-bert", "BertForSequenceClassification", Classification, CLASSES)
_add("classes-bart", "BartForSequenceClassification", Classification, CLASSES)
_add(
    "classes-of-pairs",
    "BertForSequenceClassification",
    Classification,
    {"text": TEXTS, "second": PAIRS["sentence2"], "label": CLASSES["label"]},
)
_add("causal-gpt2", "GPT2LMHeadModel", CausalLanguageModelling, {"text": TEXTS})
_add("causal-llama", "LlamaForCausalLM", CausalLanguageModelling, {"text": TEXTS}, max_length=11)
_add(
    "masked-bert",
    "BertForMaskedLM",
    MaskedLanguageModelling,
    {"text": TEXTS},
    masking=Masking(share=0.3),
)
_add(
    "masked-roberta", "RobertaForMaskedLM", MaskedLanguageModelling, {"text": TEXTS}, max_length=13
)
_add("similarity-bert", "BertModel", Similarity, PAIRS)
_add("similarity-cls", "RobertaModel", Similarity, PAIRS, pooling="cls")
FOUND = {"query": TEXTS, "passage": PAIRS["sentence2"]}
_add("search-bert", "BertModel", Search, FOUND)
SHORT = {"max_new_tokens": 6}
"""A random model ends few translations by itself."""
for _model in (
    "MarianMTModel",
    "BartForConditionalGeneration",
    "T5ForConditionalGeneration",
    "M2M100ForConditionalGeneration",
):
    _add(f"translation-{_model[:6]}", _model, Translation, TRANSLATIONS, generation=SHORT)


@cache
def few_translated() -> tuple[Loaded, Task]:
    """Translation by 15 heads, for what takes a pass over the data for every head."""
    made = loaded("MarianMTModel", encoder_layers=1, decoder_layers=1, decoder_attention_heads=5)
    return made, Translation(made, TRANSLATIONS, generation=SHORT)
