"""Fills one long series in a process of its own, whose memory is nobody else's.

    python benchmarks/speeds/long_series.py MODEL POINTS rows|channels

prints the seconds and the most memory in use, with torch and everything.
"""

import json
import math
import re
import resource
import sys
import time
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int

CHANNELS = 8
MISSING = 0.1
LONGEST = 5_000

STATUS = Path("/proc/self/status")


def series(points: int, kind: str) -> Float[np.ndarray, "point 8"]:
    """Waves and a random walk, with gaps in whole rows or in each channel by itself."""
    rng = np.random.default_rng(points)
    wave = np.sin(np.arange(points)[:, None] / np.geomspace(5, 500, CHANNELS))
    value = wave + np.cumsum(rng.normal(scale=0.02, size=(points, CHANNELS)), axis=0)
    if kind == "rows":
        value[hidden(points, rng)] = np.nan
    else:
        for channel in range(CHANNELS):
            value[hidden(points, rng), channel] = np.nan
    return value


def hidden(points: int, rng: np.random.Generator) -> Bool[np.ndarray, " point"]:
    """About a tenth of the points: gaps in random order with something between any two."""
    length = rng.permutation(lengths(points))
    between = points - int(length.sum()) - length.size - 1
    kept = 1 + rng.multinomial(between, np.full(length.size + 1, 1 / (length.size + 1)))
    turns = np.concatenate([np.stack([kept[:-1], length], axis=1).ravel(), kept[-1:]])
    return np.repeat(np.arange(turns.size) % 2 == 1, turns)


def lengths(points: int) -> Int[np.ndarray, " gap"]:
    """Of the gaps: as many of 1 to 10 points as of 10 to 100, and so on.

    Up to 5,000, or a twentieth of a short series. They are evenly spread and not drawn, so that
    series of different lengths differ in nothing else.
    """
    longest = min(LONGEST, points // 20)
    mean = (longest - 1) / math.log(longest)
    count = max(1, round(MISSING * points / mean))
    return np.rint(longest ** ((np.arange(count) + 0.5) / count)).astype(np.int64)


def peak_gib() -> float:
    """The most memory this process has had."""
    if not STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**30  # bytes on macOS
    # Not ru_maxrss: on Linux a process inherits its parent's.
    found = re.search(r"VmHWM:\s+(\d+) kB", STATUS.read_text())
    assert found is not None
    return int(found[1]) / 2**20


def main(model: str, points: str, kind: str) -> None:
    from nrtsi import load

    imputer, gappy = load(model), series(int(points), kind)
    imputer.impute(series(1_000, kind))  # what happens once in a process
    begun = time.perf_counter()
    imputer.impute(gappy)
    seconds = time.perf_counter() - begun
    print(json.dumps({"seconds": seconds, "peak_gib": peak_gib()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
