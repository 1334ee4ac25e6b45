"""The page of an explained prediction: attention on its text, and what each head does for it."""

from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headcount.core import InputError
from headcount.explanation.document import WRITES
from headcount.explanation.opening import what_is_predicted
from headcount.explanation.prompts import Prompt
from headcount.explanation.reader import spelled
from headcount.explanation.reasons_document import reason
from headcount.explanation.result import Explained
from headcount.explanation.together_document import words_of
from headcount.measures import WordAttention, picture_attention, word_attention
from headcount.models import Loaded, as_loaded
from headcount.pages import Shown, render_attention, short_name


def _explained_data(attention: WordAttention, explained: Explained) -> dict[str, Any]:
    """The effects of every head, and where the prediction is made, if that is one word."""
    site, query = None, 0
    if explained.record.kind == "causal-lm":
        site, query = "dec", len(attention.sites[0].queries) - 1
    elif explained.record.kind == "classification":
        site = "enc"
    return {
        "effects": [
            {
                "key": name,
                "label": words_of(explained, name).label,
                "about": words_of(explained, name).about,
                "values": {r.part: r.value for r in explained.of(name).values() if r.is_head},
            }
            for name in explained.measured
        ],
        "writes": {
            head: [[row.token for row in side] for side in explained.writes(head)]
            for head in dict.fromkeys(row.head for row in explained.written)
        },
        "writing": WRITES if explained.written else "",
        "reasons": {row.head: reason(explained, row) for row in explained.looks},
        "site": site,
        "query": query,
    }


def show_explained(
    model: Loaded | PreTrainedModel,
    found: Explained,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    prompt: Prompt | None = None,
) -> Shown:
    """The attention behind one prediction, each map framed by what its head does for it.

    The page opens at the head with the largest effect. It shows the prompt as it was given, without
    a chat template.

    >>> show_explained(loaded, headcount.explain(loaded, "I saw", " her"))  # doctest: +SKIP

    Args:
        model: the result of `load`, or a plain transformers model with its tokenizer.
        found: the effects of heads on one prediction of it, as `headcount.explain` gives them.
        tokenizer: tokenizer of a plain model.
        prompt: the prompt, if it has pictures.

    Raises:
        InputError: for effects on several predictions, a prompt too long to be drawn, or one
            without its pictures.
    """
    loaded = as_loaded(model, tokenizer)
    if len(found.prompts) != 1:
        raise InputError(
            f"Expected effects on one prediction, got those on {len(found.prompts)}. Explain one "
            "prompt."
        )
    row = found.prompts[0]
    text, target = row.prompt, None
    if found.record.kind == "translation":
        target = row.target
    elif found.record.kind == "masked-lm":
        text = spelled(loaded, text, masks=row.tokens.count("|") + 1)
    if row.pictures and (prompt is None or prompt.beside is None):
        raise InputError(
            f"Expected the prompt with its pictures, {row.pictures}, got none. Pass it as prompt=."
        )
    if prompt is not None and prompt.beside is not None:
        attention = picture_attention(loaded, prompt.beside)
    else:
        attention = word_attention(loaded, text, target)
    page = render_attention(
        attention,
        found.largest,
        {"explained": _explained_data(attention, found)},
        scripts=("explained.js",),
        says=what_is_predicted(found),
        warnings=found.record.warnings,
    )
    return Shown(f"Heads behind a prediction of {short_name(loaded.name)}", page)
