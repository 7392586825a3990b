"""scikit-learn's imputers, which see a table of rows and know of time as one more column."""

# scikit-learn takes a second to import, so only the methods that use it do.

import warnings
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from nrtsi.baselines.base import Imputer
from nrtsi.core.scaling import Scaler
from nrtsi.core.series import SeriesSet

__all__ = ["KNN", "MICE"]

CHUNK = 5_000
"""Rows filled at a time, so that memory does not grow with the data."""


class Tabular(Imputer):
    """Fills the rows of a table whose columns are the channels and the time, all scaled.

    Time is a column so that a row with nothing observed still has something to go by.
    """

    most_rows: ClassVar[int]
    """Rows to learn from; of more, so many are taken evenly."""

    def fit_series(self, series: SeriesSet) -> None:
        """Learns from the rows that have an observed cell, or from an even choice of them."""
        from sklearn.exceptions import ConvergenceWarning

        rows = np.flatnonzero(np.logical_or.reduce(series.observed, axis=1))
        if rows.size > self.most_rows:
            rows = rows[np.linspace(0, rows.size - 1, self.most_rows).astype(np.int64)]
        self.scaler_ = Scaler.fit(_with_time(series))
        self.table_ = self._imputer()
        with warnings.catch_warnings():
            # Ten rounds are what scikit-learn does by default; a baseline need not converge.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.table_.fit(self._scaled(series)[rows])

    def impute_series(self, series: SeriesSet) -> Float[np.ndarray, "row dim"]:
        """What the fitted table says of every row; observed cells keep their value."""
        gappy = np.flatnonzero(~np.logical_and.reduce(series.observed, axis=1))
        table = self._scaled(series)
        for begin in range(0, gappy.size, CHUNK):
            rows = gappy[begin : begin + CHUNK]
            table[rows] = self.table_.transform(table[rows])
        return np.where(series.observed, series.value, self.scaler_.unscale(table)[:, :-1])

    def _scaled(self, series: SeriesSet) -> Float[np.ndarray, "row column"]:
        """Channels and time, scaled; NaN where not observed."""
        table = self.scaler_.scale(_with_time(series))
        return np.where(table.observed, table.value, np.nan)

    def _imputer(self) -> Any:
        raise NotImplementedError


class KNN(Tabular):
    """The mean of the five most similar rows: scikit-learn's `KNNImputer`.

    Rows are similar when their channels and their times are. Neighbours are sought among at most
    2,000 rows of the data it was fitted on, taken evenly: among all of them the search would take
    time that grows with the square of the data.
    """

    most_rows = 2_000

    def _imputer(self) -> Any:
        from sklearn.impute import KNNImputer

        return KNNImputer(n_neighbors=5, keep_empty_features=True)


class MICE(Tabular):
    """Each channel regressed on the others in turn: scikit-learn's `IterativeImputer`.

    The regressions are fitted on at most 20,000 rows, taken evenly, and each on at most the 20
    channels that go best with its own.
    """

    most_rows = 20_000

    def _imputer(self) -> Any:
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer

        return IterativeImputer(
            max_iter=10, random_state=0, keep_empty_features=True, n_nearest_features=20
        )


def _with_time(series: SeriesSet) -> SeriesSet:
    """The series with the time as a last channel."""
    return SeriesSet(
        time=series.time,
        value=np.column_stack([series.value, series.time]),
        observed=np.column_stack([series.observed, np.ones(series.rows, dtype=bool)]),
        start=series.start,
        keys=series.keys,
    )
