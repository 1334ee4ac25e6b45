"""One head per group is spared as long as the budget allows, and no longer."""

from itertools import permutations
from pathlib import Path

import pytest

from headcount.clusters import ClusterOptions, cluster
from headcount.core import Head, InputError
from headcount.corpora import Corpus
from headcount.models import Loaded, load
from headcount.pruning import BY_SCORE, check_groups, method, spare_groups
from headcount.pruning.methods.one_per_group import OnePerGroup, spared_last
from tests import saved
from tests.commanding import SAMPLE
from tests.pruning.context import context

HEADS = [Head("decoder.self", 0, index) for index in range(5)]
GROUPS = [["dec.0.0", "dec.0.1"], ["dec.0.2"], ["dec.0.3", "dec.0.4"]]


def by_hand(names: list[str], groups: list[list[str]], num_pruned: int) -> set[str]:
    """The pruned heads as a person would find them: the first that may be, one by one."""
    gone: list[str] = []
    while len(gone) < num_pruned:
        left = [name for name in names if name not in gone]
        free = [
            name
            for name in left
            if any(name in group and set(group) & set(left) != {name} for group in groups)
        ]
        gone.append((free or left)[0])
    return set(gone)


@pytest.mark.parametrize("num_pruned", range(6))
def test_the_last_head_of_a_group_waits(num_pruned: int) -> None:
    for order in permutations(HEADS):
        found = spared_last([(head,) for head in order], GROUPS)
        names = list(map(str, order))
        assert {str(head) for (head,) in found[:num_pruned]} == by_hand(names, GROUPS, num_pruned)


def test_units_wait_when_they_hold_the_rest_of_a_group() -> None:
    a, b, c, d, _ = HEADS
    units = [(a, b), (c, d)]
    assert spared_last(units, [["dec.0.0", "dec.0.1"], ["dec.0.2", "dec.0.3"]]) == units
    split = [["dec.0.0", "dec.0.2"], ["dec.0.1", "dec.0.3"]]
    assert spared_last(units, split) == units, "the second has the last of both groups"
    uneven = [["dec.0.0", "dec.0.1"], ["dec.0.2", "dec.0.3", "dec.0.4"]]
    assert spared_last([(a, b), (c, d), (HEADS[4],)], uneven) == [(c, d), (a, b), (HEADS[4],)]


@pytest.mark.slow
def test_a_budget_keeps_every_group() -> None:
    given = context("similarity-bert")
    names = list(map(str, given.loaded.heads))
    groups = [names[:3], [names[3]], names[4:]]
    plain = method("gradient")
    spared = spare_groups(plain, groups)
    assert isinstance(spared, OnePerGroup)
    order = BY_SCORE["gradient"]().order(given)
    for keep in range(1, len(names)):
        kept = set(map(str, spared.choose(given, keep).plan.kept_heads(given.loaded.heads)))
        assert kept == set(names) - by_hand(list(map(str, order)), groups, len(names) - keep)
        if keep >= len(groups):
            assert all(kept & set(group) for group in groups)
    assert spared.choose(given, 3).scores == plain.choose(given, 3).scores


@pytest.mark.slow
def test_groups_of_other_weights_are_refused(tmp_path: Path) -> None:
    """They have the same heads, but other maps."""
    loaded = load(saved.bert(tmp_path / "bert"))
    found = cluster(loaded, Corpus(SAMPLE, limit=5), ClusterOptions(permutations=9))
    found.write(tmp_path / "clusters")
    check_groups(tmp_path / "clusters", loaded)
    next(loaded.model.parameters()).data += 0.5
    with pytest.raises(InputError, match="got those of bert, another model or other weights"):
        check_groups(tmp_path / "clusters", load(saved_again(loaded, tmp_path / "trained")))


def saved_again(loaded: Loaded, folder: Path) -> Path:
    """The folder of a model whose weights were changed."""
    assert loaded.tokenizer is not None
    loaded.model.save_pretrained(folder)
    loaded.tokenizer.save_pretrained(folder)
    return folder


def test_groups_of_one_head_each_change_nothing() -> None:
    units = [(head,) for head in HEADS]
    assert spared_last(units, [[str(head)] for head in HEADS]) == units


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [("l0", {}, "ranks heads"), ("fisher", {"step": 0.5}, "Expected step=1")],
)
def test_methods_that_can_not_spare(name: str, options: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        spare_groups(method(name, **options), GROUPS)
