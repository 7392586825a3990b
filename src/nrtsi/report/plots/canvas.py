"""Figures, colours and files of all plots, and the view of one series that a panel shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.core.atomic import atomic, check_writable
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.tables import Panel

# Of matplotlib, which is imported only when a plot is drawn.
Figure: TypeAlias = Any
Axes: TypeAlias = Any

Names: TypeAlias = Sequence[str] | None

OBSERVED = "#1f5a96"
IMPUTED = "#d95f02"
EARLIER = "#f0b184"  # cells that were imputed in earlier steps
GAP = "#eeeae4"
PATH = "#c4c0ba"  # the line through the points in time order
READ = "#6a3d9a"  # attention weights

# Styles of a legend entry that is a line, and of the points that a panel is about.
LINE: dict[str, Any] = {"marker": "none", "linestyle": "-"}
HIGHLIGHT: dict[str, Any] = {"markeredgecolor": "black", "markeredgewidth": 0.5}

WIDTH = 12.0  # of every figure, in inches of 100 pixels
LEGEND = "lower center"  # place of the legend outside of the panels
SUFFIXES = (".png", ".svg", ".pdf")


def check_picture(path: str | Path, *, overwrite: bool) -> None:
    """Raises `InputError` if a plot cannot be drawn or written to `path`, or it exists already."""
    _figure_class()
    _format(Path(path))
    check_writable(Path(path), overwrite=overwrite)


def blank(height: float) -> Figure:
    """An empty figure that does not touch the caller's pyplot."""
    return _figure_class()(figsize=(WIDTH, height), dpi=100, layout="constrained")


def save(
    figure: Figure, path: str | Path, title: str | None, legend: list[Any], at: str = LEGEND
) -> Figure:
    """Adds a title above the panels and a legend outside of them, and writes the figure."""
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=13)
    figure.legend(handles=legend, loc=f"outside {at}", ncols=len(legend), frameon=False)
    kind = _format(Path(path))
    with atomic(Path(path)) as temporary:
        figure.savefig(temporary, format=kind)
    return figure


def plain_axes(axes: Axes) -> None:
    """Removes the lines above and to the right of a panel."""
    axes.spines[["top", "right"]].set_visible(False)


def sample(color: str, label: str, **style: Any) -> Any:
    """A legend entry: a point, unless the style says otherwise."""
    from matplotlib.lines import Line2D

    default: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 6.0}
    return Line2D([], [], color=color, label=label, **default | style)


def known_legend() -> list[Any]:
    """Legend entries of the points that `View.draw_known` draws."""
    return [sample(OBSERVED, "observed"), sample(EARLIER, "imputed earlier")]


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure as MatplotlibFigure
    except ImportError as error:
        raise InputError(
            'pictures need matplotlib, which is not installed; pip install "nrtsi[plot]"'
        ) from error
    return MatplotlibFigure


def _format(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"a picture must end in one of {', '.join(SUFFIXES)}, got {path.name!r}; "
            f"write a name such as {path.stem}.png"
        )
    return suffix.removeprefix(".")


@dataclass(frozen=True)
class View:
    """The columns of one series that are drawn: each over time, or two against each other."""

    series: SeriesSet
    time: np.ndarray  # of the rows, as in the user's data
    names: tuple[str, ...]  # of all value columns
    time_name: str
    label: str  # identifies the series
    dims: tuple[int, ...]  # the columns that are drawn
    plane: bool

    @classmethod
    def of(
        cls, panel: Panel, index: int, columns: Names, *, plane: bool = False, single: bool = False
    ) -> "View":
        """The series at `index`; if `single`, only one column over time, by default the first."""
        check_number("series", index, panel.series.series)
        series, clock, key = panel.series.select(np.array([index])), panel.clock, panel.columns.id
        time = series.time * clock.unit
        if clock.kind == "datetime":
            time = (int(clock.origin) + np.round(time).astype(np.int64)).astype("datetime64[ns]")
        names = tuple(str(name) for name in panel.columns.values or ())
        label = f"series {index}" if key is None else f"{key} {panel.ids[index]}"
        dims = _dims(names, columns, plane=plane, single=single)
        return cls(series, time, names, str(panel.columns.time or "time"), label, dims, plane)

    @property
    def observed(self) -> Bool[np.ndarray, " row"]:
        """True for the rows whose coordinates are observed."""
        return self.complete(self.series)

    def complete(self, series: SeriesSet) -> Bool[np.ndarray, " row"]:
        """True for the rows whose coordinates `series` contains."""
        return np.logical_and.reduce(series.observed[:, self.dims], axis=1)

    def xy(self, value: Float[np.ndarray, "row dim"]) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of the rows."""
        first = value[:, self.dims[0]]
        return (first, value[:, self.dims[1]]) if self.plane else (self.time, first)

    def draw_known(
        self, axes: Axes, value: np.ndarray, known: np.ndarray, size: float, zorder: float
    ) -> None:
        """Draws the known points, joined in time order; `zorder` is that of imputed ones."""
        x, y = self.xy(value)
        axes.plot(x[known], y[known], color=PATH, linewidth=0.8, zorder=1)
        for rows, color, order in (
            (known & ~self.observed, EARLIER, zorder),
            (known & self.observed, OBSERVED, 4),
        ):
            axes.plot(x[rows], y[rows], "o", color=color, markersize=size, zorder=order)

    def finish(self, axes: Axes, *, left: bool = True, bottom: bool = True) -> None:
        """Labels the axes of a panel; in the plane both have the same scale."""
        plain_axes(axes)
        x, y = ([self.time_name] + [self.names[dim] for dim in self.dims])[-2:]
        axes.set(xlabel=x if bottom else "", ylabel=y if left else "")
        if self.plane:
            axes.set_aspect("equal")
        elif self.time.dtype.kind == "M":
            from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

            locator = AutoDateLocator(minticks=2, maxticks=6)
            axes.xaxis.set_major_locator(locator)
            axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _dims(names: Sequence[str], columns: Names, *, plane: bool, single: bool) -> tuple[int, ...]:
    """Indices of the named columns, or of all."""
    chosen = list(columns or names)
    for name in chosen:
        if name not in names:
            raise InputError(
                f"column must be one of {', '.join(names)}, got {name!r}; choose one of them"
            )
    if single and not plane and not columns:
        chosen = chosen[:1]
    needed = "in the plane must have 2 columns" if plane else "over time must have 1 column"
    if (plane or single) and len(chosen) != 1 + plane:
        got = f"got {len(chosen)}: {', '.join(chosen)}"
        raise InputError(f"a plot {needed}, {got}; name {1 + plane}")
    return tuple(names.index(name) for name in chosen)


def dot_size(count: int) -> float:
    """Diameter in points of each of `count` dots: the more dots, the smaller."""
    return float(np.clip(80 / np.sqrt(count), 1.5, 5.0))


def check_number(name: str, number: int, count: int, first: int = 0) -> None:
    """Raises if one of `count` things does not exist; they are counted from `first`."""
    if not first <= number < first + count:
        limit = f"at most {count}" if first else f"below {count}"
        raise InputError(
            f"{name} must be at least {first} and {limit}, got {number}; choose another"
        )
