"""The time from the start of a program to the imputed values of a small file."""

import csv
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from nrtsi.bench.experiments.speed.config import Sizes
from nrtsi.bench.meter import take_turns

__all__ = ["startup"]

ROWS = 100


def startup(sizes: Sizes) -> dict[str, Any]:
    """Seconds of `nrtsi impute` over those of a program that imports torch, and both."""
    with TemporaryDirectory() as folder:
        data, model, out = (Path(folder) / n for n in ("small.csv", "m.nrtsi", "out.csv"))
        _write(data)
        # This also reads the programs from disk and compiles them.
        fit = ["--preset", "base", "--steps", "2", "--quiet", "--out"]
        _python("-m", "nrtsi", "fit", data, *fit, model)
        impute: list[str | Path] = ["--model", model, "--out", out, "--overwrite", "--quiet"]
        works: dict[str, Callable[[], object]] = {
            "import torch": lambda: _python("-c", "import torch"),
            "nrtsi impute": lambda: _python("-m", "nrtsi", "impute", data, *impute),
        }
        meters = take_turns(works, sizes.starts)
    seconds = {name: median(meter.seconds for meter in each) for name, each in meters.items()}
    ratio = seconds["nrtsi impute"] / seconds["import torch"]
    return {"startup_over_torch": ratio, "startup": seconds}


def _write(path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["time", "x"])
        for row in range(ROWS):
            value = "" if row % 10 in (4, 5, 6) else f"{math.sin(row / 5):.4f}"
            writer.writerow([f"2024-01-{1 + row // 24:02}T{row % 24:02}:00:00", value])


def _python(*arguments: str | Path) -> None:
    command = [sys.executable, *map(str, arguments)]
    subprocess.run(command, capture_output=True, check=True)
