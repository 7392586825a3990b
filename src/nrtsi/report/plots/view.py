"""One series out of the data, and what of it is drawn against what."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.tables import Clock, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["One", "View", "dot_size"]


@dataclass(frozen=True)
class One:
    """One of the series that were read."""

    series: SeriesSet
    """Its rows, and no others."""

    time: np.ndarray
    """Their times as the caller knows them."""

    names: tuple[str, ...]
    """Of the value columns."""

    time_name: str
    label: str
    """What tells it apart from the other series."""

    @classmethod
    def of(cls, panel: Panel, index: int) -> "One":
        """The series at this place, in the sorted order of the ids.

        Raises:
            InputError: There is none.
        """
        count = panel.series.series
        if not 0 <= index < count:
            raise InputError(
                f"series must be at least 0 and below {count}, got {index}; choose another"
            )
        series = panel.series.select(np.array([index]))
        key = panel.columns.id
        return cls(
            series=series,
            time=_axis(series.time, panel.clock),
            names=tuple(str(name) for name in panel.columns.values or ()),
            time_name=str(panel.columns.time or "time"),
            label=f"series {index}" if key is None else f"{key} {panel.ids[index]}",
        )

    def places(self, columns: Sequence[str] | None) -> tuple[int, ...]:
        """Places of the named value columns; of all of them without names.

        Raises:
            InputError: A name is none of a value column.
        """
        for name in columns or ():
            if name not in self.names:
                raise InputError(
                    f"column must be one of {', '.join(self.names)}, got {name!r}; "
                    f"choose one of them"
                )
        return tuple(self.names.index(name) for name in columns or self.names)


@dataclass(frozen=True)
class View:
    """One column over time, or two columns against each other in the plane."""

    one: One
    dims: tuple[int, ...]
    """Places of the columns: one over time, or two in the plane."""

    @classmethod
    def of(cls, one: One, columns: Sequence[str] | None, *, plane: bool) -> "View":
        """The named columns; over time the first one without a name.

        Raises:
            InputError: There are not as many columns as the view needs.
        """
        dims = one.places(columns)
        if plane and len(dims) != 2:
            raise InputError(
                f"a picture in the plane must have 2 columns, got {len(dims)}: "
                f"{', '.join(one.names[dim] for dim in dims)}; name two"
            )
        if not plane and len(columns or ()) > 1:
            raise InputError(
                f"a picture over time must have 1 column, got {len(dims)}: "
                f"{', '.join(columns or ())}; name one, or ask for the plane"
            )
        return cls(one, dims if plane else dims[:1])

    @property
    def plane(self) -> bool:
        """Whether it is two columns against each other."""
        return len(self.dims) == 2

    @property
    def observed(self) -> Bool[np.ndarray, " row"]:
        """True for the rows whose place in the picture is known from the data."""
        return self.complete(self.one.series)

    def complete(self, series: SeriesSet) -> Bool[np.ndarray, " row"]:
        """True for the rows of which `series` knows all that the view shows."""
        return np.logical_and.reduce(series.observed[:, self.dims], axis=1)

    @property
    def dot(self) -> float:
        """Diameter of a dot, in points."""
        return dot_size(self.one.series.rows)

    def xy(self, value: Float[np.ndarray, "row dim"]) -> tuple[np.ndarray, np.ndarray]:
        """Where the rows are in the picture."""
        first = value[:, self.dims[0]]
        return (first, value[:, self.dims[1]]) if self.plane else (self.one.time, first)

    def label(self, axes: "Axes", *, left: bool = True, bottom: bool = True) -> None:
        """Names the axes that have room for it; in the plane both have one measure."""
        names = [self.one.names[dim] for dim in self.dims]
        across, up = names if self.plane else (self.one.time_name, names[0])
        if bottom:
            axes.set_xlabel(across)
        if left:
            axes.set_ylabel(up)
        if self.plane:
            axes.set_aspect("equal")
        elif np.issubdtype(self.one.time.dtype, np.datetime64):
            _short_dates(axes)


def dot_size(count: int) -> float:
    """Diameter of each of so many dots, in points: small where there are many."""
    return float(np.clip(80 / np.sqrt(count), 1.5, 5.0))


def _axis(time: Float[np.ndarray, " row"], clock: Clock) -> np.ndarray:
    """Times as the caller knows them."""
    if clock.kind == "number":
        return time * clock.unit
    ticks = int(clock.origin) + np.round(time * clock.unit).astype(np.int64)
    return ticks.astype("datetime64[ns]")


def _short_dates(axes: "Axes") -> None:
    """Dates that say what changes only, so that they fit below a small panel."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=2, maxticks=6)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
