"""The simulated data sets are what their docstrings say, and depend on the seed alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrtsi.bench.datasets.simulators import SPEED, WALL, billiards, reflected, sinusoids
from nrtsi.bench.datasets.weather import weather
from tests.strategies import seeds

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


def bounce(place, velocity, seconds):
    """Where the ball is after so many seconds: moved to the next wall, turned, moved on."""
    place, velocity, left = place.copy(), velocity.copy(), seconds
    while left > 0:
        ahead = np.where(velocity > 0, WALL - place, -WALL - place)
        with np.errstate(divide="ignore", invalid="ignore"):
            until = np.where(velocity != 0, ahead / velocity, np.inf)
        step = min(left, until.min())
        place += velocity * step
        velocity[until <= step] *= -1
        left -= step
    return place


@given(seeds, st.floats(0.0, 500.0))
def test_the_folded_path_is_that_of_a_ball_moved_from_wall_to_wall(seed, seconds):
    rng = np.random.default_rng(seed)
    start = rng.uniform(-WALL, WALL, 2)
    velocity = rng.uniform(-SPEED[1], SPEED[1], 2)
    expected = bounce(start, velocity, seconds)
    np.testing.assert_allclose(reflected(start + seconds * velocity), expected, atol=1e-9)


@given(seeds, st.booleans())
def test_a_ball_stays_on_the_table_and_keeps_its_speed_away_from_the_walls(seed, irregular):
    time, place = billiards(5, seed, steps=60, irregular=irregular)
    assert np.abs(place).max() <= WALL
    moved, took = np.diff(place, axis=1), np.diff(time, axis=1)
    far = np.linalg.norm(moved, axis=2)
    for ball in range(5):
        # A ball that cannot have met a wall between two sights moved in a straight line.
        speed = (far[ball] / took[ball]).max()
        room = WALL - np.abs(place[ball, :-1]).max(axis=1)
        free = room > speed * took[ball]
        np.testing.assert_allclose(far[ball][free], speed * took[ball][free], atol=1e-9)
        assert SPEED[0] <= speed + 1e-12
        assert speed <= SPEED[1] + 1e-12


@pytest.mark.parametrize("irregular", [False, True])
def test_a_seed_gives_the_same_balls_again(irregular):
    first, again = (billiards(4, 7, irregular=irregular) for _ in range(2))
    other = billiards(4, 8, irregular=irregular)
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(first[1], other[1])


def test_regular_times_are_seconds_and_irregular_ones_are_uniform():
    time, _ = billiards(2, 0)
    np.testing.assert_array_equal(time, np.tile(np.arange(200.0), (2, 1)))
    time, _ = billiards(300, 0, irregular=True)
    assert (np.diff(time, axis=1) > 0).all()
    assert 0 <= time.min() < 0.1
    assert 199.9 < time.max() <= 200
    share = np.histogram(time, bins=10, range=(0, 200))[0] / time.size
    np.testing.assert_allclose(share, 0.1, atol=0.01)


def test_starts_directions_and_speeds_are_uniform():
    _, place = billiards(20_000, 3, steps=2)
    share = np.histogram2d(*place[:, 0].T, bins=3, range=[[-WALL, WALL]] * 2)[0] / 20_000
    np.testing.assert_allclose(share, 1 / 9, atol=0.01)
    moved = place[:, 1] - place[:, 0]
    inside = np.abs(place[:, 0]).max(axis=1) < WALL - SPEED[1]
    speed = np.linalg.norm(moved[inside], axis=1)
    assert np.mean(speed) == pytest.approx(np.mean(SPEED), rel=0.01)
    angle = np.arctan2(moved[inside, 1], moved[inside, 0])
    share = np.histogram(angle, bins=8, range=(-np.pi, np.pi))[0] / inside.sum()
    np.testing.assert_allclose(share, 1 / 8, atol=0.01)


def test_a_ball_by_hand():
    # 0.1 from the right wall, 0.3 onwards: 0.2 back. From the lower wall, two widths: same place.
    np.testing.assert_allclose(
        reflected(np.array([WALL - 0.1 + 0.3, -WALL + 4 * WALL + 4 * WALL])), [WALL - 0.2, -WALL]
    )
