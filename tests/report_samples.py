"""Small reports to try the page on."""

from datetime import UTC, datetime

import numpy as np

from nrtsi.report import (
    Coverage,
    Gap,
    MethodUse,
    RefusalCount,
    Report,
    ReportScore,
    SeriesShown,
    Tally,
)

HOUR = Gap(1.0, 2.0, "1h", "2h")
DAY = Gap(2.0, float("inf"), "2h", "")
WHEN = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


def shown(id="a", rows=200, channels=2, start=1.7e12, step=3.6e6, seed=0):
    """A series with a filled stretch, a refused one and one that is left, in every channel."""
    rng = np.random.default_rng(seed)
    value = 10 + np.cumsum(rng.normal(size=(rows, channels)), axis=0)
    state = np.zeros((rows, channels), np.uint8)
    for place, (kind, length) in enumerate([(1, 12), (2, 30), (3, 5)]):
        first = (place + 1) * rows // 5
        state[first : first + length] = kind
    value[state > 1] = np.nan
    ends = [np.where(state == 1, value + side, np.nan) for side in (-2.0, 2.0)]
    return SeriesShown(id, start + step * np.arange(rows), value, state, *ends)


def report(*series, channels=None, **changes):
    """A report on these series, complete in all its parts."""
    series = series or (shown(),)
    names = tuple(channels or (f"c{i}" for i in range(series[0].value.shape[1])))
    first = names[0]
    scores = [
        ReportScore(first, gap, method, n, error**2, error)
        for gap, n, errors in ((HOUR, 30, (0.5, 0.4)), (DAY, 10, (1.0, 2.0)))
        for method, error in zip(("nrtsi", "linear"), errors, strict=True)
    ]
    content = {
        "title": "What was filled in a.csv",
        "source": "a.csv",
        "made_at": WHEN,
        "version": "1.2.3",
        "time_kind": "datetime",
        "channels": names,
        "series": series,
        "all_series": len(series),
        "tallies": tuple(
            Tally.of(name, [one.state[:, i] for one in series]) for i, name in enumerate(names)
        ),
        "level": 0.9,
        "scores": tuple(scores),
        "choices": (MethodUse(first, HOUR, "linear", 30), MethodUse(first, DAY, "nrtsi", 10)),
        "coverage": (
            Coverage(first, HOUR, 900, 300, 0.9, 0.9),
            Coverage(first, DAY, 800, 100, 0.9, 0.7),
        ),
        "refusals": (RefusalCount(first, 30, "longer than any gap that was tested"),),
        "remarks": ("The times were taken to be UTC.",),
        "caveats": ("This holds for gaps like those it was calibrated on.",),
        "command": "nrtsi report a.csv --out report.html",
        "settings": {"seed": 0, "methods": ["nrtsi", "linear"]},
    }
    return Report(**content | changes)
