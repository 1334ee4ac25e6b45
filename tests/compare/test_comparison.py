"""Two runs side by side: counts, changes and correlations by hand."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from headcount.compare import compare, comparison_document, write_comparison
from headcount.compare.document import side_by_side
from headcount.compare.page import compare_view, render_comparison
from headcount.core import InputError
from headcount.results import MODEL, READING, Analysis, Signature, read_run
from headcount.results.sealing import record_sha256
from tests.commanding import headcount
from tests.pages.changed import changed
from tests.pages.pruned_folder import write_curve_beside
from tests.pages.run_folder import Wish, write_run

pytestmark = pytest.mark.usefixtures("one_format")


def told(one: Analysis, other: Analysis, names: tuple[str, str]) -> str:
    """The document as Markdown."""
    return comparison_document(one, other, compare(one, other), names).markdown()


@pytest.fixture
def run(tmp_path: Path) -> Analysis:
    return read_run(write_run(tmp_path, Wish(layers=5, heads=4, importance=True)))


def with_first_head(run: Analysis, **other: object) -> Analysis:
    first = replace(run.rows[0], **other)  # type: ignore[arg-type]
    return changed(run, rows=(first, *run.rows[1:]))


def test_a_run_agrees_with_itself(run: Analysis) -> None:
    found = compare(run, run)
    assert found.changes == ()
    assert found.same_roles == sum(bool(row.roles) for row in run.rows)
    assert found.by_head["confidence"].rho == pytest.approx(1)
    assert found.by_layer["entropy"].rho == pytest.approx(1)
    have, names = f"{found.same_roles} of {found.same_roles} heads with a role have", ("a", "b")
    assert f"{have} the same roles in both." in told(run, run, names)
    assert not run.rows[0].roles
    other = with_first_head(run, roles=next(row.roles for row in run.rows if row.roles))
    have = f"{found.same_roles} of {found.same_roles + 1} heads with a role have"
    assert have in told(run, other, names)


def test_without_a_role_there_is_nothing_to_count(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, Wish(layers=2, heads=2, roles=False)))
    assert "No head has a role in either run." in told(run, run, ("a", "b"))


def reading(run: Analysis, treebank: str, corpora: tuple[str, ...] = ("a.txt",)) -> Analysis:
    record = replace(run.record, corpora=corpora, signature=f"{run.record.signature}{treebank}")
    return replace(run, record=record)


def signed(run: Analysis, signature: str) -> Analysis:
    return replace(run, record=replace(run.record, signature=signature))


@pytest.mark.parametrize("name", list(MODEL | READING))
def test_every_part_that_numbers_depend_on_is_the_same(run: Analysis, name: str) -> None:
    """Another value is refused by its part's name, also between runs over different heads."""
    signature = Signature.parse(run.record.signature)
    values = ("5.22.1", "6.22.1") if (MODEL | READING)[name].is_version else ("one", "two")
    one, other = (signed(run, str(Signature({**signature.parts, name: value}))) for value in values)
    said = rf"the same .* \({name}\) in both, got {values[0]} in the first and {values[1]} in the"
    with pytest.raises(InputError, match=said):
        compare(one, other)
    with pytest.raises(InputError, match=rf"\({name}\)"):
        compare(one, changed(other, rows=other.rows[1:]))
    assert not compare(one, one).warnings


@pytest.mark.parametrize("name", ["kernel", "dtype", "torch"])
def test_parts_that_older_runs_do_not_state_are_warned_of(run: Analysis, name: str) -> None:
    parts = {**Signature.parse(run.record.signature).parts}
    del parts[name]
    older = signed(run, str(Signature(parts)))
    (warning,) = compare(run, older).warnings
    assert f"({name}, {Signature.parse(run.record.signature).get(name)} in the first)" in warning
    assert compare(older, older).warnings == (
        warning.partition(",")[0] + ") is not stated by results of earlier versions",
    )


def test_other_minor_versions_are_warned_of(run: Analysis) -> None:
    other = signed(run, run.record.signature.replace("torch:2.13", "torch:2.14.1+cpu"))
    found = compare(run, other)
    assert found.warnings == (
        "the version of torch is 2.13 in the first and 2.14.1+cpu in the second, so numbers can "
        "differ slightly",
    )
    assert "Warning: the version of torch" in told(run, other, ("a", "b"))
    assert "the version of torch is" in render_comparison(
        compare_view(run, other, found, ("a", "b"))
    )


@pytest.mark.slow
def test_treebanks_that_were_read_in_two_ways_are_refused(run: Analysis) -> None:
    written, words = (reading(run, f"|treebank:as-{each}") for each in ("written", "words"))
    old, plain = reading(run, "", ("a.conllu",)), reading(run, "")
    for one, other in ((written, words), (old, written)):
        with pytest.raises(
            InputError, match=r"same reading of treebanks \(treebank\) in both, got"
        ):
            compare(one, other)
    for one, other in ((written, written), (old, words), (plain, written), (plain, plain)):
        assert not compare(one, other).warnings


def test_a_folder_of_another_command_is_named(run: Analysis, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "evaluation.json").write_text("{}")
    places = (tmp_path / "other", tmp_path / "other", "--out", tmp_path / "out")
    status, _, errors = headcount("compare", *places)
    assert status == 2 and "another command wrote evaluation.json. Name the folder of" in errors


def test_changes_of_roles_are_listed_and_counted(run: Analysis) -> None:
    one = with_first_head(run, roles=("positional", "sink"))
    other = with_first_head(run, roles=())
    found = compare(one, other)
    assert [(each.head, each.before, each.after) for each in found.changes] == [
        (run.rows[0].head, ("positional", "sink"), ())
    ]
    counts = found.counts[run.rows[0].site]
    assert counts["positional"][0] - counts["positional"][1] == 1
    assert counts["none"][1] - counts["none"][0] == 1
    text = told(one, other, ("news", "captions"))
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["head", "news", "captions"] in lines
    assert [run.rows[0].head, "positional, sink", "none"] in lines
    reordered = with_first_head(run, roles=("sink", "positional"))
    assert compare(one, reordered).changes == ()


