"""Skills on prompts with pictures: by definition, in a planted model, and what can't be asked."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headcount
from headcount import Corpus, Loaded
from headcount.core import CorpusError, InputError, ModelError
from headcount.corpora import asking
from headcount.models import picture_encoder
from headcount.pages import document_of
from headcount.skills import PicturedPrompts, SkillOptions, Skills, skills
from headcount.skills.localization import chosen, elbow, localize, neighbours, spatial_entropy
from headcount.skills.own_skills import Localization, PictureRetrieval
from headcount.skills.picture_retrieval import retrieve_places
from headcount.skills.skill import scored
from headcount.testing import leaving_no_trace
from tests import saved
from tests import tiny_pictures as tiny
from tests.textbook import localization as textbook

pytestmark = pytest.mark.filterwarnings("ignore:.*saw no image")
FEW = SkillOptions(draws=1, again=8, removed=(1,))
EVERYDAY = ("llava", "qwen")
KINDS = [
    pytest.param(kind, marks=() if kind in EVERYDAY else pytest.mark.slow)
    for kind in ("llava", "qwen", "qwen3", "gemma")
]
"""Models of whose pictures the tokens are one grid."""


def asked(folder: Path, number: int = 6) -> list[dict[str, Any]]:
    """Questions of unequal length about parts of pictures of unequal sizes."""
    rows, questions = [], ("what is red ?", "where is the red cat by the mat ?", "red ?")
    for n in range(number):
        path = tiny.picture(folder / f"{n}.png", ((32, 16), (24, 40))[n % 2], seed=n)
        box = [[0, 0, 12, 9], [6, 12, 16, 16], [9, 1, 23, 8]][n % 3]
        link = {"name": "named", "phrase": "red", "boxes": [box]}
        rows.append(tiny.chat(path, questions[n % 3]) | {"links": [link]})
    return rows


def eager(loaded: Loaded, sentence: Any) -> tuple[list[np.ndarray], Any, Any]:
    """A stock model's maps of a prompt by layer, its tokens, and the encoder."""
    model: Any = loaded.model
    encoder = picture_encoder(loaded)
    [pair] = encoder.encode([sentence])
    ids = torch.tensor([pair.source.ids])
    given = encoder.arguments([pair.sentence], ids, torch.ones_like(ids).bool())
    own = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model(**given, output_attentions=True).attentions
    model.set_attn_implementation(own)
    return [each[0].numpy() for each in maps], pair, encoder


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_an_eager_stock_model(kind: str, tmp_path: Path) -> None:
    loaded, corpus = tiny.loaded(kind), Corpus(asked(tmp_path))
    read = PicturedPrompts(loaded, corpus)
    found, expected = retrieve_places(read), list[list[float]]()
    localized, maps_NHP = localize(read, loaded.heads, 0), list[list[Any]]()
    for sentence, prompt in zip(corpus, read.all, strict=True):
        masses = []
        for each in (sentence, asking(sentence, "N/A")):
            layers, pair, _ = eager(loaded, each)
            source = pair.source
            patches = [place for place, shown in enumerate(source.is_picture) if shown]
            says = [
                place
                for place, role in enumerate(source.roles)
                if role == "user" and place not in patches
            ]
            if each is sentence:
                [link] = pair.sentence.links
                evidence, last = link.keys, source.roles.index("assistant") - 1
                assert prompt.evidence == tuple(sorted(evidence)) and prompt.last == last
                rows = len({round(box[1], 2) for box in source.regions})
                maps = np.concatenate([A[:, last, patches] for A in layers])
                maps_NHP.append(maps.reshape(len(maps), rows, -1).tolist())
            keys = [patches[number] for number in evidence]
            masses.append([m for A in layers for m in textbook.attention_mass(A, says, keys)])
        expected.append([with_it - without for with_it, without in zip(*masses, strict=True)])
    np.testing.assert_allclose(found.score_NH, expected, atol=2e-6)
    assert np.abs(expected).max() > 1e-4 and np.abs(found.elsewhere_NH - expected).max() > 1e-4
    near = [neighbours(each.regions, each.picture_of) for each in read.all]
    entropies = np.array(
        [
            [spatial_entropy(map_P, near_PP) for map_P in map_HP]
            for map_HP, near_PP in zip(localized.maps, near, strict=True)
        ]
    )
    np.testing.assert_allclose(
        entropies, [[textbook.spatial_entropy(m) for m in of] for of in maps_NHP], atol=1e-9
    )
    assert entropies.max() > 0


