"""Makes the content of a report from a model, its data and its back-test."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from nrtsi import __version__
from nrtsi.core.gaps import gap_bin
from nrtsi.evaluation.backtest import Backtest
from nrtsi.imputer.options import ImputeOptions
from nrtsi.imputer.result import ImputationResult
from nrtsi.report import (
    Coverage,
    Gap,
    MethodUse,
    RefusalCount,
    Report,
    ReportScore,
    SeriesShown,
    State,
    Tally,
    most_missing,
)
from nrtsi.tables import Clock, Panel

__all__ = ["report_of"]

CAVEAT = (
    "Errors and intervals were found by hiding known cells in gaps like those of the data. They "
    "hold for such gaps; where values are missing for a reason that has to do with the values "
    "themselves, nobody can tell from what is left."
)


def report_of(
    panel: Panel,
    filled: ImputationResult,
    trial: Backtest,
    options: ImputeOptions,
    *,
    source: str,
    command: str,
    settings: dict[str, Any],
    remarks: Sequence[str] = (),
) -> Report:
    """All that a page says of data that were filled, and of how well that can be done.

    Args:
        panel: The data as they were read.
        filled: What was made of them.
        trial: How well methods found known cells again.
        options: What was asked for.
        source: What the data are called.
        command: The command line that does it again.
        settings: The settings of the model.
        remarks: Further sentences about the data.
    """
    state = _states(filled)
    shown = list(_shown(panel, filled, state))
    return Report(
        title=f"{source}: what was missing, and what was filled in",
        source=source,
        made_at=datetime.now(UTC),
        version=__version__,
        time_kind=panel.clock.kind,
        channels=filled.names,
        series=tuple(shown),
        all_series=panel.series.series,
        tallies=tuple(Tally.of(name, [state[:, dim]]) for dim, name in enumerate(filled.names)),
        level=options.level,
        scores=tuple(
            ReportScore(
                row["channel"],
                _gap(row, trial.clock),
                row["method"],
                row["n"],
                row["mse"],
                row["mae"],
            )
            for row in trial.rows()
        ),
        choices=tuple(_choices(trial, filled)),
        coverage=tuple(
            Coverage(
                row["channel"],
                _gap(row, trial.clock),
                row["n"],
                row["gaps"],
                options.level,
                row["covered"],
            )
            for row in trial.coverage(options.level, options.method)
        ),
        refusals=tuple(_refusals(filled, options)),
        remarks=(*_advice(trial, options), *remarks, *panel.notes, *_failures(trial)),
        zone="" if panel.times.zone is None else "UTC",
        caveats=(CAVEAT,),
        command=command,
        settings=settings,
    )


def _advice(trial: Backtest, options: ImputeOptions) -> Iterator[str]:
    """Tells of a method that would have been clearly better."""
    best, used = trial.best, options.method
    if used in trial.methods and trial.methods[best].mse < 0.9 * trial.methods[used].mse:
        ratio = trial.methods[used].mse / trial.methods[best].mse
        yield (
            f"{best} found hidden values better than {used}, which was used here: its squared "
            f"error is {ratio:.1f} times lower. --method auto uses it where it is better."
        )
    if trial.std is None or trial.calibrate("nrtsi").is_empty:
        yield "Intervals are the network's own guess: too few cells were hidden to calibrate them."


def _failures(trial: Backtest) -> Iterator[str]:
    for name, why in trial.failed.items():
        yield f"{name} did not run: {why}"


def _states(filled: ImputationResult) -> UInt8[np.ndarray, "row dim"]:
    state = filled.source.astype(np.uint8)
    state[~np.isfinite(filled.kept) & (state == State.IMPUTED)] = State.MISSING
    return state


def _shown(
    panel: Panel, filled: ImputationResult, state: UInt8[np.ndarray, "row dim"]
) -> Iterator[SeriesShown]:
    """The series with the most to see."""
    series, time = panel.series, _time(panel)
    gaps = np.add.reduceat((state > 0).sum(axis=1), series.start[:-1])
    missing = state > 0
    none = np.full(state.shape, np.nan)
    ends = [np.where(missing, end, np.nan) for end in filled.interval or (none, none)]
    for number in most_missing(gaps.tolist(), (series.length * series.dims).tolist()):
        rows = slice(int(series.start[number]), int(series.start[number + 1]))
        name = str(panel.ids[number]) if panel.columns.id is not None else ""
        lower, upper = (end[rows] for end in ends)
        yield SeriesShown(name, time[rows], filled.kept[rows], state[rows], lower, upper)


def _time(panel: Panel) -> Float[np.ndarray, " row"]:
    """Milliseconds since 1970, or the caller's own numbers."""
    ticks = panel.times.ticks.astype(np.float64)
    return ticks * (panel.times.tick / 1e6) if panel.clock.kind == "datetime" else ticks


def _gap(row: dict[str, Any], clock: Clock) -> Gap:
    low, high = row["gap_from"], row["gap_to"]
    return Gap(low, high, clock.format_duration(low), clock.format_duration(high))


def _choices(trial: Backtest, filled: ImputationResult) -> Iterator[MethodUse]:
    """The method that was used for each channel and length of gap that was tried."""
    seen = set()
    for row in trial.rows():
        dim = filled.names.index(row["channel"])
        bucket = int(gap_bin(np.array([row["gap_to"]]))[0])
        if (dim, bucket) not in seen:
            seen.add((dim, bucket))
            method = filled.selection.methods[filled.selection.table[dim, bucket]]
            done = (filled.gaps.gap_bin[:, dim] == bucket) & ~filled.refused.cells[:, dim]
            yield MethodUse(row["channel"], _gap(row, trial.clock), method, int(done.sum()))


def _refusals(filled: ImputationResult, options: ImputeOptions) -> Iterator[RefusalCount]:
    """How many cells of each channel were refused, and why."""
    percent = f"{100 * options.level:g} %"
    for dim, name in enumerate(filled.names):
        long = int(filled.refused.too_long[:, dim].sum())
        wide = int(filled.refused.too_wide[:, dim].sum())
        if long:
            most = (
                options.max_gap if isinstance(options.max_gap, str) else f"{options.max_gap} steps"
            )
            yield RefusalCount(name, long, f"the gap is longer than {most}")
        if wide:
            width = options.max_width
            widest = width[name] if isinstance(width, Mapping) else width
            yield RefusalCount(name, wide, f"the {percent} interval is wider than {widest}")
