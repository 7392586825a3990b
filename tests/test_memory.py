"""Laws of memory: what it says is what an exact computation would, and never from the answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nrtsi
from nrtsi.interpolation import interpolate
from nrtsi.memory import Memory, remember
from nrtsi.memory.analogs import SYMMETRIES, Analogs
from nrtsi.memory.normal import Normal
from nrtsi.memory.points import Place
from nrtsi.memory.stock import Stock
from nrtsi.missing import Hiding
from nrtsi.series import SeriesSet

POINT = np.arange(12.0)


def values(seed, series=40, dims=2, points=POINT.size):
    """Smooth random series: channel × point × series."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((dims, points, series)).cumsum(axis=1).astype(np.float32)


def stock(value, low=-20.0, high=20.0):
    ends = (np.full(value.shape[0], end) for end in (low, high))
    return Stock(np.arange(value.shape[-1]), POINT, value, *ends)


def analogs(value, **words):
    symmetries = words.pop("symmetries", ())
    made = Analogs.of(stock(value), **{"near": 5, "ridge": 1e-2} | words)
    return Analogs(**vars(made) | {"symmetries": symmetries})


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
    told = Memory(POINT, Normal.of(value, 1e-3)).recall(series).value
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
    told = Memory(POINT, Normal.of(value, 1e-3)).recall(series, np.array([own])).value
    without = Memory(POINT, Normal.of(others, 1e-3)).recall(series).value
    np.testing.assert_allclose(told, without, rtol=1e-4, atol=1e-4)


def slowly_told(value, series, near, ridge):
    """The same as `Analogs`, one thing after the other and in the units of the data."""
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
    told = Memory(POINT, made).recall(series).value
    seen = series.observed.any(axis=0)  # of nothing known, no series is nearer than another
    expected = slowly_told(made.value * 20.0, series, near, 1e-2)
    np.testing.assert_allclose(told[:, seen], expected[:, seen], rtol=1e-3, atol=1e-3)


@given(st.integers(0, 10**6), st.integers(0, 39), st.sets(st.sampled_from(SYMMETRIES)))
def test_analogs_leave_out_the_series_itself_and_its_images(seed, own, symmetries):
    value = values(seed)
    series, _ = gappy(value, own, seed, share=0.3)
    words = {"symmetries": tuple(sorted(symmetries))}
    told = Memory(POINT, analogs(value, **words)).recall(series, np.array([own])).value
    without = analogs(np.delete(value, own, axis=-1), **words)
    np.testing.assert_allclose(told, Memory(POINT, without).recall(series).value, atol=1e-5)


