"""Tracks of six American football players, from an array that the user prepares."""

from itertools import permutations
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from nrtsi.bench.datasets.dataset import Dataset, regular, split_points
from nrtsi.bench.datasets.originals import one_file, read_columns
from nrtsi.errors import InputError

__all__ = ["read_nfl"]

PLAYERS = 6
FRAMES = 50
CHANNELS = tuple(f"{axis}{player + 1}" for player in range(PLAYERS) for axis in "xy")
ORDERS = np.array(list(permutations(range(PLAYERS))))
"""All 720 orders of six players."""


def read_nfl(path: Path, seed: int, *, orders: int = 4) -> Dataset:
    """Reads windows of 50 frames by six players, from a `.npy` and the `.csv` of the same stem.

    The array is (window, 50, 12) with columns x1, y1, x2, y2, … in yards; the CSV has the
    columns `gameId` and `playId`, one row a window. Plays, never windows, are split 70 / 10 / 20
    at random. Players have no natural order: each window has a random one, and each training
    window occurs `orders` times, each time in another order.
    """
    value = _array(path)
    play = _plays(path.with_suffix(".csv"), value.shape[0])
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(int(play.max()) + 1)
    pieces = np.split(drawn, split_points(drawn.size, "plays"))
    repeats = (orders, 1, 1)
    train, validation, test = (
        regular(_reordered(value[np.isin(play, piece)], repeat, rng))
        for piece, repeat in zip(pieces, repeats, strict=True)
    )
    about = (
        f"Tracks of {PLAYERS} football players in yards, windows of {FRAMES} frames at 10 Hz. "
        f"Plays split at random: 70 % training, 10 % validation, 20 % test; players in random "
        f"order, training windows in {orders} orders each."
    )
    return Dataset("nfl", train, validation, test, CHANNELS, about)


def _array(path: Path) -> Float[np.ndarray, "window 50 12"]:
    try:
        with path.open("rb") as file:
            value = np.load(file, allow_pickle=False)
    except OSError as error:
        raise InputError(
            f"{path} must be readable, got {error.strerror or error}; check the path"
        ) from error
    except (ValueError, EOFError) as error:
        raise InputError(
            f"{path} must be a .npy file of numbers, got another; save the array with numpy.save"
        ) from error
    found = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else "files"
    if found == "files" or value.shape[1:] != (FRAMES, 2 * PLAYERS) or value.dtype.kind != "f":
        raise InputError(
            f"{path} must hold floats of shape (window, {FRAMES}, {2 * PLAYERS}), got {found}; "
            f"cut the tracks into such windows"
        )
    return value.astype(np.float64)


def _plays(path: Path, windows: int) -> Int[np.ndarray, " window"]:
    """A number for each window that is the same for the windows of one play: 0, 1, 2, …."""
    keys = read_columns(*one_file(path, path.name), ("gameId", "playId"))
    if np.isnan(keys).any():
        raise InputError(
            f"{path} must have a gameId and a playId in every row, got empty cells; fill them in"
        )
    if len(keys) != windows:
        raise InputError(
            f"{path} must have a row for each of the {windows} windows, got {len(keys)}; give the "
            f"file that belongs to the array"
        )
    return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)


def _reordered(
    value: Float[np.ndarray, "window frame column"], repeat: int, rng: np.random.Generator
) -> Float[np.ndarray, "series frame column"]:
    """Each window `repeat` times, its players in a different random order each time."""
    window, frame, column = value.shape
    # The places of the smallest of 720 random numbers: no order is drawn twice.
    chosen = rng.random((window, len(ORDERS))).argsort(axis=1)[:, :repeat]
    order = ORDERS[chosen].reshape(window * repeat, 1, PLAYERS, 1)
    players = np.repeat(value.reshape(window, frame, PLAYERS, 2), repeat, axis=0)
    return np.take_along_axis(players, order, axis=2).reshape(-1, frame, column)
