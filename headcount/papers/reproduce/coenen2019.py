"""Visualizing and Measuring the Geometry of BERT: the attention probe of pairs of words.

Reference: Visualizing and Measuring the Geometry of BERT (Coenen et al., 2019), section 3,
https://arxiv.org/abs/1906.02715
"""

from headcount.core import table
from headcount.papers.document import cell, verdict
from headcount.papers.reproduce.probing import ProbePaper, about, apart
from headcount.results import Probed, select

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


def coenen2019_document(found: Probed) -> str:
    """The document, from the probes of pairs of words."""
    rows = []
    for metric, (title, published) in TITLES.items():
        numbers = [
            cell(found.find(variant=variant, metric=metric, relation="all")) for variant in CONTROLS
        ]
        selectivity = found.find(variant="trained", metric=f"{metric}-selectivity", relation="all")
        rows.append([title, published, *numbers, cell(selectivity)])
    parts = [
        "# Visualizing and Measuring the Geometry of BERT (Coenen et al. 2019)",
        about(found),
        "The paper's model is BERT-base, its data the Penn Treebank with Stanford dependencies: 30 "
        "relations with more than 5,000 examples each. It reports no controls.",
        "## Accuracy of linear classifiers on the attention between two words",
        table(["", "paper", *CONTROLS.values(), "selectivity"], rows),
        "\n".join(_claims(found)),
        "## By relation",
        _relation_table(found),
    ]
    return "\n\n".join(parts) + "\n"


def _claims(found: Probed) -> list[str]:
    claims = {
        "edge-accuracy": "Attention says whether two words are connected",
        "relation-accuracy": "Attention says how two words are connected",
    }
    lines = []
    for metric, claim in claims.items():
        trained, random, labels, most = (
            found.find(variant=variant, metric=metric, relation="all") for variant in CONTROLS
        )
        controls = (random, labels, most)
        lines.append(
            verdict(
                all(apart(trained, control) for control in controls),
                claim,
                f"trained {cell(trained)}, highest control "
                f"{cell(max((c for c in controls if c), key=lambda c: c.value, default=None))}",
            )
        )
    return lines


def _relation_table(found: Probed) -> str:
    trained = select(found.rows, metric="relation-accuracy", variant="trained")
    rows = [
        [row.relation, cell(row), f"{row.cases:,}"]
        for row in sorted(trained, key=lambda row: -row.value)
        if row.relation != "all" and row.cases >= found.record.min_cases
    ]
    return table(["relation", "which relation, accuracy", "cases"], rows)


reproduce_coenen2019 = ProbePaper("coenen2019", ("edges",), coenen2019_document)
"""Trains both classifiers of pairs of words with their controls, and writes the document."""
