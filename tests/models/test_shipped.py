import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headcount
from headcount.models import place_of
from headcount.models.model_files import SHIPPED
from headcount.results import Certificate, FinetuneRecord
from headcount.tasks import Translation, evaluate
from tests.tasks.test_shared_data import shared

if TYPE_CHECKING:
    from headcount.papers import Rows


def test_only_our_own_names_are_replaced() -> None:
    assert place_of("org/model") == "org/model" and place_of(Path("a")) == Path("a")
    for name in SHIPPED:
        assert Path(place_of(name)).is_relative_to(Path(headcount.__file__).parent)


def test_a_name_that_there_is_not() -> None:
    with pytest.raises(headcount.ModelError, match=r"headcount:en-de-36\), got 'headcount:de-en'"):
        headcount.load("headcount:de-en")


@pytest.mark.slow
def test_the_translation_model_is_small_whole_and_credited() -> None:
    folder = Path(place_of("headcount:en-de"))
    assert (folder / "model.safetensors").stat().st_size <= 32 * 2**20
    card = (folder / "README.md").read_text(encoding="utf-8")
    for credit in ("tatoeba.org", "manythings.org", "CC BY", "seed 1", "BLEU"):
        assert credit in card, credit
    loaded = headcount.load("headcount:en-de")
    assert len(loaded.heads) == 144 and len(loaded.heads.counts) == 3


@pytest.fixture(scope="module")
def held_out() -> "tuple[Rows, Rows]":
    """The pairs that the shipped model learned from, and those that it was tested on."""
    from headcount.papers import hold_out, read_pairs

    rows = read_pairs(shared("tatoeba_eng-deu/deu.txt"), {"source": 0, "target": 1})
    train, (_, test) = hold_out(rows, [1000, 2000], 1)
    return train, test


@pytest.mark.slow
def test_the_card_is_about_these_weights(held_out: "tuple[Rows, Rows]") -> None:
    """The loss on the held-out pairs equals the card's, with the draw that the card describes."""
    folder = Path(place_of("headcount:en-de"))
    _, reported = re.findall(
        r"held out from Tatoeba \| 2,000 \| ([\d.]+) \| [\d.]+ \| ([\d.]+)",
        (folder / "README.md").read_text(encoding="utf-8"),
    )[0]
    record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    train, test = held_out
    assert {stage["data"] for stage in record["stages"]} == {train.sha256}
    loaded = headcount.load("headcount:en-de")
    found = evaluate(loaded.model, Translation(loaded, test.columns))
    assert f"{found.loss:.3f}" == reported


@pytest.mark.slow
def test_the_pruned_card_is_about_these_weights(held_out: "tuple[Rows, Rows]") -> None:
    """The certificate is of the shipped weights, and the loss on the test pairs is the card's."""
    folder = Path(place_of("headcount:en-de-36"))
    assert Certificate.read(folder).holds_for(folder)
    _, test = held_out
    loaded = headcount.load("headcount:en-de-36")
    assert len(loaded.heads) == 36
    found = evaluate(loaded.model, Translation(loaded, test.columns))
    reported = FinetuneRecord.read(folder).data_sets["test"].trained.loss.after
    assert found.loss == pytest.approx(reported, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_it_translates(name: str) -> None:
    loaded = headcount.load(name)
    data = {"source": ["The dog sleeps in the garden."], "target": ["Der Hund schläft im Garten."]}
    task = Translation(loaded, data)
    found = evaluate(loaded.model, task, texts=True)
    assert "Hund" in found.outcome_N[0] and found.loss < 2
