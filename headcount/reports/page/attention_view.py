"""Attention on one text as the scripts of a page read it, the page of `show`, and images."""

import base64
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from headcount.analysis import SiteAttention, WordAttention
from headcount.core import SITES, Grid
from headcount.reports.documents.explanation import WRITES, what_is_predicted
from headcount.reports.names import SITE_TITLES
from headcount.reports.page.assets import fill_template
from headcount.reports.sentences import short_name
from headcount.results import Example, Explained
from headcount.vocabulary import EFFECTS

LOOKING_STYLES = ("base.css", "grid.css", "card.css", "attention.css")
LOOKING_SCRIPTS = ("elements.js", "rove.js", "sentence.js", "attention.js")


def attention_data(attention: WordAttention) -> dict[str, Any]:
    """The maps as base64 of bytes, row by row; 255 is a weight of 1."""
    return {"sites": [_site_data(site) for site in attention.sites]}


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
                "label": EFFECTS[name].label,
                "about": EFFECTS[name].about,
                "values": {r.part: r.value for r in explained.of(name).values() if r.is_head},
            }
            for name in explained.measured
        ],
        "writes": {
            head: [[row.token for row in side] for side in explained.writes(head)]
            for head in dict.fromkeys(row.head for row in explained.written)
        },
        "writing": WRITES if explained.written else "",
        "site": site,
        "query": query,
    }


def _special(site: SiteAttention) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    return site.is_special_query, site.is_special_key


def render_attention(
    attention: WordAttention, head: str, explained: Explained | None = None
) -> str:
    """The page of one text, opened at one head, with the effects of heads on its prediction."""
    data = {"attention": attention_data(attention), "head": head, "kinds": {}}
    scripts = (*LOOKING_SCRIPTS, "show.js")
    if explained is not None:
        data["explained"] = _explained_data(attention, explained)
        scripts = (*scripts, "explained.js")
    return fill_template(
        "attention.html.j2",
        styles=LOOKING_STYLES,
        scripts=scripts,
        data=data,
        said=explained and what_is_predicted(explained),
        title=short_name(attention.model),
        attention=attention,
        live=False,
    )


@final
@dataclass(frozen=True)
class ImageView:
    """One drawing: a picture with a heat map over its patches."""

    role: str
    caption: str
    image: str
    """The picture, as the text of a `data:` address."""
    rows: int
    columns: int
    special: int
    """Number of tokens before the patches."""
    queries: tuple[str, ...]
    """What the maps are of: the class token, the mean over all patches, and single patches."""
    weights: str
    """The maps, one after the other, as base64 of bytes."""
    largest: tuple[float, ...]
    """The weight in each map that 255 stands for."""
    note: str = ""


def image_view(example: Example, grid: Grid) -> ImageView:
    """The drawing of one example."""
    return ImageView(
        role=example.role,
        caption=example.caption,
        image=example.image,
        rows=grid.rows,
        columns=grid.columns,
        special=grid.special,
        queries=example.queries,
        weights=base64.b64encode(example.weights).decode(),
        largest=example.largest,
    )
