"""Builds the content of a report from an imputation result and a back-test."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from nrtsi import __version__
from nrtsi.config import ReportConfig
from nrtsi.core.gaps import gap_bin
from nrtsi.evaluation.backtest import Backtest
from nrtsi.imputer.options import ImputeOptions
from nrtsi.imputer.result import ImputationResult
from nrtsi.report import content
from nrtsi.report.content import CellState, Coverage, GapRange, MethodUse, ReportScore
from nrtsi.tables import Panel

__all__ = ["most_missing", "report_of"]

DEFAULT = ReportConfig()

CLEARLY_BETTER = 0.9  # largest ratio of squared errors at which another method is recommended


def report_of(
    panel: Panel,
    result: ImputationResult,
    backtest: Backtest,
    options: ImputeOptions,
    *,
    source: str,
    command: str = "",
    settings: Mapping[str, Any] | None = None,
    remarks: Sequence[str] = (),
) -> content.Report:
    """The report on data that were imputed and back-tested; it computes neither again.

    `result` is that of `NRTSI.run` on all rows of `panel`, with intervals. `source` names the
    data, `command` makes the report again, `remarks` are further sentences on the data.
    """
    failures = (f"{name} failed: {reason}" for name, reason in backtest.failed.items())
    return content.Report(
        source=source,
        made_at=datetime.now(UTC),
        version=__version__,
        datetimes=panel.clock.kind == "datetime",
        zone="" if panel.times.zone is None else "UTC",
        channels=tuple(_channels(result, backtest, options)),
        series=tuple(_shown_series(panel, result)),
        series_count=panel.series.series,
        level=options.level,
        remarks=(*_advice(backtest, options), *remarks, *panel.notes, *failures),
        command=command,
        settings=settings or {},
    )


def most_missing(
    missing: Sequence[int], cells: Sequence[int], config: ReportConfig = DEFAULT
) -> list[int]:
    """Indices of the series to show, ascending: those with the most missing cells.

    The first of them is shown whatever its size, so that the page is never empty.

    >>> most_missing([3, 0, 7], [10, 10, 10], ReportConfig(max_series=2))
    [0, 2]
    """
    ranked = sorted(range(len(missing)), key=lambda index: -missing[index])
    shown: list[int] = []
    room = config.max_cells
    for index in ranked[: config.max_series]:
        if not shown or cells[index] <= room:
            shown.append(index)
            room -= cells[index]
    return sorted(shown)


def _shown_series(panel: Panel, result: ImputationResult) -> Iterator[content.ReportSeries]:
    series, state = panel.series, result.source.astype(np.uint8)
    missing = state > CellState.OBSERVED
    none = np.full(state.shape, np.nan)
    ends = [np.where(missing, end, np.nan) for end in result.interval or (none, none)]
    time = panel.times.ticks.astype(np.float64)
    if panel.clock.kind == "datetime":
        time *= panel.times.tick / 1e6  # milliseconds
    counts = np.add.reduceat(missing.sum(axis=1), series.start[:-1])
    for index in most_missing(counts.tolist(), (series.length * series.dims).tolist()):
        rows = slice(*series.start[index : index + 2])
        name = str(panel.ids[index]) if panel.columns.id is not None else ""
        shown = (each[rows] for each in (time, result.kept, state, *ends))
        yield content.ReportSeries(name, *shown)


def _channels(
    result: ImputationResult, backtest: Backtest, options: ImputeOptions
) -> Iterator[content.ChannelReport]:
    level, words = options.level, backtest.clock.format_duration

    def gap_of(row: Mapping[str, Any]) -> GapRange:
        low, high = row["gap_from"], row["gap_to"]
        return GapRange(low, high, words(low), words(high))

    tables = backtest.rows(), backtest.coverage(level, options.method)
    for dim, name in enumerate(result.names):
        scores, coverage = (
            [(gap_of(row), row) for row in rows if row["channel"] == name] for rows in tables
        )
        yield content.ChannelReport(
            name,
            tuple(np.bincount(result.source[:, dim], minlength=len(CellState)).tolist()),
            tuple(ReportScore(g, r["method"], r["n"], r["mse"], r["mae"]) for g, r in scores),
            tuple(_method(result, dim, gap) for gap in dict(scores)),
            tuple(Coverage(g, r["n"], r["gaps"], level, r["covered"]) for g, r in coverage),
            tuple(_refusals(result, options, dim)),
        )


def _method(result: ImputationResult, dim: int, gap: GapRange) -> MethodUse:
    """The method that was used for a gap length of a channel."""
    index = int(gap_bin(np.array([gap.stop]))[0])
    method = result.selection.methods[result.selection.table[dim, index]]
    imputed = (result.gaps.gap_bin[:, dim] == index) & ~result.refused.cells[:, dim]
    return MethodUse(gap, method, int(imputed.sum()))


def _refusals(
    result: ImputationResult, options: ImputeOptions, dim: int
) -> Iterator[tuple[int, str]]:
    """Number of refused cells of a channel by reason."""
    if long := int(result.refused.too_long[:, dim].sum()):
        limit = options.max_gap if isinstance(options.max_gap, str) else f"{options.max_gap} steps"
        yield long, f"the gap is longer than {limit}"
    if wide := int(result.refused.too_wide[:, dim].sum()):
        width = options.max_width
        widest = width[result.names[dim]] if isinstance(width, Mapping) else width
        yield wide, f"the {100 * options.level:g} % interval is wider than {widest}"


def _advice(backtest: Backtest, options: ImputeOptions) -> Iterator[str]:
    """Recommends a clearly better method, and warns of uncalibrated intervals."""
    best, used = backtest.best, options.method
    errors = {name: score.mse for name, score in backtest.methods.items()}
    if used in errors and errors[best] < CLEARLY_BETTER * errors[used]:
        yield (
            f"In the back-test, the squared error of {best} is {errors[used] / errors[best]:.1f} "
            f"times lower than that of {used}, which was used here. --method auto selects the "
            f"best method for each channel and gap length."
        )
    if backtest.std is None or backtest.calibrate("nrtsi").is_empty:
        yield (
            "The intervals are not calibrated: too few cells could be held out. They are the "
            "network's own estimate."
        )
