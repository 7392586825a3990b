"""Properties of windows: every target has exactly one, with known rows on both sides."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nrtsi.schedule.windows import windows
from tests.strategies import seeds


def some_rows(seed):
    rng = np.random.default_rng(seed)
    start = np.concatenate([[0], np.cumsum(rng.integers(1, 60, rng.integers(1, 5)))])
    kind = rng.choice(3, size=start[-1], p=rng.dirichlet([1, 1, 1]))
    kind[rng.integers(start[-1])] = 1
    targets = np.flatnonzero(kind == 1)
    return np.flatnonzero(kind == 0), targets, rng.integers(0, 3, targets.size), start


def unpadded(parts, cells=2**12):
    for padded in parts.batches(cells, np.square):
        for i in range(padded.known.shape[0]):
            known = padded.known[i][padded.known_valid[i]]
            yield known, padded.target[i][padded.target_valid[i]]


@given(seeds, st.sampled_from([2, 4, 7, 8, 16, 2048]))
def test_every_target_is_in_exactly_one_window(seed, size):
    sources, targets, level, start = some_rows(seed)
    owned = [
        row for _, own in unpadded(windows(sources, targets, level, start, size)) for row in own
    ]
    assert sorted(owned) == targets.tolist()


@given(seeds, st.sampled_from([4, 8, 16, 2048]))
def test_targets_of_different_levels_share_no_window(seed, size):
    sources, targets, level, start = some_rows(seed)
    parts = windows(sources, targets, level, start, size)
    of = dict(zip(targets.tolist(), level.tolist(), strict=True))
    for padded in parts.batches(2**12, np.square):
        for own, valid, here in zip(padded.target, padded.target_valid, padded.level, strict=True):
            assert {of[row] for row in own[valid]} == {here}


@given(seeds, st.sampled_from([4, 8, 16, 2048]))
def test_a_window_stays_inside_its_series_and_its_size(seed, size):
    sources, targets, level, start = some_rows(seed)
    for known, own in unpadded(windows(sources, targets, level, start, size)):
        series = np.searchsorted(start, np.concatenate([known, own]), side="right")
        assert np.unique(series).size == 1
        there = sources[(sources >= start[series[0] - 1]) & (sources < start[series[0]])]
        assert known.size == (min(there.size, size))
        assert np.isin(known, there).all()
        assert own.size <= size


@given(seeds, st.sampled_from([4, 8, 16]))
def test_a_target_has_a_quarter_of_a_window_on_each_side_if_available(seed, size):
    sources, targets, level, start = some_rows(seed)
    for known, own in unpadded(windows(sources, targets, level, start, size)):
        low = start[np.searchsorted(start, own[0], side="right") - 1]
        high = start[np.searchsorted(start, own[0], side="right")]
        there = sources[(sources >= low) & (sources < high)]
        for target in own:
            for side in (np.less, np.greater):
                available = int(side(there, target).sum())
                assert side(known, target).sum() >= min(available, size // 4)


@given(seeds, st.integers(1, 5000))
def test_a_batch_is_bounded_and_batches_keep_the_windows(seed, cells):
    parts = windows(*some_rows(seed), 8)
    for padded in parts.batches(cells, np.square):
        count, known = padded.known.shape
        assert count == 1 or count * (known + padded.target.shape[1]) ** 2 <= cells

    def as_set(cells):
        return {(tuple(known), tuple(own)) for known, own in unpadded(parts, cells)}

    assert as_set(cells) == as_set(10**9)
