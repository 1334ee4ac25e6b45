"""Paths that files name stay inside their folder, and writing follows no link."""

import os
from pathlib import Path

import pytest

from headcount.core import (
    InputError,
    check_is_folder,
    check_no_links,
    check_not_read,
    inside,
    write_text,
)


@pytest.mark.parametrize(
    "name",
    ["../secret", "a/../../secret", "/etc/hostname", "C:\\x", "a\\..\\..\\x", "a\0b", "away"],
)
def test_a_path_that_leaves_the_folder(tmp_path: Path, name: str):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").touch()
    (folder / "away").symlink_to("../secret")
    with pytest.raises(InputError, match="Expected (paths|files) inside"):
        inside(folder, name)


def test_links_inside_the_folder_and_to_blobs_are_fine(tmp_path: Path):
    snapshot, blobs = (
        tmp_path / "models--a" / "snapshots" / "1f2e",
        tmp_path / "models--a" / "blobs",
    )
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "77").touch()
    (snapshot / "config.json").symlink_to("../../blobs/77")
    (snapshot / "twin.json").symlink_to("config.json")
    assert inside(snapshot, "config.json").exists() and inside(snapshot, "twin.json").exists()
    assert inside(snapshot, "sub/none.json") == snapshot / "sub" / "none.json"


def test_a_link_in_a_circle(tmp_path: Path):
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(InputError, match="is a link that leads in a circle"):
        inside(tmp_path, "round")
    with pytest.raises(InputError, match="is a link that leads nowhere"):
        check_is_folder(tmp_path / "round")


def test_results_are_not_written_through_links(tmp_path: Path):
    out, victim = tmp_path / "out", tmp_path / "victim"
    (out / "state").mkdir(parents=True)
    victim.mkdir()
    check_is_folder(out)
    (out / "state" / "far").symlink_to(victim)
    with pytest.raises(InputError, match=r"Expected no links .*state/far is one, to .*victim"):
        check_no_links(out)
    (tmp_path / "named").symlink_to(victim)
    check_is_folder(tmp_path / "named")  # the user named it


def test_a_file_replaces_a_link(tmp_path: Path):
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "run.json").symlink_to(tmp_path / "victim")
    write_text(tmp_path / "run.json", "ours")
    assert (tmp_path / "victim").read_text() == "mine"


def test_what_is_read_is_not_replaced(tmp_path: Path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "train.tsv").touch()
    with pytest.raises(InputError, match=r"This run reads .*train.tsv, but would replace all of"):
        check_not_read(tmp_path / "out", [tmp_path / "out" / ".." / "out" / "train.tsv"])
    os.symlink(tmp_path / "out" / "train.tsv", tmp_path / "link")
    with pytest.raises(InputError, match="would replace"):
        check_not_read(tmp_path / "out", [tmp_path / "link"])
