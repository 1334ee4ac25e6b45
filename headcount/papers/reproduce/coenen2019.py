"""Visualizing and Measuring the Geometry of BERT: the attention probe of pairs of words.

Reference: Visualizing and Measuring the Geometry of BERT (Coenen et al., 2019), section 3,
https://arxiv.org/abs/1906.02715
"""

from collections.abc import Iterator

from headcount.core import Document, Heading, Table, Text
from headcount.papers.document import about, apart, cell, verdict
from headcount.probing import Probed
from headcount.results import select

TITLES = {
    "edge-accuracy": ("is there an arc", "85.8"),
    "relation-accuracy": ("which relation", "71.9"),
}
"""Section 3: accuracies of BERT-base on the Penn Treebank."""

CONTROLS = {
    "trained": "trained",
    "random-init": "random weights",
    "random-labels": "random labels",
    "majority": "most frequent class",
}


def coenen2019_document(found: Probed) -> Document:
    """The document, from the probes of pairs of words (`edges`)."""
    return Document(
        "Visualizing and Measuring the Geometry of BERT (Coenen et al. 2019)",
        (
            about(found),
            Text(
                "The paper's model is BERT-base, its data the Penn Treebank with Stanford "
                "dependencies: 30 relations with more than 5,000 examples each. It reports no "
                "controls."
            ),
            Heading("Accuracy of linear classifiers on the attention between two words"),
            _accuracies(found),
            *_claims(found),
            Heading("By relation"),
            _relation_table(found),
        ),
    )


def _accuracies(found: Probed) -> Table:
    rows = []
    for metric, (title, published) in TITLES.items():
        numbers = [
            cell(found.find(variant=variant, metric=metric, relation="all")) for variant in CONTROLS
        ]
        selectivity = found.find(variant="trained", metric=f"{metric}-selectivity", relation="all")
        rows.append([title, published, *numbers, cell(selectivity)])
    headers = ["", "paper", *CONTROLS.values(), "selectivity"]
    return Table.of(headers, rows, "Accuracy by question, beside that of controls")


def _claims(found: Probed) -> Iterator[Text]:
    claims = {
        "edge-accuracy": "Attention says whether two words are connected",
        "relation-accuracy": "Attention says how two words are connected",
    }
    for metric, claim in claims.items():
        trained, random, labels, most = (
            found.find(variant=variant, metric=metric, relation="all") for variant in CONTROLS
        )
        controls = (random, labels, most)
        yield verdict(
            all(apart(trained, control) for control in controls),
            claim,
            f"trained {cell(trained)}, highest control "
            f"{cell(max((c for c in controls if c), key=lambda c: c.value, default=None))}",
        )


def _relation_table(found: Probed) -> Table:
    trained = select(found.rows, metric="relation-accuracy", variant="trained")
    rows = [
        [row.relation, cell(row), f"{row.cases:,}"]
        for row in sorted(trained, key=lambda row: -row.value)
        if row.relation != "all" and row.cases >= found.record.min_cases
    ]
    headers = ["relation", "which relation, accuracy", "cases"]
    return Table.of(headers, rows, "Accuracy by relation")