@pytest.mark.parametrize("symmetry", SYMMETRIES)
def test_series_that_never_were_are_remembered_where_a_symmetry_says_so(symmetry):
    value = values(0, series=200)
    image = {"alike": value[::-1], "mirrored": -value, "reversed": value[:, ::-1]}[symmetry]
    made, with_images = analogs(value), analogs(value, symmetries=(symmetry,))
    series, truth = gappy(image, 7, 3, share=0.3)
    error = {
        name: np.abs(Memory(POINT, way).recall(series).value - truth).mean()
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
    for way in (analogs(value.astype(np.float32), ridge=1e-6), Normal.of(value, 1e-6)):
        told = Memory(POINT, way).recall(series).value
        np.testing.assert_allclose(told[:, 0], series.time / 4, atol=1e-3)


def test_interpolation_stands_in_where_nothing_is_remembered():
    series = SeriesSet(
        np.array([3.0, 20.0, 25.0, 30.0]),
        np.array([[0.0], [1.0], [0.0], [3.0]]),
        np.array([[True], [True], [False], [True]]),
        np.array([0, 4]),
    )
    told = Memory(POINT, Normal.of(values(0, dims=1), 1e-3)).recall(series)
    assert told.value[2, 0] == 2.0
    assert told.scale[2, 0] == 0.0


@pytest.mark.parametrize("way", [Normal.of(values(0), 1e-3), analogs(values(0))])
def test_a_series_of_which_nothing_is_known_gets_finite_values(way):
    series = SeriesSet.stack(np.full((1, POINT.size, 2), np.nan))
    told = Memory(POINT, way).recall(series)
    assert np.isfinite(told.value).all()
    assert np.isfinite(told.scale).all()


@pytest.mark.parametrize(
    "way", [Normal.of(values(0), 1e-3), analogs(values(0), symmetries=("alike",))]
)
def test_a_memory_goes_into_a_file_and_out_again(way):
    memory = Memory(POINT, way)
    again = Memory.unpack(*memory.pack())
    series, _ = gappy(values(1), 0, 0)
    for name in ("value", "scale"):
        mine, theirs = (getattr(each.recall(series), name) for each in (memory, again))
        np.testing.assert_array_equal(mine, theirs)


def test_places_lie_between_points():
    place = Place.of(np.array([0.0, 2.0, 3.0]), np.array([-1.0, 0.0, 0.5, 2.0, 3.0, 3.5]))
    np.testing.assert_array_equal(place.there, [False, True, True, True, True, False])
    np.testing.assert_allclose((place.left + place.share)[1:5], [0.0, 0.25, 1.0, 2.0])


def hiding(series, rates=(0.5, 0.9)):
    return Hiding.choose("points", series, whole_rows=True, rates=rates)


def waves(count, seed=0, steps=50):
    rng = np.random.default_rng(seed)
    phase, speed = rng.uniform(0, 6, (count, 1)), rng.uniform(0.1, 0.3, (count, 1))
    return np.sin(phase + speed * np.arange(steps))[..., None]


def test_waves_are_remembered_one_by_one_and_upside_down():
    series = SeriesSet.stack(waves(300))
    kept = remember(series, hiding(series), 0)
    assert isinstance(kept.memory.way, Analogs)
    assert "mirrored" in kept.memory.way.symmetries
    np.testing.assert_array_equal(kept.own, np.arange(300))


def test_draws_of_one_distribution_are_remembered_as_such():
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((6, 40))
    value = (rng.standard_normal((400, 6)) @ mix).reshape(400, 20, 2)
    series = SeriesSet.stack(value)
    kept = remember(series, hiding(series), 0)
    assert isinstance(kept.memory.way, Normal)


def test_irregular_times_are_remembered_by_splines_where_these_are_closer():
    rng = np.random.default_rng(0)
    time = np.sort(rng.uniform(0, 50, (200, 50)), axis=1)
    speed = rng.uniform(0.1, 0.3, (200, 1))
    series = SeriesSet.stack(np.sin(speed * time)[..., None], time)
    kept = remember(series, hiding(series), 0)
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


def random_walks():
    rng = np.random.default_rng(0)
    start = rng.normal(0, 100, (200, 1, 1))
    return SeriesSet.stack(start + rng.standard_normal((200, 50, 1)).cumsum(axis=1))


@pytest.mark.parametrize("data", [few, nothing_in_common, too_long, mostly_missing, random_walks])
def test_nothing_is_remembered_that_would_not_help(data):
    series = data()
    assert remember(series, hiding(series, rates=(0.1, 0.3)), 0) is None


def fitted(**words):
    model = nrtsi.NRTSI(**{"steps": 0, "seed": 0, "preset": "tiny"} | words)
    return model.fit(waves(300), validation=waves(50, seed=1))


def test_a_model_that_remembers_is_far_ahead_before_its_first_step(tmp_path):
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
    series = SeriesSet.stack(waves(200))
    kept = remember(series, hiding(series), 0)
    cells = hiding(series).draw(series, np.random.default_rng(1))
    changed = SeriesSet.stack(waves(200) + 5 * cells.reshape(200, 50, 1))
    told, as_well = (
        kept.memory.recall(each.hide(cells), kept.own).value for each in (series, changed)
    )
    np.testing.assert_array_equal(told, as_well)
    line = interpolate(series.hide(cells))
    error = [np.square(each - series.value)[cells].mean() for each in (told, line)]
    assert error[0] < error[1] / 20
