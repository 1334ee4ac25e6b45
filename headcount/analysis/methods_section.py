"""How a run was measured: the definition and source of every number, and what set the run up."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from headcount import numbers
from headcount.core import Code, Document, Heading, Table, Text
from headcount.corpora import LEAST_UNITS, SEGMENT
from headcount.pages import Note, page_parts
from headcount.results import Analysis, ImportanceRecord
from headcount.vocabulary import CLARK, IMAGES, KOVALEVA, SOUND, TEXTS, VOITA

NOTES = (
    Note(
        "Confidence",
        "Mean over queries of the largest weight. Padding is excluded on both "
        "sides, and so are special tokens unless the signature includes them (special:keys, "
        "queries). Weights are not renormalised.",
        f"{VOITA}, section 4",
        (TEXTS, IMAGES, SOUND),
    ),
    Note(
        "Positional",
        "Share of queries whose largest weight lies at the head's most frequent "
        "offset, key minus query, in tokens.",
        f"{VOITA}, section 5",
    ),
    Note(
        "Syntactic",
        "Weights of a word's pieces are summed over keys and averaged over "
        "queries; the word itself and special tokens are removed. Accuracy is the share of arcs "
        "whose other word gets the largest weight. The baseline is the relation's best fixed "
        "offset. Root arcs are excluded, except that they count as missed among all words.",
        f"{VOITA}, section 5; {CLARK}, section 4",
    ),
    Note(
        "Roles and tendencies",
        "A hash of each text puts it in one of two halves. With fewer than "
        f"{LEAST_UNITS} texts in a half, the earlier part of every text is the first half and the "
        f"later part the second, each cut into {LEAST_UNITS} segments of {SEGMENT} tokens or more; "
        "findings hold for these texts only. Offsets, relations and the cells to test are chosen "
        "on the first half; shares, thresholds and tests are those of the second. The test is a "
        "one-sided t-test clustered by text or segment, with at "
        "least 100 cases in 10 of them, corrected by Holm's method for all chosen cells. A role "
        "passes the paper's threshold and the test, a tendency the test alone.",
        "headcount",
    ),
    Note(
        "Strength",
        "(share − null) / (attainable − null). The null is the larger of chance (a head that "
        "looks at no key in particular; the relation's best fixed offset) and position (a head "
        "that looks at each offset as often as this one does).",
        "headcount",
    ),
    Note(
        "Rare words",
        "Share of queries whose largest weight is on the sentence's rarest token, "
        "over sentences whose rarest token is outside the 500 most frequent. Ties go to the "
        "earlier token.",
        f"{VOITA}, section 5",
    ),
    Note(
        "Weight on a token",
        "Mean weight over all queries except padding; 0 if the token is missing.",
        f"{CLARK}, section 3",
    ),
    Note(
        "Entropy",
        "Natural logarithm, over all queries and keys except padding, unsmoothed.",
        f"{CLARK}, section 3",
        (TEXTS, IMAGES, SOUND),
    ),
    Note(
        "Norm share",
        "Share of the sum of ‖A f(x)‖, where f(x) is the value after the head's "
        "part of the output projection: a large weight on a small vector counts little.",
        "Kobayashi et al., EMNLP 2020, arXiv:2004.10102",
        (TEXTS, IMAGES, SOUND),
    ),
    Note(
        "Roles and tendencies",
        "A hash of each image puts it in one of two halves. Places and the cells to test are "
        "chosen on the first; shares, thresholds and tests are those of the second. The test is a "
        "one-sided t-test clustered by image, with at least 100 cases in 10 images, corrected by "
        "Holm's method for all chosen cells. A role passes the threshold and the test, a tendency "
        "the test alone. Strength is (share − null) / (attainable − null).",
        "headcount",
        (IMAGES,),
    ),
    Note(
        "Positional",
        "Share of patches whose largest weight lies on the patch at one place relative to them, "
        "among patches that have a patch there; special tokens are left out. The null is the "
        "larger of chance and of the mean share at the four places beside it.",
        f"After {VOITA}, section 5.1",
        (IMAGES,),
    ),
    Note(
        "Row and column",
        "Mean weight on the patch's own row or column, itself included. The null is the larger of "
        "chance and of what the head's weights on the eight neighbours and its mean weight "
        "elsewhere give it.",
        "No paper defines it",
        (IMAGES,),
    ),
    Note(
        "One place",
        "Mean weight on one patch of every image, whatever is in it; one half of the images "
        "chooses the patch. The null is the larger of chance and of the mean weight on the patches "
        "beside it.",
        "No paper defines it",
        (IMAGES,),
    ),
    Note(
        "Attention distance",
        "Euclidean distance in patches between a patch and what it attends to, weighted by the "
        "attention on patches; class and other special tokens are left out. Nearby: by what share "
        "that distance is shorter than with even attention.",
        "Dosovitskiy et al., ICLR 2021, arXiv:2010.11929, figure 7",
        (IMAGES,),
    ),
    Note(
        "Roles and tendencies",
        "A hash of each recording puts it in one of two halves. Offsets, moments and the cells to "
        "test are chosen on the first; shares, thresholds and tests are those of the second. The "
        "test is a one-sided t-test clustered by recording, with at least 100 cases in 10 of them, "
        "corrected by Holm's method for all chosen cells. A role passes the threshold and the "
        "test, a tendency the test alone. Strength is (share − null) / (attainable − null).",
        "headcount",
        (SOUND,),
    ),
    Note(
        "Frames of sound",
        "The encoder's frames up to the end of a recording are its queries and keys, and its "
        "offsets are in ms. Frames behind the end are the silence, at which heads can look. Nearby "
        "is the weight on the sound at most 0.2 s away, and one moment that on one frame of every "
        "recording, whatever is in it. The null is the larger of chance and of what the head gives "
        "to the offsets or the frames beside.",
        f"After {VOITA}, section 5.1; for nearby and moments no paper",
        (SOUND,),
    ),
    Note(
        "Patterns",
        "Vertical, diagonal, both, block or heterogeneous, by a documented rule for "
        "each map; the paper's own classifier was never released.",
        KOVALEVA,
    ),
    Note(
        "Averages",
        "Every number is a sum over the corpus, divided once at the end, never a mean of means.",
        "headcount",
        (TEXTS, IMAGES, SOUND),
    ),
)
"""Definitions and references for everything in the report."""

LINKING = Note(
    "Linking",
    "Links of your own are measured as dependency arcs are, from a query to its keys. A head finds "
    "a link if the largest weight is on any of the keys, and a fixed offset if any key is there. "
    "Links are not among all relations together.",
    "headcount",
)
"""Said of runs that have links."""

NO_TREES = (
    "The corpus has no trees, so syntax was not measured. Pass a treebank (.conllu) to measure how "
    "well heads find dependency relations."
)
NO_NULL = "Run with --null to see how many heads would get a role with random weights."


def analysis_notes(run: Analysis) -> list[Note]:
    """How the numbers of an analysis are measured, those of plug-ins' measures last."""
    notes = [note for note in NOTES if run.record.inputs in note.inputs]
    notes += (LINKING,) if run.record.links else ()
    return [*notes, *(Note(each.label, each.about, each.source) for each in run.stored_columns)]