def test_the_frequency_is_that_of_the_book() -> None:
    """Where no two heads have equal entropies, whatever the number of heads that look."""
    rng = np.random.default_rng(0)
    maps_NHP = rng.random((5, 11, 13, 12)) ** 4 * (1 + np.arange(11))[:, None, None]
    regions = [(c / 12, r / 13, (c + 1) / 12, (r + 1) / 13) for r in range(13) for c in range(12)]
    near_PP = neighbours(tuple(regions), (0,) * 156)
    entropy_NH = np.array([[spatial_entropy(m.ravel(), near_PP) for m in of] for of in maps_NHP])
    assert {len({*each.round(9)}) for each in entropy_NH} == {11}
    sums_H = maps_NHP.sum((2, 3)).mean(0)
    counts_H = sums_H >= elbow(sums_H)
    found_H = np.mean([chosen(each, counts_H) for each in entropy_NH], axis=0)
    expected = textbook.selection_frequency(maps_NHP.tolist(), 3)
    np.testing.assert_allclose(found_H, expected)
    assert 0 < counts_H.sum() < 11


def test_a_map_without_a_large_weight_is_never_chosen() -> None:
    near_PP = neighbours(((0.0, 0.0, 0.5, 1.0), (0.5, 0.0, 1.0, 1.0)), (0, 0))
    assert near_PP.tolist() == [[False, True], [True, False]]
    assert math.isinf(spatial_entropy(np.full(2, 0.1), near_PP))
    entropy_H, everyone_H = np.array([np.inf, 0.0, np.inf, 0.7]), np.ones(4, bool)
    assert chosen(entropy_H, everyone_H).tolist() == [0, 1, 0, 1]
    assert chosen(np.full(4, np.inf), everyone_H).tolist() == [0] * 4


def test_tokens_of_other_sizes_and_pictures_are_no_neighbours() -> None:
    """Tiles touch at their seam; the whole lies over them, and another picture beside."""
    tiles = [(c / 4, 0.0, (c + 1) / 4, 1.0) for c in range(4)]
    near_PP = neighbours((*tiles, (0.0, 0.0, 1.0, 1.0), None, *tiles), (0,) * 6 + (1,) * 4)
    assert np.flatnonzero(near_PP[1]).tolist() == [0, 2]
    assert np.flatnonzero(near_PP[6]).tolist() == [7]
    assert not near_PP[4:6].any()


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Loaded, list[dict[str, Any]]]:
    """Of eight heads one looks from a word to what it names, and one to a spot when it replies."""
    from tests.analysis import test_places as places

    rows = places.pictures(tmp_path_factory.mktemp("pictures"))[:24]
    loaded = places.planted(rows, num_heads=8, seed=4)
    model: Any = loaded.model
    own = model.model.language_model.layers[0].self_attn
    norm = model.model.language_model.layers[0].input_layernorm
    end = torch.tensor([[*tiny.VOCABULARY].index(":")])
    with torch.no_grad():
        said_W = norm(model.get_input_embeddings()(end))[0]
        spot = 8 + places.SLOW[0]
        own.q_proj.weight[spot] = places.SHARP * said_W / said_W.square().sum()
    for number, row in enumerate(rows):
        link = row["links"][number % 3]
        row["messages"] = tiny.chat(
            row["messages"][0]["content"][0]["image"], f"{link['phrase']} ?", "the mat ."
        )["messages"]
        row["links"] = [link]
    return loaded, rows


def test_planted_heads_are_found(planted: tuple[Loaded, list[dict[str, Any]]]) -> None:
    from tests.analysis import test_places as places

    loaded, rows = planted
    names, corpus = [*map(str, loaded.heads)], Corpus(rows)
    with leaving_no_trace(loaded.model, {"input_ids": torch.arange(1, 9)[None]}):
        retrieval_NH = scored(PictureRetrieval, loaded, corpus, 0)
        localized_NH = scored(Localization, loaded, corpus, 0)
    assert names[int(retrieval_NH.mean(0).argmax())] == places.FINDS
    found = retrieve_places(PicturedPrompts(loaded, corpus))
    mean, elsewhere = (
        dict(zip(names, each.mean(0), strict=True)) for each in (found.score_NH, found.elsewhere_NH)
    )
    assert mean[places.FINDS] > 0.4 > 2 * elsewhere[places.FINDS]
    assert elsewhere[places.STARES] == pytest.approx(mean[places.STARES], abs=0.1), "its null"
    chosen_H = dict(zip(names, localized_NH.mean(0), strict=True))
    assert chosen_H.pop(places.STARES) == 1
    chosen_H.pop(places.FINDS)  # it looks there, too, when no color is named
    assert {*chosen_H.values()} == {0.0}, "the others look everywhere alike"


