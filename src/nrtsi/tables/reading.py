"""Opens a user's frame or array and reads its rows, checked and in the user's order."""

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Bool
from narwhals.exceptions import DuplicateError

from nrtsi.errors import InputError
from nrtsi.tables.clock import Times
from nrtsi.tables.detection import Columns, Detection, Owners, detect, missing_fitted, quote
from nrtsi.tables.writer import ArrayWriter, FrameWriter, Lines, Writer, to_floats

__all__ = ["Rows", "open_frame", "read_rows"]


def open_frame(data: Any) -> nw.DataFrame[Any]:
    """Wraps the user's frame with narwhals."""
    kind = f"{type(data).__module__.split('.')[0]}.{type(data).__qualname__}"
    try:
        frame = nw.from_native(data, pass_through=True, allow_series=True)
        names = frame.columns if isinstance(frame, nw.DataFrame) else []
    except DuplicateError:
        raise InputError(
            "column names must be unique, got the same name more than once; rename the columns"
        ) from None
    if isinstance(frame, nw.LazyFrame):
        raise InputError(
            f"data must be in memory, got the lazy {kind}; collect it first (.collect())"
        )
    if isinstance(frame, nw.Series):
        raise InputError(f"data must be a table, got the single column {kind}; use .to_frame()")
    if not isinstance(frame, nw.DataFrame):
        raise InputError(
            f"data must be a pandas, polars or pyarrow table or a numpy array of shape "
            f"(step, dim) or (series, step, dim), got {kind}; convert it"
        )
    if any(isinstance(name, tuple) for name in names):
        raise InputError(
            f"column names must have one level, got {names[0]!r}; flatten the column index"
        )
    if len(frame) == 0:
        raise InputError("data must have at least one row, got an empty table; add rows")
    return frame


@dataclass(frozen=True)
class Rows:
    """Rows in the user's order."""

    found: Detection
    value: Lines
    observed: Bool[np.ndarray, "line dim"]
    writer: Writer

    def check_observed(self) -> None:
        """Raises InputError if a column has no observed value, so that nothing can be learned."""
        empty = np.flatnonzero(~self.observed.any(axis=0))
        if empty.size:
            names = self.found.columns.values or ()
            raise InputError(
                f"every value column must have at least one observed value, got none in "
                f"{quote(names[i] for i in empty)}; leave it out with columns="
            )


def read_rows(data: Any, columns: Columns, times: np.ndarray | None, *, fitted: bool) -> Rows:
    """Reads the rows of a frame, or of an array with these times of its steps.

    If `fitted`, `columns` are those of a fitted model, otherwise those that the user named.
    """
    if isinstance(data, np.ndarray):
        return _array_rows(data, columns, times, fitted=fitted)
    if times is not None:
        raise InputError(
            "times must be given with an array only, got a table; name its time column with time="
        )
    frame = open_frame(data)
    found = detect(frame, columns, fitted=fitted)
    names = found.columns.values or ()
    value = np.empty((len(frame), len(names)))
    for dim, name in enumerate(names):
        value[:, dim] = to_floats(frame.get_column(name))
    observed = _clear_missing(value, names, found.owners)
    writer = FrameWriter(frame, found.columns, observed, np.zeros(len(frame), bool))
    return Rows(found, value, observed, writer)


def _clear_missing(value: Lines, names: tuple[str, ...], owners: Owners) -> np.ndarray:
    """Sets missing cells to 0 in place; returns which are observed."""
    observed = ~np.isnan(value)
    value[~observed] = 0.0
    infinite = ~np.isfinite(value)
    if infinite.any():
        row, dim = (int(i) for i in np.argwhere(infinite)[0])
        raise InputError(
            f"column {names[dim]!r} must be finite, got {value[row, dim]} at row {row} (the "
            f"first is row 0) of series {owners.ids[owners.code[row]]!r}; "
            f"correct it, or mark it as missing"
        )
    return observed


def _array_rows(
    array: np.ndarray, columns: Columns, times: np.ndarray | None, *, fitted: bool
) -> Rows:
    """The rows of an array (step, dim) or (series, step, dim), in which NaN is missing."""
    names = tuple(str(i) for i in range(array.shape[-1])) if array.ndim else ()
    if fitted:
        _check_channels(names, columns)
    _check_array(array)
    if columns not in (Columns(), Columns(values=names)):
        raise InputError(
            f"an array's columns must not be named, got {columns}; pass a table, "
            f"or slice the array and pass times="
        )
    series, step = (array.shape[0] if array.ndim == 3 else 1), array.shape[-2]
    owners = Owners(np.repeat(np.arange(series), step), tuple(range(series)))
    value = array.reshape(-1, array.shape[-1]).astype(np.float64)
    observed = _clear_missing(value, names, owners)
    writer = ArrayWriter(array, observed, np.zeros(len(value), bool))
    step_times = _step_times(times, owners, array.shape[:-1])
    return Rows(Detection(Columns(values=names), step_times, owners), value, observed, writer)


def _check_channels(names: tuple[str, ...], fitted: Columns) -> None:
    absent = [name for name in fitted.named if name not in names]
    if absent:
        raise missing_fitted(fitted, absent, names)
    if fitted.values is not None and len(names) != len(fitted.named):
        raise InputError(
            f"the data must have the {len(fitted.named)} channels the model was fitted on, "
            f"got {len(names)}; leave out the others, or fit again"
        )


def _check_array(array: np.ndarray) -> None:
    if isinstance(array, np.ma.MaskedArray):
        raise InputError(
            "an array must mark missing cells with NaN, got a masked array; "
            "use array.astype(float).filled(numpy.nan)"
        )
    if array.ndim not in (2, 3):
        raise InputError(
            f"an array must have the shape (step, dim) or (series, step, dim), got {array.shape}; "
            f"reshape it, with dim = 1 for a single channel"
        )
    if array.dtype.kind not in "iuf":
        raise InputError(
            f"an array must hold integers or floats, got {array.dtype}; convert it with astype"
        )
    if array.size == 0:
        raise InputError(
            f"an array must have at least one series, step and channel, got {array.shape}; "
            f"add rows"
        )


def _step_times(times: Any, owners: Owners, shape: tuple[int, ...]) -> Times:
    if times is None:
        return Times.row_numbers(owners.code)
    given = np.asarray(times)
    if given.shape not in (shape, shape[-1:]):
        raise InputError(
            f"times must have the shape {shape[-1:]} or {shape}, as the array's steps, "
            f"got {given.shape}; give one time per step"
        )
    return Times.read(np.broadcast_to(given, shape).reshape(-1), "times")
