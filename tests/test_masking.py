"""Masking hides observed cells only, at the requested rate, in the pattern of the data."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nrtsi.core.mask_patterns import GapTemplates
from nrtsi.core.masking import Masking, blocks, empirical, points, rows_fail_together
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.evaluation.holdout import HoldOut
from tests.strategies import seeds

masks = st.sampled_from(["auto", "empirical", "points", "blocks"])


def ragged(seed, missing=0.3, whole_rows=False, series=6, longest=40, dims=3):
    """Series of random lengths, some of them empty, with random gaps."""
    rng = np.random.default_rng(seed)
    length = rng.integers(0, longest, size=series)
    rows = int(length.sum())
    observed = rng.random((rows, 1 if whole_rows else dims)) >= missing
    observed = np.broadcast_to(observed, (rows, dims)).copy()
    value = np.where(observed, rng.normal(size=(rows, dims)), 0.0)
    start = np.concatenate([[0], np.cumsum(length)])
    return SeriesSet(np.arange(rows, dtype=np.float64), value, observed, start)


def complete(series=1, steps=1000, dims=2):
    return SeriesSet.stack(np.zeros((series, steps, dims)))


def per_series(cells, series):
    return [int(cells[a:b].sum()) for a, b in zip(series.start, series.start[1:], strict=False)]


def runs(flags):
    """Lengths of the runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(int), [0]])))
    return edges[1::2] - edges[::2]


@settings(max_examples=50)
@given(
    seed=seeds,
    mask=masks,
    missing=st.sampled_from([0.01, 0.3, 0.9]),
    whole_rows=st.booleans(),
    scoring=st.booleans(),
)
def test_some_observed_cells_of_each_series_stay(seed, mask, missing, whole_rows, scoring):
    series = ragged(seed, missing, whole_rows)
    assume(mask != "empirical" or not series.observed.all())
    masking = Masking.choose(mask, series, whole_rows=whole_rows, scoring=scoring)
    hidden = masking.draw(series, np.random.default_rng(seed))
    assert hidden.shape == series.observed.shape
    assert not (hidden & ~series.observed).any()
    before, after = per_series(series.observed, series), per_series(hidden, series)
    assert all(some == 0 or lost < some for some, lost in zip(before, after, strict=True))


@settings(max_examples=50)
@given(seed=seeds, mask=masks, scoring=st.booleans())
def test_masks_are_reproducible(seed, mask, scoring):
    series = ragged(seed)
    assume(mask != "empirical" or not series.observed.all())
    masking = Masking.choose(mask, series, whole_rows=False, scoring=scoring)
    first = masking.draw(series, np.random.default_rng(seed))
    again = masking.draw(series, np.random.default_rng(seed))
    np.testing.assert_array_equal(first, again)


@settings(max_examples=50)
@given(seed=seeds, mask=masks, scoring=st.booleans())
def test_whole_rows_are_hidden_together(seed, mask, scoring):
    series = ragged(seed, whole_rows=True)
    assume(mask != "empirical" or not series.observed.all())
    masking = Masking.choose(mask, series, whole_rows=True, scoring=scoring)
    hidden = masking.draw(series, np.random.default_rng(seed))
    np.testing.assert_array_equal(hidden.any(axis=1), hidden.all(axis=1))


@settings(max_examples=50)
@given(seed=seeds, rate=st.floats(0, 1))
def test_number_of_hidden_rows_is_exact(seed, rate):
    series = ragged(seed, whole_rows=True)
    hidden = points(series, np.random.default_rng(seed), rate=rate, whole_rows=True)
    rows = np.array(per_series(series.observed[:, :1], series))
    assert per_series(hidden[:, :1], series) == list(np.rint(rate * rows).astype(int))


def test_number_of_hidden_rows_is_exact_in_the_papers_setting():
    series = complete(series=20, steps=100)
    hidden = points(series, np.random.default_rng(0), rate=0.9, whole_rows=True)
    assert per_series(hidden[:, :1], series) == [90] * 20


def test_all_rows_are_equally_likely():
    series = complete(series=4000, steps=10, dims=1)
    hidden = points(series, np.random.default_rng(0), rate=0.3, whole_rows=True)
    often = hidden.reshape(4000, 10).mean(axis=0)
    np.testing.assert_allclose(often, 0.3, atol=0.03)


def test_rate_by_series():
    series = complete(series=3, steps=2000, dims=2)
    rate = np.array([0.0, 0.2, 0.7])
    for whole_rows in (False, True):
        for hidden in (
            points(series, np.random.default_rng(0), rate=rate, whole_rows=whole_rows),
            blocks(
                series,
                np.random.default_rng(0),
                rate=rate,
                length=(2, 20),
                whole_rows=whole_rows,
            ),
        ):
            share = np.array(per_series(hidden, series)) / 4000
            np.testing.assert_allclose(share, rate, atol=0.04)
            assert share[0] == 0


