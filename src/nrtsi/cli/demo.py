"""`nrtsi demo`: fills the bundled weather file and scores the filling."""

import sys
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nrtsi.bench.datasets.weather import CHANNELS, DECIMALS
from nrtsi.bench.datasets.weather import weather as simulate
from nrtsi.core.atomic import check_writable
from nrtsi.core.events import Listener
from nrtsi.errors import InputError
from nrtsi.evaluation.backtest import Backtest
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.imputer.options import ImputeTask
from nrtsi.imputer.selection import backtest_panel
from nrtsi.report import check_report, write_report
from nrtsi.report.build import report_of
from nrtsi.report.plots import plot_series
from nrtsi.tables.files import Table, check_output, missing_cells, read_table, write_table

__all__ = ["Demo", "run_demo", "simulated_weather", "weather"]


@dataclass(frozen=True)
class Demo:
    """What the demonstration made."""

    filled: Path
    """The filled file."""

    picture: Path
    """A picture of it."""

    page: Path
    """A report on it."""

    missing: int
    """Cells that were missing."""

    cells: int
    """Cells in all."""

    backtest: Backtest
    """Errors of nrtsi and of simple methods on cells that were set aside."""


def weather() -> Table:
    """The bundled file: hours of a simulated weather station, with gaps as real ones have."""
    with as_file(files("nrtsi.bench.datasets") / "weather.csv") as path:
        return read_table(path)


def simulated_weather() -> Table:
    """What the bundled file is made from; `python -m nrtsi.cli.demo FILE` writes it anew."""
    gappy, _ = simulate(seed=0)
    minutes = gappy["time"].astype("datetime64[m]").tolist()
    text = {"time": [f"{minute:%Y-%m-%d %H:%M}" for minute in minutes]}
    for name, digits in zip(CHANNELS, DECIMALS, strict=True):
        text[name] = [f"{x:.{digits}f}" if np.isfinite(x) else "" for x in gappy[name]]
    return Table(pa.table(gappy), pa.table(text))


def run_demo(
    folder: Path,
    *,
    budget: str = "45s",
    steps: int | None = None,
    preset: str | None = None,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Demo:
    """Fills the bundled file, draws a picture, scores the filling and reports on all of it.

    Raises:
        InputError: An output exists already and `overwrite` is False, or cannot be written.
    """
    filled_path, picture = folder / "weather_filled.csv", folder / "weather.png"
    page = folder / "weather_report.html"
    _make_folder(folder)
    check_output(filled_path, overwrite=overwrite)
    check_writable(picture, overwrite=overwrite)
    check_report(page, overwrite=overwrite)
    table = weather()
    model = NRTSI(budget=budget, steps=steps, preset=preset)
    panel = model.read(table.typed)
    model.fit_panel(panel, listener=listener)
    task = ImputeTask.of(panel)
    result = model.run(task, listener, intervals=True)
    filled = result.frame()
    write_table(filled_path, table.fill(filled), overwrite=overwrite)
    plot_series(picture, table.typed, filled, title="Two months of weather, filled by nrtsi")
    trial = backtest_panel(model, panel, listener=listener)
    report = report_of(
        panel,
        result,
        trial,
        task.options,
        source="weather.csv",
        command="nrtsi demo",
        settings=model.info(),
    )
    write_report(page, report, overwrite=overwrite)
    missing = [pc.sum(missing_cells(column)).as_py() for column in table.typed.columns[1:]]
    cells = len(missing) * table.typed.num_rows
    return Demo(filled_path, picture, page, sum(missing), cells, trial)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be made a folder: {error.strerror}; choose another with --out"
        ) from error


if __name__ == "__main__":
    write_table(Path(sys.argv[1]), simulated_weather(), overwrite=True)
