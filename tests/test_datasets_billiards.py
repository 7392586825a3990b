"""The ball on the table: folded paths against a ball that is moved from wall to wall."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrtsi.bench.datasets.billiards import SPEED, WALL, billiards, reflected
from tests.strategies import seeds


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
