"""Asking: what a browser may send, checked before a model sees it.

The live model: opened by a name or a folder, it answers questions about one text at a time.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, final

from headcount.core import Heads, InputError, Plan, check_unicode, name_of, parse_json
from headcount.corpora import Sentence, template_values, user_prompt, with_pictures
from headcount.explanation import EFFECTS, ExplainOptions, explain, pictured_prompt, spelled
from headcount.measures import (
    WordAttention,
    check_text,
    picture_attention,
    read_source,
    word_attention,
)
from headcount.models import Loaded, check_has_heads, check_is_loaded, load, reads_pictures
from headcount.pages import attention_data, report_view, sharpest
from headcount.results import Analysis, PruneRecord, read_run
from headcount.serve.predicting import (
    Choices,
    Kind,
    Number,
    Prediction,
    Text,
    kind_of,
    predict,
    predict_beside,
)

MAX_BODY = 64 * 1024
"""Largest number of bytes of a request."""
PICTURE_BODY = 12 * 2**20
"""The same for a model that reads pictures."""
MAX_GATE = 2.0
"""Largest gate: a head at twice its strength."""


@final
@dataclass(frozen=True)
class Question:
    """A text, and the gates under which the model reads it."""

    text: str
    second: str | None = None
    gates: Mapping[str, float] = field(default_factory=dict)
    """Gates other than 1, by head name."""
    target: str | None = None
    """The predicted token, label or translation whose heads are asked for."""
    against: str | None = None
    """Its rival."""
    image: str | None = None
    """A picture in front of the text, as a `data:` address."""

    def sentence(self, text: str) -> Sentence:
        """A text with the picture."""
        return with_pictures(text, [self.image], "The question")


def parse_question(body: bytes, heads: Heads) -> Question:
    """The question in the body of a request.

    Raises:
        InputError: for anything but texts and gates between 0 and 2 of heads of the model.
    """
    try:
        found = parse_json(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError("Expected a request in JSON, got something else.") from error
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        raise InputError('Expected a request such as {"text": "The dog barked."}, got another.')
    second, target, against = (found.get(name) for name in ("second", "target", "against"))
    for what, text in (("second sentence", second), ("target", target), ("rival", against)):
        if not isinstance(text, str | None):
            raise InputError(f"Expected a text as the {what}, got {_short(text)}.")
        check_unicode(text or "", f"the {what}")
    check_unicode(found["text"], "the text")
    gates = found.get("gates", {})
    if not isinstance(gates, dict):
        raise InputError(f"Expected gates by head name, got {_short(gates)}.")
    given = dict(_gate(name, gate, heads) for name, gate in gates.items())
    changed = {name: gate for name, gate in given.items() if gate != 1}
    second = second if second and second.strip() else None
    image = found.get("image")
    if image is not None and not (isinstance(image, str) and image.startswith("data:image/")):
        raise InputError(
            f"Expected a picture as an address that begins with data:image/, got {_short(image)}."
        )
    return Question(found["text"], second, changed, target, against, image)


def _gate(name: str, gate: Any, heads: Heads) -> tuple[str, float]:
    if (head := heads.named(name)) not in heads:
        raise InputError(f"Expected a head of this model ({heads}), got {name}.")
    is_number = isinstance(gate, int | float) and not isinstance(gate, bool)
    if not is_number or not 0 <= gate <= MAX_GATE:  # NaN is not, nor any number of 400 digits
        raise InputError(
            f"Expected a number between 0 and {MAX_GATE:g} as the gate of {name}, got "
            f"{_short(gate)}."
        )
    return str(head), float(gate)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


SHOWN = 8
"""Number of most probable options shown, of the dense model and of the gated one each."""

ZEROED = ExplainOptions(effects=("zero",), together=())
"""How effects are measured: each head alone is replaced by zero."""

Findings = Mapping[str, Sequence[tuple[str, str]]]
"""What heads do, by head name: verdicts (role, tendency) and sentences."""


@final
@dataclass(eq=False)
class LiveModel:
    """A model to ask, with what is known about its heads."""

    loaded: Loaded
    pruned: tuple[str, ...] | None = None
    """Heads that a plan prunes; None without a plan."""
    findings: Findings = field(default_factory=dict)
    """What heads do, from a finished run."""
    how: ExplainOptions = ZEROED
    """How effects are measured, and whether texts are a user's messages in the chat template."""
    kind: Kind | None = field(init=False)
    """What the model predicts."""
    _dense: dict[tuple[str, str | None, str | None], list[Prediction]] = field(
        default_factory=dict, init=False
    )
    """The dense model's answer to the last text."""
    _lock: Lock = field(default_factory=Lock, init=False)
    """Held while the model answers, since gates are set on the model itself."""

    def __post_init__(self) -> None:
        check_is_loaded(self.loaded)
        self.kind = kind_of(self.loaded)
        if self.how.chat:
            self._check_chats()
        _ = self.loaded.anatomy  # found now, so that the first answer comes as fast as the others

    def __repr__(self) -> str:
        plan = "" if self.pruned is None else f", a plan that prunes {len(self.pruned)}"
        return f"LiveModel({self.loaded.name!r}, predicts: {self.kind}{plan})"

    def _check_chats(self) -> None:
        """Check that the model replies to messages, before anybody asks."""
        if self.kind != "causal-lm":
            raise InputError(
                f"Expected a model that continues texts for --chat, got {self.loaded.name}, a "
                f"{type(self.loaded.model).__name__}. Leave --chat out."
            )
        user_prompt(self.loaded.encoder().tokenizer, self.loaded.name, "a", self._chat or {})

    @property
    def reads_pictures(self) -> bool:
        """Whether a question may have a picture."""
        return self.loaded.processor is not None and reads_pictures(self.loaded.model)

    @property
    def max_body(self) -> int:
        """Largest number of bytes of a request."""
        return PICTURE_BODY if self.reads_pictures else MAX_BODY

    @property
    def _chat(self) -> Mapping[str, Any] | None:
        """Values for the chat template; None for texts that are no messages."""
        return template_values(self.how.template) if self.how.chat else None

    def answer(self, question: Question) -> dict[str, Any]:
        """Attention and predictions, as the page reads them; one question is answered at a time.

        Raises:
            InputError: for a text that is empty or too long, before the model reads it; or if its
                numbers overflow under the gates.
        """
        with self._lock:
            return self._answer(question)

    def _answer(self, question: Question) -> dict[str, Any]:
        start = time.perf_counter()
        text = check_text(spelled(self.loaded, question.text))
        second = question.second and check_text(question.second, "second sentence")
        if question.image is not None:
            return self._answer_beside(question, text, start)
        dense = self._dense_predictions(text, second)
        gates = question.gates
        asked = self.loaded, self.kind, text, second
        gated = predict(*asked, gates, self._chat) if gates else dense
        other = None if self.kind == "similarity" else second
        if self.kind == "translation" and other is None:
            other = next((each.text for each in gated if isinstance(each, Text)), None) or None
        attention = word_attention(self.loaded, text, other, gates, self._chat)
        return _told(attention, dense, gated, start)

    def _answer_beside(self, question: Question, text: str, start: float) -> dict[str, Any]:
        """The answer to a question with a picture."""
        gates, template = question.gates, template_values(self.how.template)
        sentence = question.sentence(text)
        key = text, None, question.image
        if key not in self._dense:
            self._dense = {key: predict_beside(self.loaded, sentence, {}, template)}
        dense = self._dense[key]
        gated = predict_beside(self.loaded, sentence, gates, template) if gates else dense
        return _told(picture_attention(self.loaded, sentence, gates, template), dense, gated, start)

    def effects(self, question: Question) -> dict[str, Any]:
        """By how much each head raises a prediction of the dense model, in nats (`explain`).

        Raises:
            InputError: without a target, or with one that can't be explained.
        """
        if question.target is None:
            raise InputError('Expected a target, such as {"target": " moon"}, got none.')
        if question.second is not None and self.kind == "classification":
            raise InputError(
                "Expected one text to explain a label of, got a pair. Empty the second field."
            )
        with self._lock:
            text = check_text(question.text)
            asked = text, question.target, question.against
            if question.image is not None:
                prompt = pictured_prompt(*asked, None, ([question.image], []))
                found = explain(self.loaded, [prompt], options=self.how)
            else:
                read_source(self.loaded, spelled(self.loaded, text), chat=self._chat)
                found = explain(self.loaded, *asked, options=self.how)
        return {
            "target": question.target,
            "against": question.against,
            "value": found.record.value,
            "effects": {row.part: row.value for row in found.effects},
            "about": EFFECTS[self.how.effects[0]].about,
            "head": found.largest,
        }

    def _dense_predictions(self, text: str, second: str | None) -> list[Prediction]:
        key = (text, second, None)
        if key not in self._dense:
            found = predict(self.loaded, self.kind, text, second, {}, self._chat)
            self._dense = {key: found}
        return self._dense[key]