@settings(max_examples=50)
@given(seed=seeds, rate=st.floats(0.02, 0.95), longest=st.integers(1, 60), whole=st.booleans())
def test_blocks_hide_about_the_requested_share(seed, rate, longest, whole):
    series = complete(series=2, steps=1000, dims=3)
    hidden = blocks(
        series, np.random.default_rng(seed), rate=rate, length=(1, longest), whole_rows=whole
    )
    # The last run is used completely or not at all.
    slack = (longest * 3 + 30) / 3000
    share = np.array(per_series(hidden, series)) / 3000
    np.testing.assert_allclose(share, rate, atol=slack)


def test_blocks_have_the_requested_lengths():
    series = complete(series=1, steps=20_000, dims=1)
    hidden = blocks(series, np.random.default_rng(0), rate=0.02, length=(10, 12), whole_rows=True)
    lengths = runs(hidden[:, 0])
    # Few enough that runs rarely touch; one may extend beyond an end.
    assert np.mean((lengths >= 10) & (lengths <= 12)) > 0.8
    assert set(lengths) >= {10, 11, 12}


def test_blocks_cover_one_channel_or_several_or_all():
    series = complete(series=1, steps=20_000, dims=3)
    hidden = blocks(series, np.random.default_rng(0), rate=0.05, length=(5, 5), whole_rows=False)
    together = hidden.sum(axis=1)
    assert {1, 2, 3} <= set(together)


def test_a_block_is_no_longer_than_the_share_of_its_series():
    series = complete(series=300, steps=20, dims=1)
    hidden = blocks(series, np.random.default_rng(0), rate=0.2, length=(2, 500), whole_rows=True)
    assert max(per_series(hidden, series)) <= 6


@settings(max_examples=50)
@given(seed=seeds, missing=st.sampled_from([0.02, 0.3]))
def test_empirical_gaps_are_those_of_a_segment_of_the_data(seed, missing):
    donors = ragged(seed, missing, series=4)
    series = SeriesSet.stack(np.zeros((3, 12, 3)))
    assume(not donors.observed.all())
    hidden = empirical(series, np.random.default_rng(seed), donors).reshape(3, 12, 3)
    segments = set()
    for a, b in zip(donors.start, donors.start[1:], strict=False):
        for begin in range(a, b):
            row = a + (begin - a + np.arange(12)) % (b - a)
            segments.add((~donors.observed[row]).tobytes())
    assert all(piece.tobytes() in segments for piece in hidden)
    assert hidden.any(axis=(1, 2)).all()


def test_rare_gaps_are_imitated():
    value = np.zeros((1, 100_000, 1))
    value[0, 777, 0] = np.nan
    series = complete(series=50, steps=5, dims=1)
    hidden = empirical(series, np.random.default_rng(0), SeriesSet.stack(value))
    assert per_series(hidden, series) == [1] * 50


def test_a_series_can_be_its_own_donor():
    value = np.zeros((1, 500, 2))
    value[0, 100:140] = np.nan
    series = SeriesSet.stack(value)
    hidden = empirical(series, np.random.default_rng(1), series)
    np.testing.assert_array_equal(hidden[:, 0], hidden[:, 1])
    assert 0 < hidden[:, 0].sum() <= 40


def test_gap_templates_hide_the_same_cells_as_their_donors():
    donors, series = ragged(5), complete(series=8, steps=30, dims=3)
    found = empirical(series, np.random.default_rng(2), GapTemplates.of(donors))
    np.testing.assert_array_equal(found, empirical(series, np.random.default_rng(2), donors))


def test_complete_donors_hide_nothing():
    series = complete()
    assert not empirical(series, np.random.default_rng(0), series).any()


def test_all_segments_with_a_gap_are_equally_likely():
    value = np.zeros((1, 2000, 1))
    value[0, 100:300] = np.nan
    value[0, 1000] = np.nan
    donors = SeriesSet.stack(value)
    series = complete(series=4000, steps=20, dims=1)
    hidden = empirical(series, np.random.default_rng(0), donors).reshape(4000, 20)
    # 219 segments of twenty rows contain a part of the long gap, 20 the short one.
    single = np.mean(hidden.sum(axis=1) == 1)
    assert single == pytest.approx((20 + 2) / 239, abs=0.02)


@pytest.mark.parametrize("whole_rows", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.03, 0.2, 0.6])
@pytest.mark.parametrize("shape", [(1, 2000, 3), (100, 30, 3)])
def test_scoring_hides_ten_to_twenty_percent(shape, missing, whole_rows):
    rng = np.random.default_rng(3)
    value = np.zeros(shape)
    lost = rng.random((*shape[:2], 1 if whole_rows else shape[2])) < missing
    value[np.broadcast_to(lost, shape)] = np.nan
    series = SeriesSet.stack(value)
    masking = Masking.choose("auto", series, whole_rows=whole_rows, scoring=True)
    share = masking.draw(series, rng).sum() / series.observed.sum()
    assert 0.1 <= share <= 0.2


