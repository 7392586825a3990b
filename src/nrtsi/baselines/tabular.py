"""Baselines from scikit-learn, which impute the rows of a table with time as a column."""

import warnings
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from nrtsi.baselines.base import Imputer
from nrtsi.core.scaling import Scaler
from nrtsi.core.series import SeriesSet, Values

__all__ = ["KNN", "MICE"]

CHUNK = 5_000  # rows that are imputed at a time; bounds the memory


class Tabular(Imputer):
    """Imputes a table whose columns are the scaled channels and the scaled time.

    Time is a column so that a row without observations has an input.
    """

    max_rows: ClassVar[int]  # rows to fit on; more rows are subsampled evenly

    def fit_series(self, series: SeriesSet) -> None:
        """Fits scikit-learn's imputer on rows with an observed cell."""
        from sklearn.exceptions import ConvergenceWarning

        rows = np.flatnonzero(series.has_data)
        if rows.size > self.max_rows:
            rows = rows[np.linspace(0, rows.size - 1, self.max_rows).astype(np.int64)]
        self.scaler_ = Scaler.fit(_with_time(series))
        self.table_ = self.sklearn_imputer()
        with warnings.catch_warnings():
            # The ten iterations that are scikit-learn's default suffice for a baseline.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.table_.fit(self._scaled(series)[rows])

    def impute_series(self, series: SeriesSet) -> Values:
        """The imputed value of each cell; observed cells keep their value."""
        incomplete = np.flatnonzero(~np.logical_and.reduce(series.observed, axis=1))
        table = self._scaled(series)
        for begin in range(0, incomplete.size, CHUNK):
            rows = incomplete[begin : begin + CHUNK]
            table[rows] = self.table_.transform(table[rows])
        return np.where(series.observed, series.value, self.scaler_.unscale(table)[:, :-1])

    def _scaled(self, series: SeriesSet) -> Float[np.ndarray, "row column"]:
        """Scaled channels and time; NaN in missing cells."""
        table = self.scaler_.scale(_with_time(series))
        return np.where(table.observed, table.value, np.nan)

    def sklearn_imputer(self) -> Any:
        """A new imputer of scikit-learn."""
        raise NotImplementedError


class KNN(Tabular):
    """Imputes the mean of the five most similar rows: scikit-learn's `KNNImputer`.

    Good if channels are strongly related. Rows are similar if their channels and times are. At
    most 2,000 rows are searched, because the search time grows with the square of the rows.
    """

    max_rows = 2_000

    def sklearn_imputer(self) -> Any:
        """scikit-learn's `KNNImputer`."""
        from sklearn.impute import KNNImputer

        return KNNImputer(n_neighbors=5, keep_empty_features=True)


class MICE(Tabular):
    """Regresses each channel on the others in turn: scikit-learn's `IterativeImputer`.

    Good if channels are linearly related and rarely missing together. Each regression uses at
    most 20,000 rows and the 20 most correlated channels.
    """

    max_rows = 20_000

    def sklearn_imputer(self) -> Any:
        """scikit-learn's `IterativeImputer`."""
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer

        return IterativeImputer(
            max_iter=10, random_state=0, keep_empty_features=True, n_nearest_features=20
        )


def _with_time(series: SeriesSet) -> SeriesSet:
    """The series with the time as the last channel."""
    return SeriesSet(
        time=series.time,
        value=np.column_stack([series.value, series.time]),
        observed=np.column_stack([series.observed, np.ones(series.rows, dtype=bool)]),
        start=series.start,
        keys=series.keys,
    )
