"""Laws of memory: what it says is what an exact computation would, and never from the answer."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nrtsi
from nrtsi.config import PRESETS
from nrtsi.core.masking import Masking
from nrtsi.core.prediction import BasePrediction
from nrtsi.core.series import SeriesSet
from nrtsi.network.tokens import StepContext, TokenLayout, tokens
from nrtsi.predictors.analogs import AnalogModel, select_analogs
from nrtsi.predictors.analogs.conditional_gaussian import ConditionalGaussian
from nrtsi.predictors.analogs.fingerprints import SeriesFingerprints
from nrtsi.predictors.analogs.knn import KNNAnalogs
from nrtsi.predictors.analogs.library import SeriesLibrary
from nrtsi.predictors.analogs.local_linear import SYMMETRIES, Images, LocalLinearAnalogs
from nrtsi.predictors.analogs.mixture import AnalogMixture
from nrtsi.predictors.analogs.points import PointLookup
from nrtsi.schedule.windows import windows

POINT = np.arange(12.0)


def values(seed, series=40, dims=2, points=POINT.size):
    """Smooth random series: channel × point × series."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((dims, points, series)).cumsum(axis=1).astype(np.float32)


def stock(value, low=-20.0, high=20.0):
    ends = (np.full(value.shape[0], end) for end in (low, high))
    return SeriesLibrary(np.arange(value.shape[-1]), whole(value), POINT, value, *ends)


def analogs(value, symmetries=(), **words):
    made = LocalLinearAnalogs.of(stock(value), **{"near": 5, "ridge": 1e-2} | words)
    return replace(made, images=Images(made.images.value, symmetries))


def normal(value, ridge):
    return ConditionalGaussian.of(stock(value), ridge)


def memory(way, series=None):
    """It knows nobody, unless it is told whom."""
    nobody = SeriesFingerprints(np.zeros((0, 8), dtype=np.int64))
    return AnalogModel(POINT, way, nobody if series is None else SeriesFingerprints.of(series))


def gappy(value, index, seed, share=0.6):
    """One of the series with cells missing, and the truth."""
    rng = np.random.default_rng(seed)
    truth = value[:, :, index].T.astype(np.float64)
    hidden = rng.random(truth.shape) < share
    return SeriesSet.stack(np.where(hidden, np.nan, truth)[None]), truth


def whole(value):
    """The series laid end to end, nothing missing."""
    return SeriesSet.stack(value.transpose(2, 1, 0).astype(np.float64))


@given(st.integers(0, 10**6))
def test_a_normal_distribution_tells_what_its_formula_says(seed):
    value = values(seed)
    series, _ = gappy(values(seed + 1), 0, seed)
    told = memory(normal(value, 1e-3)).recall(series).value
    flat = value.reshape(-1, value.shape[-1]).astype(np.float64)
    mean, among = flat.mean(axis=1), np.cov(flat)
    seen = series.observed.T.reshape(-1)
    level = 1e-3 * np.diag(among)[seen].mean() if seen.any() else 0.0
    known = among[np.ix_(seen, seen)] + level * np.eye(seen.sum())
    left = series.value.T.reshape(-1)[seen] - mean[seen]
    expected = mean + among[:, seen] @ np.linalg.solve(known, left)
    np.testing.assert_allclose(told, expected.reshape(2, -1).T, rtol=1e-4, atol=1e-4)


@given(st.integers(0, 10**6), st.integers(0, 39))
def test_a_normal_distribution_leaves_out_the_series_itself(seed, own):
    value = values(seed)
    series, _ = gappy(value, own, seed)
    others = np.delete(value, own, axis=-1)
    told = memory(normal(value, 1e-3)).recall(series, np.array([own])).value
    without = memory(normal(others, 1e-3)).recall(series).value
    np.testing.assert_allclose(told, without, rtol=1e-4, atol=1e-4)


