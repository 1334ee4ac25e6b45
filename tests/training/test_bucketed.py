"""Batches: every example once per epoch, within the budget, the same if started in the middle."""

import numpy as np
import pytest

from headcount.core import InputError
from headcount.training.batches_trainer import NO_PART, Batches, Pairing, cuts

LENGTHS = np.random.default_rng(3).integers(1, 40, (523, 2))


def test_every_example_once_an_epoch() -> None:
    batches = Batches(LENGTHS, 200, 3, seed=5)
    assert len(batches) == 3 * batches.per_epoch
    for epoch in range(3):
        first = epoch * batches.per_epoch
        drawn = [batches[first + place][1][:, 0] for place in range(batches.per_epoch)]
        assert sorted(np.concatenate(drawn).tolist()) == list(range(523))
        for index_E in drawn:
            assert len(index_E) * LENGTHS[index_E].max() <= 200


def test_of_many_examples_batches_are_drawn_in_pools() -> None:
    """Only the longer side is alike, any two examples can meet, and few are lost or repeated."""
    lengths = np.random.default_rng(3).integers(5, 25, (6000, 2))
    batches = Batches(lengths, 120, 3, seed=5)
    ends: list[int] = []
    for epoch in range(3):
        first = epoch * batches.per_epoch
        drawn = [batches[first + place][1][:, 0] for place in range(batches.per_epoch)]
        seen, times = np.unique(np.concatenate(drawn), return_counts=True)
        assert len(seen) > 0.98 * 6000 and (times > 1).sum() < 0.02 * 6000
        assert epoch or (len(seen) == 6000 and times.max() == 1)
        longer = [lengths[index_E].max(1) for index_E in drawn]
        assert np.mean([length_E.max() - length_E.min() for length_E in longer]) < 1
        assert np.mean([np.ptp(lengths[index_E, 0]) for index_E in drawn]) > 5
        ends.append(len(drawn))
    assert len(set(ends)) == 1


def test_all_epochs_have_as_many_batches() -> None:
    """An epoch with fewer batches than the first repeats some, one with more loses some."""
    lengths = np.random.default_rng(3).integers(1, 40, (3000, 1))
    losing = doubling = 0
    for seed in range(8):
        batches = Batches(lengths, 60, 2, seed=seed)
        second = range(batches.per_epoch, 2 * batches.per_epoch)
        times = np.bincount(np.concatenate([batches[i][1][:, 0] for i in second]), minlength=3000)
        assert (times != 1).sum() < 0.02 * 3000
        losing += times.min() == 0
        doubling += times.max() == 2
    assert losing and doubling


def test_order_is_new_and_batches_are_numbered() -> None:
    batches = Batches(LENGTHS, 200, 3, seed=5)
    number, first = batches[0]
    assert number == 0 and batches[7][0] == 7
    lengths = [LENGTHS[batches[i][1]].max() for i in range(batches.per_epoch)]
    assert lengths != sorted(lengths), "and not in the order of their lengths"


def test_batches_differ_between_epochs() -> None:
    """With repeated lengths, as in real text, hardly any batch occurs twice."""
    lengths = np.random.default_rng(3).integers(5, 15, (5000, 2))
    batches = Batches(lengths, 300, 2, seed=5)
    first, second = (
        {
            tuple(sorted(batches[e * batches.per_epoch + i][1][:, 0]))
            for i in range(batches.per_epoch)
        }
        for e in range(2)
    )
    assert len(first & second) < len(first) / 20


def test_begun_in_the_middle() -> None:
    whole, part = Batches(LENGTHS, 200, 3, seed=5), Batches(LENGTHS, 200, 3, seed=5)
    walked = [whole[index][1].tolist() for index in range(len(whole))]
    assert [part[index][1].tolist() for index in (len(whole) - 1, 4)] == [walked[-1], walked[4]]


def test_little_padding() -> None:
    """Sorted rows waste under a tenth of the longer side's positions; random rows about half."""
    lengths = np.random.default_rng(1).integers(3, 40, (5000, 1)).repeat(2, 1)
    batches = Batches(lengths, 400, 1, seed=5)
    places = sum(
        len(i) * lengths[i[:, 0]].max() for _, i in (batches[n] for n in range(len(batches)))
    )
    assert lengths[:, 0].sum() / places > 0.9


def test_multiple() -> None:
    whole = Batches(LENGTHS, 200, 1, seed=5)
    even = Batches(LENGTHS, 200, 2, seed=5, multiple=4)
    assert even.per_epoch == whole.per_epoch // 4 * 4
    with pytest.raises(InputError, match="at least 1,000 batches, .*, got .* from the data"):
        Batches(LENGTHS, 200, 1, seed=5, multiple=1000)
    with pytest.raises(
        InputError, match="got 1 from the data. Start fewer processes, or lower accumulate"
    ):
        Batches(LENGTHS[:1], 200, 1, seed=5, multiple=2)


def test_cuts_by_hand() -> None:
    found = [(cut.start, cut.stop) for cut in cuts(np.array([2, 3, 3, 4, 90, 5]), 12)]
    assert found == [(0, 3), (3, 4), (4, 5), (5, 6)]


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_concatenated_pairs(share: float) -> None:
    """No example occurs twice per epoch, the share in pairs is about as given, and pairs change."""
    batches = Batches(LENGTHS, 200, 2, seed=5, pairing=Pairing(share, 70))
    pairs: list[set[tuple[int, ...]]] = []
    for epoch in range(2):
        drawn = [batches[epoch * batches.per_epoch + i][1] for i in range(batches.per_epoch)]
        parts = np.concatenate(drawn)
        found = parts[parts != NO_PART].tolist()
        assert len(found) == len(set(found)) > 0.97 * 523, "a longer epoch is cut"
        pairs.append({tuple(row) for row in parts.tolist() if NO_PART not in row})
        assert 0.8 * share < 2 * len(pairs[-1]) / 523 <= share
        for part_EP in drawn:
            totals = [
                np.sum([LENGTHS[part] for part in row if part != NO_PART], 0) - (NO_PART not in row)
                for row in part_EP.tolist()
            ]
            assert len(part_EP) * np.max(totals) <= 200 and np.max(totals) <= 70
    assert len(pairs[0] & pairs[1]) < len(pairs[0]) / 10