def test_a_run_is_written_shown_and_read(
    planted: tuple[Loaded, list[dict[str, Any]]], tmp_path: Path
) -> None:
    from tests.analysis import test_places as places

    loaded, rows = planted
    found = skills(loaded, Corpus(rows), FEW)
    assert found.is_of_pictures and [*found.skills][-2:] == ["localization", "picture_retrieval"]
    assert found.ranked("picture_retrieval")[0].head == places.FINDS
    assert found.does()[places.FINDS] and not found.ranked("induction")
    assert found.record.elsewhere is not None
    assert found.record.elsewhere < found.ranked("picture_retrieval")[0].mean
    dense, *without = found.recalls
    assert (dense.asked, dense.removed, dense.cases) == ("questions", "none", 24)
    assert [(row.removed, row.replaced, row.cases) for row in without] == [
        (by, "mean", 8) for by in ("localization", "picture_retrieval", "random")
    ]
    by = {row.by: row for row in found.places}
    assert [*by] == ["localization", "picture_retrieval", "random", "all", "fixed"]
    assert by["localization"].heads == 3 and by["fixed"].heads == 0
    assert by["fixed"].found == pytest.approx(np.mean([_is_spot(row) for row in rows]))
    found.write(tmp_path)
    again = Skills.read(tmp_path)
    assert again == found or str(again) == str(found), "NaN is the same here"
    text = document_of(again).markdown()
    assert "about pictures" in text and "the most frequent place, without looking" in text
    assert "needle" not in text


def _is_spot(row: dict[str, Any]) -> bool:
    from tests.analysis import test_places as places

    left, top, *_ = row["links"][0]["boxes"][0]
    return (top // 4) * 4 + left // 4 == places.SPOT


def test_without_boxes_or_replies_the_rest_is_measured(tmp_path: Path) -> None:
    loaded, rows = tiny.loaded("llava"), asked(tmp_path)
    for row in rows:
        row["messages"] = row["messages"][:1]
    found = skills(loaded, Corpus([*rows[:5], *_bare(rows[5:])]), FEW)
    assert not found.recalls and found.ranked("picture_retrieval")
    few, none = found.record.warnings
    assert few == "5 of 6 prompts ask about a part of a picture that has a box"
    assert none.startswith("too few prompts have a reply")
    found = skills(
        loaded, Corpus([*_bare(rows), {"messages": [{"role": "user", "content": "it"}]}])
    )
    left, none, _ = found.record.warnings
    assert left == "1 row without pictures left out"
    assert none.startswith("no question names a thing with a box")
    assert "picture_retrieval" not in found.skills and found.ranked("localization")
    assert found.record.elsewhere is None and not found.places
    assert "was asked about pictures without answers" in document_of(found).markdown()


def _bare(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"messages": row["messages"]} for row in rows]


def test_what_can_not_be_asked(tmp_path: Path) -> None:
    llava, rows = tiny.loaded("llava"), asked(tmp_path)
    with pytest.raises(InputError, match="at least 4 prompts with pictures, two for each half"):
        skills(llava, Corpus(rows[:3]), FEW)
    with pytest.raises(CorpusError, match="rows with pictures for skills of pictures, got none"):
        PicturedPrompts(llava, Corpus(["the dog ."]))
    text = {"image": tiny.picture(tmp_path / "x.png"), "text": "what is it ?"}
    plain = Corpus([text] * 4, columns={"image": "image", "text": "text"})
    with pytest.raises(ModelError, match="a model that reads pictures beside texts"):
        skills(headcount.load(saved.llama(tmp_path / "llama")), plain, FEW)


def test_another_question_keeps_the_pictures_and_ends_before_the_reply(tmp_path: Path) -> None:
    path = tiny.picture(tmp_path / "0.png")
    row = tiny.chat(path, "what is it ?")
    more = {"role": "user", "content": "where is the cat ?"}
    row["messages"] = [{"role": "system", "content": "describe it"}, *row["messages"], more]
    [sentence] = Corpus([row])
    found = asking(sentence, "N/A")
    given = json.loads(found.messages or "")
    turns = given["messages"] if isinstance(given, dict) else given
    assert [turn["role"] for turn in turns] == ["system", "user"]
    assert turns[1]["content"] == [{"type": "image"}, {"type": "text", "text": "N/A"}]
    assert found.pictures == sentence.pictures and not found.places