def slowly_told(value, series, near, ridge):
    """The same as `LocalLinearAnalogs`, one thing after the other and in the units of the data."""
    answer = np.empty(series.value.shape)
    for dim in range(series.dims):
        seen = series.observed[:, dim]
        known, theirs = series.value[seen, dim], value[dim].T.astype(np.float64)
        order = np.argsort(np.square(theirs[:, seen] - known).sum(axis=1), kind="stable")[:near]
        middle = theirs[order].mean(axis=0)
        apart = theirs[order] - middle
        among = apart[:, seen] @ apart[:, seen].T
        level = ridge * np.trace(among) / max(1, min(near, seen.sum()))
        right = apart[:, seen] @ (known - middle[seen])
        share = np.linalg.lstsq(among + (level + 1e-12) * np.eye(near), right, rcond=None)[0]
        answer[:, dim] = middle + share @ apart
    return answer


@given(st.integers(0, 10**6), st.integers(2, 8))
def test_analogs_are_the_nearest_put_together(seed, near):
    value = values(seed)
    series, _ = gappy(values(seed + 1), 0, seed)
    made = analogs(value, near=near)
    told = memory(made).recall(series).value
    seen = series.observed.any(axis=0)  # of nothing known, no series is nearer than another
    expected = slowly_told(made.images.value * 20.0, series, near, 1e-2)
    np.testing.assert_allclose(told[:, seen], expected[:, seen], rtol=1e-3, atol=1e-3)


