"""What a reader wants to know first: how much was filled, and how wrong it is likely to be."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite, nan, sqrt

from nrtsi.report.content import Coverage, Gap, MethodUse, Report, ReportScore
from nrtsi.report.words import joined, number, share

__all__ = ["Pooled", "covered", "likely_error", "methods_used", "pool", "sentences"]

FEW = 5
"""So many channels fit into a sentence."""


@dataclass(frozen=True)
class Pooled:
    """A method's error on one channel, over all gap lengths."""

    mae: float
    rmse: float


def pool(scores: Iterable[ReportScore]) -> dict[str, Pooled]:
    """One channel's errors by method, over cells; NaN for one not scored at every gap length.

    A method that was scored on the easy lengths only would look better than it is.
    """
    mine = [score for score in scores if score.n > 0]
    lengths = {score.gap for score in mine}
    methods = dict.fromkeys(score.method for score in mine)
    return {name: _pooled([s for s in mine if s.method == name], lengths) for name in methods}


def _pooled(scores: list[ReportScore], lengths: set[Gap]) -> Pooled:
    if {score.gap for score in scores if isfinite(score.mae)} != lengths:
        return Pooled(nan, nan)
    return _mean(scores)


def _mean(scores: list[ReportScore]) -> Pooled:
    cells = sum(score.n for score in scores)
    if not cells:
        return Pooled(nan, nan)
    mse = sum(score.n * score.mse for score in scores) / cells
    return Pooled(sum(score.n * score.mae for score in scores) / cells, sqrt(max(mse, 0.0)))


def likely_error(report: Report, channel: str) -> Pooled:
    """The error of what was used, gap lengths counting by the cells that were filled.

    Or of the best method, by the cells that were hidden, where it is not known what was used.
    """
    scores = report.scores_of(channel)
    used = {(choice.gap, choice.method): choice.cells for choice in report.choices_of(channel)}
    own = [
        replace(score, n=used[score.gap, score.method])
        for score in scores
        if used.get((score.gap, score.method)) and isfinite(score.mae) and score.n > 0
    ]
    if own:
        return _mean(own)
    rivals = [each for each in pool(scores).values() if isfinite(each.mae)]
    return min(rivals, key=lambda each: each.mae, default=Pooled(nan, nan))


def methods_used(choices: Iterable[MethodUse]) -> str:
    """One channel's methods by gap length, each with the length it was used up to."""
    mine = sorted(choices, key=lambda choice: choice.gap)
    if not mine:
        return "–"
    turns = [here for here, later in pairwise(mine) if here.method != later.method]
    words = [f"{turn.method} to {turn.gap.stop_label}" for turn in turns]
    return ", then ".join([*words, mine[-1].method])


def covered(rows: Iterable[Coverage]) -> float:
    """Share of hidden values inside their interval, over all rows; NaN without any."""
    known = [row for row in rows if row.n > 0 and isfinite(row.covered)]
    cells = sum(row.n for row in known)
    return sum(row.n * row.covered for row in known) / cells if cells else nan


def sentences(report: Report) -> list[str]:
    """The first lines of the page."""
    return [text for text in (_filled(report), _wrong(report), _held(report)) if text]


def _filled(report: Report) -> str:
    cells = sum(tally.cells for tally in report.tallies)
    gaps = sum(tally.gaps for tally in report.tallies)
    if not gaps:
        return f"None of the {cells:,} cells of {report.source} is missing; nothing was filled."
    parts = [f"{sum(tally.imputed for tally in report.tallies):,} were filled"]
    refused = sum(tally.refused for tally in report.tallies)
    left = sum(tally.missing for tally in report.tallies)
    parts += [f"{refused:,} refused"] if refused else ["none refused"]
    parts += [f"{left:,} left as they were"] if left else []
    return (
        f"Of the {cells:,} cells of {report.source}, {gaps:,} ({share(gaps, cells)}) were "
        f"missing: {joined(parts)}."
    )


def _wrong(report: Report) -> str:
    errors = [(name, likely_error(report, name).mae) for name in report.channels]
    known = [(name, error) for name, error in errors if isfinite(error)]
    if not known:
        return "How wrong the filled values are is not known: there was no back-test."
    start = "Where known values were hidden as a test, the filling was off by"
    if len(known) > FEW:
        return f"{start} the amounts in the table below, on average, in the units of the data."
    words = joined([f"{number(error)} in {name}" for name, error in known])
    return f"{start} {words} on average, in the units of the data."


def _held(report: Report) -> str:
    found = covered(report.coverage)
    if not isfinite(found):
        return ""
    return f"The {share(report.level, 1)} intervals held {share(found, 1)} of the hidden values."