def _told(
    attention: WordAttention,
    dense: Sequence[Prediction],
    gated: Sequence[Prediction],
    start: float,
) -> dict[str, Any]:
    """An answer as the page reads it.

    Args:
        attention: the attention under the gates.
        dense: the predictions without them.
        gated: the predictions under them.
        start: when the question came, by `time.perf_counter`.
    """
    return {
        "attention": attention_data(attention),
        "head": sharpest(attention),
        "second": attention.second,
        "predictions": [_compared(*pair) for pair in zip(dense, gated, strict=True)],
        "seconds": time.perf_counter() - start,
    }


def _compared(dense: Prediction, gated: Prediction) -> dict[str, Any]:
    """One prediction of the dense model and of the gated one."""
    if isinstance(dense, Text) and isinstance(gated, Text):
        return {"kind": "text", "title": dense.title, "dense": dense.text, "gated": gated.text}
    if isinstance(dense, Number) and isinstance(gated, Number):
        return {"kind": "number", "title": dense.title, "dense": dense.value, "gated": gated.value}
    assert isinstance(dense, Choices) and isinstance(gated, Choices)
    count = min(SHOWN, len(dense.probability_V))
    tops = [each.probability_V.topk(count).indices.tolist() for each in (dense, gated)]
    rows = [
        {
            "text": dense.name(index),
            "target": dense.target(index),
            "dense": float(dense.probability_V[index]),
            "gated": float(gated.probability_V[index]),
        }
        for index in dict.fromkeys([*tops[0], *tops[1]])
    ]
    return {"kind": "choices", "title": dense.title, "rows": rows}


