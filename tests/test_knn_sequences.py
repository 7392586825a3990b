"""`KNNSequences` agrees with plain loops and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.impute import KNNImputer

from nrtsi.baselines.knn_sequences import KNNSequences
from nrtsi.core.series import SeriesSet
from nrtsi.errors import NotFittedError
from tests.strategies import seeds


def ragged(seed, series=9, dims=2, missing=0.3):
    """Series of random lengths, on times that some share and some do not, with random gaps."""
    rng = np.random.default_rng(seed)
    time = []
    for length in rng.integers(2, 12, size=series):
        on_grid = np.sort(rng.choice(12, size=length, replace=False)).astype(np.float64)
        time.append(on_grid if rng.random() < 0.6 else np.sort(rng.uniform(0, 12, size=length)))
    start = np.concatenate([[0], np.cumsum([t.size for t in time])])
    observed = rng.random((start[-1], dims)) >= missing
    observed[0] = True
    value = np.where(observed, rng.normal([0.0, 50.0], 1.0, size=observed.shape), 0.0)
    return SeriesSet(np.concatenate(time), value, observed, start)


def fitted(training):
    imputer = KNNSequences()
    imputer.fit_series(training)
    return imputer


def rows_of(series, index):
    return slice(series.start[index], series.start[index + 1])


def value_at(series, index, time, channel):
    """The interpolated value of a series at a time; None if unknown."""
    rows = rows_of(series, index)
    times, known = series.time[rows], series.observed[rows, channel]
    values = series.value[rows, channel]
    for i, here in enumerate(times):
        if here == time:
            return values[i] if known[i] else None
        if i > 0 and times[i - 1] < time < here:
            return np.interp(time, times, values) if known[i - 1] and known[i] else None
    return None


def by_loops(training, series, neighbours=5):
    """The imputed values by plain loops."""
    seen = [training.value[training.observed[:, c], c] for c in range(training.dims)]
    mean = [cells.mean() if cells.size else 0.0 for cells in seen]
    spread = [cells.std() if cells.size > 1 else 1.0 for cells in seen]
    imputed = series.value.copy()
    cells = [(c, t) for t in range(series.rows) for c in range(series.dims)]
    for index in range(series.series):
        rows = rows_of(series, index)
        mine = [(c, t) for c, t in cells if rows.start <= t < rows.stop]
        near = []
        for other in range(training.series):
            differences = [
                (series.value[t, c] - read) / spread[c]
                for c, t in mine
                if series.observed[t, c]
                and (read := value_at(training, other, series.time[t], c)) is not None
            ]
            if differences:
                near.append((np.sqrt(np.mean(np.square(differences))), other))
        near = sorted(near)[:neighbours]
        for c, t in mine:
            if series.observed[t, c]:
                continue
            weighted = [(d, value_at(training, other, series.time[t], c)) for d, other in near]
            weighted = [(1 / d, read) for d, read in weighted if read is not None]
            total = sum(weight for weight, _ in weighted)
            imputed[t, c] = sum(w * read for w, read in weighted) / total if weighted else mean[c]
    return imputed


@settings(max_examples=40)
@given(seed=seeds)
def test_it_agrees_with_plain_loops(seed):
    training, series = ragged(seed), ragged(seed + 1, series=4)
    np.testing.assert_allclose(
        fitted(training).impute_series(series), by_loops(training, series), rtol=1e-6, atol=1e-9
    )


@settings(max_examples=30)
@given(seed=seeds, missing=st.sampled_from([0.0, 0.3, 0.8, 1.0]))
def test_every_cell_gets_a_finite_value_and_observed_ones_keep_theirs(seed, missing):
    series = ragged(seed, missing=missing)
    value = series.value.copy()
    imputed = fitted(ragged(seed + 1, missing=missing)).impute_series(series)
    assert np.isfinite(imputed).all()
    np.testing.assert_array_equal(imputed[series.observed], series.value[series.observed])
    np.testing.assert_array_equal(series.value, value)


@settings(max_examples=30)
@given(seed=seeds, cells=st.integers(1, 200))
def test_the_size_of_a_chunk_changes_nothing(seed, cells):
    imputer, series = fitted(ragged(seed)), ragged(seed + 1)
    whole = imputer.impute_series(series)
    imputer.max_cells = cells
    np.testing.assert_allclose(imputer.impute_series(series), whole, rtol=1e-6, atol=1e-9)


@settings(max_examples=30)
@given(seed=seeds)
def test_a_series_is_imputed_independently_of_the_others(seed):
    imputer, series = fitted(ragged(seed)), ragged(seed + 1)
    together = imputer.impute_series(series)
    for index in range(series.series):
        alone = imputer.impute_series(series.select(np.array([index])))
        np.testing.assert_allclose(alone, together[rows_of(series, index)], rtol=1e-6, atol=1e-9)


@settings(max_examples=30)
@given(seed=seeds)
def test_the_order_of_the_training_series_and_the_units_change_nothing(seed):
    training, series = ragged(seed), ragged(seed + 1)
    order = np.random.default_rng(seed).permutation(training.series)
    imputed = fitted(training).impute_series(series)
    other = fitted(training.select(order)).impute_series(series)
    np.testing.assert_allclose(other, imputed, rtol=1e-6, atol=1e-9)
    units = np.array([10.0, 0.01])
    scaled = [SeriesSet(s.time, s.value * units, s.observed, s.start) for s in (training, series)]
    large = fitted(scaled[0]).impute_series(scaled[1])
    np.testing.assert_allclose(large, imputed * units, rtol=1e-6, atol=1e-9)


def test_on_a_common_grid_it_equals_scikit_learn_on_whole_series():
    rng = np.random.default_rng(0)
    training, gappy = rng.normal(size=(40, 6, 1)), rng.normal(size=(8, 6, 1))
    gappy[rng.random(gappy.shape) < 0.5] = np.nan
    # Of one channel all cells have the same spread, so that the scale does not matter.
    theirs = KNNImputer(n_neighbors=5, weights="distance").fit(training[..., 0])
    ours = fitted(SeriesSet.stack(training)).impute_series(SeriesSet.stack(gappy))
    np.testing.assert_allclose(ours.reshape(8, 6), theirs.transform(gappy[..., 0]))


def test_a_training_series_is_recovered_at_times_off_its_grid():
    rng = np.random.default_rng(0)
    training = np.cumsum(rng.normal(size=(30, 20, 2)), axis=1)
    time = np.sort(rng.uniform(0, 19, size=(1, 40)))
    truth = np.stack([np.interp(time[0], np.arange(20), training[7, :, c]) for c in (0, 1)], -1)
    gappy = truth.copy()
    gappy[rng.random(40) < 0.7] = np.nan
    imputed = fitted(SeriesSet.stack(training)).impute_series(SeriesSet.stack(gappy[None], time))
    np.testing.assert_allclose(imputed, truth, atol=1e-4)


def test_by_hand():
    # Spread 1 and mean 0: training series that begin at -1 and 1 and end there.
    training = SeriesSet.stack(np.array([[[-1.0], [-1.0]], [[1.0], [1.0]]]))
    gappy = np.array([[[0.5], [np.nan]], [[1.0], [np.nan]], [[np.nan], [np.nan]]])
    imputed = fitted(training).impute_series(SeriesSet.stack(gappy)).reshape(3, 2)
    # Distances 1.5 and 0.5, so weights 2/3 and 2; then a series like one; one knowing nothing.
    assert imputed[0, 1] == pytest.approx((-2 / 3 + 2) / (2 / 3 + 2))
    assert imputed[1, 1] == pytest.approx(1, abs=1e-5)
    assert imputed[2].tolist() == [0, 0]


def test_cells_without_a_neighbour_get_the_mean_of_the_channel():
    training = np.array([[[1.0], [2.0], [np.nan]], [[3.0], [6.0], [np.nan]]])
    gappy = np.array([[[1.0], [np.nan], [np.nan]]])
    imputed = fitted(SeriesSet.stack(training)).impute_series(SeriesSet.stack(gappy))
    assert imputed[2, 0] == 3
    late = SeriesSet.stack(np.array([[[1.0], [np.nan]]]), np.array([[0.0, 99.0]]))
    assert fitted(SeriesSet.stack(training)).impute_series(late)[1, 0] == 3


def test_arrays_are_imputed_as_arrays():
    rng = np.random.default_rng(0)
    training, gappy = rng.normal(size=(10, 6, 2)), rng.normal(size=(3, 6, 2))
    gappy[:, 2:4] = np.nan
    imputed = clone(KNNSequences()).fit(training).impute(gappy)
    assert imputed.shape == gappy.shape
    assert np.isfinite(imputed).all()
    with pytest.raises(NotFittedError, match="this KNNSequences is not fitted"):
        KNNSequences().impute(gappy)


@pytest.mark.slow
def test_billiards_of_the_paper_are_imputed_better_than_by_linear_interpolation():
    wall, rng = 0.8828, np.random.default_rng(0)

    def flights(count):
        angle, speed = rng.uniform(0, 2 * np.pi, count), rng.uniform(0.0018, 0.1075, count)
        move = np.stack([np.cos(angle), np.sin(angle)], axis=-1) * speed[:, None]
        begin = rng.uniform(-wall, wall, (count, 1, 2))
        place = (begin + move[:, None] * np.arange(200)[:, None] + wall) % (4 * wall)
        return np.where(place > 2 * wall, 4 * wall - place, place) - wall

    training, truth = flights(3_600), flights(1_000)
    rank = rng.random((1_000, 200)).argsort(axis=1).argsort(axis=1)
    hidden = rank < rng.integers(180, 196, (1_000, 1))
    gappy = SeriesSet.stack(np.where(hidden[..., None], np.nan, truth))
    imputed = fitted(SeriesSet.stack(training)).impute_series(gappy).reshape(truth.shape)
    # Summed over both channels; straight lines score 0.21.
    assert np.sum((imputed - truth) ** 2, axis=-1)[hidden].mean() == pytest.approx(0.1, abs=0.01)
