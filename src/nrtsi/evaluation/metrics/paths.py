"""How real paths in the plane look: their steps, their length, and what they do at turns.

Channels come in pairs: x and y of the first player, x and y of the second, and so on. Every
player of every series is a path of its own. All measures look at whole paths, observed points
included, for a jump where a filled point meets an observed one is what they are there to find.

Turns are those of the *truth*: points at which it changes direction by more than 10 degrees.
Were they the filled path's own, any chain of straight lines would be perfectly straight from turn
to turn, and linear interpolation as good as the truth.
"""

import math

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.errors import InputError

__all__ = ["average_length", "reflection_to_wall", "sinuosity", "step_change", "step_deviation"]

TURN = 10.0
"""Change of direction, in degrees, above which a path turns."""

STILL = 1e-9
"""A step shorter than this share of its path's longest has no direction, only rounding."""


def step_change(path: Float[np.ndarray, "series step dim"]) -> float:
    """Difference in length of successive steps, averaged over steps, players and series.

    >>> import numpy as np
    >>> step_change(np.array([[[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]]]))
    4.0
    """
    return float(np.abs(np.diff(_steps(_players(path)), axis=1)).mean())


def step_deviation(path: Float[np.ndarray, "series step dim"]) -> float:
    """Standard deviation of the lengths of a path's steps, averaged over players and series.

    The deviation is that of the steps there are, divided by their number. In the paper's table of
    football players this is called step change.
    """
    return float(_steps(_players(path)).std(axis=1).mean())


def average_length(path: Float[np.ndarray, "series step dim"]) -> float:
    """Length of a path, all its steps together, averaged over players and series.

    >>> import numpy as np
    >>> average_length(np.array([[[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]]]))
    6.0
    """
    return float(_steps(_players(path)).sum(axis=1).mean())


def sinuosity(
    path: Float[np.ndarray, "series step dim"], truth: Float[np.ndarray, "series step dim"]
) -> float:
    """Length of the path over the straight distance, between successive turns of the truth.

    1 is straight. All lengths together are divided by all distances together, so that a leg that
    ends near where it began does not outweigh the rest. What comes before the first and after the
    last turn of the truth does not count. The truth's own is `sinuosity(truth, truth)`.
    """
    way, turns = _players(path), _turns(_players(truth))
    which, step = np.nonzero(turns)
    leg = which[1:] == which[:-1]
    which, begin, end = which[1:][leg], step[:-1][leg], step[1:][leg]
    if which.size == 0:
        raise InputError(
            f"the truth must turn by more than {TURN:g} degrees twice in some path, got no such "
            f"path; there is nothing between turns to score"
        )
    gone = np.cumsum(_steps(way), axis=1)
    # A turn is never the first point: one step at least has been made before it.
    length = float(np.sum(gone[which, end - 1] - gone[which, begin - 1]))
    straight = float(np.sum(np.linalg.norm(way[which, end] - way[which, begin], axis=-1)))
    if length == 0:
        raise InputError(
            "the path must move between the turns of the truth, got one that stands still; "
            "there is nothing to score"
        )
    # Rounding alone brings the length of a straight path below the distance.
    return max(1.0, length / straight) if straight > 0 else math.inf


def reflection_to_wall(
    path: Float[np.ndarray, "series step dim"],
    truth: Float[np.ndarray, "series step dim"],
    half_width: float,
) -> float:
    """Distance of the path from the nearest wall at the turns of the truth.

    Averaged over the turns of a path, then over the paths that have any, so that fast paths with
    many turns count like slow ones. The walls are those of the square from `-half_width` to
    `half_width`; a path beyond them is as far away as on this side. The truth's own is
    `reflection_to_wall(truth, truth, half_width)`: not 0, as it is sampled before and after a
    wall and not at it.
    """
    if not half_width > 0:
        raise InputError(f"half_width must be positive, got {half_width}")
    turns = _turns(_players(truth))
    count = turns.sum(axis=1)
    if not count.any():
        raise InputError(
            f"the truth must turn by more than {TURN:g} degrees somewhere, got no turn; "
            f"nothing to score"
        )
    away = np.where(turns, _from_wall(_players(path), half_width), 0.0).sum(axis=1)
    return float(np.mean(away[count > 0] / count[count > 0]))


def _players(path: Float[np.ndarray, "series step dim"]) -> Float[np.ndarray, "path step 2"]:
    """Every player of every series as a path of its own, checked."""
    series, step, dim = path.shape
    if dim == 0 or dim % 2:
        raise InputError(f"a path must have pairs of channels, x and y a player, got {dim}")
    if step < 3:
        raise InputError(f"a path must have at least 3 steps, got {step}")
    if series == 0:
        raise InputError("paths must hold at least one series, got none; nothing to score")
    if not np.isfinite(path).all():
        raise InputError(
            f"a path must be known at every step, got {np.sum(~np.isfinite(path))} cells that "
            f"are not finite; fill or leave out their series"
        )
    players = path.reshape(series, step, dim // 2, 2).swapaxes(1, 2)
    return players.reshape(-1, step, 2).astype(np.float64)


def _steps(way: Float[np.ndarray, "path step 2"]) -> Float[np.ndarray, "path pair"]:
    """Length of each step."""
    return np.linalg.norm(np.diff(way, axis=1), axis=-1)


def _turns(way: Float[np.ndarray, "path step 2"]) -> Bool[np.ndarray, "path step"]:
    """True at the points at which a path changes direction; never at its ends.

    A path that stood still turns where it moves on, if in another direction than it came.
    """
    move, length = np.diff(way, axis=1), _steps(way)
    moving = length > STILL * length.max(axis=1, keepdims=True)
    pair = np.arange(length.shape[1])
    last = np.maximum.accumulate(np.where(moving, pair, -1), axis=1)[:, :-1]
    before = np.take_along_axis(move, np.maximum(last, 0)[..., None], axis=1)
    after = move[:, 1:]
    across = before[..., 0] * after[..., 1] - before[..., 1] * after[..., 0]
    along = np.sum(before * after, axis=-1)
    turns = np.zeros(way.shape[:2], dtype=bool)
    sharp = np.degrees(np.arctan2(np.abs(across), along)) > TURN
    turns[:, 1:-1] = sharp & moving[:, 1:] & (last >= 0)
    return turns


def _from_wall(
    way: Float[np.ndarray, "path step 2"], half_width: float
) -> Float[np.ndarray, "path step"]:
    """Distance of each point from the edge of the square, inside or outside of it."""
    beyond = np.abs(way) - half_width
    outside = np.linalg.norm(np.maximum(beyond, 0.0), axis=-1)
    return np.where((beyond <= 0).all(axis=-1), -beyond.max(axis=-1), outside)
