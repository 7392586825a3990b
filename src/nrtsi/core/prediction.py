"""Predictions of cells: a mean and a standard deviation, and how to query other times."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.series import SeriesSet

# Standard deviations, of scaled series, beyond which a difference does not matter.
STD_RANGE = (1e-4, 4.0)

__all__ = ["BasePrediction", "Predict", "Prediction", "predict_rows"]


@dataclass(frozen=True)
class Prediction:
    """A mean and a standard deviation for every cell."""

    mean: Float[np.ndarray, "row dim"]
    """The predicted value; the observed value where the cell is observed."""

    std: Float[np.ndarray, "row dim"]
    """The expected size of the error; 0 where the cell is observed."""


@dataclass(frozen=True)
class BasePrediction:
    """The prediction of a base predictor, of scaled series."""

    mean: Float[np.ndarray, "row dim"]
    """The predicted value; interpolation where the predictor does not apply."""

    std: Float[np.ndarray, "row dim"]
    """The expected size of the error; 0 where the cell is observed or the predictor does not
    apply."""

    available: Bool[np.ndarray, " row #dim"]
    """False where the predictor does not apply."""

    disagreement: Float[np.ndarray, "row dim"] | None = None
    """The difference of two predictions of the cell, if the predictor makes two."""

    @cached_property
    def feature(self) -> Float[np.ndarray, "row dim"]:
        """The uncertainty as an input of the network, on a logarithmic scale."""
        if self.disagreement is not None:
            return self.disagreement
        low, high = STD_RANGE
        return np.log2(np.where(self.available, self.std.clip(low, high), high)) / 4


Predict: TypeAlias = Callable[[SeriesSet, Float[np.ndarray, "row dim"] | None], Prediction]
"""Predicts every cell of some series, given the standard deviation of the observed ones."""


def predict_rows(
    predict: Predict,
    series: SeriesSet,
    query: SeriesSet,
    original: Int[np.ndarray, " original"],
) -> Prediction:
    """Predicts the cells of `query`, which has the rows of `series` and others.

    The rows of `series` are imputed first, as without a query. The other rows are then predicted
    from them, each as uncertain as it is.

    Args:
        predict: Predicts every cell of a set of series.
        series: The data.
        query: The same series with more rows.
        original: The rows of `query` that are those of `series`.
    """
    known = predict(series, None)
    if query is series:
        return known
    value, std = np.zeros_like(query.value), np.zeros_like(query.value)
    observed = np.zeros_like(query.observed)
    value[original], std[original], observed[original] = known.mean, known.std, True
    return predict(replace(query, value=value, observed=observed), std)