@given(st.integers(0, 10**6), st.integers(0, 39), st.sets(st.sampled_from(SYMMETRIES)))
def test_analogs_leave_out_the_series_itself_and_its_images(seed, own, symmetries):
    value = values(seed)
    series, _ = gappy(value, own, seed, share=0.3)
    words = {"symmetries": tuple(sorted(symmetries))}
    told = memory(analogs(value, **words)).recall(series, np.array([own])).value
    without = analogs(np.delete(value, own, axis=-1), **words)
    np.testing.assert_allclose(told, memory(without).recall(series).value, atol=1e-5)


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(-1, 39))
def test_likes_are_the_mean_of_the_nearest_in_all_channels_together(seed, near, own):
    value = values(seed)
    series, _ = gappy(value if own >= 0 else values(seed + 1), max(own, 0), seed, share=0.4)
    made = KNNAnalogs.of(stock(value), near)
    told = memory(made).recall(series, np.array([own]))
    theirs = made.value.transpose(2, 1, 0).astype(np.float64)
    seen = series.observed
    apart = np.sqrt(np.square(theirs - series.value)[:, seen].mean(axis=1))
    if own >= 0:
        apart[own] = np.inf
    order = np.argsort(apart, kind="stable")[:near]
    weight = 1 / apart[order] / (1 / apart[order]).sum()
    mean = np.einsum("s,srd->rd", weight, theirs[order])
    scale = np.sqrt(np.einsum("s,srd->rd", weight, np.square(theirs[order] - mean)))
    np.testing.assert_allclose(told.value, mean, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(told.scale, scale, rtol=1e-3, atol=2e-3)


@given(st.integers(0, 10**6), st.floats(0, 1))
def test_two_ways_together_say_what_lies_between_them(seed, share):
    value = values(seed)
    series, _ = gappy(values(seed + 1), 0, seed)
    ways = normal(value, 1e-3), KNNAnalogs.of(stock(value), 5)
    one, other = (memory(way).recall(series) for way in ways)
    both = memory(AnalogMixture(*ways, share)).recall(series)
    for name in ("value", "scale"):
        parts = (1 - share) * getattr(one, name) + share * getattr(other, name)
        np.testing.assert_allclose(getattr(both, name), parts, atol=1e-9)


@pytest.mark.parametrize("symmetry", SYMMETRIES)
def test_series_that_never_were_are_remembered_where_a_symmetry_says_so(symmetry):
    value = values(0, series=200)
    image = {"alike": value[::-1], "mirrored": -value, "reversed": value[:, ::-1]}[symmetry]
    made, with_images = analogs(value), analogs(value, symmetries=(symmetry,))
    series, truth = gappy(image, 7, 3, share=0.3)
    error = {
        name: np.abs(memory(way).recall(series).value - truth).mean()
        for name, way in (("plain", made), ("images", with_images))
    }
    assert error["images"] < error["plain"] / 2


def test_what_is_remembered_can_be_told_between_the_points():
    value = np.stack([np.outer(POINT, slope) for slope in (np.linspace(-1, 1, 30),)])
    series = SeriesSet(
        np.array([0.5, 3.25, 8.0]),
        np.array([[0.5], [0.0], [8.0]]) / 4,
        np.array([[True], [False], [True]]),
        np.array([0, 3]),
    )
    for way in (analogs(value.astype(np.float32), ridge=1e-6), normal(value, 1e-6)):
        told = memory(way).recall(series).value
        np.testing.assert_allclose(told[:, 0], series.time / 4, atol=1e-3)


def test_interpolation_stands_in_where_nothing_is_remembered():
    series = SeriesSet(
        np.array([3.0, 20.0, 25.0, 30.0]),
        np.array([[0.0], [1.0], [0.0], [3.0]]),
        np.array([[True], [True], [False], [True]]),
        np.array([0, 4]),
    )
    told = memory(normal(values(0, dims=1), 1e-3)).recall(series)
    assert told.value[2, 0] == 2.0
    assert told.scale[2, 0] == 0.0


EVERY_WAY = [
    normal(values(0), 1e-3),
    analogs(values(0)),
    analogs(values(0), ("alike",)),
    KNNAnalogs.of(stock(values(0)), 5),
    AnalogMixture(normal(values(0), 1e-3), KNNAnalogs.of(stock(values(0)), 5), 0.4),
]


@pytest.mark.parametrize("way", EVERY_WAY)
def test_a_channel_of_which_nothing_is_known_is_what_it_is_on_the_average(way):
    value = values(0)
    gone = value[:, :, 3].T.astype(float)
    gone[:, 1] = np.nan
    told = memory(way).recall(SeriesSet.stack(np.full_like(gone, np.nan)[None]))
    np.testing.assert_allclose(told.value, value.mean(axis=-1).T, atol=0.01)
    np.testing.assert_allclose(told.scale, value.std(axis=-1).T, rtol=0.1)
    if isinstance(way, LocalLinearAnalogs):  # which know nothing of a channel from another
        told = memory(way).recall(SeriesSet.stack(gone[None]))
        np.testing.assert_allclose(told.value[:, 1], value[1].mean(axis=-1), atol=0.01)


@pytest.mark.parametrize("way", EVERY_WAY)
def test_a_memory_goes_into_a_file_and_out_again(way):
    made = memory(way, whole(values(0)))
    again = AnalogModel.unpack(*made.pack())
    series, _ = gappy(values(1), 0, 0)
    for name in ("value", "scale"):
        mine, theirs = (getattr(each.recall(series), name) for each in (made, again))
        np.testing.assert_array_equal(mine, theirs)


def test_places_lie_between_points():
    place = PointLookup.of(np.array([0.0, 2.0, 3.0]), np.array([-1.0, 0.0, 0.5, 2.0, 3.0, 3.5]))
    np.testing.assert_array_equal(place.there, [False, True, True, True, True, False])
    np.testing.assert_allclose((place.left + place.share)[1:5], [0.0, 0.25, 1.0, 2.0])


def hiding(series, rates=(0.5, 0.9)):
    return Masking.choose("points", series, whole_rows=True, rates=rates)


def waves(count, seed=0, steps=50):
    rng = np.random.default_rng(seed)
    phase, speed = rng.uniform(0, 6, (count, 1)), rng.uniform(0.1, 0.3, (count, 1))
    return np.sin(phase + speed * np.arange(steps))[..., None]


def test_waves_are_remembered_one_by_one_and_upside_down():
    series = SeriesSet.stack(waves(300))
    kept = select_analogs(series, hiding(series), 0)
    assert isinstance(kept.memory.way, LocalLinearAnalogs)
    assert "mirrored" in kept.memory.way.images.symmetries
    np.testing.assert_array_equal(kept.own, np.arange(300))


def test_draws_of_one_distribution_are_remembered_as_such():
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((6, 40))
    value = (rng.standard_normal((400, 6)) @ mix).reshape(400, 20, 2)
    series = SeriesSet.stack(value)
    kept = select_analogs(series, hiding(series), 0)
    assert isinstance(kept.memory.way, ConditionalGaussian)


def days(count, seed=0):
    """Few noisy days of two kinds, at which eight roads are busy."""
    rng = np.random.default_rng(seed)
    kinds = np.sin(rng.uniform(0, 6, (2, 1, 8)) + rng.uniform(0.2, 0.6, (2, 1, 8)) * HOURS)
    busy = rng.gamma(4.0, 0.25, (count, 1, 1))
    return busy * kinds[rng.integers(0, 2, count)] + 0.5 * rng.standard_normal((count, 24, 8))


HOURS = np.arange(24)[:, None]


def test_few_noisy_days_of_two_kinds_are_remembered_in_two_ways():
    series = SeriesSet.stack(days(120))
    kept = select_analogs(series, hiding(series), 0)
    assert isinstance(kept.memory.way, AnalogMixture)
    assert 0 < kept.memory.way.share < 1
    words = r"covariance of 8 channels and the \d+ of 120 series .* \(\d+% of it\)"
    assert re.search(words, str(kept.memory))
    others = series.select(np.arange(30, 60))
    hidden = hiding(series).draw(others, np.random.default_rng(1))

    def error(way):
        told = replace(kept.memory, way=way).recall(others.hide(hidden), np.arange(30, 60)).value
        return np.square(told - others.value)[hidden].mean()

    way = kept.memory.way
    assert error(way) < 0.9 * error(way.first)
    assert error(way) < error(way.second)


def test_series_whose_next_of_kin_are_remembered_do_not_tell_of_those_who_have_none():
    """Every day is there at four stations nearly alike, as no day to come will be."""
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((12, 24 * 4))
    every = (rng.standard_normal((160, 12)) @ mix).reshape(160, 24, 4)
    every = every + 0.5 * rng.standard_normal(every.shape)
    stations = np.repeat(every[:80], 4, axis=0)
    series = SeriesSet.stack(stations + 0.01 * rng.standard_normal(stations.shape))
    to_come = SeriesSet.stack(every[80:])
    kin, strangers = (select_analogs(series, hiding(series), 0, held) for held in (None, to_come))
    hidden = hiding(series).draw(to_come, np.random.default_rng(1))

    def error(kept):
        told = kept.memory.recall(to_come.hide(hidden)).value
        return np.square(told - to_come.value)[hidden].mean()

    assert error(strangers) < 0.9 * error(kin)
    few = to_come.select(np.arange(3))  # too few to tell
    assert str(select_analogs(series, hiding(series), 0, few).memory) == str(kin.memory)


def test_irregular_times_are_remembered_by_splines_where_these_are_closer():
    rng = np.random.default_rng(0)
    time = np.sort(rng.uniform(0, 50, (200, 50)), axis=1)
    speed = rng.uniform(0.1, 0.3, (200, 1))
    series = SeriesSet.stack(np.sin(speed * time)[..., None], time)
    kept = select_analogs(series, hiding(series), 0)
    held = SeriesSet.stack(np.sin(0.2 * time[:1])[..., None], time[:1])
    cells = hiding(series).draw(held, rng)
    told = kept.memory.recall(held.hide(cells)).value
    assert np.median(np.abs(told - held.value)) < 2e-3  # lines have .02 in the memory alone


def few():
    return SeriesSet.stack(waves(20))


def nothing_in_common():
    time = np.arange(50.0) + 100 * np.arange(200)[:, None]
    return SeriesSet.stack(waves(200), time)


def too_long():
    return SeriesSet.stack(np.zeros((70, 2000, 1)))


def mostly_missing():
    value = waves(200)
    value[:, ::2], value[:, 1::4] = np.nan, np.nan
    return SeriesSet.stack(value)


def too_wide():
    return SeriesSet.stack(np.tile(waves(200), 65))


def random_walks():
    rng = np.random.default_rng(0)
    start = rng.normal(0, 100, (200, 1, 1))
    return SeriesSet.stack(start + rng.standard_normal((200, 50, 1)).cumsum(axis=1))


@pytest.mark.parametrize(
    "data", [few, nothing_in_common, too_long, too_wide, mostly_missing, random_walks]
)
def test_nothing_is_remembered_that_would_not_help(data):
    series = data()
    assert select_analogs(series, hiding(series, rates=(0.1, 0.3)), 0) is None


def fitted(**words):
    model = nrtsi.NRTSI(**{"steps": 0, "seed": 0, "preset": "tiny"} | words)
    return model.fit(waves(300), validation=waves(50, seed=1))


def test_a_model_that_remembers_is_far_ahead_before_its_first_step():
    truth = waves(20, seed=2)
    value = truth.copy()
    value[:, np.arange(50) % 8 != 0] = np.nan
    with_memory, without = (
        np.square(model.impute(value) - truth).mean()
        for model in (fitted(), fitted(model={"recall": False}))
    )
    assert with_memory < without / 50


def test_a_model_remembers_after_it_was_saved(tmp_path):
    model = fitted()
    value = waves(5, seed=2)
    value[:, 3:30] = np.nan
    model.save(tmp_path / "model.nrtsi")
    again = nrtsi.load(tmp_path / "model.nrtsi")
    np.testing.assert_array_equal(again.impute(value), model.impute(value))


def test_what_is_remembered_never_comes_from_the_cells_that_are_hidden():
    """Else training would see the answer: with other values there, nothing changes."""
    value = waves(200)
    series = SeriesSet.stack(value)
    cells = hiding(series).draw(series, np.random.default_rng(1)).reshape(value.shape)
    other = value.copy()
    other[7] += 5 * cells[7]
    asked, own = SeriesSet.stack(np.where(cells, np.nan, value)[7:8]), np.array([7])
    ways = (normal, lambda value, ridge: analogs(value, ("mirrored",), ridge=ridge))
    for way in ways:
        told, as_well = (
            AnalogModel(
                np.arange(50.0), way(each.transpose(2, 1, 0), 1e-3), SeriesFingerprints.of(asked)
            )
            .recall(asked, own)
            .value
            for each in (value, other)
        )
        np.testing.assert_allclose(told, as_well, atol=1e-3)


def gaps(value, seed=0):
    """The series with a gap in each, and where."""
    rng = np.random.default_rng(seed)
    gone = np.zeros(value.shape, dtype=bool)
    for number, begin in enumerate(rng.integers(5, 25, len(value))):
        gone[number, begin : begin + 15] = True
    return np.where(gone, np.nan, value), gone


@pytest.mark.parametrize("hidden", [0.0, 0.4])
def test_a_remembered_series_is_recognised(hidden):
    value, _ = gaps(waves(100))
    marks = SeriesFingerprints.of(SeriesSet.stack(value))
    more = np.random.default_rng(0).random(value.shape) < hidden
    seen = SeriesSet.stack(np.where(more, np.nan, value))
    found = marks.find(seen)
    assert (found == np.arange(100)).mean() > 0.95
    np.testing.assert_array_equal(marks.find(SeriesSet.stack(waves(20, seed=5))), -1)


def bumps(count, seed=0):
    """Sums of six fixed curves, and a little noise."""
    curves = np.sin(np.outer(np.arange(1, 7), np.arange(50) / 8))
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((count, 6)) @ curves + rng.normal(0, 0.05, (count, 50)))[..., None]


