"""Every cell and every sentence of the documents of papers is in all of their renderings."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from headcount.core import Block, Document, Table, Text
from headcount.pages.html import document_page
from headcount.papers import (
    ContributionRow,
    ContributionTable,
    Followed,
    FollowRecord,
    TunedMaps,
    clark2019_document,
    coenen2019_document,
    followed_document,
    hewitt2019_document,
    kobayashi2020_document,
    kovaleva2019_document,
    li2021_document,
    michel2019_document,
    pruning_document,
    table2_document,
    voita2019_document,
    voita2019evolution_document,
)
from headcount.papers.reproduce.clark2019 import coreference_section
from headcount.papers.reproduce.gate_densities import densities_section, gate_rows
from headcount.results import ALL, read_run
from headcount.training import FinetuneConfig
from tests.pages.run_folder import Wish, write_run
from tests.papers.following import test_following
from tests.papers.reproduce import (
    test_gate_densities,
    test_kobayashi2020,
    test_kovaleva2019,
    test_michel2019,
    test_probing,
    test_pruning,
    test_voita2019evolution,
)
from tests.speed.test_write import speed
from tests.test_renderers import assert_all_say, words_of

ABLATED = test_michel2019.ablated()
PROBED = test_probing.probed(
    *(
        test_probing.row(probe, variant, metric, 0.5, layer=layer, rank=64)
        for probe, metric in (
            ("words", "uas"),
            ("edges", "edge-accuracy"),
            ("structure", "uuas"),
        )
        for variant in ("trained", "random-init", "random-labels", "majority")
        for layer in range(2)
    )
)
RELATIONS = pd.DataFrame(
    [("enc.0.0", "det", "dependent->head", 0.7, 900, 0.5)],
    columns="head relation direction accuracy cases baseline".split(),
)
CURVE = test_pruning.curve(
    [
        (ALL, 12, 40.0),
        *((name, 6, 39.0) for name in (*test_pruning.li2021.li2021_methods(), "trained", "random")),
        ("scratch", 6, 35.0),
    ]
)
MEASURED = test_pruning.measured(CURVE, "bleu")
TUNED = (
    *test_kovaleva2019.HEADS,
    test_kovaleva2019.row(-1, "all", "after", 0.5, "heterogeneous"),
    *(
        test_kovaleva2019.row(0, head, metric, 0.7)
        for metric in ("cosine", "disabled")
        for head in ("all", "enc.0.0", "enc.0.1")
    ),
)
CONTRIBUTED = tuple(
    ContributionRow("encoder.self", layer, metric, kind, 0.4, 0.3, 0.5, 99)
    for layer in (-1, 0, 1)
    for metric, kind in (
        ("weight_share", "first"),
        ("weighted_norm_share", "first"),
        ("by_rank", "norm"),
        ("mixing", "attn-w"),
        ("mixing", "attn-n"),
        ("mixing", "attnres-n"),
    )
)
FOLLOWED = FollowRecord(
    signature="headcount:0",
    task="masked-lm",
    metric="perplexity",
    method="gradient",
    within=0.05,
    num_examples=9,
    heads={"encoder.self": (2, 2)},
    corpora=(),
    checkpoints=(test_following.point(1, 0.2), test_following.point(2, 0.9)),
    sentences=("One finding.", "Another finding."),
    warnings=("9 examples are few",),
)


def _parts() -> Iterator[Block]:
    yield from coreference_section([test_probing.coreference(test_probing.chosen(0.7, 0.6, 0.74))])
    yield from densities_section(gate_rows(test_gate_densities.POINT, test_gate_densities.VALUES))


DOCUMENTS: dict[str, Callable[[], Document]] = {
    "clark2019": lambda: clark2019_document(PROBED, RELATIONS),
    "coenen2019": lambda: coenen2019_document(PROBED),
    "hewitt2019": lambda: hewitt2019_document(PROBED),
    "kobayashi2020": lambda: kobayashi2020_document(
        ContributionTable(test_kobayashi2020.RECORD, CONTRIBUTED)
    ),
    "kovaleva2019": lambda: kovaleva2019_document(TunedMaps(test_kovaleva2019.RECORD, TUNED)),
    "li2021": lambda: li2021_document(MEASURED, True),
    "michel2019": lambda: michel2019_document(ABLATED, ABLATED),
    "michel2019 pruning": lambda: pruning_document(MEASURED, True, speed(), "score"),
    "table 2": lambda: table2_document(MEASURED, True, FinetuneConfig()),
    "evolution": lambda: voita2019evolution_document(test_voita2019evolution.evolution()),
    "followed": lambda: followed_document(Followed(FOLLOWED, ())),
    "parts": lambda: Document("Parts", tuple(_parts())),
}


@pytest.mark.once
@pytest.mark.parametrize("name", DOCUMENTS)
def test_all_renderings_say_the_same(name: str) -> None:
    _check(DOCUMENTS[name]())


@pytest.mark.slow
def test_those_of_an_analysis_do_too(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, Wish(layers=3, heads=4, importance=True)))
    _check(voita2019_document(run, {"nsubj": {-1: 3, -4: 1}}))


def _check(document: Document) -> None:
    kinds = {type(each) for each in document.blocks}
    assert {Table, Text} <= kinds, "something is said"
    page = re.sub(r"<svg.*?</svg>", "", document_page(document), flags=re.S)
    assert_all_say(document, page)
    for words in words_of(document, 10**6):
        assert "**" not in words and "`" not in words, "no markup in what blocks say"
