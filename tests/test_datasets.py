"""The simulated data sets are what their docstrings say, and depend on the seed alone."""

import numpy as np
import pytest

from nrtsi.bench.datasets.sinusoids import sinusoids
from nrtsi.bench.datasets.weather import weather

CHANNELS = ["temperature", "humidity", "pressure"]


@pytest.mark.parametrize("seed", range(5))
def test_a_seed_gives_the_same_sinusoids_again(seed):
    for first, again in zip(sinusoids(4, seed), sinusoids(4, seed), strict=True):
        np.testing.assert_array_equal(first, again)
    assert not np.array_equal(sinusoids(4, seed)[1], sinusoids(4, seed + 1)[1])


def test_sinusoid_times_ascend_from_0_to_100_units():
    time, _ = sinusoids(500, seed=1)
    assert (np.diff(time, axis=1) > 0).all()
    assert 0 <= time.min() < 0.1
    assert 99.9 < time.max() <= 100
    assert np.median(np.diff(time, axis=1)) < 1


def test_every_sinusoid_is_a_sine_of_phase_zero_between_half_a_hertz_and_one():
    time, value = sinusoids(50, seed=2)
    grid = np.linspace(0.5, 1.0, 20_001)
    for second, wave in zip(time / 20, value[:, :, 0], strict=True):
        # Judged at five points first: all hundred at 20,001 frequencies take too long.
        close = np.abs(np.sin(2 * np.pi * grid[:, None] * second[-5:]) - wave[-5:]).max(axis=1)
        best = grid[np.argmin(close)]
        np.testing.assert_allclose(np.sin(2 * np.pi * best * second), wave, atol=1e-3)


def test_the_number_of_steps_can_be_chosen():
    time, value = sinusoids(2, seed=0, steps=7)
    assert time.shape == (2, 7)
    assert value.shape == (2, 7, 1)


@pytest.mark.parametrize("seed", range(5))
def test_weather_with_gaps_agrees_with_the_truth_where_it_has_values(seed):
    gappy, truth = weather(seed)
    np.testing.assert_array_equal(gappy["time"], truth["time"])
    for name in CHANNELS:
        seen = ~np.isnan(gappy[name])
        np.testing.assert_array_equal(gappy[name][seen], truth[name][seen])
        assert np.isfinite(truth[name]).all()


def test_a_seed_gives_the_same_weather_again():
    first, again = weather(3)[0], weather(3)[0]
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])


@pytest.mark.parametrize("seed", range(5))
def test_weather_is_plausible(seed):
    _, truth = weather(seed)
    assert (np.diff(truth["time"]) == np.timedelta64(1, "h")).all()
    assert -15 < truth["temperature"].min() < truth["temperature"].max() < 40
    assert 8 <= truth["humidity"].min() < truth["humidity"].max() <= 100
    assert 970 < truth["pressure"].min() < truth["pressure"].max() < 1055
    np.testing.assert_array_equal(truth["humidity"], truth["humidity"].round())
    np.testing.assert_array_equal(truth["temperature"], truth["temperature"].round(1))


def test_afternoons_are_warm_and_dry():
    _, truth = weather(0)
    by_hour = {name: truth[name].reshape(-1, 24).mean(axis=0) for name in CHANNELS}
    assert by_hour["temperature"].argmax() in range(13, 18)
    assert by_hour["temperature"].max() - by_hour["temperature"].min() > 5
    assert by_hour["humidity"].argmin() in range(13, 18)


@pytest.mark.parametrize("seed", range(5))
def test_gaps_are_single_readings_and_outages_of_one_sensor_and_of_all(seed):
    gappy, _ = weather(seed)
    lost = np.isnan(np.column_stack([gappy[name] for name in CHANNELS]))
    assert 0.06 < lost.mean() < 0.25
    assert lost.all(axis=1).sum() > 10
    for channel in lost.T:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], channel.astype(int), [0]])))
        length = edges[1::2] - edges[::2]
        assert (length == 1).sum() > 10
        assert 6 <= length.max() <= 72


def test_a_single_day_of_weather_can_be_had():
    assert weather(0, days=1)[1]["pressure"].size == 24
