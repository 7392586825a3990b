"""The caller's rows as arrays, in the caller's order, checked."""

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.errors import InputError
from nrtsi.tables.cells import floats
from nrtsi.tables.columns import Columns, Owners, array_names, resolve
from nrtsi.tables.frames import arrow_list, frame_of, listed
from nrtsi.tables.times import Times, read_times, repeats, row_numbers

__all__ = ["Rows", "array_rows", "frame_rows", "sort"]


@dataclass(frozen=True)
class Rows:
    """The caller's rows in the caller's order."""

    columns: Columns
    times: Times
    owners: Owners
    value: Float[np.ndarray, "line dim"]
    observed: Bool[np.ndarray, "line dim"]
    guesses: tuple[str, ...] = ()
    frame: nw.DataFrame[Any] | None = None

    def must_have_something_in_every_column(self) -> None:
        """Refuses a column in which nothing is observed: there is nothing to learn from."""
        nothing = np.flatnonzero(~self.observed.any(axis=0))
        if nothing.size:
            names = [self.columns.values[i] for i in nothing] if self.columns.values else nothing
            raise InputError(
                f"every value column must have at least one observed value, got none in "
                f"{listed(names)}; leave it out with columns="
            )

    def must_be_finite(self) -> None:
        """Refuses infinite values."""
        bad = ~np.isfinite(self.value)
        if bad.any():
            row, dim = (int(i) for i in np.argwhere(bad)[0])
            name = self.columns.values[dim] if self.columns.values else dim
            raise InputError(
                f"column {name!r} must be finite, got {self.value[row, dim]} at row {row} (the "
                f"first is row 0) of series {self.owners.ids[self.owners.code[row]]!r}; "
                f"make it missing, or correct it"
            )


def frame_rows(data: Any, columns: Columns) -> Rows:
    """The rows of a frame.

    Raises:
        InputError: The frame cannot be used.
    """
    frame = frame_of(data)
    found = resolve(frame, columns)
    names = found.columns.values or ()
    value = np.empty((len(frame), len(names)))
    for dim, name in enumerate(names):
        value[:, dim] = floats(frame.get_column(name))
    return _checked(found.columns, found.times, found.owners, value, tuple(found.guesses), frame)


def _checked(
    columns: Columns,
    times: Times,
    owners: Owners,
    value: np.ndarray,
    guesses: tuple[str, ...] = (),
    frame: nw.DataFrame[Any] | None = None,
) -> Rows:
    observed = ~np.isnan(value)
    value[~observed] = 0.0
    rows = Rows(columns, times, owners, value, observed, guesses, frame)
    rows.must_be_finite()
    return rows


def array_rows(array: np.ndarray, columns: Columns, times: np.ndarray | None) -> Rows:
    """The rows of an array (step, dim) or (series, step, dim), in which NaN is missing.

    Raises:
        InputError: The array cannot be used.
    """
    _array_must_be_usable(array)
    names = array_names(array)
    if columns.time is not None or columns.id is not None or columns.values not in (
        None, tuple(names),
    ):  # fmt: skip
        raise InputError(
            f"an array's columns must not be named, got {columns}; give a frame, "
            f"or slice the array and pass times="
        )
    series, step = (array.shape[0] if array.ndim == 3 else 1), array.shape[-2]
    owners = Owners(np.repeat(np.arange(series), step), tuple(range(series)))
    moments = _array_times(times, owners, array.shape[:-1])
    value = array.reshape(-1, array.shape[-1]).astype(np.float64)
    return _checked(Columns(values=tuple(names)), moments, owners, value)


def _array_must_be_usable(array: np.ndarray) -> None:
    if isinstance(array, np.ma.MaskedArray):
        raise InputError(
            "an array must mark missing cells with NaN, got a masked array; "
            "use array.astype(float).filled(numpy.nan)"
        )
    if array.ndim not in (2, 3):
        raise InputError(
            f"an array must be of shape (step, dim) or (series, step, dim), got {array.shape}; "
            f"reshape it, one channel being dim = 1"
        )
    if array.dtype.kind not in "iuf":
        raise InputError(
            f"an array must hold integers or floats, got {array.dtype}; convert it with astype"
        )
    if array.size == 0:
        raise InputError(
            f"an array must have at least one series, step and channel, got {array.shape}; "
            f"give it rows"
        )


def _array_times(times: Any, owners: Owners, shape: tuple[int, ...]) -> Times:
    if times is None:
        return row_numbers(owners.code)
    given = np.asarray(times)
    if given.shape not in (shape, shape[-1:]):
        raise InputError(
            f"times must be of shape {shape[-1:]} or {shape}, as the array's steps, "
            f"got {given.shape}; give one time a step"
        )
    flat = np.broadcast_to(given, shape).reshape(-1)
    return read_times(arrow_list(flat, "times"), "times")


def sort(rows: Rows) -> Int[np.ndarray, " line"]:
    """The order that sorts rows by series and time.

    Raises:
        InputError: A series has the same time twice.
    """
    code, ticks = rows.owners.code, rows.times.ticks
    later = (code[1:] == code[:-1]) & (ticks[1:] > ticks[:-1])
    if (later | (code[1:] > code[:-1])).all():
        return np.arange(code.size)
    order = np.lexsort((ticks, code))
    same = repeats(code[order], ticks[order])
    if same.any():
        _refuse_repeat(rows, int(order[same.argmax()]), int(same.sum()))
    return order


def _refuse_repeat(rows: Rows, line: int, count: int) -> None:
    code, ticks = rows.owners.code, rows.times.ticks
    alike = int(((code == code[line]) & (ticks == ticks[line])).sum())
    whose = f" in series {rows.owners.ids[code[line]]!r}" if len(rows.owners.ids) > 1 else ""
    remedy = "" if rows.columns.id is not None else ", or name the column of series with id="
    if alike == 2 and rows.times.may_repeat_an_hour:
        remedy += " (where an hour comes twice at the end of summer time, give times with a zone)"
    raise InputError(
        f"times must be unique inside a series, got {alike} rows at {rows.times.show(line)!r}"
        f"{whose} ({count} too many in all); remove or average them{remedy}"
    )