PLAN = "plan.json"


def open_model(
    name: str,
    *,
    model: str | None = None,
    plan: str | Path | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    languages: tuple[str, str] | None = None,
    trust_remote_code: bool = False,
    chat: bool = False,
    template: Sequence[str] = (),
    effect: str = "zero",
) -> LiveModel:
    """Open what `headcount serve` is given.

    Args:
        name: a model; the folder of `headcount analyze`, whose roles are shown; or the folder of a
            pruned model, whose dense model is opened with the plan.
        model: the dense model of a run or of a pruned model, if it is not where its record says.
        plan: a plan.json, or a folder with one.
        device: where to put the model.
        dtype: number format, as `load` takes it.
        languages: source and target language of a multilingual translator.
        trust_remote_code: whether Python files that come with the model may run.
        chat: whether texts are a user's messages in the model's chat template.
        template: values for the template, NAME=VALUE each.
        effect: the effect of each head that is shown, a plug-in's too.

    Raises:
        InputError: if there is no such model, run and plan do not fit it, it is asked for chats
            and has no template, or the effect needs more than a prompt.
    """
    how = replace(ZEROED, chat=chat, template=tuple(template), effects=(effect,))
    if more := EFFECTS[effect].needs & {"second", "looks"}:
        raise InputError(
            f"Expected an effect of one prompt, got {effect}, which needs {' and '.join(more)}. "
            "Ask for it with headcount explain."
        )
    folder = Path(name)
    run = read_run(folder) if (folder / "run.json").exists() else None
    is_pruned = run is None and (folder / PruneRecord.FILE).exists()
    if run is not None:
        model = model or run.record.model
    elif is_pruned:
        model, plan = model or PruneRecord.read(folder).model, plan or folder
    try:
        loaded = load(model or name, device, dtype, languages, None, trust_remote_code)
    except InputError as error:
        if run is None and not is_pruned:
            raise
        raise InputError(
            f"{name} names its model as {model}, which can't be loaded. Say where it is with "
            f"--model. {error}"
        ) from error
    check_has_heads(loaded)
    loaded.encoder()  # a model that reads no text is refused before its page opens
    pruned = None if plan is None else _pruned(loaded, Path(plan))
    return LiveModel(loaded, pruned, {} if run is None else _findings(loaded, run, name), how)


def _pruned(loaded: Loaded, path: Path) -> tuple[str, ...]:
    """Names of the heads that a plan prunes."""
    plan = Plan.read(path / PLAN if path.is_dir() else path)
    plan.check_heads(loaded.heads)
    return tuple(map(str, plan.pruned_heads(loaded.heads)))


def _findings(loaded: Loaded, run: Analysis, name: str) -> Findings:
    """What the heads do, from a run of this model."""
    if dict(run.record.sites) != dict(loaded.heads.counts):
        raise InputError(
            f"Expected the model of the run {name_of(name)}, which has other heads, got "
            f"{loaded.name} with {loaded.heads}. Name the run's model with --model."
        )
    return {
        card.head: (
            *((found.verdict, found.text) for found in card.findings),
            *[("skill", card.does)] * bool(card.does),
        )
        for card in report_view(run).cards
    }
