"""Change and influence: those of a model whose layer is run by hand; groups and swaps."""

from pathlib import Path

import numpy as np
import pytest
import torch

import headcount
from headcount.corpora import Corpus
from headcount.papers.evolution import distances as influence
from headcount.papers.evolution.distances import (
    Basis,
    frequency_bins,
    groups_of,
    influence_rows,
    pwcca,
    rows_without,
    swap_tokens,
)
from headcount.papers.evolution.record import EvolutionOptions
from headcount.papers.evolution.subjects import Subject, Tokens, of_sentences, subjects_of
from headcount.testing import leaving_no_trace
from tests import saved, tiny

SAMPLE = Path(headcount.__file__).parent / "data" / "sample.conllu"


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return subjects_of([headcount.load(saved.bert(tmp_path_factory.mktemp("bert")))])[0]


@pytest.fixture(scope="module")
def tokens(subject: Subject) -> Tokens:
    return Tokens.of(Corpus(SAMPLE, limit=40), subject.encoder)


def test_bins_of_frequency_are_about_equally_large(tokens: Tokens) -> None:
    chosen = of_sentences(tokens, 40, 0)
    bins = list(frequency_bins(tokens, chosen))
    sizes = [int(inside.sum()) for _, inside in bins]
    assert sum(sizes) == len(chosen) and min(sizes) > len(chosen) / 15
    assert len(bins) >= 3 and bins[0][0].startswith("frequency ")
    counts = tokens.counts()[chosen.token_S]
    highest = [counts[inside].max() for _, inside in bins]
    lowest = [counts[inside].min() for _, inside in bins]
    assert all(high < low for high, low in zip(highest[:-1], lowest[1:], strict=True))
    assert "tag NOUN" in dict(groups_of(tokens, chosen))


@pytest.mark.slow
def test_influence_is_that_of_one_layer_run_by_hand(
    subject: Subject, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(influence, "FEWEST", 2)
    monkeypatch.setattr(influence, "groups_of", lambda *_: [("all", np.ones(len(chosen), bool))])
    chosen, options = of_sentences(tokens, 40, 0), EvolutionOptions(max_tokens=70)
    model = subject.loaded.model
    with leaving_no_trace(model, tiny.inputs(model)):
        found = list(influence_rows(subject, tokens, chosen, options, lambda *_: None))
    assert [row.layer for row in found] == [0, 1]
    layers = list(model.get_submodule("bert.encoder.layer").children())
    pairs: list[tuple[list[torch.Tensor], list[torch.Tensor]]] = [([], []), ([], [])]
    for row in rows_without(tokens, chosen, np.ones(len(chosen), bool), 0):
        others, position = row.positions[:-1], row.positions[-1]
        with torch.no_grad():
            states = model(
                input_ids=torch.tensor([row.ids.tolist()]), output_hidden_states=True
            ).hidden_states
            hidden = torch.zeros(1, 1, 1, len(row.ids))
            hidden[..., position] = torch.finfo(torch.float32).min
            for number, layer in enumerate(layers):
                output = layer(states[number], attention_mask=hidden)
                output = output[0] if isinstance(output, tuple) else output
                pairs[number][0].append(states[number + 1][0, others])
                pairs[number][1].append(output[0, others])
    for row, (with_it, without) in zip(found, pairs, strict=True):
        first, second = (Basis.of(torch.cat(each).numpy()) for each in (with_it, without))
        assert row.value == pytest.approx(pwcca(first, second), rel=0.02, abs=1e-5)
        assert row.value > 1e-3 and row.cases == sum(map(len, with_it))


def test_a_token_that_nobody_attends_to_has_no_influence(
    subject: Subject, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken away in the second pass only, so with attention that ignores all, nothing changes."""
    monkeypatch.setattr(influence, "FEWEST", 2)
    chosen = of_sentences(tokens, 40, 0)
    model = subject.loaded.model
    outputs = [layer.attention.output.dense for layer in model.get_submodule("bert.encoder.layer")]  # type: ignore[union-attr]
    saved_weights = [each.weight.detach().clone() for each in outputs]
    try:
        with torch.no_grad():
            for each in outputs:
                each.weight.zero_()
        rows = list(influence_rows(subject, tokens, chosen, EvolutionOptions(), lambda *_: None))
    finally:
        with torch.no_grad():
            for each, weight in zip(outputs, saved_weights, strict=True):
                each.weight.copy_(weight)
    assert rows and max(abs(row.value) for row in rows) < 1e-5


def test_swaps_leave_the_token_and_its_place(tokens: Tokens) -> None:
    chosen = of_sentences(tokens, 40, 0)
    rows = rows_without(tokens, chosen, chosen.token_S == chosen.token_S[0], 0)
    assert 0 < len(rows) <= 40
    swapped = swap_tokens(tokens, rows, 0.4, 0)
    changed = 0
    for before, after in zip(rows, swapped, strict=True):
        assert after.ids[before.positions[-1]] == chosen.token_S[0]
        differs = np.flatnonzero(before.ids != after.ids)
        assert set(differs) <= set(before.positions[:-1])
        assert len(differs) <= round(0.4 * len(before.positions))
        changed += len(differs)
    assert changed > 0.2 * sum(len(row.positions) for row in rows)
