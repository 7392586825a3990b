"""Writers put imputed values into the user's frame or array without changing any other cell."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Int

from nrtsi.errors import InputError
from nrtsi.tables.clock import Times
from nrtsi.tables.detection import Columns, time_index

__all__ = ["ArrayWriter", "FrameWriter", "Lines", "Writer", "to_floats"]

Lines: TypeAlias = Float[np.ndarray, "line dim"]  # values of the lines of the user's table


@dataclass(frozen=True)
class FrameWriter:
    """Writes values into a frame."""

    frame: nw.DataFrame[Any]
    columns: Columns
    known: Bool[np.ndarray, "line dim"]  # True for the cells that keep their value
    added: Bool[np.ndarray, " line"]  # True for lines that are not in the data

    @property
    def backend(self) -> Any:
        """The library of the frame, for narwhals."""
        return self.frame.implementation

    @property
    def _names(self) -> tuple[str, ...]:
        return self.columns.values or ()

    def write(self, values: Lines, extra: Mapping[str, np.ndarray]) -> Any:
        """The frame with its missing cells replaced and the columns `extra` appended."""
        self.check_new_columns(list(extra))
        written, before = self._impute(self.frame, values).to_native(), self.frame.to_native()
        if isinstance(written, pa.Table):  # a replaced column has lost its metadata
            written = written.cast(before.schema)
        return append_columns(written, extra) if extra else written

    def stack(self, values: Iterable[Lines], name: str, labels: Sequence[float]) -> Any:
        """The frame once per label, concatenated, the label in a first column `name`."""
        self.check_new_columns([name])
        floats = self.frame.with_columns(
            *(_as_float(self.frame.get_column(n)) for n in self._names)
        )
        kind = nw.Int64() if all(isinstance(n, int | np.integer) for n in labels) else nw.Float64()
        parts = [
            self._impute(floats, each).select(nw.lit(label, dtype=kind).alias(name), nw.all())
            for each, label in zip(values, labels, strict=True)
        ]
        return nw.concat(parts, how="vertical").to_native()

    def check_new_columns(self, names: Sequence[str]) -> None:
        """Raises InputError if the frame has a column of one of these names."""
        taken = [name for name in names if name in self.frame.columns]
        if taken:
            raise InputError(
                f"data must have no column {taken[0]!r}, which the result adds; rename the column"
            )

    def select(
        self,
        lines: Int[np.ndarray, " query"],
        known: Bool[np.ndarray, "query dim"],
        added: Bool[np.ndarray, " query"],
        times: Times,
        owner: Int[np.ndarray, " query"],
    ) -> "FrameWriter":
        """A writer for the time, id and value columns of these lines, at these times.

        Added lines have the id of the line given for them, and null values if the type allows.
        """
        names = [name for name in self.frame.columns if name in self.columns.named]
        rows = nw.maybe_reset_index(self.frame.select(names)[lines, :])
        rows = rows.with_columns(*(_blank(rows.get_column(n), added) for n in self._names))
        index = time_index(self.frame)
        if self.columns.time is not None:
            column = self.frame.get_column(self.columns.time)[lines]
            rows = rows.with_columns(_replace_times(column, times, added))
        elif index is not None and times.kind == "datetime":
            rows = nw.maybe_set_index(rows, index=_replace_times(index[lines], times, added))
        return FrameWriter(rows, self.columns, known, added)

    def _impute(self, frame: nw.DataFrame[Any], values: Lines) -> nw.DataFrame[Any]:
        changed = []
        for dim, name in enumerate(self._names):
            lines = np.flatnonzero(~self.known[:, dim])
            if lines.size:
                imputed = values[lines, dim]
                self._check_nullable(name, imputed[self.added[lines]])
                changed.append(scatter(frame.get_column(name), lines, imputed))
        return frame.with_columns(*changed) if changed else frame.clone()

    def _check_nullable(self, name: str, added: Float[np.ndarray, " cell"]) -> None:
        """Raises InputError if a new cell is to stay missing and the column cannot hold nulls."""
        column = self.frame.get_column(name)
        if np.isnan(added).any() and not (column.dtype.is_float() or column.is_null().any()):
            raise InputError(
                f"column {name!r} must be nullable or of floats, because values at queried times "
                f"stay missing, got {column.to_native().dtype}; convert it"
            )


@dataclass(frozen=True)
class ArrayWriter:
    """Writes values into an array (step, dim) or (series, step, dim)."""

    source: np.ndarray
    known: Bool[np.ndarray, "line dim"]  # True for the cells that keep their value
    added: Bool[np.ndarray, " line"]  # True for lines that are not in the data
    backend = None

    def write(self, values: Lines, extra: Mapping[str, np.ndarray]) -> np.ndarray:
        """The array with its missing cells replaced, in its own type; `extra` must be empty."""
        if extra:
            self.check_new_columns(list(extra))
        return self._impute(self.source, values)

    def stack(self, values: Iterable[Lines], name: str, labels: Sequence[float]) -> np.ndarray:
        """The array once per label, along a new first axis."""
        floats = self.source.astype(
            self.source.dtype if self.source.dtype.kind == "f" else np.float64
        )
        return np.stack([self._impute(floats, v) for v, _ in zip(values, labels, strict=True)])

    def check_new_columns(self, names: Sequence[str]) -> None:
        """Raises InputError: an array cannot hold named columns."""
        raise InputError(
            "interval and provenance need a table, got an array, which cannot hold named columns; "
            "pass a table, or use quantiles"
        )

    def select(
        self,
        lines: Int[np.ndarray, " query"],
        known: Bool[np.ndarray, "query dim"],
        added: Bool[np.ndarray, " query"],
        times: Times,
        owner: Int[np.ndarray, " query"],
    ) -> "ArrayWriter":
        """A writer for an array of these lines; NaN in added ones if the array holds floats."""
        series = self.source.shape[0] if self.source.ndim == 3 else 1
        count = np.bincount(owner, minlength=series)
        if (count != count[0]).any() or (np.diff(owner) < 0).any():
            raise InputError(
                f"all series of an array must be queried at equally many times, series by series, "
                f"got {count.min()} to {count.max()}; query the same times, or pass a long table"
            )
        rows = self.source.reshape(-1, self.source.shape[-1])[lines]
        if self.source.dtype.kind == "f":
            rows[added] = np.nan
        shape = (*self.source.shape[:-2], int(count[0]), self.source.shape[-1])
        return ArrayWriter(rows.reshape(shape), known, added)

    def _impute(self, array: np.ndarray, values: Lines) -> np.ndarray:
        if self.source.dtype.kind != "f" and np.isnan(values[self.added]).any():
            raise InputError(
                f"the array must hold floats, because values at queried times stay missing, "
                f"got {self.source.dtype}; convert it with astype"
            )
        flat = array.reshape(self.known.shape).copy()
        cells = ~self.known & ~np.isnan(values)
        flat[cells] = clip_to_dtype(values[cells], array.dtype)
        return flat.reshape(array.shape)


Writer = FrameWriter | ArrayWriter


def clip_to_dtype(values: Float[np.ndarray, " cell"], dtype: np.dtype[Any]) -> np.ndarray:
    """Numbers as `dtype`: clipped to its finite range, and rounded if it is an integer type.

    >>> clip_to_dtype(np.array([-3.0, 2.6, 300.0]), np.dtype(np.uint8))
    array([  0,   3, 255], dtype=uint8)
    """
    if dtype.kind == "f":
        limit = float(np.finfo(dtype).max)
        return np.clip(values, -limit, limit).astype(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    # float(2**63 - 1) is 2**63, which would wrap around.
    rounded = np.clip(np.rint(values), float(low), np.nextafter(float(high), 0.0)).astype(dtype)
    rounded[values >= float(high)] = high
    return rounded


def scatter(
    column: nw.Series[Any], rows: Int[np.ndarray, " cell"], values: Float[np.ndarray, " cell"]
) -> nw.Series[Any]:
    """The column with `values` at `rows`, in its own type; a NaN leaves the cell unchanged."""
    known = ~np.isnan(values)
    if not known.any():
        return column
    rows, values = rows[known], values[known]
    if isinstance(column.dtype, nw.Decimal):
        return _scatter_arrow(column, rows, _decimals(values, column.head(1).to_arrow().type))
    wide = column.dtype in (nw.Int128, nw.UInt128)  # not supported by numpy and Arrow
    dtype = np.dtype(np.int64 if wide else str(column.dtype).lower())
    return _scatter_arrow(column, rows, pa.array(clip_to_dtype(values, dtype)))


def _scatter_arrow(
    column: nw.Series[Any], rows: Int[np.ndarray, " cell"], values: pa.Array
) -> nw.Series[Any]:
    """The column with Arrow data of its own type at `rows`."""
    if column.implementation.is_pandas_like():
        if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
            return column.scatter(rows, np.asarray(values))
        if isinstance(column.dtype, nw.Object | nw.Decimal):
            return column.scatter(rows, values.to_pylist())
    return column.scatter(rows, _like(column, values))


def _like(column: nw.Series[Any], values: pa.Array) -> nw.Series[Any]:
    """Arrow data as a column of the same library and name as `column`."""
    table = nw.from_arrow(pa.table({"values": values}), backend=column.implementation)
    return table.get_column("values").alias(column.name)


def _decimals(values: Float[np.ndarray, " cell"], dtype: pa.DataType) -> pa.Array:
    # One float below the bound, so that rounding to the scale stays inside.
    limit = np.nextafter(10.0 ** (dtype.precision - dtype.scale) - 10.0**-dtype.scale, 0.0)
    try:
        return pa.array(np.clip(values, -limit, limit)).cast(dtype)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"imputed values must fit into {dtype}, got {str(error).splitlines()[0]}; "
            f"widen the column"
        ) from None


def append_columns(native: Any, columns: Mapping[str, np.ndarray]) -> Any:
    """The frame with these columns appended; NaN, NaT and None are null."""
    kinds = {
        name: pa.string() if each.dtype.kind == "O" else None for name, each in columns.items()
    }
    arrays = {n: pa.array(each, kinds[n], from_pandas=True) for n, each in columns.items()}
    frame = nw.from_native(native, eager_only=True)
    added = list(nw.from_arrow(pa.table(arrays), backend=frame.implementation).iter_columns())
    index = nw.maybe_get_index(frame)
    if index is not None:  # pandas aligns columns by the index
        added = [nw.maybe_set_index(column, index=index) for column in added]
    return frame.with_columns(*added).to_native()


def to_floats(column: nw.Series[Any]) -> Float[np.ndarray, " line"]:
    """The numbers of a column; null is NaN."""
    if column.dtype in (nw.Int128, nw.UInt128):  # not supported by Arrow
        column = column.cast(nw.Float64())
    array = column.to_arrow()
    if not pa.types.is_float64(array.type):
        # Large integers are rounded; the writer never changes observed cells.
        array = pc.cast(array, pa.float64(), safe=False)
    return array.to_numpy() if isinstance(array, pa.ChunkedArray) else array.to_numpy(False)


def _as_float(column: nw.Series[Any]) -> nw.Series[Any]:
    """The column as floats; float columns keep their type."""
    if column.dtype.is_float():
        return column
    try:
        return column.cast(nw.Float64())
    except pa.ArrowInvalid:  # Arrow does not cast integers above 2**53
        numbers = to_floats(column)
        known = np.flatnonzero(~np.isnan(numbers))
        zeros = scatter(column, known, np.zeros(known.size)).cast(nw.Float64())
        return scatter(zeros, known, numbers[known])


def _blank(column: nw.Series[Any], added: Bool[np.ndarray, " line"]) -> nw.Series[Any]:
    """The column with nulls in the added lines; unchanged if its type has no nulls."""
    lines = np.flatnonzero(added)
    if not lines.size:
        return column
    if not column.implementation.is_pandas_like():
        dtype = column.head(1).to_arrow().type
        return column.scatter(lines, _like(column, pa.nulls(lines.size, dtype)))
    if not isinstance(column.to_native().dtype, np.dtype):
        return column.scatter(lines, [None] * lines.size)
    return (
        column.scatter(lines, np.full(lines.size, np.nan)) if column.dtype.is_float() else column
    )


def _replace_times(
    column: nw.Series[Any], times: Times, added: Bool[np.ndarray, " line"]
) -> nw.Series[Any]:
    """The time column with `times` in the added lines, in a wider type if it must."""
    if not added.any():
        return column
    written = times.to_arrow()
    if written.type == times.type or times.format is not None:
        lines = np.flatnonzero(added)
        return _scatter_arrow(column, lines, written.take(pa.array(lines)))
    return _like(column, written)
