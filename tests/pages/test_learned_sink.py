"""What a head gives to its learned sink is said; runs of other models say nothing of it."""

from pathlib import Path
from typing import Any

import pytest

from headcount import Corpus
from headcount.pages import story
from headcount.pages.html import report_view
from headcount.pages.sentences import head_line, learned_sinks
from headcount.results import Analysis, read_run
from tests import tiny, tiny_tokenizers
from tests.pages.changed import changed

TEXTS = ["The old dog barks at the cat .", "A dog sleeps .", "The cat sees the old dog ."]
LABEL = "learned sink (no token)"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """A run of a model in which one head of each layer gives nearly everything to its sink."""
    from headcount import analyze

    tokenizer, out = tiny_tokenizers.llama(), tmp_path_factory.mktemp("run")
    model: Any = tiny.gpt_oss(vocab_size=len(tokenizer))
    for layer in model.model.layers:
        layer.self_attn.sinks.data.fill_(-9.0)
        layer.self_attn.sinks.data[2] = 9.0
    analyze(model, Corpus(TEXTS * 4), tokenizer=tokenizer).write(out)
    return read_run(out)


def test_the_story_counts_the_heads(run: Analysis):
    sentence = "2 of 12 heads give a learned sink, and so no token, over half of their attention."
    assert sentence in story(run)[0] and learned_sinks(run) == sentence
    one = changed(run, rows=run.rows[:6])
    assert learned_sinks(one).startswith("1 of 6 heads gives a learned sink, and so no token, over")
    assert learned_sinks(one).endswith("over half of its attention.")
    assert learned_sinks(changed(run, rows=run.rows[:2])) == "", "none gives so much"


def test_the_card_says_it(run: Analysis):
    from headcount.analysis.layers_section import panels

    cards = {card.head: card for card in report_view(run).cards}
    text = cards["dec.0.2"].line.replace("\u202f", " ")
    assert " % of its attention goes to its learned sink, to no token. Its largest" in text
    assert "The entropy of its weights on tokens is 0.11 nats." in text
    assert "sink" not in cards["dec.0.1"].line and " Its entropy equals" in cards["dec.0.1"].line
    (share,) = [share for share in cards["dec.0.2"].sinks if share.label == LABEL]
    assert share.value is not None and share.value > 0.8 and share.norm is None
    assert f"weight on the {LABEL}" in [shown.label for shown in report_view(run).atlas.maps]
    assert "Learned sink (no token)" in [panel.title for panel in panels(run)]


@pytest.mark.parametrize(("none", "says"), [(0.05, True), (0.049, False)])
def test_a_small_share_is_left_to_the_bars(none: float, says: bool):
    assert ("learned sink" in head_line({"attn_none": none})) == says


@pytest.mark.slow
def test_nothing_is_said_of_other_models(plain: Path):
    run = read_run(plain)
    assert learned_sinks(run) == ""
    view = report_view(run)
    assert "learned" not in view.opening.headline
    assert not any(share.label == LABEL for card in view.cards for share in card.sinks)
    assert not any("learned" in card.line for card in view.cards)