@settings(max_examples=50)
@given(seed=seeds, mask=masks, missing=st.sampled_from([0.05, 0.5, 0.9]), whole=st.booleans())
def test_scoring_never_hides_a_whole_channel(seed, mask, missing, whole):
    series = ragged(seed, missing, whole)
    assume(mask != "empirical" or not series.observed.all())
    masking = Masking.choose(mask, series, whole_rows=whole, scoring=True)
    left = series.observed & ~masking.draw(series, np.random.default_rng(seed))
    for a, b in zip(series.start, series.start[1:], strict=False):
        np.testing.assert_array_equal(left[a:b].any(axis=0), series.observed[a:b].any(axis=0))


def test_scoring_keeps_the_lengths_of_gaps():
    value = np.zeros((1, 4000, 2))
    for begin in range(0, 4000, 500):
        value[0, begin + 100 : begin + 130] = np.nan
    series = SeriesSet.stack(value)
    masking = Masking.choose("auto", series, whole_rows=True, scoring=True)
    hidden = masking.draw(series, np.random.default_rng(0))
    assert np.median(runs(hidden[:, 0])) >= 25


def test_auto_imitates_gaps_if_two_percent_are_missing():
    value = np.zeros((1, 100, 1))
    value[0, :1] = np.nan
    few = Masking.choose("auto", SeriesSet.stack(value), whole_rows=False)
    value[0, :2] = np.nan
    enough = Masking.choose("auto", SeriesSet.stack(value), whole_rows=False)
    assert few.kinds == ("points", "blocks")
    assert enough.kinds == ("empirical", "points", "blocks")
    assert sum(enough.weights) == 1


def test_training_hides_at_every_rate():
    series = complete(series=2000, steps=50, dims=1)
    masking = Masking.choose("points", series, whole_rows=True)
    share = np.array(per_series(masking.draw(series, np.random.default_rng(0)), series)) / 50
    assert np.mean(share) == pytest.approx(0.5, abs=0.02)
    assert np.histogram(share, bins=9, range=(0.05, 0.95))[0].min() > 120


def test_short_series_lose_at_least_one_cell():
    series = complete(series=50, steps=3, dims=1)
    hidden = Masking.choose("points", series, whole_rows=True).draw(
        series, np.random.default_rng(0)
    )
    assert min(per_series(hidden, series)) >= 1


def test_a_single_observed_row_is_never_hidden():
    series = complete(series=50, steps=1, dims=2)
    masking = Masking.choose("auto", series, whole_rows=True)
    assert not masking.draw(series, np.random.default_rng(0)).any()


def test_masking_of_an_empty_set():
    series = SeriesSet.stack(np.zeros((0, 5, 2)))
    for scoring in (False, True):
        masking = Masking.choose("auto", series, whole_rows=False, scoring=scoring)
        assert masking.draw(series, np.random.default_rng(0)).shape == (0, 2)


def test_rows_fail_together_if_each_is_complete_or_missing():
    assert rows_fail_together(ragged(0, whole_rows=True))
    assert not rows_fail_together(ragged(0, whole_rows=False))
    assert not rows_fail_together(complete())


def test_unknown_mask_is_rejected():
    with pytest.raises(
        InputError, match="mask must be one of auto, empirical, points, blocks, got 'rows'"
    ):
        Masking.choose("rows", complete(), whole_rows=False)


def test_empirical_mask_of_complete_data_is_rejected():
    with pytest.raises(InputError, match="nothing missing, got 'empirical'"):
        Masking.choose("empirical", complete(), whole_rows=False)


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan")])
def test_rate_outside_zero_to_one_is_rejected(rate):
    with pytest.raises(InputError, match="rate must lie between 0 and 1"):
        points(complete(), np.random.default_rng(0), rate=rate, whole_rows=False)


@pytest.mark.parametrize("length", [(0, 3), (5, 4)])
def test_block_lengths_out_of_order_are_rejected(length):
    with pytest.raises(InputError, match="length must be"):
        blocks(complete(), np.random.default_rng(0), rate=0.1, length=length, whole_rows=False)


def test_donors_with_other_channels_are_rejected():
    with pytest.raises(InputError, match="donors must have 2 channels, got 3"):
        empirical(complete(dims=2), np.random.default_rng(0), complete(dims=3))


@given(seeds, st.integers(0, 23))
def test_gaps_keep_their_time_of_day(seed, more):
    """The hours from two to four of the first 20 nights are missing."""
    time = np.arange(24 * 30 + more)
    value = np.where((time % 24 >= 2) & (time % 24 < 5) & (time < 24 * 20), np.nan, 1.0)
    series = SeriesSet.stack(value[None, :, None])
    hidden = empirical(series, np.random.default_rng(seed), series, day=24.0)
    hours = time[hidden[:, 0]] % 24
    assert set(hours) <= {2, 3, 4}


def test_cells_are_held_out_if_every_day_has_a_gap_at_the_same_time():
    time = np.arange(24 * 30)
    series = SeriesSet.stack(np.where(time % 24 < 3, np.nan, 1.0)[None, :, None])
    holdout = HoldOut.of(series, "empirical", whole_rows=False, seed=0, day=24.0)
    assert holdout.hidden.sum() > 50
