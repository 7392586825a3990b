"""Small reports for the tests of the page."""

from datetime import UTC, datetime

import numpy as np

from nrtsi.report.content import (
    ChannelReport,
    Coverage,
    GapRange,
    MethodUse,
    Report,
    ReportScore,
    ReportSeries,
)

HOUR = GapRange(1.0, 2.0, "1h", "2h")
DAY = GapRange(2.0, float("inf"), "2h", "")


def series(id="a", rows=200, channels=2, start=1.7e12, step=3.6e6, seed=0):
    """A series with imputed, refused and missing cells in every channel."""
    rng = np.random.default_rng(seed)
    value = 10 + np.cumsum(rng.normal(size=(rows, channels)), axis=0)
    state = np.zeros((rows, channels), np.uint8)
    for place, (kind, length) in enumerate([(1, 12), (2, 30), (3, 5)]):
        first = (place + 1) * rows // 5
        state[first : first + length] = kind
    value[state > 1] = np.nan
    ends = [np.where(state == 1, value + side, np.nan) for side in (-2.0, 2.0)]
    return ReportSeries(id, start + step * np.arange(rows), value, state, *ends)


def channel(name="c0", counts=(10, 0, 0, 0), **changes):
    """A channel with two methods and two gap lengths."""
    content = {
        "scores": tuple(
            ReportScore(gap, method, cells, error**2, error)
            for gap, cells, errors in ((HOUR, 30, (0.5, 0.4)), (DAY, 10, (1.0, 2.0)))
            for method, error in zip(("nrtsi", "linear"), errors, strict=True)
        ),
        "methods": (MethodUse(HOUR, "linear", 30), MethodUse(DAY, "nrtsi", 10)),
        "coverage": (Coverage(HOUR, 900, 300, 0.9, 0.9), Coverage(DAY, 800, 100, 0.9, 0.7)),
        "refusals": ((30, "the gap is longer than 3 steps"),),
    }
    return ChannelReport(name, counts, **content | changes)


def report(*shown, names=None, first=None, **changes):
    """A report on these series; only its first channel, changed by `first`, has errors."""
    shown = shown or (series(),)
    names = names or [f"c{index}" for index in range(shown[0].value.shape[1])]
    states = np.concatenate([each.state for each in shown])
    counts = [tuple(np.bincount(column, minlength=4).tolist()) for column in states.T]
    others = [
        ChannelReport(name, count) for name, count in zip(names[1:], counts[1:], strict=True)
    ]
    content = {
        "source": "a.csv",
        "made_at": datetime(2026, 3, 1, 12, 30, tzinfo=UTC),
        "version": "1.2.3",
        "datetimes": True,
        "channels": (channel(names[0], counts[0], **first or {}), *others),
        "series": shown,
        "series_count": len(shown),
        "level": 0.9,
        "remarks": ("time: column 'time' (detected)",),
        "command": "nrtsi report a.csv --out report.html",
        "settings": {"seed": 0, "methods": ["nrtsi", "linear"]},
    }
    return Report(**content | changes)
