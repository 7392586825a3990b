"""How near the best of several draws comes to the truth, and how far the draws spread.

Every series is scored by itself, then the series are averaged: the best draw of one need not be
the best of another. `l2` sums the squared error over the channels and averages over the rows with
a cell that counts, which is what the paper calls minMSE and avgMSE; `mse` averages over the cells
that count. Series with no such cell are left out.
"""

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.errors import InputError
from nrtsi.evaluation.metrics.errors import must_score

__all__ = ["avg_l2", "avg_mse", "avg_over_min", "min_l2", "min_mse"]


def min_l2(
    truth: Float[np.ndarray, "series step dim"],
    draws: Float[np.ndarray, "draw series step dim"],
    where: Bool[np.ndarray, "series step dim"],
) -> float:
    """The `l2` of each series' best draw, averaged over the series.

    >>> import numpy as np
    >>> truth = np.zeros((1, 1, 2))
    >>> draws = np.stack([truth + 3, truth + 1])
    >>> min_l2(truth, draws, where=np.ones((1, 1, 2), dtype=bool))
    2.0
    """
    return float(_row_errors(truth, draws, where).min(axis=0).mean())


def avg_l2(
    truth: Float[np.ndarray, "series step dim"],
    draws: Float[np.ndarray, "draw series step dim"],
    where: Bool[np.ndarray, "series step dim"],
) -> float:
    """The `l2` of each series, averaged over the draws and the series."""
    return float(_row_errors(truth, draws, where).mean())


def min_mse(
    truth: Float[np.ndarray, "series step dim"],
    draws: Float[np.ndarray, "draw series step dim"],
    where: Bool[np.ndarray, "series step dim"],
) -> float:
    """The mean squared error of each series' best draw, averaged over the series."""
    return float(_cell_errors(truth, draws, where).min(axis=0).mean())


def avg_mse(
    truth: Float[np.ndarray, "series step dim"],
    draws: Float[np.ndarray, "draw series step dim"],
    where: Bool[np.ndarray, "series step dim"],
) -> float:
    """The mean squared error of each series, averaged over the draws and the series."""
    return float(_cell_errors(truth, draws, where).mean())


def avg_over_min(
    truth: Float[np.ndarray, "series step dim"],
    draws: Float[np.ndarray, "draw series step dim"],
    where: Bool[np.ndarray, "series step dim"],
) -> float:
    """How diverse the draws are: `avg_l2` over `min_l2`, 1 where all draws are alike.

    Where whole rows are missing it is `avg_mse` over `min_mse` too.
    """
    least = min_l2(truth, draws, where)
    if least == 0:
        raise InputError(
            "the best draws must miss the truth somewhere, got none that does; "
            "avg over min would divide by 0"
        )
    return avg_l2(truth, draws, where) / least


def _row_errors(
    truth: Float[np.ndarray, "series step dim"],
    draws: Float[np.ndarray, "draw series step dim"],
    where: Bool[np.ndarray, "series step dim"],
) -> Float[np.ndarray, "draw scored"]:
    """Squared error of each draw of each series, per row with a cell that counts."""
    rows = where.any(axis=2).sum(axis=1)
    return _squares(truth, draws, where)[:, rows > 0] / rows[rows > 0]


def _cell_errors(
    truth: Float[np.ndarray, "series step dim"],
    draws: Float[np.ndarray, "draw series step dim"],
    where: Bool[np.ndarray, "series step dim"],
) -> Float[np.ndarray, "draw scored"]:
    """Squared error of each draw of each series, per cell that counts."""
    cells = where.sum(axis=(1, 2))
    return _squares(truth, draws, where)[:, cells > 0] / cells[cells > 0]


def _squares(
    truth: Float[np.ndarray, "series step dim"],
    draws: Float[np.ndarray, "draw series step dim"],
    where: Bool[np.ndarray, "series step dim"],
) -> Float[np.ndarray, "draw series"]:
    """Squared error of each draw of each series, summed over the cells that count."""
    must_score(where)
    if draws.shape[0] == 0:
        raise InputError("draws must hold at least one draw, got none; nothing to score")
    return np.stack(
        [np.sum(np.where(where, draw - truth, 0.0) ** 2, axis=(1, 2)) for draw in draws]
    )
