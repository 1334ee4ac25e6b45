"""The page of a live model."""

from headcount.analysis import MAX_CHARACTERS
from headcount.core import SITES
from headcount.explanation import MASK
from headcount.reports import LOOKING_SCRIPTS, LOOKING_STYLES, fill_template, short_name
from headcount.serve.asking import MAX_GATE
from headcount.serve.guard import OWN_HEADER
from headcount.serve.live_model import LiveModel
from headcount.serve.predicting import Kind

SECONDS: dict[Kind | None, str] = {
    "translation": "Target (empty: the model's own translation)",
    "similarity": "Second sentence, to compare with",
    "classification": "Second sentence of a pair (may stay empty)",
}
"""Label of the second field, for the kinds that have one."""

EXAMPLES: dict[Kind | None, tuple[str, str]] = {
    "similarity": ("The old dog barked at the moon.", "A hound was howling in the night."),
    "masked-lm": (f"The old dog barked at the {MASK}.", ""),
    "causal-lm": ("The old dog barked at the", ""),
}
"""Texts to begin with."""

HINTS: dict[Kind | None, str] = {
    "similarity": "Give a second sentence to compare with. Maps are those of the first sentence.",
    "masked-lm": f"Write {MASK} in place of a word to see what the model puts there.",
    None: "The model has no head whose predictions could be shown.",
}
"""What to do if nothing is predicted."""


def render_live(live: LiveModel) -> str:
    """The page as a string."""
    text, second = EXAMPLES.get(live.kind, ("The old dog barked at the moon.", ""))
    counts = live.loaded.heads.counts
    return fill_template(
        "live.html.j2",
        package="headcount.serve",
        styles=(*LOOKING_STYLES, "live.css"),
        scripts=(*LOOKING_SCRIPTS, "live.js"),
        data={
            "kinds": {},
            "findings": live.findings,
            "pruned": live.pruned,
            "sites": {SITES[site]: sum(layers) for site, layers in counts.items()},
            "hint": HINTS.get(live.kind, ""),
            "largest": MAX_GATE,
            "own_header": OWN_HEADER,
        },
        title=short_name(live.loaded.name),
        text=text,
        second=second,
        second_label=SECONDS.get(live.kind),
        num_pruned=None if live.pruned is None else len(live.pruned),
        num_heads=len(live.loaded.heads),
        max_characters=MAX_CHARACTERS,
        largest=MAX_GATE,
        live=True,
    )
