"""Predicting: what a model makes of a text, in the form that its head has.

A translator translates, a causal model gives the next token, a masked model fills [MASK], a
classifier gives its labels, and any other encoder compares two sentences.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headcount import explanation
from headcount.core import InputError
from headcount.corpora import Sentence, encode_text
from headcount.measures import (
    HeadGates,
    model_inputs,
    read_beside,
    read_source,
    read_target,
    translate,
)
from headcount.models import Loaded
from headcount.tap import evaluating, input_device, tapped
from headcount.tasks import ACTIVATIONS, Similarity, activation_of, fitting, is_regression

Kind = Literal["translation", "classification", "causal-lm", "masked-lm", "similarity"]
"""Kinds of predictions, named as the tasks; a model makes the first that fits it."""
KINDS: tuple[Kind, ...] = (*explanation.KINDS, "similarity")


@final
@dataclass(frozen=True, eq=False)
class Choices:
    """Probabilities of tokens or labels in one place."""

    title: str
    probability_V: Float[Tensor, " option"]
    """Probability of every option."""
    text: Callable[[int], str]
    """Text of an option, with its blanks."""
    is_whole: Callable[[int], bool] = lambda index: True
    """Whether an option can be named by its text, as the end of a word can't."""

    def name(self, index: int) -> str:
        """Text of an option, as it is shown."""
        return self.text(index).strip() or "␣"

    def target(self, index: int) -> str | None:
        """What names an option as a target; None if its text doesn't."""
        return self.text(index) if self.is_whole(index) else None


@final
@dataclass(frozen=True)
class Number:
    """One number."""

    title: str
    value: float


@final
@dataclass(frozen=True)
class Text:
    """A text that the model wrote."""

    title: str
    text: str


Prediction = Choices | Number | Text


def kind_of(loaded: Loaded) -> Kind | None:
    """What a model can predict; None if nothing fits."""
    tasks = fitting(loaded.model)
    return next((kind for kind in KINDS if kind in tasks), None)


def predict(
    loaded: Loaded,
    kind: Kind | None,
    text: str,
    second: str | None,
    gates: HeadGates,
    chat: Mapping[str, Any] | None = None,
) -> list[Prediction]:
    """What the model makes of a text under gates; empty without what the kind needs.

    Args:
        loaded: the model.
        kind: what it predicts.
        text: the text.
        second: the second text of a pair, or a translation.
        gates: gates by head name.
        chat: values for the chat template, if a causal model is asked by a user's message.

    Raises:
        InputError: for a text that is too long, an unknown head, or numbers that overflow.
    """
    if kind is None:
        return []
    if chat is not None:
        found = _next_tokens(loaded, text, second, gates, chat)
    else:
        found = _PREDICTORS[kind](loaded, text, second, gates)
    for each in found:
        _check_finite(each)
    return found


def predict_beside(
    loaded: Loaded, sentence: Sentence, gates: HeadGates, template: Mapping[str, Any]
) -> list[Prediction]:
    """The first token of the reply to a text with pictures, under gates.

    Args:
        loaded: the model.
        sentence: the text with its pictures.
        gates: gates by head name.
        template: values for the chat template.

    Raises:
        InputError: as `predict`, and for a picture that can't be read.
    """
    inputs = read_beside(loaded, sentence, template).inputs
    logits_V = _outputs(loaded, inputs, gates).logits[0, -1].float()
    found = Choices("First token of the reply", logits_V.softmax(-1), _text(loaded))
    _check_finite(found)
    return [found]


def _check_finite(prediction: Prediction) -> None:
    """Check that a prediction has numbers that can be shown."""
    if isinstance(prediction, Text):
        return
    value = prediction.value if isinstance(prediction, Number) else prediction.probability_V
    if not torch.as_tensor(value).isfinite().all():
        raise InputError(
            "Expected finite numbers of the model under these gates, got NaN or infinity. Set "
            "gates nearer to 1, or start with --dtype float32."
        )


