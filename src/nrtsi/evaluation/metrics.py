"""Errors of imputed values and of draws at selected cells.

`where` selects the cells. `l2` sums the squared error over the channels and averages it over the
rows with a selected cell, as in the paper's tables.
"""

from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.errors import InputError

__all__ = ["avg_l2", "avg_over_min", "crps", "l2", "mae", "min_l2", "mse"]

CellArray: TypeAlias = Float[np.ndarray, "*cell"]
Where: TypeAlias = Bool[np.ndarray, "*cell"]
Series: TypeAlias = Float[np.ndarray, "series step dim"]
Draws: TypeAlias = Float[np.ndarray, "draw series step dim"]
SeriesWhere: TypeAlias = Bool[np.ndarray, "series step dim"]


def mse(truth: CellArray, imputed: CellArray, where: Where) -> float:
    """Mean squared error over the selected cells.

    >>> mse(np.array([1.0, 2.0]), np.array([1.0, 5.0]), where=np.array([False, True]))
    9.0
    """
    _require_cells(where)
    return float(np.mean((imputed[where] - truth[where]) ** 2))


def mae(truth: CellArray, imputed: CellArray, where: Where) -> float:
    """Mean absolute error over the selected cells.

    >>> mae(np.array([1.0, 2.0]), np.array([1.0, 5.0]), where=np.array([False, True]))
    3.0
    """
    _require_cells(where)
    return float(np.mean(np.abs(imputed[where] - truth[where])))


def l2(
    truth: Float[np.ndarray, "*row dim"],
    imputed: Float[np.ndarray, "*row dim"],
    where: Bool[np.ndarray, "*row dim"],
) -> float:
    """Squared error, summed over the channels and averaged over the rows with a selected cell."""
    _require_cells(where)
    square = np.where(where, imputed - truth, 0.0) ** 2
    return float(square.sum() / where.any(axis=-1).sum())


def crps(truth: CellArray, draws: Float[np.ndarray, " draw *cell"], where: Where) -> float:
    """Continuous ranked probability score of the draws, averaged over the selected cells.

    This is the unbiased estimate: its expectation does not depend on the number of draws. The
    score of a single draw is its absolute error.
    """
    _require_cells(where)
    count = draws.shape[0]
    ordered = np.sort(draws[:, where], axis=0)
    error = np.mean(np.abs(ordered - truth[where]), axis=0)
    if count == 1:
        return float(np.mean(error))
    # The i-th smallest draw is above i other draws and below the rest.
    weight = 2 * np.arange(count) - (count - 1)
    difference = weight @ ordered / (count * (count - 1))
    return float(np.mean(error - difference))


def min_l2(truth: Series, draws: Draws, where: SeriesWhere) -> float:
    """`l2` of the best draw of each series, averaged over the series (the paper's minMSE).

    >>> truth = np.zeros((1, 1, 2))
    >>> draws = np.stack([truth + 3, truth + 1])
    >>> min_l2(truth, draws, where=np.ones((1, 1, 2), dtype=bool))
    2.0
    """
    return float(_l2_by_draw(truth, draws, where).min(axis=0).mean())


def avg_l2(truth: Series, draws: Draws, where: SeriesWhere) -> float:
    """`l2` of each series, averaged over the draws and the series (the paper's avgMSE)."""
    return float(_l2_by_draw(truth, draws, where).mean())


def avg_over_min(truth: Series, draws: Draws, where: SeriesWhere) -> float:
    """`avg_l2` divided by `min_l2`, the diversity of the draws; 1 if all draws are equal."""
    errors = _l2_by_draw(truth, draws, where)
    least = float(errors.min(axis=0).mean())
    if least == 0:
        raise InputError(
            "the ratio of avg_l2 to min_l2 is undefined, got draws that equal the truth; "
            "use avg_l2 instead"
        )
    return float(errors.mean()) / least


def _l2_by_draw(
    truth: Series, draws: Draws, where: SeriesWhere
) -> Float[np.ndarray, "draw scored"]:
    """`l2` of each draw of each series with a selected cell."""
    _require_cells(where)
    if draws.shape[0] == 0:
        raise InputError("draws must contain at least one draw, got none")
    rows = where.any(axis=2).sum(axis=1)
    square = [np.sum(np.where(where, draw - truth, 0.0) ** 2, axis=(1, 2)) for draw in draws]
    return np.stack(square)[:, rows > 0] / rows[rows > 0]


def _require_cells(where: Bool[np.ndarray, "..."]) -> None:
    if not where.any():
        raise InputError("where must be True in at least one cell, got none")
