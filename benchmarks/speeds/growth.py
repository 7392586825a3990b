"""How the time to fill one series grows with its length."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from nrtsi import NRTSI
from speeds import long_series
from speeds.sizes import Sizes

KINDS = {"rows": "regular", "channels": "partial"}
"""Where the gaps are, and the setting that suits it."""

SUFFIX = {"rows": "", "channels": "_by_channel"}
"""What the names of the figures end in."""

LEARNT_FROM = 20_000
"""Points of the series a model is fitted on."""


def growth(sizes: Sizes) -> dict[str, object]:
    """The last length over the one before, the memory of the last, and every time."""
    with TemporaryDirectory() as folder:
        models = {kind: _fitted(kind, Path(folder), sizes.steps) for kind in sizes.kinds}
        runs = [
            {"kind": kind, "points": points} | _run(models[kind], points, kind)
            for _ in range(sizes.repeats)
            for points in sizes.points
            for kind in sizes.kinds
        ]
    tables = {kind: best(runs, kind) for kind in sizes.kinds}
    found: dict[str, object] = {}
    for kind, table in tables.items():
        found[f"growth_1e6_over_1e5{SUFFIX[kind]}"] = table[-1]["seconds"] / table[-2]["seconds"]
        found[f"peak_gib_1e6{SUFFIX[kind]}"] = table[-1]["peak_gib"]
    each = {kind: {"exponent": exponent(t), "lengths": t} for kind, t in tables.items()}
    return found | {"growth": each}


def best(runs: Sequence[dict[str, Any]], kind: str) -> list[dict[str, float]]:
    """For every length the fastest run, and the most memory of any."""
    own = [run for run in runs if run["kind"] == kind]
    return [
        {
            "points": points,
            "seconds": min(run["seconds"] for run in own if run["points"] == points),
            "peak_gib": max(run["peak_gib"] for run in own if run["points"] == points),
        }
        for points in sorted({run["points"] for run in own})
    ]


def exponent(table: Sequence[dict[str, float]]) -> float:
    """p of seconds = c · points**p, over the three longest: the short ones are mostly start-up."""
    points, seconds = np.log([[row["points"], row["seconds"]] for row in table[-3:]]).T
    return float(np.polyfit(points, seconds, 1)[0])


def _fitted(kind: str, folder: Path, steps: int) -> Path:
    path = folder / f"{kind}.nrtsi"
    model = NRTSI(preset="base", steps=steps, setting=KINDS[kind])
    model.fit(long_series.series(LEARNT_FROM, kind)).save(path)
    return path


def _run(model: Path, points: int, kind: str) -> dict[str, float]:
    command = [sys.executable, long_series.__file__, str(model), str(points), kind]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found