def test_correlations_over_heads_and_over_layers(run: Analysis) -> None:
    values = {
        row.head: dict(row.values) | {"confidence": float((3 * place) % 11), "entropy": 1.0}
        for place, row in enumerate(run.rows)
    }
    other = changed(run, rows=tuple(replace(row, values=values[row.head]) for row in run.rows))
    found = compare(run, other)
    columns = [np.array([row.values["confidence"] for row in each.rows]) for each in (run, other)]
    assert found.by_head["confidence"].rho == pytest.approx(spearmanr(columns[0], columns[1])[0])
    places = [row.layer_id for row in run.rows]
    means = [
        [
            np.mean([x for x, at in zip(column, places, strict=True) if at == place])
            for place in dict.fromkeys(places)
        ]
        for column in columns
    ]
    assert found.by_layer["confidence"].rho == pytest.approx(spearmanr(means[0], means[1])[0])
    assert found.by_layer["confidence"].num_heads == len(means[0]) == 5
    lines = [line.strip("| ").split(" | ") for line in told(run, other, ("a", "b")).splitlines()]
    shown = {line[0].strip(): line[1].strip() for line in lines if len(line) == 3}
    assert shown["confidence"] == str(found.by_head["confidence"])
    assert "entropy (nats)" not in shown, "one value of all heads has no order"


def test_other_heads_are_compared_by_what_they_do_only(run: Analysis, tmp_path: Path) -> None:
    other = read_run(write_run(tmp_path / "b", Wish(layers=2, heads=4)))
    found = compare(run, other)
    assert not found.is_paired and (found.changes, found.by_head) == ((), {})
    counts = found.counts["encoder.self"]
    assert counts["none"] == tuple(sum(not row.roles for row in each.rows) for each in (run, other))
    assert "nothing is compared head by head" in told(run, other, ("a", "b"))


def test_each_map_has_the_name_of_its_run(run: Analysis) -> None:
    """The second run has no roles: its map has empty cells alone."""
    none = changed(run, rows=tuple(replace(row, roles=()) for row in run.rows))
    none = changed(none, roles={row.head: () for row in run.rows})
    figure = side_by_side(run, none, ("news", "captions"))
    letters = {axes.get_title().partition(":")[0]: len(axes.texts) for axes in figure.axes}
    assert letters == {"news": sum(bool(row.roles) for row in run.rows), "captions": 0}


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", Wish(layers=2, heads=3, importance=True))
    other = write_run(tmp_path / "other", Wish(layers=2, heads=3, null=True))
    status, output, errors = headcount("compare", one, other, "--out", tmp_path / "out")
    assert status == 0, errors
    counted = compare(read_run(one), read_run(other)).headline
    assert " of 6 heads do the same in both (" in counted and counted in output
    for name in ("comparison.html", "comparison.md"):
        text = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert counted.replace("\u202f", " ") in text.replace("\u202f", " ")
    written = {path.name for path in (tmp_path / "out").iterdir()}
    pages, kinds = {"comparison.html", "comparison.md"}, ("svg", "png", "pdf")
    drawn = {f"{name}.{kind}" for name in ("comparison", "scatters") for kind in kinds}
    assert written == pages | drawn
    larger = write_run(tmp_path / "larger", Wish(layers=3, heads=3))
    status, output, errors = headcount("compare", one, larger, "--out", tmp_path / "out")
    assert status == 0 and "nothing is compared head by head" in output, errors
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == pages, "figures of the earlier comparison are gone"
    status, _, errors = headcount("compare", one, tmp_path, "--out", tmp_path / "out")
    assert status == 2 and "run.json" in errors
    assert write_comparison(one, one, tmp_path / "out").changes == ()
    with pytest.raises(InputError, match="which holds a run. Name another folder"):
        write_comparison(one, one, one)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["importance.json", "curve/curve.json"])
def test_losses_of_texts_that_were_cut_in_other_ways_are_refused(tmp_path: Path, name: str) -> None:
    """Perplexities from before every piece began with the tokenizer's first token, and today's."""
    one, other = (
        write_run(tmp_path / each, Wish(layers=2, heads=3, importance=True))
        for each in ("one", "other")
    )
    for run in (one, other):
        write_curve_beside(run)
    file = other / name
    text = file.read_text()
    signed = json.loads(text)["signature"]
    values = json.loads(text) | {"signature": f"{signed}|start:pieces"}
    file.write_text(json.dumps(values | {"sha256": record_sha256(values)}))
    status, _, errors = headcount("compare", one, other, "--out", tmp_path / "out")
    assert status == 2 and "Expected the same first token of pieces (start) in both" in errors
    assert "--no-start" in errors and not (tmp_path / "out").exists()
    (one / name).write_text(file.read_text())
    status, _, errors = headcount("compare", one, other, "--out", tmp_path / "out")
    assert status == 0, errors


@pytest.mark.slow
def test_runs_of_one_name_are_named_by_the_folders_above(tmp_path: Path) -> None:
    """A page names folders, but never the path of a machine."""
    runs = [write_run(tmp_path / each / "out", Wish(layers=1, heads=2)) for each in "ab"]
    write_comparison(runs[0], runs[1], tmp_path / "both")
    text = (tmp_path / "both" / "comparison.md").read_text()
    assert text.startswith("# a/out and b/out\n") and str(tmp_path) not in text
