"""The ways back: from values of a `SeriesSet` into the caller's frame or array."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import narwhals as nw
import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from nrtsi.errors import InputError
from nrtsi.tables.cells import append_columns, as_float, clip_to_dtype, scatter

__all__ = ["ArrayWriter", "Writer", "FrameWriter"]


class Writer(Protocol):
    """Puts values where cells are missing and returns the caller's kind of data."""

    def fill(self, values: Float[np.ndarray, "row dim"]) -> Any:
        """The caller's data, its missing cells replaced."""

    def check_beside(self, names: Sequence[str]) -> None:
        """Refuses names of columns that `append_columns` could not add."""

    def append_columns(self, filled: Any, columns: Mapping[str, np.ndarray]) -> Any:
        """What `fill` returned with more columns, given for the rows of the `SeriesSet`."""

    def stack(
        self, values: Sequence[Float[np.ndarray, "row dim"]], name: str, labels: Sequence[float]
    ) -> Any:
        """The caller's data once per label, as floats."""


@dataclass(frozen=True)
class FrameWriter:
    """The way back into a frame."""

    frame: nw.DataFrame[Any]
    names: tuple[str, ...]
    """The value columns."""

    rows: Int[np.ndarray, " line"]
    """For each line of the frame, its row of the `SeriesSet`."""

    known: Bool[np.ndarray, "line dim"]
    """True where the frame's cell stays as it is."""

    added: Bool[np.ndarray, " line"]
    """True where the line is not in the caller's data; types without nulls hold placeholders."""

    def fill(self, values: Float[np.ndarray, "row dim"]) -> Any:
        """The frame with its missing cells replaced; everything else is the caller's."""
        filled, before = self._filled(self.frame, values).to_native(), self.frame.to_native()
        # Arrow keeps notes on columns in the schema, and a changed column has lost them.
        return filled.cast(before.schema) if isinstance(filled, pa.Table) else filled

    def check_beside(self, names: Sequence[str]) -> None:
        """Refuses names that the frame has already."""
        taken = [name for name in names if name in self.frame.columns]
        if taken:
            raise InputError(
                f"data must have no column {taken[0]!r}, which the result adds; rename the column"
            )

    def append_columns(self, filled: Any, columns: Mapping[str, np.ndarray]) -> Any:
        """The frame with more columns at its end; NaN, NaT and None are null."""
        self.check_beside(list(columns))
        frame = nw.from_native(filled, eager_only=True)
        added = [append_columns(name, each[self.rows], frame) for name, each in columns.items()]
        return frame.with_columns(*added).to_native() if added else filled

    def _filled(
        self, frame: nw.DataFrame[Any], values: Float[np.ndarray, "row dim"]
    ) -> nw.DataFrame[Any]:
        changed = []
        for dim, name in enumerate(self.names):
            lines = np.flatnonzero(~self.known[:, dim])
            if lines.size:
                fresh = values[self.rows[lines], dim]
                self._must_be_known(name, fresh[self.added[lines]])
                changed.append(scatter(frame.get_column(name), lines, fresh))
        return frame.with_columns(*changed) if changed else frame.clone()

    def _must_be_known(self, name: str, added: Float[np.ndarray, " cell"]) -> None:
        if not np.isnan(added).any():
            return
        column = self.frame.get_column(name)
        if not (column.dtype.is_float() or column.is_null().any()):
            raise InputError(
                f"column {name!r} must be of floats or nullable to stay unknown at times that are "
                f"not in the data, got {column.to_native().dtype}; convert it"
            )

    def stack(
        self, values: Sequence[Float[np.ndarray, "row dim"]], name: str, labels: Sequence[float]
    ) -> Any:
        """The frame once per label, one below the other, the label in a first column `name`."""
        if name in self.frame.columns:
            raise InputError(
                f"data must have no column {name!r}, which the result adds; rename the column"
            )
        floats = self.frame.with_columns(*(as_float(self.frame.get_column(n)) for n in self.names))
        kind = nw.Int64() if all(isinstance(n, int | np.integer) for n in labels) else nw.Float64()
        parts = [
            self._filled(floats, each).select(nw.lit(label, dtype=kind).alias(name), nw.all())
            for each, label in zip(values, labels, strict=True)
        ]
        return nw.concat(parts, how="vertical").to_native()


@dataclass(frozen=True)
class ArrayWriter:
    """The way back into an array."""

    array: np.ndarray
    """(step, dim) or (series, step, dim)."""

    rows: Int[np.ndarray, " line"]
    """For each line (series by series, step by step), its row of the `SeriesSet`."""

    known: Bool[np.ndarray, "line dim"]
    """True where the array's cell stays as it is."""

    added: Bool[np.ndarray, " line"]
    """True where the line is not in the caller's data; types without nulls hold placeholders."""

    def fill(self, values: Float[np.ndarray, "row dim"]) -> np.ndarray:
        """The array with its missing cells replaced, in its own type."""
        return self._filled(self.array, values)

    def append_columns(self, filled: Any, columns: Mapping[str, np.ndarray]) -> Any:
        """Refuses, as `check_beside` does."""
        self.check_beside(list(columns))

    def check_beside(self, names: Sequence[str]) -> None:
        """Refuses: an array has no names for more columns."""
        raise InputError(
            "interval and provenance must be asked of a table, got an array, which has no names "
            "for more columns; give a table, or ask for quantiles"
        )

    def _filled(self, array: np.ndarray, values: Float[np.ndarray, "row dim"]) -> np.ndarray:
        flat = array.reshape(self.known.shape).copy()
        fresh = values[self.rows]
        if self.array.dtype.kind != "f" and np.isnan(fresh[self.added]).any():
            raise InputError(
                f"an array must be of floats to stay unknown at times that are not in the data, "
                f"got {self.array.dtype}; convert it with astype"
            )
        cells = ~self.known & ~np.isnan(fresh)
        flat[cells] = clip_to_dtype(fresh[cells], array.dtype)
        return flat.reshape(array.shape)

    def stack(
        self, values: Sequence[Float[np.ndarray, "row dim"]], name: str, labels: Sequence[float]
    ) -> np.ndarray:
        """The array once per label, along a new first axis."""
        kind = self.array.dtype if self.array.dtype.kind == "f" else np.dtype(np.float64)
        floats = self.array.astype(kind)
        return np.stack(
            [self._filled(floats, each) for each, _ in zip(values, labels, strict=True)]
        )
