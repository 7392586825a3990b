"""`Imputer`: the protocol that NRTSI and all baselines share."""

import inspect
import logging
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Self

import numpy as np

from nrtsi.core.events import Listener
from nrtsi.core.prediction import Prediction, predict_rows
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError, NotFittedError
from nrtsi.tables import Columns, Panel, read

__all__ = ["Imputer", "warn_of_row_numbers"]

log = logging.getLogger(__name__)


class Imputer:
    """Base class of all imputation methods; a subclass defines `fit_series` and `impute_series`.

    It follows the scikit-learn estimator API; scikit-learn is imported only when needed.

    Args:
        time: Column of times; detected by default (a datetime index, a column `time`, …).
        id: Column that identifies the series in a long table.
        columns: Columns to impute; all numeric columns by default.
        unit: Unit of time, a duration such as "1h" or a number; the median spacing by default.
        on_empty: "error" to reject a series without observations, "skip" to leave it missing.
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
        """Fits the method to the observed cells of `series`; `clock_` is already set."""
        raise NotImplementedError

    def impute_series(self, series: SeriesSet) -> np.ndarray:
        """Returns a value for every cell, (row, dim); callers ignore those of observed cells."""
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
        """Fits the method to the observed cells of `frame`.

        Args:
            frame: A pandas, polars or pyarrow table, wide or long; or an array (step, dim) or
                (series, step, dim). NaN and null are missing.
            y: Ignored; for compatibility with pipelines.
            time: Column of times; overrides that of the constructor.
            id: Column of ids; overrides that of the constructor.
            columns: Columns to impute; overrides those of the constructor.
            times: Times of the steps of an array.

        Raises:
            InputError: The data are invalid; the message states the remedy.
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
        """Reads `frame` with the settings of the imputer, as `fit` does."""
        if self.on_empty not in ("error", "skip"):
            raise InputError(f"on_empty must be 'error' or 'skip', got {self.on_empty!r}")
        values: Any = columns if columns is not None else self.columns
        names = Columns(
            time=time if time is not None else self.time,
            id=id if id is not None else self.id,
            values=values,
        )
        return read(frame, names, unit=self.unit, times=times)

    def fit_panel(self, panel: Panel) -> Self:
        """Fits the method to a panel."""
        self._record_schema(panel)
        self.fit_series(panel.series)
        return self

    def _record_schema(self, panel: Panel) -> None:
        """Checks that the data suffice, and stores their columns and clock."""
        self._check_empty(panel)
        rows = int(panel.series.observed.any(axis=1).sum())
        if rows < 2:
            raise InputError(
                f"fitting needs at least 2 rows with observed values, got {rows}; "
                f"add rows, or load a fitted model"
            )
        self.clock_ = panel.clock
        self.columns_ = panel.columns
        self.detected_ = panel.notes

    def impute(
        self,
        frame: Any,
        *,
        at: Any = None,
        every: str | float | None = None,
        times: np.ndarray | None = None,
        listener: Listener | None = None,
    ) -> Any:
        """Returns `frame` with every missing cell imputed and all else unchanged.

        Args:
            frame: Data with the columns of the fitted data.
            at: Return the values at these times only, on the grid or off it: a list of times, or
                a table of times (and ids).
            every: Return the values at regular times only, with this spacing ("15min", or a
                number), from the first to the last row of each series.
            times: Times of the steps of an array.
            listener: Receives an event for every pass of the method.

        Raises:
            NotFittedError: Neither `fit` nor `load` was called.
            InputError: The data are invalid or differ from the fitted data.
        """
        panel = self.read_fitted(frame, times=times)
        query = panel.query(at, every)
        return query.write(self.values(panel.series, query))

    def transform(self, frame: Any) -> Any:
        """Returns `impute(frame)`, for pipelines."""
        return self.impute(frame)

    def fit_transform(self, frame: Any, y: object = None, **settings: Any) -> Any:
        """Fits the method to `frame` and imputes it, for pipelines.

        Args:
            frame: Data as for `fit`.
            y: Ignored; for compatibility with pipelines.
            settings: Further arguments of `fit`.
        """
        return self.fit(frame, y, **settings).transform(frame)

    def read_fitted(self, frame: Any, *, times: np.ndarray | None = None) -> Panel:
        """Reads data for imputation, and checks them against the fitted data."""
        self.must_be_fitted()
        panel = read(frame, self.columns_, clock=self.clock_, times=times)
        self._check_empty(panel)
        return panel

    def values(self, series: SeriesSet, query: Panel) -> np.ndarray:
        """Values for all rows of `query`, which contains the rows of `series` and queried times.

        A series without observations stays missing.
        """

        def predict(given: SeriesSet, std: np.ndarray | None) -> Prediction:
            mean = np.where(given.observed, given.value, self.impute_series(given))
            return Prediction(mean, np.zeros_like(mean))

        found = predict_rows(predict, series, query.series, query.original_rows)
        return np.where(query.series.in_empty_series[:, None], np.nan, found.mean)

    def _check_empty(self, panel: Panel) -> None:
        if panel.empty and self.on_empty == "error":
            more = f" and {len(panel.empty) - 1} more" if len(panel.empty) > 1 else ""
            raise InputError(
                f"series {panel.empty[0]!r}{more} must have observed values, got none; "
                f"remove it, or set on_empty='skip' to leave it missing"
            )

    # The scikit-learn estimator API -------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the arguments of the constructor by name.

        Args:
            deep: Ignored; no parameter is an estimator.
        """
        return {name: getattr(self, name) for name in sorted(_defaults(type(self)))}

    def set_params(self, **params: Any) -> Self:
        """Sets parameters by name and returns the imputer.

        Raises:
            InputError: A name is unknown; no parameter is set then.
        """
        valid = sorted(_defaults(type(self)))
        for name in params:
            if name not in valid:
                raise InputError(
                    f"{type(self).__name__} has no parameter {name!r}; "
                    f"valid parameters: {', '.join(valid)}"
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = _defaults(type(self))
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if repr(value) != repr(defaults[name])  # values may be arrays
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "clock_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator, TransformerMixin

        plain = type("Transformer", (TransformerMixin, BaseEstimator), {})
        return plain().__sklearn_tags__()

    def _repr_html_(self) -> str | None:
        """The diagram that notebooks show."""
        from sklearn import get_config
        from sklearn.utils import estimator_html_repr

        return estimator_html_repr(self) if get_config()["display"] == "diagram" else None

    def must_be_fitted(self) -> None:
        """Raises `NotFittedError`, ours and scikit-learn's, if `fit` was not called."""
        if not self.__sklearn_is_fitted__():
            raise _unfitted_error()(
                f"this {type(self).__name__} is not fitted; call fit(frame) first, or load(path)"
            )


def _defaults(kind: type) -> Mapping[str, Any]:
    """The default of every argument of the constructor."""
    arguments = inspect.signature(kind).parameters
    return {name: argument.default for name, argument in arguments.items()}


@cache
def _unfitted_error() -> type[NotFittedError]:
    """An error that can be caught as ours and as scikit-learn's."""
    from sklearn.exceptions import NotFittedError as SklearnNotFittedError

    names = {"__module__": __name__}
    return type("UnfittedError", (NotFittedError, SklearnNotFittedError), names)


def __getattr__(name: str) -> Any:
    if name == "UnfittedError":  # pickle looks it up here
        return _unfitted_error()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def warn_of_row_numbers(panel: Panel) -> None:
    """Logs a warning if no times were found and rows are numbered instead."""
    if panel.by_row_number:
        log.warning("%s", next(each for each in panel.notes if each.startswith("time:")))