def _translations(
    loaded: Loaded, text: str, second: str | None, gates: HeadGates
) -> list[Prediction]:
    source = read_source(loaded, text)
    target = None if second is None else read_target(loaded, second)
    found: list[Prediction] = [Text("Translation", translate(loaded, source, gates))]
    if second is not None and target is not None:
        logits_NV = _outputs(loaded, model_inputs(loaded, source, target), gates).logits[0]
        (labels,) = encode_text(loaded.encoder().tokenizer, [second], "text_target", None)
        labels_N = torch.tensor(labels.ids, device=logits_NV.device)
        loss = torch.nn.functional.cross_entropy(logits_NV.float(), labels_N)
        found.append(Number("Loss of your target, nats a token", float(loss)))
    return found


def _classes(loaded: Loaded, text: str, second: str | None, gates: HeadGates) -> list[Prediction]:
    source = read_source(loaded, text, second)
    logits_V = _outputs(loaded, model_inputs(loaded, source), gates).logits[0].float()
    if is_regression(loaded):
        number = ACTIVATIONS[activation_of(loaded)](logits_V[0])
        return [Number("Score", float(number))]
    config = loaded.model.config
    several = config.problem_type == "multi_label_classification"
    probability_V = logits_V.sigmoid() if several else logits_V.softmax(-1)
    names: dict[Any, Any] = dict(config.id2label or {})
    return [Choices("Label", probability_V, lambda index: str(names.get(index, index)))]


def _next_tokens(
    loaded: Loaded,
    text: str,
    second: str | None,
    gates: HeadGates,
    chat: Mapping[str, Any] | None = None,
) -> list[Prediction]:
    source = read_source(loaded, text, chat=chat)
    title = f"Next token after “{source.words[-1]}”" if chat is None else "First token of the reply"
    logits_V = _outputs(loaded, model_inputs(loaded, source), gates).logits[0, -1].float()
    return [Choices(title, logits_V.softmax(-1), _text(loaded))]


def _masked_tokens(
    loaded: Loaded, text: str, second: str | None, gates: HeadGates
) -> list[Prediction]:
    source = read_source(loaded, text, second)
    mask = loaded.encoder().tokenizer.mask_token_id
    places = [place for place, token in enumerate(source.ids) if token == mask]
    if not places:
        return []
    logits_NV = _outputs(loaded, model_inputs(loaded, source), gates).logits[0, places].float()
    name, tokenizer = _text(loaded), loaded.encoder().tokenizer

    def is_whole(token: int) -> bool:
        return tokenizer(name(token), add_special_tokens=False).input_ids == [token]

    return [
        Choices(
            f"In place of {explanation.MASK}, number {number}", row_V.softmax(-1), name, is_whole
        )
        for number, row_V in enumerate(logits_NV, 1)
    ]


def _similarity(
    loaded: Loaded, text: str, second: str | None, gates: HeadGates
) -> list[Prediction]:
    if second is None:
        return []
    read_source(loaded, text)
    read_source(loaded, second, what="second sentence")
    pairs = {"sentence1": [text] * 2, "sentence2": [second] * 2, "score": [0, 5]}
    task = Similarity(loaded, pairs)  # needs two different scores, of which no number depends
    batch = task.batch(np.array([0])).to(input_device(loaded.model))
    with evaluating(loaded.model), torch.inference_mode():
        with tapped(loaded.model, None, gates, loaded.anatomy):
            output = task.output(loaded.model, batch)
        cosine = task.cosines(output.last_hidden_state, batch)
    return [Number("Cosine similarity of the two sentences", float(cosine[0]))]


_PREDICTORS = {
    "translation": _translations,
    "classification": _classes,
    "causal-lm": _next_tokens,
    "masked-lm": _masked_tokens,
    "similarity": _similarity,
}


def _text(loaded: Loaded) -> Callable[[int], str]:
    piece = loaded.encoder().target_piece
    return lambda token: piece(token).replace("▁", " ")


def _outputs(loaded: Loaded, inputs: Mapping[str, Tensor], gates: HeadGates) -> Any:
    options = {"use_cache": False} if loaded.model.can_generate() else {}
    with evaluating(loaded.model), torch.inference_mode():
        with tapped(loaded.model, None, gates, loaded.anatomy):
            return loaded.model(**inputs, **options)