@pytest.mark.parametrize(
    ("data", "count", "way"), [(waves, 300, LocalLinearAnalogs), (bumps, 150, ConditionalGaussian)]
)
def test_the_data_a_model_was_fitted_on_are_filled_as_well_as_others(data, count, way):
    """In the memory their own gaps are bridged by lines, which would be the nearest of all."""
    value, gone = gaps(data(count))
    others, gone_there = gaps(data(300, seed=1), seed=1)
    model = nrtsi.NRTSI(steps=0, seed=0, preset="tiny").fit(value)
    assert isinstance(model.fitted_.engine.predictors.memory.way, way)
    own = np.square(model.impute(value) - data(count))[gone].mean()
    new = np.square(model.impute(others) - data(300, seed=1))[gone_there].mean()
    assert own < 1.3 * new


@pytest.mark.parametrize(("data", "count"), [(waves, 300), (bumps, 80)])
def test_gaps_of_the_remembered_series_are_filled_from_the_others(data, count, monkeypatch):
    value, _ = gaps(data(count))
    others, gone = gaps(data(200, seed=1), seed=1)
    series, truth = SeriesSet.stack(value), data(200, seed=1)
    like_its_own = Masking.choose("auto", series, whole_rows=True, rates=(0.05, 0.95))
    errors = []
    for rounds in (0, 6):
        monkeypatch.setattr(sys.modules["nrtsi.predictors.analogs.selection"], "ROUNDS", rounds)
        told = select_analogs(series, like_its_own, 0).memory.recall(SeriesSet.stack(others)).value
        errors.append(np.square(told.reshape(truth.shape) - truth)[gone].mean())
    assert errors[1] < errors[0] / 2


