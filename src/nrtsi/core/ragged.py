"""Index arithmetic for groups of unequal sizes that are stored one after the other."""

import numpy as np
from jaxtyping import Bool, Int

__all__ = ["concat_ranges", "count_in_groups", "cumulative", "place_in_group", "split_equally"]


def place_in_group(size: Int[np.ndarray, " group"]) -> Int[np.ndarray, " entry"]:
    """Returns the place of each entry in its group.

    >>> place_in_group(np.array([2, 0, 3]))
    array([0, 1, 0, 1, 2])
    """
    return np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)


def concat_ranges(
    begin: Int[np.ndarray, " group"], end: Int[np.ndarray, " group"]
) -> Int[np.ndarray, " entry"]:
    """Concatenates the ranges from `begin` to `end`.

    >>> concat_ranges(np.array([5, 0]), np.array([7, 3]))
    array([5, 6, 0, 1, 2])
    """
    return place_in_group(end - begin) + np.repeat(begin, end - begin)


def split_equally(
    start: Int[np.ndarray, " bound"], pieces: Int[np.ndarray, " group"]
) -> tuple[Int[np.ndarray, " piece"], Int[np.ndarray, " piece"]]:
    """Splits each group into as many pieces as given, of equal size to within one entry.

    Returns the first entry of each piece, and the entry after its last.

    >>> split_equally(np.array([0, 5, 7]), np.array([2, 1]))
    (array([0, 2, 5]), array([2, 5, 7]))
    """
    group, place = np.repeat(np.arange(pieces.size), pieces), place_in_group(pieces)
    first, size = start[group], np.diff(start)[group]
    return first + place * size // pieces[group], first + (place + 1) * size // pieces[group]


def cumulative(cells: np.ndarray) -> np.ndarray:
    """Returns the sums over all rows before each row, and the total in the last row."""
    zero = np.zeros((1, *cells.shape[1:]), dtype=np.int64)
    return np.concatenate([zero, np.cumsum(cells, axis=0)])


def count_in_groups(
    cells: Bool[np.ndarray, "row dim"], start: Int[np.ndarray, " bound"]
) -> Int[np.ndarray, " group"]:
    """Counts the True cells of each group of rows."""
    # Flat, because numpy is slow at summing many rows of few cells.
    return np.diff(cumulative(cells.reshape(-1))[start * cells.shape[1]])
