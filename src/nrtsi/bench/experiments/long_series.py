"""How the time and memory to impute one series grow with its length.

Run as a program with MODEL POINTS rows|channels, it imputes one series and prints its figures.
"""

import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

__all__ = ["gap_lengths", "hidden_points", "long_series", "long_series_figures", "merge_runs"]

CHANNELS, MISSING, LONGEST = 8, 0.1, 5_000
"""Channels, share of missing points, and longest gap of a series."""

TRAINING_POINTS = 20_000
"""Length of the series that a model is fitted to."""

KINDS = {"rows": ("regular", ""), "channels": ("partial", "_by_channel")}
"""Where the gaps are: the setting of NRTSI, and the suffix of the figures."""


def long_series(points: int, kind: str) -> Float[np.ndarray, "point 8"]:
    """Waves and a random walk, with gaps in whole rows or in single channels."""
    rng = np.random.default_rng(points)
    wave = np.sin(np.arange(points)[:, None] / np.geomspace(5, 500, CHANNELS))
    value = wave + np.cumsum(rng.normal(scale=0.02, size=(points, CHANNELS)), axis=0)
    if kind == "rows":
        value[hidden_points(points, rng)] = np.nan
    else:
        for channel in range(CHANNELS):
            value[hidden_points(points, rng), channel] = np.nan
    return value


def hidden_points(points: int, rng: np.random.Generator) -> Bool[np.ndarray, " point"]:
    """About a tenth of the points: gaps in random order, separated by observations."""
    length = rng.permutation(gap_lengths(points))
    between = points - int(length.sum()) - length.size - 1
    kept = 1 + rng.multinomial(between, np.full(length.size + 1, 1 / (length.size + 1)))
    runs = np.concatenate([np.stack([kept[:-1], length], axis=1).ravel(), kept[-1:]])
    return np.repeat(np.arange(runs.size) % 2 == 1, runs)


def gap_lengths(points: int) -> Int[np.ndarray, " gap"]:
    """Gap lengths evenly spaced on a logarithmic scale, up to a twentieth of the series.

    They are not random, so that series of different lengths differ in nothing else.
    """
    longest = min(LONGEST, points // 20)
    mean = (longest - 1) / math.log(longest)
    count = max(1, round(MISSING * points / mean))
    return np.rint(longest ** ((np.arange(count) + 0.5) / count)).astype(np.int64)


def long_series_figures(
    lengths: Sequence[int], kinds: Sequence[str], *, steps: int, repeats: int
) -> dict[str, Any]:
    """Time of the longest series over the next, its memory, and the figures of every length.

    Of repeated runs the fastest and the highest memory count.
    """
    found: dict[str, Any] = {"growth": {}}
    with TemporaryDirectory() as folder:
        models = {kind: _fit(kind, Path(folder), steps) for kind in kinds}
        runs = [
            {"kind": kind, "points": points} | _impute_in_process(models[kind], points, kind)
            for _ in range(repeats)
            for points in lengths
            for kind in kinds
        ]
    for kind in kinds:
        table, suffix = merge_runs(runs, kind), KINDS[kind][1]
        found[f"growth_1e6_over_1e5{suffix}"] = table[-1]["seconds"] / table[-2]["seconds"]
        found[f"peak_gib_1e6{suffix}"] = table[-1]["peak_gib"]
        found["growth"][kind] = {"lengths": table}
    return found


def merge_runs(runs: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """For every length the fastest run and the highest memory."""
    by_length: dict[int, list[dict[str, Any]]] = {}
    for run in runs:
        if run["kind"] == kind:
            by_length.setdefault(run["points"], []).append(run)
    return [
        {
            "points": points,
            "seconds": min(run["seconds"] for run in own),
            "peak_gib": max(run["peak_gib"] for run in own),
        }
        for points, own in sorted(by_length.items())
    ]


def _fit(kind: str, folder: Path, steps: int) -> Path:
    from nrtsi import NRTSI

    path = folder / f"{kind}.nrtsi"
    model = NRTSI(preset="base", steps=steps, setting=KINDS[kind][0])
    model.fit(long_series(TRAINING_POINTS, kind)).save(path)
    return path


def _impute_in_process(model: Path, points: int, kind: str) -> dict[str, float]:
    """Runs this file, so that its memory is that of one imputation."""
    command = [sys.executable, "-P", __file__, str(model), str(points), kind]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _main(model: str, points: str, kind: str) -> None:
    from nrtsi import load
    from nrtsi.bench.meter import peak_memory

    imputer, gappy = load(model), long_series(int(points), kind)
    imputer.impute(long_series(1_000, kind))  # what happens once in a process
    start = time.perf_counter()
    imputer.impute(gappy)
    seconds = time.perf_counter() - start
    sys.stdout.write(json.dumps({"seconds": seconds, "peak_gib": (peak_memory() or 0.0) / 1024}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
