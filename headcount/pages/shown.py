"""Pages that a notebook displays: reports, cards, documents, and attention on one text."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, final

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headcount.core import SITES, HeadTable, InputError, write_readable
from headcount.corpora import with_pictures
from headcount.measures import (
    HeadGates,
    PictureLooks,
    SiteAttention,
    WordAttention,
    check_text,
    picture_attention,
    word_attention,
)
from headcount.models import Loaded, as_loaded, check_has_heads
from headcount.pages.assets import fill_template
from headcount.pages.html import document_page, render, render_card, report_view
from headcount.pages.names import SITE_TITLES
from headcount.pages.part import page_parts
from headcount.pages.sections import document_of, has_document
from headcount.pages.sentences import short_name
from headcount.results import Analysis, Result, read_run

LOOKING_STYLES = ("base.css", "grid.css", "card.css", "attention.css")
LOOKING_SCRIPTS = ("elements.js", "rove.js", "sentence.js", "attention.js")
PICTURE_SCRIPTS = ("image.js", "places.js")
"""Scripts that draw where words look in a picture."""


def attention_data(attention: WordAttention) -> dict[str, Any]:
    """The maps as base64 of bytes, row by row; 255 is a weight of 1."""
    found: dict[str, Any] = {"sites": [_site_data(site) for site in attention.sites]}
    if attention.picture is not None:
        found["picture"] = _picture_data(attention.picture)
    return found


def _picture_data(looks: PictureLooks) -> dict[str, Any]:
    """Where words look in a picture; 255 is the largest weight of each word on it."""
    return {
        "image": looks.image,
        "width": looks.size[0],
        "height": looks.size[1],
        "site": SITES[looks.site],
        "words": looks.words,
        "regions": [round(edge, 4) for region in looks.regions for edge in region],
        "arcs": [],
        "maps": {str(layer): list(map(_looks, maps)) for layer, maps in looks.maps.items()},
    }


def _looks(weights_WP: np.ndarray) -> dict[str, Any]:
    largest_W = weights_WP.max(1).clip(1e-12)
    return {
        "weights": _text(weights_WP / largest_W[:, None]),
        "largest": largest_W.astype(float).round(4).tolist(),
    }


def _site_data(site: SiteAttention) -> dict[str, Any]:
    return {
        "short": SITES[site.site],
        "title": SITE_TITLES[site.site],
        "queries": site.queries,
        "keys": site.keys,
        "special_queries": site.is_special_query,
        "special_keys": site.is_special_key,
        "maps": {str(layer): list(map(_text, maps)) for layer, maps in site.maps.items()},
    }


def _text(weights_QK: np.ndarray) -> str:
    return base64.b64encode(
        (weights_QK.clip(0, 1) * 255).round().astype(np.uint8).tobytes()
    ).decode()


def sharpest(attention: WordAttention) -> str:
    """The head whose largest weight between words, special tokens aside, is largest on average."""
    best, found = -1.0, ""
    for site in attention.sites:
        is_word_Q, is_word_K = (~np.array(each) for each in _special(site))
        for layer, maps in site.maps.items():
            between = maps[:, is_word_Q][:, :, is_word_K]
            if not between.size:
                continue
            peak_H = between.max(2).mean(1)
            if peak_H.max() > best:
                best = float(peak_H.max())
                found = f"{SITES[site.site]}.{layer}.{int(peak_H.argmax())}"
    return found or f"{SITES[attention.sites[0].site]}.{min(attention.sites[0].maps)}.0"


def _special(site: SiteAttention) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    return site.is_special_query, site.is_special_key


def render_attention(
    attention: WordAttention,
    head: str,
    data: Mapping[str, Any] | None = None,
    *,
    scripts: Sequence[str] = (),
    says: str | None = None,
    warnings: Sequence[str] = (),
) -> str:
    """The page of one text, opened at one head.

    Args:
        attention: the attention on the text.
        head: the head.
        data: more data for scripts.
        scripts: the scripts that show it.
        says: what the page says of it.
        warnings: warnings about it.
    """
    return fill_template(
        "attention.html.j2",
        styles=LOOKING_STYLES,
        scripts=(
            *LOOKING_SCRIPTS,
            *(PICTURE_SCRIPTS if attention.picture is not None else ()),
            "show.js",
            *scripts,
        ),
        data={"attention": attention_data(attention), "head": head, "kinds": {}, **(data or {})},
        said=says,
        warnings=warnings,
        title=short_name(attention.model),
        attention=attention,
        live=False,
    )


HEIGHT, CARD_HEIGHT = 760, 620
"""Heights of a page and of a card in a notebook, in pixels."""


@final
@dataclass(frozen=True)
class Shown:
    """An offline page: notebooks display it, `save` writes it."""

    title: str
    """What the page shows, in a few words."""
    html: str
    """The page."""
    height: int = HEIGHT
    """Height in a notebook, in pixels."""

    def __repr__(self) -> str:
        size = f"{len(self.html.encode()) / 1e6:.1f} MB"
        return f"Shown({self.title!r}, {size}): display it in a notebook, or .save('page.html')"

    def _repr_html_(self) -> str:
        return framed(self.title, self.html, self.height)

    def save(self, path: str | Path) -> Path:
        """Write the page, completely or not at all."""
        write_readable(Path(path), self.html)
        return Path(path)


def framed(title: str, html: str, height: int) -> str:
    """A frame that holds a page: its scripts can't reach the notebook."""
    return (
        f'<iframe title="{escape(title)}" srcdoc="{escape(html)}" sandbox="allow-scripts" '
        f'style="width: 100%; height: {height}px; border: 0; color-scheme: light dark"></iframe>'
    )


