"""Realism of paths in the plane: step lengths, path length, and behaviour at turns.

Channels are pairs: x and y of the first player, x and y of the second, and so on. Each player of
each series is one path. The metrics use whole paths, observed points included, because errors
often show where an imputed point follows an observed one.

Turns are those of the *truth*: points where its direction changes by more than 10 degrees. With
the turns of the imputed path instead, linear interpolation would always score as straight.
"""

import math
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.errors import InputError
from nrtsi.evaluation.metrics import Series

__all__ = ["average_length", "reflection_to_wall", "sinuosity", "step_change", "step_deviation"]

Paths: TypeAlias = Float[np.ndarray, "path step 2"]

TURN = 10.0  # change of direction, in degrees, above which a point is a turn
STILL = 1e-9  # a step shorter than this share of the longest step of its path has no direction


def step_change(path: Series) -> float:
    """Absolute difference in length of successive steps, averaged over all steps.

    >>> step_change(np.array([[[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]]]))
    4.0
    """
    return float(np.abs(np.diff(_step_lengths(_players(path)), axis=1)).mean())


def step_deviation(path: Series) -> float:
    """Standard deviation of the step lengths of a path, averaged over the paths.

    The paper's table of football players calls it step change.
    """
    return float(_step_lengths(_players(path)).std(axis=1).mean())


def average_length(path: Series) -> float:
    """Total length of a path, averaged over the paths.

    >>> average_length(np.array([[[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]]]))
    6.0
    """
    return float(_step_lengths(_players(path)).sum(axis=1).mean())


def sinuosity(path: Series, truth: Series) -> float:
    """Length of the path divided by the straight distance, between successive turns of the truth.

    A straight path has 1. Lengths and distances are summed before the division. The parts before
    the first and after the last turn are left out.
    """
    players, turns = _players(path), _turns(_players(truth))
    which, step = np.nonzero(turns)
    leg = which[1:] == which[:-1]
    which, begin, end = which[1:][leg], step[:-1][leg], step[1:][leg]
    if which.size == 0:
        raise InputError(
            f"the truth must turn by more than {TURN:g} degrees twice in a path, got no such path"
        )
    travelled = np.cumsum(_step_lengths(players), axis=1)
    # A turn is never the first point, so its index minus 1 is valid.
    length = float(np.sum(travelled[which, end - 1] - travelled[which, begin - 1]))
    straight = float(np.sum(np.linalg.norm(players[which, end] - players[which, begin], axis=-1)))
    if length == 0:
        raise InputError("the path must move between the turns of the truth, got no movement")
    # Rounding can make the length of a straight path smaller than the distance.
    return max(1.0, length / straight) if straight > 0 else math.inf


def reflection_to_wall(path: Series, truth: Series, half_width: float) -> float:
    """Distance of the path from the nearest wall at the turns of the truth.

    The walls are the edges of the square from `-half_width` to `half_width`. The distance is
    averaged over the turns of a path, then over the paths with turns. It is above 0 for the truth
    itself, whose samples do not coincide with the reflections.
    """
    if not half_width > 0:
        raise InputError(f"half_width must be positive, got {half_width}")
    turns = _turns(_players(truth))
    count = turns.sum(axis=1)
    if not count.any():
        raise InputError(f"the truth must turn by more than {TURN:g} degrees, got no turn")
    beyond = np.abs(_players(path)) - half_width
    outside = np.linalg.norm(np.maximum(beyond, 0.0), axis=-1)
    distance = np.where((beyond <= 0).all(axis=-1), -beyond.max(axis=-1), outside)
    total = np.where(turns, distance, 0.0).sum(axis=1)
    return float(np.mean(total[count > 0] / count[count > 0]))


def _players(path: Series) -> Paths:
    """Validates the series and separates the players."""
    series, step, dim = path.shape
    if dim == 0 or dim % 2:
        raise InputError(f"paths must have an x and a y channel for each player, got {dim}")
    if step < 3:
        raise InputError(f"paths must have at least 3 steps, got {step}")
    if series == 0:
        raise InputError("paths must contain at least one series, got none")
    if not np.isfinite(path).all():
        raise InputError(
            f"paths must be finite, got {np.sum(~np.isfinite(path))} cells that are not; "
            f"impute or remove their series"
        )
    players = path.reshape(series, step, dim // 2, 2).swapaxes(1, 2)
    return players.reshape(-1, step, 2).astype(np.float64)


def _step_lengths(players: Paths) -> Float[np.ndarray, "path pair"]:
    return np.linalg.norm(np.diff(players, axis=1), axis=-1)


def _turns(players: Paths) -> Bool[np.ndarray, "path step"]:
    """True at the points where a path changes direction; never at its ends.

    A path that pauses turns where it moves again, if the direction is different.
    """
    move, length = np.diff(players, axis=1), _step_lengths(players)
    moving = length > STILL * length.max(axis=1, keepdims=True)
    pair = np.arange(length.shape[1])
    last = np.maximum.accumulate(np.where(moving, pair, -1), axis=1)[:, :-1]
    before = np.take_along_axis(move, np.maximum(last, 0)[..., None], axis=1)
    after = move[:, 1:]
    cross = before[..., 0] * after[..., 1] - before[..., 1] * after[..., 0]
    dot = np.sum(before * after, axis=-1)
    turns = np.zeros(players.shape[:2], dtype=bool)
    sharp = np.degrees(np.arctan2(np.abs(cross), dot)) > TURN
    turns[:, 1:-1] = sharp & moving[:, 1:] & (last >= 0)
    return turns
