"""Colours, figures, legends and files of all plots."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nrtsi.core.atomic import atomic, check_writable
from nrtsi.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "EARLIER",
    "GAP",
    "HIGHLIGHT",
    "IMPUTED",
    "LINE",
    "OBSERVED",
    "PATH",
    "READ",
    "blank",
    "check_picture",
    "explain",
    "plain_axes",
    "sample",
    "save",
]

OBSERVED = "#1f5a96"
IMPUTED = "#d95f02"
EARLIER = "#f0b184"
"""Cells that were imputed in earlier steps."""
GAP = "#eeeae4"
PATH = "#c4c0ba"
"""The line through the points in time order."""
READ = "#6a3d9a"
"""Attention weights."""

LINE: dict[str, Any] = {"marker": "none", "linestyle": "-"}
"""Style of a legend entry that is a line."""

HIGHLIGHT: dict[str, Any] = {"markeredgecolor": "black", "markeredgewidth": 0.5}
"""Style of the points that a panel is about."""

WIDTH = 12.0
"""Width of every figure, in inches of 100 pixels."""

SUFFIXES = (".png", ".svg", ".pdf")


def check_picture(path: str | Path, *, overwrite: bool) -> None:
    """Checks that a plot can be written to `path`.

    Raises:
        InputError: matplotlib is not installed, the suffix is unknown, `path` exists and
            `overwrite` is False, or it cannot be written.
    """
    _figure_class()
    _format(Path(path))
    check_writable(Path(path), overwrite=overwrite)


def blank(height: float) -> "Figure":
    """An empty figure that does not touch the caller's pyplot."""
    return _figure_class()(figsize=(WIDTH, height), dpi=100, layout="constrained")


def save(figure: "Figure", path: str | Path) -> None:
    """Writes the figure atomically, in the format of the suffix."""
    kind = _format(Path(path))
    with atomic(Path(path)) as temporary:
        figure.savefig(temporary, format=kind)


def explain(
    figure: "Figure", title: str | None, legend: Sequence[Any], at: str = "lower center"
) -> None:
    """Adds a title above the panels and a legend outside of them."""
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=13)
    figure.legend(handles=legend, loc=f"outside {at}", ncols=len(legend), frameon=False)


def plain_axes(axes: "Axes") -> None:
    """Removes the lines above and to the right of a panel."""
    axes.spines[["top", "right"]].set_visible(False)


def sample(color: str, label: str, **style: Any) -> Any:
    """A legend entry: a point, unless the style says otherwise."""
    from matplotlib.lines import Line2D

    default: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 6.0}
    return Line2D([], [], color=color, label=label, **default | style)


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            'pictures need matplotlib, which is not installed; pip install "nrtsi[plot]"'
        ) from error
    return Figure


def _format(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"a picture must end in one of {', '.join(SUFFIXES)}, got {path.name!r}; "
            f"write a name such as {path.stem}.png"
        )
    return suffix.removeprefix(".")