def cited_notes(run: Analysis) -> list[Note]:
    """The same without syntax that was not measured, and what a role must reach."""
    notes = [each for each in analysis_notes(run) if each.what != "Syntactic" or run.relation_rows]
    record = run.record
    least = [
        f"{each} {numbers.percent(record.thresholds.least(each))}" for each in record.possible_roles
    ]
    return [*notes, Note("Thresholds of roles", f"{numbers.listed(least)}.", "headcount")]


def methods_document(run: Analysis) -> Document:
    """What was not measured, definitions, the signature, and what set the run up."""
    record = run.record
    notes = [*analysis_notes(run), *(note for part in page_parts() for note in part.notes(run))]
    unmeasured = (
        NO_TREES if record.inputs.is_text and not run.relation_rows else "",
        "" if run.null_rows else NO_NULL,
    )
    return Document(
        "How it was measured",
        (
            *(Text(each, "lede") for each in unmeasured if each),
            Table.of(
                ("number", "how it is measured", "source"),
                ((note.what, note.how, note.source) for note in notes),
                f"How each number is measured ({len(notes)})",
                is_detail=True,
            ),
            Heading("Signature"),
            Code(record.signature, is_signature=True),
            Text(
                "Two results can be compared when their signatures differ only in what you meant "
                "to change."
            ),
            *(
                Table.of(("fact", "value"), rows, title, is_detail=True)
                for title, rows in _facts(run)
            ),
        ),
    )


Facts = list[tuple[str, str]]
"""Names and values."""


def _facts(run: Analysis) -> Iterator[tuple[str, Facts]]:
    """Counts, thresholds, arguments, timings, versions, and the same of an assessment."""
    record = run.record
    corpora = [("corpus", corpus) for corpus in record.corpora]
    yield "Model and corpus", [("model", record.model), ("type", record.model_type), *corpora]
    sections: dict[str, Mapping[str, Any]] = {
        "Counts": asdict(record.counts),
        "Thresholds": asdict(record.thresholds),
        "Arguments": record.arguments,
        "Timings": record.timings,
        "Versions": record.versions,
        "Importance": _task_facts(run.importance) if run.importance else {},
    }
    for title, values in sections.items():
        if values:
            yield title, [(_readable(name), _fact(value)) for name, value in values.items()]


def _task_facts(importance: ImportanceRecord) -> dict[str, Any]:
    return {
        "task": importance.task,
        "metric": importance.metric,
        "examples": importance.num_examples,
        "methods": list(importance.methods),
        "seconds": dict(importance.seconds),
        "signature": importance.signature,
    }


def _readable(key: str) -> str:
    """The name of a number in words, with its unit.

    >>> _readable("measure_all_s"), _readable("sentences_per_s")
    ('measure all (s)', 'sentences per s')
    """
    if key.endswith("_s") and not key.endswith("per_s"):
        key = f"{key[:-2]} (s)"
    return key.replace("_", " ")


def _fact(value: Any) -> str:
    """A value of run.json as text: integers with separators, lists with commas."""
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return numbers.count(value) if abs(value) >= 10_000 else str(value)
        case float():
            return f"{value:.4g}"
        case list():
            return ", ".join(_fact(item) for item in value) or "none"
        case dict():
            return ", ".join(f"{key} {_fact(item)}" for key, item in value.items()) or "none"
        case None:
            return "not given"
        case _:
            return str(value)
