"""What every picture is made with: colours, an empty figure, words around it, a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nrtsi.core.atomic import atomic, check_writable
from nrtsi.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BRIGHT",
    "EARLIER",
    "GAP",
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
"""Imputed too, but not what is looked at now."""
GAP = "#eeeae4"
PATH = "#c4c0ba"
"""The line that joins points in the order of time."""
READ = "#6a3d9a"

LINE: dict[str, Any] = {"marker": "none", "linestyle": "-"}
"""Style of a `sample` that is a line."""

BRIGHT: dict[str, Any] = {"markeredgecolor": "black", "markeredgewidth": 0.5}
"""Style of the dots to look at."""

WIDTH = 12.0
"""Of every picture, in inches of 100 pixels."""

SUFFIXES = (".png", ".svg", ".pdf")


def check_picture(path: str | Path, *, overwrite: bool) -> None:
    """Finds out before any work whether `save` could write to `path`.

    Raises:
        InputError: matplotlib is not installed, the suffix is none of a picture, `path` exists
            and `overwrite` is False, or it cannot be written.
    """
    _figure_class()
    _kind(Path(path))
    check_writable(Path(path), overwrite=overwrite)


def blank(height: float) -> "Figure":
    """An empty figure."""
    # A Figure of its own draws with Agg and leaves the caller's pyplot alone.
    return _figure_class()(figsize=(WIDTH, height), dpi=100, layout="constrained")


def save(figure: "Figure", path: str | Path) -> None:
    """Writes the figure, whole or not at all, in the format that the suffix names."""
    kind = _kind(Path(path))
    with atomic(Path(path)) as temporary:
        figure.savefig(temporary, format=kind)


def explain(figure: "Figure", title: str | None, legend: Sequence[Any]) -> None:
    """Puts a title above the panels and a legend of these lines and patches below them."""
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=13)
    figure.legend(handles=legend, loc="outside lower center", ncols=len(legend), frameon=False)


def plain_axes(axes: "Axes") -> None:
    """Takes away the lines above and to the right of a panel."""
    axes.spines[["top", "right"]].set_visible(False)


def sample(color: str, label: str, **style: Any) -> Any:
    """What a legend shows and says of a colour: a dot, unless the style says otherwise."""
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 6.0}
    return Line2D([], [], color=color, label=label, **look | style)


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            'pictures need matplotlib, which is not installed; pip install "nrtsi[plot]"'
        ) from error
    return Figure


def _kind(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"a picture must end in one of {', '.join(SUFFIXES)}, got {path.name!r}; "
            f"write a name such as {path.stem}.png"
        )
    return suffix.removeprefix(".")