def test_a_series_without_data_between_others_is_not_remembered():
    """Of three rows, none observed, and before one of two rows that is."""
    value = waves(200)
    rows = [np.column_stack([np.full(50, k), np.arange(50.0), value[k, :, 0]]) for k in range(200)]
    rows.insert(100, np.column_stack([np.full(3, 99.3), [0.0, 24.5, 49.0], np.full(3, np.nan)]))
    rows.insert(101, np.column_stack([np.full(2, 99.6), [0.0, 49.0], [1.0, 1.0]]))
    table = np.concatenate(rows)
    start = np.concatenate([[0], np.cumsum([len(each) for each in rows])])
    seen = ~np.isnan(table[:, 2:])
    series = SeriesSet(table[:, 1], np.where(seen, table[:, 2:], 0.0), seen, start)
    found = SeriesLibrary.of(series, np.random.default_rng(0))
    np.testing.assert_array_equal(np.setdiff1d(np.arange(202), found.kept), [100, 101])


def test_a_spline_does_not_leave_what_has_been():
    rng = np.random.default_rng(0)
    time = np.sort(rng.uniform(0, 50, (200, 50)), axis=1)
    value = np.sin(0.2 * time)
    time[40, 20], value[40, 20] = time[40, 19] + 1e-7, value[40, 19] + 0.5
    found = SeriesLibrary.of(SeriesSet.stack(value[..., None], time), rng)
    assert np.abs(found.value).max() <= 1.5