Text = str | list[str]
"""A text, or its words."""


def show(
    model: Loaded | PreTrainedModel,
    text: Text | tuple[Text, Text],
    head: str | None = None,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    gates: HeadGates | None = None,
    images: Sequence[str | Path] = (),
) -> Shown:
    """Every head's attention between the words of one text, as a page.

    >>> show(loaded, "The old dog barked at the moon.", "enc.2.8")  # doctest: +SKIP

    Args:
        model: the result of `load`, or a plain transformers model with its tokenizer.
        text: one sentence, as a text or a list of words, or a pair of two: source and target of a
            translation, or a pair that the model reads as one input. Without a target, the model
            translates greedily.
        head: the head to open; by default the one that looks most sharply from word to word.
        tokenizer: tokenizer of a plain model.
        gates: factors by head name, e.g. `{"enc.2.8": 0}`; heads not named keep 1.
        images: pictures in front of the text, which is then a user's message; where words look is
            drawn over the first one.

    Raises:
        InputError: for an unknown head, or a text that is empty or too long.
        ModelError: for a model that reads no text.
    """
    loaded = as_loaded(model, tokenizer)
    loaded.encoder()  # before anything else, since only text has words
    check_has_heads(loaded)
    opened = None if head is None else loaded.heads.named(head)
    if opened is not None and opened not in loaded.heads:
        raise InputError(f"Expected a head of {loaded.name} ({loaded.heads}), got {head}.")
    if images:
        sentence = with_pictures(check_text(_joined(text)), [*images], "The text")
        attention = picture_attention(loaded, sentence, gates)
    else:
        attention = word_attention(loaded, *_sides(text), gates)
    page = render_attention(attention, str(opened or sharpest(attention)))
    return Shown(f"Attention of {short_name(loaded.name)} on one text", page)


def _sides(text: object) -> tuple[str, str | None]:
    """The texts of one sentence or of a pair."""
    if isinstance(text, tuple) and len(text) == 2:
        return _joined(text[0]), _joined(text[1])
    return _joined(text), None


def _joined(text: object) -> str:
    """A text, or the words of one joined by spaces."""
    words = [text] if isinstance(text, str) else text
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InputError(
            f"Expected a text, a list of its words, or a pair of two in a tuple, got {text!r:.80}. "
            "Give a string."
        )
    return " ".join(words)


def notebook_html(result: object) -> str:
    """What a notebook displays of a result: HTML that needs no network."""
    if isinstance(result, Analysis):
        return show_analysis(result)._repr_html_()
    if isinstance(result, Result) and has_document(result):
        shown = document_of(result)
        return framed(shown.title, document_page(shown, result), HEIGHT)
    if (
        shown := next(filter(None, (each.drawn(result) for each in page_parts())), None)
    ) is not None:
        return framed(shown.title, document_page(shown), HEIGHT)
    if isinstance(result, Result):  # a paper's
        return HeadTable(result.frame)._repr_html_()
    raise InputError(f"Expected a result that can be drawn, got a {type(result).__name__}.")


def show_analysis(analysis: Analysis | str | Path) -> Shown:
    """The report of an analysis, or of the folder of a run, as a page."""
    run = _run(analysis)
    page = render(report_view(run))
    return Shown(f"Report on {short_name(run.record.model)}", page)


def show_card(analysis: Analysis | str | Path, head: str) -> Shown:
    """The card of one head: what it does, how sure that is, and sentences.

    Args:
        analysis: an analysis, or the folder of a run, whose importance is shown, too.
        head: name of the head.

    Raises:
        InputError: for a head that was not analysed.
    """
    run = _run(analysis)
    names = [row.head for row in run.rows]
    if head not in names:
        raise InputError(
            f"Expected a head of the analysis ({names[0]} to {names[-1]}), got {head}."
        )
    page = render_card(report_view(run), head)
    return Shown(f"Card of {head} of {short_name(run.record.model)}", page, CARD_HEIGHT)


def _run(analysis: Analysis | str | Path) -> Analysis:
    return analysis if isinstance(analysis, Analysis) else read_run(Path(analysis))
