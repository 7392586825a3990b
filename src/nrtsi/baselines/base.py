"""What every method of imputation has in common: the caller's data in, the same kind out."""

import logging
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from nrtsi.baselines.parameters import Parameters
from nrtsi.core.events import Listener
from nrtsi.core.prediction import Prediction, predict_rows
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.tables import Columns, Panel, read

__all__ = ["Imputer", "warn_of_row_numbers"]

log = logging.getLogger(__name__)


class Imputer(Parameters):
    """A method of imputation; a subclass says how to learn and how to fill.

    It does as scikit-learn's estimators do, but is of no class of scikit-learn's, which is
    imported only by who uses it.

    Args:
        time: Column of times; guessed without it (a datetime index, a column called `time`, …).
        id: Column that tells series apart, in a long table.
        columns: Columns to impute; all numeric ones without it.
        unit: Unit of time, a duration such as "1h" or a number; the median spacing without it.
        on_empty: What to do with a series in which nothing is observed: "error", or "skip" to
            leave it missing.
    """

    def __init__(
        self,
        *,
        time: str | None = None,
        id: str | None = None,
        columns: Sequence[str] | None = None,
        unit: float | str | None = None,
        on_empty: str = "error",
    ) -> None:
        self.time = time
        self.id = id
        self.columns = columns
        self.unit = unit
        self.on_empty = on_empty

    def fit_series(self, series: SeriesSet) -> None:
        """Learns from the observed cells of `series`; `clock_` is known already."""
        raise NotImplementedError

    def impute_series(self, series: SeriesSet) -> np.ndarray:
        """A value for every cell, (row, dim); what stands at observed cells does not matter."""
        raise NotImplementedError

    def fit(
        self,
        frame: Any,
        y: object = None,
        *,
        time: str | None = None,
        id: str | None = None,
        columns: Sequence[str] | None = None,
        times: np.ndarray | None = None,
    ) -> Self:
        """Learns from the observed cells of `frame`.

        Args:
            frame: A pandas, polars or pyarrow table, wide or long; or an array (step, dim) or
                (series, step, dim). NaN and null are missing.
            y: Ignored; a pipeline passes it.
            time: Column of times, where the constructor was not told.
            id: Column of ids, where the constructor was not told.
            columns: Columns to impute, where the constructor was not told.
            times: Times of the steps of an array.

        Raises:
            InputError: The data cannot be used; the message says what to change.
        """
        panel = self.read(frame, time=time, id=id, columns=columns, times=times)
        warn_of_row_numbers(panel)
        return self.fit_panel(panel)

    def read(
        self,
        frame: Any,
        *,
        time: str | None = None,
        id: str | None = None,
        columns: Sequence[str] | None = None,
        times: np.ndarray | None = None,
    ) -> Panel:
        """Opens the door to `frame` as `fit` would."""
        if self.on_empty not in ("error", "skip"):
            raise InputError(f"on_empty must be 'error' or 'skip', got {self.on_empty!r}")
        values = columns if columns is not None else self.columns
        if isinstance(values, str):
            raise InputError(
                f"columns must be a list of names, got {values!r}; write [{values!r}]"
            )
        named = Columns(
            time=time if time is not None else self.time,
            id=id if id is not None else self.id,
            values=None if values is None else tuple(values),
        )
        return read(frame, named, unit=self.unit, times=times)

    def fit_panel(self, panel: Panel) -> Self:
        """Learns from data that has been read already."""
        self._record_schema(panel)
        self.fit_series(panel.series)
        return self

    def _record_schema(self, panel: Panel) -> None:
        """Checks that there is enough to learn from, and keeps what the data are like."""
        self._refuse_empty(panel)
        rows = int(panel.series.observed.any(axis=1).sum())
        if rows < 2:
            raise InputError(
                f"fitting needs at least 2 rows with something observed, got {rows}; "
                f"give more rows, or load a model fitted on more"
            )
        self.clock_ = panel.clock
        self.columns_ = panel.columns
        self.guesses_ = panel.notes

    def impute(
        self,
        frame: Any,
        *,
        at: Any = None,
        every: str | float | None = None,
        times: np.ndarray | None = None,
        listener: Listener | None = None,
    ) -> Any:
        """Returns `frame` with every missing cell filled and nothing else changed.

        Args:
            frame: Data of the fitted kind.
            at: Return the values at these times only, on the grid or off it: a list of times, or
                a table of times (and ids).
            every: Return the values at regular times only, so far apart ("15min", or a number),
                from the first to the last row of each series.
            times: Times of the steps of an array.
            listener: Told of every pass, where the method makes several.

        Raises:
            NotFittedError: Neither `fit` nor `load` was called.
            InputError: The data cannot be used, or differs from the fitted; the message says how.
        """
        panel = self.read_fitted(frame, times=times)
        query = panel.query(at, every)
        return query.write(self.values(panel.series, query))

    def transform(self, frame: Any) -> Any:
        """Another name for `impute`, for pipelines."""
        return self.impute(frame)

    def fit_transform(self, frame: Any, y: object = None, **settings: Any) -> Any:
        """What `impute` gives after `fit` on the same data, for pipelines.

        Args:
            frame: Data as for `fit`.
            y: Ignored; a pipeline passes it.
            settings: Further arguments of `fit`.
        """
        return self.fit(frame, y, **settings).transform(frame)

    def read_fitted(self, frame: Any, *, times: np.ndarray | None = None) -> Panel:
        """Reads data for imputation, checked against what was fitted."""
        self.must_be_fitted()
        panel = read(frame, self.columns_, clock=self.clock_, times=times)
        self._refuse_empty(panel)
        return panel

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "clock_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator, TransformerMixin

        plain = type("Transformer", (TransformerMixin, BaseEstimator), {})
        return plain().__sklearn_tags__()

    def _repr_html_(self) -> str | None:
        """The picture a notebook shows, as of any estimator of scikit-learn."""
        from sklearn import get_config
        from sklearn.utils import estimator_html_repr

        return estimator_html_repr(self) if get_config()["display"] == "diagram" else None

    def must_be_fitted(self) -> None:
        """Raises `NotFittedError`, ours and scikit-learn's, where `fit` was not called."""
        if not self.__sklearn_is_fitted__():
            from nrtsi.baselines.unfitted import UnfittedError

            raise UnfittedError(
                f"this {type(self).__name__} is not fitted; call fit(frame) first, or load(path)"
            )

    def values(self, series: SeriesSet, query: Panel) -> np.ndarray:
        """Values for all rows of `query`: those of `series` and perhaps more.

        A series without any observation stays missing.
        """

        def predict(given: SeriesSet, std: np.ndarray | None) -> Prediction:
            mean = np.where(given.observed, given.value, self.impute_series(given))
            return Prediction(mean, np.zeros_like(mean))

        found = predict_rows(predict, series, query.series, query.original_rows)
        return np.where(query.series.in_empty_series[:, None], np.nan, found.mean)

    def _refuse_empty(self, panel: Panel) -> None:
        if panel.empty and self.on_empty == "error":
            more = f" and {len(panel.empty) - 1} more" if len(panel.empty) > 1 else ""
            raise InputError(
                f"series {panel.empty[0]!r}{more} must have something observed, got nothing; "
                f"leave it out, or set on_empty='skip' to leave it missing"
            )


def warn_of_row_numbers(panel: Panel) -> None:
    """Logs a warning where no times were found: the one guess that is easily wrong unnoticed."""
    if panel.by_row_number:
        log.warning("%s", next(each for each in panel.notes if each.startswith("time:")))
