"""How long a program takes from its start to the first imputed value of a small file."""

import csv
import math
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from speeds.rounds import Work, rounds
from speeds.sizes import Sizes

ROWS = 100


def startup(sizes: Sizes) -> dict[str, object]:
    """The whole of `nrtsi impute` over a program that imports torch, and the seconds of both."""
    with TemporaryDirectory() as folder:
        data, model, out = (Path(folder) / n for n in ("small.csv", "m.nrtsi", "out.csv"))
        _write(data)
        # It also reads the programs from disk and compiles them.
        fit = ["--preset", "base", "--steps", "2", "--quiet", "--out"]
        _python("-m", "nrtsi", "fit", data, *fit, model)
        impute: list[str | Path] = ["--model", model, "--out", out, "--overwrite", "--quiet"]
        works: dict[str, Work] = {
            "import torch": lambda: _python("-c", "import torch"),
            "nrtsi impute": lambda: _python("-m", "nrtsi", "impute", data, *impute),
        }
        meters = rounds(works, sizes.starts)
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
