"""Which of many series a page shows."""

from collections.abc import Sequence

__all__ = ["most_missing"]


def most_missing(
    gaps: Sequence[int], cells: Sequence[int], *, series: int = 12, most_cells: int = 2_000_000
) -> list[int]:
    """Numbers of the series to show: those with the most missing cells, in their own order.

    Args:
        gaps: Missing cells of each series.
        cells: All cells of each series.
        series: How many to show at most.
        most_cells: How many cells to show at most, so that the page stays light; the first
            series is shown whatever its size.

    >>> most_missing([3, 0, 7], [10, 10, 10], series=2)
    [0, 2]
    """
    ranked = sorted(range(len(gaps)), key=lambda i: (-gaps[i], i))
    chosen: list[int] = []
    room = most_cells
    for number in ranked[:series]:
        if not chosen or cells[number] <= room:
            chosen.append(number)
            room -= cells[number]
    return sorted(chosen)
