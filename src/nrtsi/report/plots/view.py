"""`OneSeries` and `View`: the series that is drawn, and its coordinates in a panel."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.tables import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["OneSeries", "View", "check_index", "check_number", "dot_size"]


@dataclass(frozen=True)
class OneSeries:
    """One series of a panel."""

    series: SeriesSet
    time: np.ndarray
    """Times of its rows, as in the user's data."""

    names: tuple[str, ...]
    """Names of the value columns."""

    time_name: str
    label: str
    """Identifies the series."""

    @classmethod
    def of(cls, panel: Panel, index: int) -> "OneSeries":
        """The series at `index`, in the sorted order of the ids."""
        check_index("series", index, panel.series.series)
        series, clock, key = panel.series.select(np.array([index])), panel.clock, panel.columns.id
        time = series.time * clock.unit
        if clock.kind == "datetime":
            ticks = int(clock.origin) + np.round(time).astype(np.int64)
            time = ticks.astype("datetime64[ns]")
        return cls(
            series=series,
            time=time,
            names=tuple(str(name) for name in panel.columns.values or ()),
            time_name=str(panel.columns.time or "time"),
            label=f"series {index}" if key is None else f"{key} {panel.ids[index]}",
        )

    def dims(self, columns: Sequence[str] | None) -> tuple[int, ...]:
        """Indices of the named value columns, or of all."""
        for name in columns or ():
            if name not in self.names:
                raise InputError(
                    f"column must be one of {', '.join(self.names)}, got {name!r}; "
                    f"choose one of them"
                )
        return tuple(self.names.index(name) for name in columns or self.names)


@dataclass(frozen=True)
class View:
    """One column over time, or two columns against each other."""

    one: OneSeries
    dims: tuple[int, ...]
    """Index of the column over time, or of the two columns."""

    @classmethod
    def of(cls, one: OneSeries, columns: Sequence[str] | None, *, plane: bool) -> "View":
        """The view of the named columns. Default over time: the first column.

        Raises:
            InputError: The number of columns does not suit the view.
        """
        dims = one.dims(columns)
        names = ", ".join(one.names[dim] for dim in dims)
        if plane and len(dims) != 2:
            raise InputError(
                f"a plot in the plane must have 2 columns, got {len(dims)}: {names}; name two"
            )
        if not plane and len(columns or ()) > 1:
            raise InputError(
                f"a plot over time must have 1 column, got {len(dims)}: {names}; "
                f"name one, or choose the plane"
            )
        return cls(one, dims if plane else dims[:1])

    @property
    def plane(self) -> bool:
        """True if two columns are drawn against each other."""
        return len(self.dims) == 2

    @property
    def observed(self) -> Bool[np.ndarray, " row"]:
        """True for the rows whose coordinates are observed."""
        return self.complete(self.one.series)

    def complete(self, series: SeriesSet) -> Bool[np.ndarray, " row"]:
        """True for the rows whose coordinates `series` contains."""
        return np.logical_and.reduce(series.observed[:, self.dims], axis=1)

    def xy(self, value: Float[np.ndarray, "row dim"]) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of the rows."""
        first = value[:, self.dims[0]]
        return (first, value[:, self.dims[1]]) if self.plane else (self.one.time, first)

    def label(self, axes: "Axes", *, left: bool = True, bottom: bool = True) -> None:
        """Labels the axes; in the plane both have the same scale."""
        names = [self.one.names[dim] for dim in self.dims]
        x, y = names if self.plane else (self.one.time_name, names[0])
        axes.set_xlabel(x if bottom else "")
        axes.set_ylabel(y if left else "")
        if self.plane:
            axes.set_aspect("equal")
        elif np.issubdtype(self.one.time.dtype, np.datetime64):
            from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

            locator = AutoDateLocator(minticks=2, maxticks=6)
            axes.xaxis.set_major_locator(locator)
            axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def dot_size(count: int) -> float:
    """Diameter in points of each of `count` dots: the more dots, the smaller."""
    return float(np.clip(80 / np.sqrt(count), 1.5, 5.0))


def check_index(name: str, index: int, count: int) -> None:
    """Raises if an index, counted from 0, does not exist."""
    if not 0 <= index < count:
        raise InputError(
            f"{name} must be at least 0 and below {count}, got {index}; choose another"
        )


def check_number(name: str, number: int, count: int) -> None:
    """Raises if a number, counted from 1, does not exist."""
    if not 1 <= number <= count:
        raise InputError(
            f"{name} must be at least 1 and at most {count}, got {number}; choose another"
        )
