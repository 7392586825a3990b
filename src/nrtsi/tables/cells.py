"""Writing numbers into the cells of a column or an array without touching the others."""

from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int

from nrtsi.errors import InputError

__all__ = [
    "as_float",
    "as_kind",
    "append_columns",
    "floats",
    "scatter",
    "scatter_arrow",
    "clip_to_dtype",
]


def clip_to_dtype(values: Float[np.ndarray, " cell"], kind: np.dtype[Any]) -> np.ndarray:
    """Numbers as `kind`: integers rounded and clipped to its range, floats to its finite range.

    >>> clip_to_dtype(np.array([-3.0, 2.6, 300.0]), np.dtype(np.uint8))
    array([  0,   3, 255], dtype=uint8)
    """
    if kind.kind == "f":
        limit = float(np.finfo(kind).max)
        return np.clip(values, -limit, limit).astype(kind)
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    # The largest 64-bit integers are no floats: 2**63 is, and would wrap around.
    rounded = np.clip(np.rint(values), float(low), np.nextafter(float(high), 0.0))
    whole = rounded.astype(kind)
    whole[values >= float(high)] = high
    return whole


def scatter(
    column: nw.Series[Any], rows: Int[np.ndarray, " cell"], values: Float[np.ndarray, " cell"]
) -> nw.Series[Any]:
    """The column with `values` at `rows`, in its own type; where a value is NaN the cell stays."""
    known = ~np.isnan(values)
    if not known.any():
        return column
    return scatter_arrow(column, rows[known], _arrow(column, values[known]))


def scatter_arrow(
    column: nw.Series[Any], rows: Int[np.ndarray, " cell"], fresh: pa.Array
) -> nw.Series[Any]:
    """The column with the Arrow data at `rows`; the data is of the column's type."""
    if column.implementation.is_pandas_like():
        if _plain(fresh.type):
            return column.scatter(rows, np.asarray(fresh))
        if isinstance(column.dtype, nw.Object | nw.Decimal):
            return column.scatter(rows, fresh.to_pylist())
    return column.scatter(rows, as_kind(fresh, column))


def _plain(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def as_kind(fresh: pa.Array, like: nw.Series[Any]) -> nw.Series[Any]:
    """Arrow data as a column of the library that `like` belongs to."""
    table = pa.table({"fresh": fresh})
    return nw.from_arrow(table, backend=like.implementation).get_column("fresh").alias(like.name)


def append_columns(name: str, values: np.ndarray, frame: nw.DataFrame[Any]) -> nw.Series[Any]:
    """A new column of numbers, durations or words for `frame`; what is not known is null."""
    kind = pa.string() if values.dtype.kind == "O" else None
    table = pa.table({name: pa.array(values, type=kind, from_pandas=True)})
    column = nw.from_arrow(table, backend=frame.implementation).get_column(name)
    # Rows of a pandas table have names, by which columns would be scatter together.
    index = nw.maybe_get_index(frame)
    return column if index is None else nw.maybe_set_index(column, index=index)


def _arrow(column: nw.Series[Any], values: Float[np.ndarray, " cell"]) -> pa.Array:
    if isinstance(column.dtype, nw.Decimal):
        return _decimals(values, column.head(1).to_arrow().type)
    if column.dtype in (nw.Int128, nw.UInt128):
        return pa.array(clip_to_dtype(values, np.dtype(np.int64)))
    return pa.array(clip_to_dtype(values, np.dtype(str(column.dtype).lower())))


def _decimals(values: Float[np.ndarray, " cell"], kind: pa.DataType) -> pa.Array:
    # One step of the float below the bound, so that rounding to the scale stays inside.
    limit = np.nextafter(10.0 ** (kind.precision - kind.scale) - 10.0**-kind.scale, 0.0)
    try:
        return pa.array(np.clip(values, -limit, limit)).cast(kind)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"imputed values must fit into {kind}, got {str(error).splitlines()[0]}; "
            f"widen the column"
        ) from None


def floats(column: nw.Series[Any]) -> Float[np.ndarray, " line"]:
    """The column's numbers; null is NaN."""
    if column.dtype in (nw.Int128, nw.UInt128):  # unknown to Arrow
        column = column.cast(nw.Float64())
    array = column.to_arrow()
    if not pa.types.is_float64(array.type):
        # Not every large integer is a float; the caller's own cell is never rewritten from this.
        array = pc.cast(array, pa.float64(), safe=False)
    return array.to_numpy() if isinstance(array, pa.ChunkedArray) else array.to_numpy(False)


def as_float(column: nw.Series[Any]) -> nw.Series[Any]:
    """The column as floats; floats stay as they are."""
    if column.dtype.is_float():
        return column
    try:
        return column.cast(nw.Float64())
    except pa.ArrowInvalid:  # Arrow refuses integers beyond 2**53, of which floats skip some
        numbers = floats(column)
        known = np.flatnonzero(~np.isnan(numbers))
        zeros = scatter(column, known, np.zeros(known.size)).cast(nw.Float64())
        return scatter(zeros, known, numbers[known])