def test_one_value_far_off_does_not_drown_the_others():
    value = waves(300, steps=POINT.size).transpose(2, 1, 0).astype(np.float32)
    truth = waves(1, seed=3, steps=POINT.size)
    wrong = truth.copy()
    wrong[0, 0] = 50.0
    for way in (analogs(value, ("mirrored",)), normal(value, 1e-2)):
        told = memory(way).recall(SeriesSet.stack(wrong)).value
        assert np.abs(told[6:] - truth[0, 6:]).mean() < 0.5


def test_one_long_series_does_not_keep_the_others_from_being_remembered():
    value = waves(301, steps=2000)
    time = np.concatenate([np.arange(50.0)] * 300 + [np.arange(2000.0)])
    flat = np.concatenate([*value[:300, :50], value[300]])
    start = np.append(50 * np.arange(301), 300 * 50 + 2000)
    series = SeriesSet(time, flat, np.ones(flat.shape, dtype=bool), start)
    assert SeriesLibrary.of(series, np.random.default_rng(0)).point.max() <= 52


def test_beyond_the_remembered_times_the_straight_line_is_corrected():
    layout = TokenLayout(1, partial=False, base_predictors=1)
    series = SeriesSet(
        np.array([0.0, 49.0, 55.0]),
        np.array([[0.1], [0.8], [0.0]]),
        np.array([[True], [True], [False]]),
        np.array([0, 3]),
    )
    there = np.array([[True], [True], [False]])
    hint = BasePrediction(np.array([[0.1], [0.35], [0.8]]), there, np.zeros((3, 1)))
    rows = np.array([2])
    context = StepContext.of(series, rows, np.array([6.0]), layout, (hint,))
    parts = windows(np.array([0, 1]), rows, np.array([0]), series.start, 16)
    made = tokens(context, parts.pad(np.arange(1)), layout, PRESETS["tiny"].model)
    assert made.base_predictions.item() == pytest.approx(0.8)


def test_many_known_cells_are_thinned():
    time = np.linspace(0, 11, 5000)
    series = SeriesSet.stack(np.sin(time)[None, :, None], time[None])
    told = memory(normal(values(0, dims=1), 1e-2)).recall(series)
    assert np.isfinite(told.value).all()
