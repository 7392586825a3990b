"""Path metrics agree with plain loops and with the paper's billiards."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrtsi.core.interpolation import interpolate
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.evaluation import path_metrics as metrics

seeds = st.integers(0, 2**32 - 1)
WALL = 0.8828


def example(seed, series=3, step=12, players=2):
    """A noisy path, and a truth with random turns."""
    rng = np.random.default_rng(seed)
    turn = np.where(rng.random((series, players, step)) < 0.4, rng.normal(size=step), 0.01)
    heading = np.cumsum(turn, axis=2)
    move = np.stack([np.cos(heading), np.sin(heading)], axis=-1)
    move[:, :, 0], move[:, :, 1], move[:, :, 2] = [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]
    move *= (rng.random((series, players, step, 1)) < 0.9) | (np.arange(step)[:, None] < 3)
    truth = np.cumsum(move, axis=2).swapaxes(1, 2).reshape(series, step, 2 * players)
    return truth + 0.1 * rng.normal(size=truth.shape), truth


def billiards(series, seed):
    """Straight flight at a constant speed inside the walls, and which 180 to 195 steps to hide."""
    rng = np.random.default_rng(seed)
    angle, speed = rng.uniform(0, 2 * np.pi, series), rng.uniform(0.0018, 0.1075, series)
    flight = np.stack([np.cos(angle), np.sin(angle)], axis=-1) * speed[:, None]
    begin = rng.uniform(-WALL, WALL, (series, 1, 2))
    place = (begin + flight[:, None] * np.arange(200)[:, None] + WALL) % (4 * WALL)
    rank = rng.random((series, 200)).argsort(axis=1).argsort(axis=1)
    hidden = rank < rng.integers(180, 196, (series, 1))
    return np.where(place > 2 * WALL, 4 * WALL - place, place) - WALL, hidden


def paths(array):
    """Each player's points, as tuples."""
    for series in array:
        for player in range(array.shape[2] // 2):
            yield [(row[2 * player], row[2 * player + 1]) for row in series]


def turns(points):
    """Indices of the turns by a plain loop over the angles."""
    found, came = [], None
    for index in range(len(points) - 1):
        (x, y), (u, v) = points[index], points[index + 1]
        if math.dist(points[index], points[index + 1]) < 1e-9:
            continue
        goes = math.atan2(v - y, u - x)
        if came is not None:
            bend = abs(math.remainder(goes - came, 2 * math.pi))
            if math.degrees(bend) > 10:
                found.append(index)
        came = goes
    return found


def scores(path, truth):
    return {
        "step_change": metrics.step_change(path),
        "step_deviation": metrics.step_deviation(path),
        "average_length": metrics.average_length(path),
        "sinuosity": metrics.sinuosity(path, truth),
    }


def mapped(array, matrix, shift=0.0):
    """Every player's points moved by a linear map and a shift."""
    points = array.reshape(*array.shape[:2], -1, 2) @ np.asarray(matrix).T + shift
    return points.reshape(array.shape)


@given(seed=seeds, angle=st.floats(0, 6.3))
def test_translation_and_rotation_change_nothing(seed, angle):
    path, truth = example(seed)
    turned = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    moved = [mapped(array, turned, shift=[5.0, -2.0]) for array in (path, truth)]
    assert scores(*moved) == pytest.approx(scores(path, truth))


@given(seed=seeds, factor=st.floats(0.1, 10))
def test_lengths_scale_with_the_units_and_sinuosity_does_not(seed, factor):
    path, truth = example(seed)
    small, large = scores(path, truth), scores(factor * path, factor * truth)
    for name in ("step_change", "step_deviation", "average_length"):
        assert large[name] == pytest.approx(factor * small[name])
    assert large["sinuosity"] == pytest.approx(small["sinuosity"])
    wall = metrics.reflection_to_wall(path, truth, half_width=3.0)
    wide = metrics.reflection_to_wall(factor * path, factor * truth, half_width=factor * 3.0)
    assert wide == pytest.approx(factor * wall)


@given(seed=seeds)
def test_reversing_a_path_changes_no_step_metric(seed):
    path, truth = example(seed)
    ahead, back = scores(path, truth), scores(path[:, ::-1], truth)
    for name in ("step_change", "step_deviation", "average_length"):
        assert back[name] == pytest.approx(ahead[name])


@given(seed=seeds)
def test_each_player_is_a_separate_path(seed):
    path, truth = example(seed)
    one = [array.reshape(3, 12, 2, 2).swapaxes(1, 2).reshape(6, 12, 2) for array in (path, truth)]
    assert scores(*one) == pytest.approx(scores(path, truth))
    distance = metrics.reflection_to_wall(*one, half_width=3.0)
    assert distance == pytest.approx(metrics.reflection_to_wall(path, truth, half_width=3.0))


@given(seed=seeds)
def test_sinuosity_is_at_least_one(seed):
    path, truth = example(seed)
    assert metrics.sinuosity(path, truth) >= 1
    # Bends of the truth below 10 degrees are all that is left between its own turns.
    assert 1 <= metrics.sinuosity(truth, truth) < 1.01


@given(seed=seeds)
def test_steps_and_lengths_agree_with_plain_loops(seed):
    path, _ = example(seed)
    steps = [[math.dist(a, b) for a, b in itertools.pairwise(points)] for points in paths(path)]
    change = [abs(b - a) for one in steps for a, b in itertools.pairwise(one)]
    assert metrics.step_change(path) == pytest.approx(np.mean(change))
    assert metrics.step_deviation(path) == pytest.approx(np.mean([np.std(one) for one in steps]))
    assert metrics.average_length(path) == pytest.approx(np.mean([sum(one) for one in steps]))


@given(seed=seeds)
def test_sinuosity_agrees_with_plain_loops(seed):
    path, truth = example(seed)
    length = straight = 0.0
    for imputed, true in zip(paths(path), paths(truth), strict=True):
        corners = turns(true)
        for begin, end in itertools.pairwise(corners):
            length += sum(math.dist(imputed[i], imputed[i + 1]) for i in range(begin, end))
            straight += math.dist(imputed[begin], imputed[end])
    assert metrics.sinuosity(path, truth) == pytest.approx(length / straight)


@given(seed=seeds)
def test_the_distance_to_the_wall_agrees_with_plain_loops(seed):
    path, truth = example(seed)
    corner = [(3, 3), (-3, 3), (-3, -3), (3, -3), (3, 3)]
    means = []
    for imputed, true in zip(paths(path), paths(truth), strict=True):
        away = [
            min(_to_line(imputed[i], a, b) for a, b in itertools.pairwise(corner))
            for i in turns(true)
        ]
        means += [np.mean(away)] if away else []
    found = metrics.reflection_to_wall(path, truth, half_width=3.0)
    assert found == pytest.approx(np.mean(means))


def _to_line(point, begin, end):
    """Distance of a point from the line between two others, none of it beyond its ends."""
    point, begin, end = map(np.asarray, (point, begin, end))
    share = np.clip((point - begin) @ (end - begin) / ((end - begin) @ (end - begin)), 0, 1)
    return math.dist(point, begin + share * (end - begin))


# A square wave: turns of 90 degrees at (1, 0), (1, 1), (2, 1), (2, 0); its ends do not turn.
WAVE = np.array([[[0.0, 0], [1, 0], [1, 1], [2, 1], [2, 0], [4, 0]]])


def test_steps_by_hand():
    # Steps of 1, 1, 1, 1, 2.
    assert metrics.step_change(WAVE) == 1 / 4
    assert metrics.step_deviation(WAVE) == pytest.approx(math.sqrt(4 * 0.04 + 0.64) / math.sqrt(5))
    assert metrics.average_length(WAVE) == 6
    assert metrics.average_length(np.concatenate([WAVE, 2 * WAVE], axis=2)) == 9


def test_sinuosity_by_hand():
    assert metrics.sinuosity(WAVE, WAVE) == 1
    # The truth turns at steps 1 and 4 only; between them the wave covers 3 for a distance of 1.
    truth = np.array([[[0.0, 0], [1, 0], [1, 1], [1, 2], [1, 3], [4, 3]]])
    assert metrics.sinuosity(WAVE, truth) == 3
    # Between the turns of the truth, the path returns to its start.
    path = np.array([[[0.0, 0], [0, 0], [5, 0], [5, 0], [0, 0], [7, 0]]])
    assert metrics.sinuosity(path, truth) == math.inf


def test_the_wall_by_hand():
    # At its turns the wave is 2, 2, 1 and 1 from the nearest wall of the square to ±3.
    assert metrics.reflection_to_wall(WAVE, WAVE, half_width=3.0) == 1.5
    # Of ±1.5: 0.5, 0.5, then 0.5 beyond, twice.
    assert metrics.reflection_to_wall(WAVE, WAVE, half_width=1.5) == 0.5
    # Beyond a corner the distance is to the corner: 1 and 1 away from it.
    corner = np.array([[[0.0, 0], [2, 2], [0, 0]]])
    assert metrics.reflection_to_wall(corner, corner, 1.0) == pytest.approx(math.sqrt(2))
    # A path with many turns counts like one with few: the wave's 1.5, and 1 at the one turn.
    few = np.array([[[0.0, 0], [1, 0], [2, 0], [2, 1], [2, 2], [2, 3]]])
    both = np.concatenate([WAVE, few])
    assert metrics.reflection_to_wall(both, both, half_width=3.0) == 1.25


def test_a_path_that_pauses_turns_where_it_moves_again():
    truth = np.array([[[0.0, 0], [1, 0], [1, 0], [1, 1], [1, 1], [1, 2], [2, 2]]])
    # Turns at the steps 2 and 5; going on straight after a rest, at step 4, is none.
    path = np.array([[[0.0, 0], [0, 0], [0, 0], [3, 4], [3, 4], [6, 0], [9, 9]]])
    assert metrics.sinuosity(path, truth) == 10 / 6
    late = np.array([[[0.0, 0], [0, 0], [1, 0], [1, 1], [0, 1]]])
    assert metrics.reflection_to_wall(late, late, half_width=2.0) == 1


def test_billiards_are_straight_and_even_as_the_paper_says():
    truth, hidden = billiards(500, seed=0)
    gappy = SeriesSet.stack(np.where(hidden[..., None], np.nan, truth))
    linear = interpolate(gappy).reshape(truth.shape)
    # The paper: 1.000, 1.588e-3 and 0.018 for the truth; 1.121 and 0.247 for straight lines.
    assert metrics.sinuosity(truth, truth) == pytest.approx(1.0, abs=1e-3)
    assert metrics.step_change(truth) == pytest.approx(1.6e-3, rel=0.1)
    assert metrics.reflection_to_wall(truth, truth, WALL) == pytest.approx(0.018, abs=3e-3)
    assert metrics.sinuosity(linear, truth) == pytest.approx(1.13, abs=0.03)
    assert metrics.reflection_to_wall(linear, truth, WALL) == pytest.approx(0.25, abs=0.03)


EACH = {
    "step_change": metrics.step_change,
    "step_deviation": metrics.step_deviation,
    "average_length": metrics.average_length,
    "sinuosity": lambda path: metrics.sinuosity(path, path),
    "reflection_to_wall": lambda path: metrics.reflection_to_wall(path, path, 3.0),
}


@pytest.mark.parametrize("score", EACH.values(), ids=EACH)
def test_invalid_paths_are_rejected(score):
    with pytest.raises(InputError, match="an x and a y channel for each player, got 3"):
        score(np.zeros((2, 5, 3)))
    with pytest.raises(InputError, match="an x and a y channel for each player, got 0"):
        score(np.zeros((2, 5, 0)))
    with pytest.raises(InputError, match="at least 3 steps, got 2"):
        score(WAVE[:, :2])
    with pytest.raises(InputError, match="at least one series, got none"):
        score(WAVE[:0])
    gaps = WAVE.copy()
    gaps[0, 2], gaps[0, 3, 0] = np.nan, np.inf
    with pytest.raises(InputError, match="must be finite, got 3 cells that are not"):
        score(gaps)


def test_a_truth_without_turns_is_rejected():
    line = np.stack([np.arange(6.0), np.zeros(6)], axis=-1)[None]
    with pytest.raises(InputError, match="more than 10 degrees twice in a path, got no such"):
        metrics.sinuosity(WAVE, line)
    with pytest.raises(InputError, match="more than 10 degrees twice in a path, got no such"):
        metrics.sinuosity(WAVE[:, :3], WAVE[:, :3])
    with pytest.raises(InputError, match="more than 10 degrees, got no turn"):
        metrics.reflection_to_wall(WAVE, line, 3.0)


def test_a_path_that_never_moves_is_rejected():
    with pytest.raises(
        InputError, match="must move between the turns of the truth, got no movement"
    ):
        metrics.sinuosity(np.ones_like(WAVE), WAVE)


@pytest.mark.parametrize("width", [0.0, -1.0, float("nan")])
def test_a_half_width_that_is_not_positive_is_rejected(width):
    with pytest.raises(InputError, match=f"half_width must be positive, got {width}"):
        metrics.reflection_to_wall(WAVE, WAVE, width)
