"""`nrtsi demo`: imputes the bundled weather table and measures the accuracy."""

import sys
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pyarrow as pa

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
from nrtsi.tables.files import FileTable, check_output, read_table, write_table

__all__ = ["Demo", "run_demo", "simulated_weather", "weather"]


@dataclass(frozen=True)
class Demo:
    """The files of the demonstration and the accuracy of the imputation."""

    files: tuple[Path, ...]
    missing: int  # cells
    cells: int
    backtest: Backtest  # of nrtsi and the baselines, on hidden cells


def weather() -> FileTable:
    """The bundled table: hours of a simulated weather station, with realistic gaps."""
    with as_file(files("nrtsi.bench.datasets") / "weather.csv") as path:
        return read_table(path)


def simulated_weather() -> FileTable:
    """The simulation of the bundled table; `python -m nrtsi.cli.demo FILE` writes it."""
    gappy, _ = simulate(seed=0)
    minutes = gappy["time"].astype("datetime64[m]").tolist()
    text = {"time": [f"{minute:%Y-%m-%d %H:%M}" for minute in minutes]}
    for name, digits in zip(CHANNELS, DECIMALS, strict=True):
        text[name] = [f"{x:.{digits}f}" if np.isfinite(x) else "" for x in gappy[name]]
    return FileTable(pa.table(gappy), pa.table(text))


def run_demo(
    folder: Path, *, budget: str = "45s", overwrite: bool = False, listener: Listener | None = None
) -> Demo:
    """Imputes the bundled table, plots it, back-tests the model and writes a report.

    Raises:
        InputError: An output exists already and `overwrite` is False, or cannot be written.
    """
    path, picture = folder / "weather_filled.csv", folder / "weather.png"
    page = folder / "weather_report.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be created: {error.strerror}; choose another folder with --out"
        ) from error
    check_output(path, overwrite=overwrite)
    check_writable(picture, overwrite=overwrite)
    check_report(page, overwrite=overwrite)
    table, model = weather(), NRTSI(budget=budget)
    panel = model.read(table.typed)
    model.fit_panel(panel, listener=listener)
    result = model.run(ImputeTask.of(panel), listener, intervals=True)
    frame = result.frame()
    write_table(path, table.fill(frame), overwrite=overwrite)
    plot_series(picture, table.typed, frame, title="Two months of weather, imputed by nrtsi")
    backtest = backtest_panel(model, panel, listener=listener)
    report = report_of(
        panel,
        result,
        backtest,
        result.task.options,
        source="weather.csv",
        command="nrtsi demo",
        settings=model.info(),
    )
    write_report(page, report, overwrite=overwrite)
    observed = panel.series.observed
    return Demo((path, picture, page), int((~observed).sum()), observed.size, backtest)


if __name__ == "__main__":
    write_table(Path(sys.argv[1]), simulated_weather(), overwrite=True)
