"""The `nrtsi` command, typed as a person types it."""

import csv
import errno
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import nrtsi
from nrtsi.cli import main as cli_main
from nrtsi.cli.console import conclusion
from nrtsi.cli.main import app
from nrtsi.cli.progress import ProgressBar
from nrtsi.core.events import ImputeStep, TrainStep
from nrtsi.errors import TrainingError
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.tables import Clock

TINY = ["--preset", "tiny", "--steps", "4"]
GAPPY = "time,x,y,note\n" + "".join(
    f"2024-01-01 {h:02d}:00,{'' if h in (3, 4, 9) else f'{np.sin(h / 3):.3f}'},"
    f"{'NA' if h == 12 else f'{h / 2:.2f}'},n{h}\n"
    for h in range(24)
)


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def done(*arguments):
    """Runs a command that must succeed."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refused(result, message):
    """A mistake of the user: one line, status 2, no traceback."""
    assert result.exit_code == 2, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert re.search(f"^nrtsi: .*{message}", lines[0]), lines[0]
    return True


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(GAPPY)
    return path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    (folder / "data.csv").write_text(GAPPY)
    result = done("fit", folder / "data.csv", "--out", folder / "m.nrtsi", *TINY)
    why = r"\(cells: rows may be partly observed\)"
    assert re.search(rf"m.nrtsi: 2 columns, 1 series, 4 steps in \d+ s {why}\n$", result.stdout)
    assert not (folder / "m.nrtsi.checkpoint").exists()
    return folder / "m.nrtsi"


def failing(error):
    """Replaces the training by an error."""

    def fail(*arguments, **options):
        raise error

    return fail


@dataclass
class Score:
    mse: float = 0.25
    mae: float = 0.5
    seconds: float = 1.0


class KnownBacktest:
    """A back-test with known figures."""

    methods: ClassVar = {"nrtsi": Score(), "linear": Score(0.5)}
    predictions: ClassVar = {"nrtsi": None, "linear": None}
    failed: ClassVar = {"knn": "too few rows"}
    hidden, cells, clock = 10, 100, Clock("datetime", 0, 3600e9)

    def rows(self):
        about = {"channel": "x", "gap_from": 2.0, "gap_to": 4.0, "n": 10}
        return [
            about | {"method": "nrtsi", "mse": 0.3, "mae": 0.55},
            about | {"method": "linear", "mse": 0.2, "mae": 0.45},
        ]

    def to_json(self):
        return {"methods": {name: vars(score) for name, score in self.methods.items()}}


@pytest.fixture
def backtest(monkeypatch):
    known = KnownBacktest()
    monkeypatch.setattr("nrtsi.imputer.selection.backtest_panel", lambda *a, **o: known)
    return known


# Help and options -----------------------------------------------------------------------------


def test_help_imports_nothing_heavy():
    code = (
        "import sys, nrtsi.cli.main\n"
        "from typer.testing import CliRunner\n"
        "assert CliRunner().invoke(nrtsi.cli.main.app, ['--help']).exit_code == 0\n"
        "heavy = {'torch', 'sklearn', 'pyarrow', 'numpy', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_version_and_help_are_printed():
    assert run("--version").stdout == f"nrtsi {nrtsi.__version__}\n"
    assert done().stdout == done("--help").stdout
    assert "nrtsi demo" in run().stdout


@pytest.mark.parametrize("command", ["fit", "impute", "sample", "evaluate", "info", "demo"])
def test_every_command_has_help(command):
    result = done(command, "--help")
    assert re.search(r"--quiet +Print results only", result.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["impute", "d.csv", "--out", "o.csv", "--colour", "red"], "No such option.*--colour"),
        (["sample", "d.csv", "--out", "o.csv", "--draws", "0"], "'--draws'.* 1 "),
        (["fit", "d.csv", "--out", "m", "--steps", "0"], "'--steps'.* 1 "),
        (["fit", "d.csv"], "Missing option '--out'"),
        (["fit", "--out", "m"], "Missing argument 'DATA'"),
        (["info"], "Missing argument 'MODEL'"),
        (["fti"], "No such command 'fti'"),
    ],
)
def test_wrong_options_are_reported_in_one_line_with_the_command_for_help(arguments, message):
    command = "" if arguments == ["fti"] else f"{arguments[0]} "
    assert refused(run(*arguments), rf"{message}.*\(see .*{command}--help\)$")


@pytest.mark.parametrize("user", [None, "7"])
def test_threads_spin_shortly_unless_the_user_sets_it(monkeypatch, user):
    monkeypatch.setattr(os, "environ", {} if user is None else {"GOMP_SPINCOUNT": user})
    seen = []
    monkeypatch.setattr(cli_main, "app", lambda: seen.append(os.environ["GOMP_SPINCOUNT"]))
    cli_main.main()
    assert seen == [user or "3000"]


def test_help_has_sections_with_the_usual_options_first():
    text = run("impute", "--help").stdout
    sections = ["Data:", "Training:", "Output:", "Advanced:", "Options:"]
    places = [text.index(f"\n{name}\n") for name in sections]
    assert places == sorted(places)
    usual = ["DATA", "--columns", "--budget", "--out", "--interval", "--max-level", "--quiet"]
    places = [text.index(f"  {name} ") for name in usual[:-1]]
    assert places == sorted(places)


def test_help_takes_texts_and_defaults_from_the_library():
    text = " ".join(run("impute", "--help").stdout.split())
    for line in (
        "Training time, such as 60s, 10m, 1h, or a number of seconds. Default: 60s.",
        "Seed of every random choice. The same seed, data, machine and number of steps give",
        "Default: 0.",
        "Default: the size that suits the budget.",
        "Default: error.",
        "Default: nrtsi.",
    ):
        assert line in text
    assert text.count("Default: auto.") == 4


@pytest.mark.parametrize("names", ["none", "analogs", "dynamics,gp"])
def test_options_reach_the_model_and_defaults_are_those_of_the_library(data, tmp_path, names):
    options = ["--columns", ' x, "y"', "--steps", 2, "--seed", 3, "--mask", "empirical"]
    options += ["--max-level", 3, "--bounds", "y=0:", "--predictors", names, "--preset", "tiny"]
    done("fit", data, "--out", tmp_path / "m", *options)
    expected = {"columns": ["x", "y"], "steps": 2, "seed": 3, "mask": "empirical", "max_level": 3}
    expected |= {"preset": "tiny", "bounds": {"y": [0.0, None]}}
    expected |= {"predictors": [] if names == "none" else names.split(",")}
    assert nrtsi.load(tmp_path / "m").get_params() == NRTSI().get_params() | expected


# Tables in, tables out ------------------------------------------------------------------------


def test_impute_keeps_the_text_of_known_cells_and_reports(data, tmp_path):
    out = tmp_path / "out.csv"
    result = done("impute", data, "--out", out, *TINY)
    before = [line.split(",") for line in GAPPY.splitlines()]
    after = [line.split(",") for line in out.read_text().splitlines()]
    for old, new in zip(before, after, strict=True):
        for was, now in zip(old, new, strict=True):
            assert now == was if was not in ("", "NA") else np.isfinite(float(now))
    told = r"4 of 48 cells imputed \(2 columns, 1 series\), 4 steps in \d+ s"
    assert re.match(rf"wrote {out}: {told}", result.stdout)
    assert result.stderr.startswith("nrtsi: time: column 'time'")


def test_a_model_from_a_file_replaces_training(fitted, data, tmp_path, monkeypatch):
    monkeypatch.setattr(NRTSI, "fit_panel", failing(AssertionError("trained")))
    result = done("impute", data, "--out", tmp_path / "out.csv", "--model", fitted)
    assert re.search(rf"\(2 columns, 1 series\) by {fitted} in \d+ s\n$", result.stdout)


@pytest.mark.parametrize("model", [True, False])
def test_a_table_is_read_once_and_imputed_once(fitted, data, tmp_path, monkeypatch, model):
    """With a report, too."""
    calls = []

    def count(name, method):
        monkeypatch.setattr(NRTSI, name, lambda *a, **o: calls.append(name) or method(*a, **o))

    for name in ("read", "read_fitted", "run"):
        count(name, getattr(NRTSI, name))
    options = ["--model", fitted] if model else TINY
    done("impute", data, "--out", tmp_path / "o.csv", "--report", tmp_path / "r.html", *options)
    assert calls == ["read_fitted" if model else "read", "run"]


@pytest.mark.parametrize("position", ["before", "after"])
def test_quiet_is_accepted_before_and_after_the_command(fitted, data, tmp_path, position):
    command = ["impute", data, "--out", tmp_path / "o.csv", "--model", fitted]
    result = done(*(["--quiet", *command] if position == "before" else [*command, "--quiet"]))
    assert result.output == ""


def test_parquet_goes_in_and_out(tmp_path):
    x = pa.array([1.0, None, *np.sin(np.arange(10.0))])
    pq.write_table(pa.table({"time": np.arange(12.0), "x": x}), tmp_path / "a.parquet")
    run("impute", tmp_path / "a.parquet", "--out", tmp_path / "b.parquet", *TINY)
    imputed = pq.read_table(tmp_path / "b.parquet")["x"]
    assert imputed.null_count == 0
    assert imputed[0].as_py() == 1.0


# Training that is interrupted -----------------------------------------------------------------


def test_an_interrupted_fit_keeps_its_checkpoint_and_resumes(data, tmp_path, monkeypatch):
    out, checkpoint = tmp_path / "m.nrtsi", tmp_path / "m.nrtsi.checkpoint"
    command = ["fit", data, "--out", out, "--preset", "tiny", "--steps", 24]

    def interrupt(self, event):
        if isinstance(event, TrainStep) and event.step == 22:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgressBar, "__call__", interrupt)
        result = done(*command)
    line = f"training was interrupted; add --resume to continue from {checkpoint}"
    assert line in result.stderr
    assert out.exists()
    message = rf"{checkpoint} is left from an interrupted run; .*--resume .*--overwrite to start o"
    assert refused(run(*command), message)
    result = done(*command, "--resume")
    assert "interrupted" not in result.stderr
    assert not checkpoint.exists()
    assert nrtsi.load(out).steps_ == 24


@pytest.mark.parametrize("name", ["data.csv", "M.CSV.GZ", "m.parquet"])
def test_a_model_is_not_written_under_the_name_of_a_table(data, name):
    result = run("fit", data, "--out", data.with_name(name), "--overwrite")
    assert refused(result, "--out must name a model file, got .*which is the name of a table")
    assert data.read_text() == GAPPY


def test_resume_without_a_checkpoint_starts_from_the_beginning(data, tmp_path):
    result = done("fit", data, "--out", tmp_path / "m", "--resume", *TINY)
    assert f"there is no {tmp_path / 'm.checkpoint'} to resume; starting from" in result.stderr


# Scores ---------------------------------------------------------------------------------------


def test_scores_are_a_table_or_json_alone(backtest, data):
    result = done("evaluate", data)
    for text in ("nrtsi", "linear", "0.25", "failed", "too few rows", "10 of 100 known cells"):
        assert text in result.stdout
    assert re.search(r"x +4h +10 +0\.55 +0\.45 +linear +0\.45", result.stdout)
    assert result.stdout.endswith("nrtsi was best: 2.0 times lower MSE than linear\n")
    assert result.stderr.startswith("nrtsi: time: column 'time'")
    record = json.loads(run("evaluate", data, "--json").stdout)
    assert record["methods"]["linear"]["mse"] == 0.5


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ([], "; nrtsi may need a longer --budget (60s)"),
        (["--budget", "5m"], "; nrtsi may need a longer --budget (5m)"),
        (["--steps", 7], "; nrtsi may need more --steps (7)"),
        (["--model"], ""),
    ],
)
def test_scores_end_with_advice_if_nrtsi_was_not_best(fitted, backtest, data, options, advice):
    backtest.methods = {"nrtsi": Score(), "linear": Score(0.1)}
    options = ["--model", fitted] if options == ["--model"] else options
    last = run("evaluate", data, *options).stdout.splitlines()[-1]
    assert last == f"linear was best on this data: --method auto uses it{advice}"


@pytest.mark.parametrize(
    ("mse", "line"),
    [
        ({"nrtsi": 0.001, "linear": 2.5, "knn": 1.5}, "nrtsi was best: 1,500 times lower MSE th"),
        ({"nrtsi": 1.0, "linear": 1.04}, "nrtsi was best, but hardly better than linear"),
        ({"nrtsi": 0.0, "linear": 0.0}, "nrtsi was best, without any error"),
        ({"nrtsi": 0.0, "linear": 0.5}, "nrtsi was best, without any error"),
        ({"mean": 0.2, "linear": 0.1}, "linear was best on this data: --method auto uses it"),
    ],
)
def test_the_conclusion_names_the_best_method(mse, line):
    assert conclusion(mse, "more").startswith(line)
    assert conclusion({"nrtsi": 1.0}, "more") is None


@pytest.mark.parametrize(
    ("times", "remark"),
    [
        ("12:00 12:15 12:30 13:15 13:30", "2 rows seem to be absent; --every 15min would add t"),
        ("12:00 13:00 14:00 16:00", "1 row seems to be absent; --every 1h would add it"),
        ("12:00 12:15 12:30 12:45", None),
        ("12:00 12:15 12:30 13:10", None),
    ],
)
def test_rows_that_seem_to_be_absent_are_noted(tmp_path, times, remark):
    path = tmp_path / "d.csv"
    path.write_text("time,x\n" + "".join(f"2024-01-01 {t},1\n" for t in times.split()))
    result = done("impute", path, "--out", tmp_path / "o.csv")
    assert ("absent" in result.stderr) == (remark is not None)
    assert (remark or "") in result.stderr


def test_absent_rows_of_each_series_are_counted(tmp_path):
    rows = "".join(f"{key},{t},1\n" for key in "ab" for t in (0, 0.5, 1, 1.5, 3))
    (tmp_path / "d.csv").write_text(f"id,time,x\n{rows}")
    result = run("impute", tmp_path / "d.csv", "--out", tmp_path / "o.csv")
    assert "nrtsi: 4 rows seem to be absent; --every 0.5 would add them\n" in result.stderr
    asked = done("impute", tmp_path / "d.csv", "--out", tmp_path / "p.csv", "--every", 0.5, *TINY)
    assert "absent" not in asked.stderr
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 1 + 10 + 4


# Mistakes -------------------------------------------------------------------------------------


def test_settings_that_a_model_would_ignore_are_refused(fitted, data, tmp_path):
    for option in (["--steps", 3], ["--columns", "x"]):
        for command in (["impute", data, "--out", tmp_path / "o.csv"], ["evaluate", data]):
            result = run(*command, "--model", fitted, *option)
            assert refused(result, f"{option[0]} must not be given with --model")


@pytest.mark.parametrize("command", ["impute", "sample", "fit"])
def test_outputs_are_checked_before_any_training(data, tmp_path, monkeypatch, command):
    suffix = "" if command == "fit" else ".csv"
    out = tmp_path / f"out{suffix}"
    out.write_text("old")
    missing = tmp_path / "gone" / f"out{suffix}"
    with monkeypatch.context() as patch:
        patch.setattr(NRTSI, "fit_panel", failing(AssertionError("trained")))
        assert refused(run(command, data, "--out", out), "exists already; add --overwrite")
        assert refused(run(command, data, "--out", missing), "there is no folder .*gone")
        assert refused(run(command, data, "--out", tmp_path / ".." / tmp_path.name), "must ")
    assert out.read_text() == "old"
    assert run(command, data, "--out", out, "--overwrite", *TINY).exit_code == 0
    assert out.read_bytes() != b"old"


def test_the_input_can_be_the_output_only_with_overwrite(fitted, data):
    command = ["impute", data, "--out", data, "--model", fitted]
    assert refused(run(*command), "exists already")
    assert data.read_text() == GAPPY
    assert run(*command, "--overwrite").exit_code == 0
    assert "NA" not in data.read_text()


def test_a_full_disk_loses_nothing(fitted, data, tmp_path, monkeypatch):
    out = tmp_path / "out.csv"
    out.write_text("old")
    monkeypatch.setattr(os, "fsync", failing(OSError(errno.ENOSPC, "No space left on device")))
    result = run("-q", "impute", data, "--out", out, "--overwrite", "--model", fitted)
    assert refused(result, "out.csv cannot be written: No space left on device; free some")
    assert out.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.csv", "out.csv"]


def test_ctrl_c_ends_with_one_line_and_status_130(data, tmp_path, monkeypatch):
    monkeypatch.setattr(NRTSI, "fit_panel", failing(KeyboardInterrupt()))
    result = run("impute", data, "--out", tmp_path / "o.csv", "--quiet")
    assert result.exit_code == 130
    assert result.stderr == "nrtsi: interrupted; no output was written\n"
    assert not (tmp_path / "o.csv").exists()


def test_a_training_error_keeps_the_last_good_weights(data, tmp_path, monkeypatch):
    fit = NRTSI.fit_panel

    def diverge(self, *arguments, **options):
        fit(self, *arguments, **options)
        raise TrainingError("the loss\n  is not finite")

    monkeypatch.setattr(NRTSI, "fit_panel", diverge)
    result = run("fit", data, "--out", tmp_path / "m", "-q", *TINY)
    assert refused(result, "the loss is not finite")  # several lines are printed as one
    assert nrtsi.load(tmp_path / "m").steps_ == 4


def test_a_bug_of_ours_keeps_its_traceback(data, tmp_path, monkeypatch):
    monkeypatch.setattr(NRTSI, "fit_panel", failing(ZeroDivisionError()))
    result = run("fit", data, "--out", tmp_path / "m")
    assert isinstance(result.exception, ZeroDivisionError)


BAD = [
    ("time,x\n1,2\n", ["--columns", "x,z"], "column, got no 'z'; its columns are 'time', 'x'"),
    (
        GAPPY,
        ["--columns", "note"],
        "'note' must be numeric, got String; .*leave it out of --columns",
    ),
    ("time,x\n1,2\n1,3\n2,\n", [], "times must be unique .*2 rows at '1'.*id column with --id"),
    ("time,x\n1,2\n2,inf\n3,\n", [], "column 'x' must be finite, got inf at row 1"),
    ("id,time,x\na,1,2\na,2,\nb,1,\n", [], "'b' must have observed values.*--on-empty skip"),
    ("time,x\n", [], "at least one row, got an empty table"),
    ("time,x\n1,\n2,\n", [], "at least one observed value, got none in 'x'"),
    ("when,x\nsoon,2\n", ["--time", "when"], "'when' must hold timestamps .*got 'soon' at row 0"),
    ("time,x\n1,2\n,3\n", [], "time column 'time' must be known .*a missing time at row 1"),
    ("time,x\n1,2\n2,\n", ["--time", "clock"], "every named column, got no 'clock'"),
    (GAPPY, ["--preset", "huge"], "preset must be one of .*'huge'"),
    (GAPPY, ["--setting", "odd"], "setting must be one of .*'odd'"),
    (GAPPY, ["--predictors", "gp,magic"], "predictors must be .*'magic'"),
    (GAPPY, ["--mask", "all"], "mask must be one of .*'all'"),
    (GAPPY, ["--device", "toaster"], "device 'toaster' cannot be used here"),
    ("time,x\n1,2\n2,3,4\n", [], "line 3: every line must have 2 cells"),
    ("time,x\n1,2\n2,\n", [], "fitting needs at least 2 rows with observed values, got 1"),
    ("", [], "is empty"),
    (GAPPY, ["--budget", "1m", "--steps", "3"], "--budget and --steps must not both be given"),
    (GAPPY, ["--budget", "soon"], "a duration must be .* got 'soon'"),
    (GAPPY, ["--at", "a.csv", "--every", "1h"], "--at and --every must not both be given"),
    (GAPPY, ["--at", "gone.csv"], "gone.csv does not exist"),
    (GAPPY, ["--columns", ""], "--columns must be names separated by commas, got ''; write"),
    (GAPPY, ["--predictors", ""], "--predictors must be names separated by commas, got ''; write"),
    (GAPPY, ["--columns", "x,"], "--columns must be names separated by commas, got 'x,'; write"),
    (GAPPY, ["--interval", 2], "interval must be a probability between 0 and 1, got 2"),
    (GAPPY, ["--max-gap", "soon"], "a duration must be .*got 'soon'"),
    (GAPPY, ["--max-width", "-1"], "max_width must be a positive number"),
    (GAPPY, ["--max-width", "z=1"], "max_width must name imputed columns, .*got 'z'"),
    (GAPPY, ["--max-width", "x=wide"], "--max-width must be numbers, got 'wide'"),
    (GAPPY, ["--max-width", "=1"], "--max-width must be names and values, got '=1'"),
    (GAPPY, ["--bounds", "x=3"], "--bounds must be LOWER:UPPER for each column, got '3'"),
    (GAPPY, ["--bounds", "x=a:"], "--bounds must be numbers, got 'a'"),
    (GAPPY, ["--bounds", "z=0:"], "bounds must be of columns that are imputed, got 'z'"),
    (GAPPY, ["--method", "magic"], "method must be nrtsi, auto or one of"),
]


def test_a_column_that_samples_add_is_refused(tmp_path):
    (tmp_path / "d.csv").write_text("time,draw\n1,2\n2,\n3,4\n")
    result = run("sample", tmp_path / "d.csv", "--out", tmp_path / "o.csv")
    assert refused(result, "data must have no column 'draw', which the result adds; rename it")


@pytest.mark.parametrize(("text", "options", "message"), BAD)
def test_a_mistake_is_refused_in_one_line_and_nothing_is_lost(tmp_path, text, options, message):
    data, out = tmp_path / "d.csv", tmp_path / "o.csv"
    data.write_text(text)
    out.write_text("old")
    tiny = [] if "--budget" in options else TINY if "--preset" not in options else ["--steps", "4"]
    result = run("--quiet", "impute", data, "--out", out, "--overwrite", *tiny, *options)
    assert refused(result, message)
    assert data.read_text() == text
    assert out.read_text() == "old"


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--every", "0", "a duration must be a positive number .*got '0'"),
        ("--every", "often", "a duration must be .*got 'often'"),
        ("--at", "when\n2024-01-01\n", "must have the time column 'time', got 'when'"),
        ("--at", "time\nsoon\n", "must hold timestamps .*got 'soon'"),
        ("--at", "time\n3\n", "must be datetimes as in the data, got int64"),
    ],
)
def test_times_that_cannot_be_asked_for_are_refused_before_training(
    data, tmp_path, monkeypatch, option, text, message
):
    monkeypatch.setattr("nrtsi.imputer.nrtsi.NRTSI.fit_panel", None)
    asked = text
    if option == "--at":
        asked = tmp_path / "at.csv"
        asked.write_text(text)
    result = run("--quiet", "impute", data, "--out", tmp_path / "o.csv", option, asked)
    assert refused(result, message)


def test_tables_and_models_are_not_taken_for_each_other(fitted, data, tmp_path):
    out = tmp_path / "o.csv"
    assert refused(run("info", data), "data.csv is not a readable nrtsi model")
    assert refused(run("impute", data, "--out", out, "--model", data), "not a readable nrtsi")
    assert refused(run("impute", fitted, "--out", out), "is it a model\\? give it with --model")
    assert refused(run("sample", tmp_path, "--out", out), "must be a file, got a folder")
    (tmp_path / "m.csv").write_bytes(fitted.read_bytes())
    assert refused(run("impute", tmp_path / "m.csv", "--out", out), "m.csv must be")
    assert refused(run("impute", tmp_path / "gone.csv", "--out", out), "does not exist")
    assert refused(run("impute", data, "--out", tmp_path / "o.txt"), "must end in one of .csv")


def test_a_table_in_which_nothing_is_missing_comes_back_without_training(tmp_path):
    (tmp_path / "d.csv").write_text("time,x\n1,2.50\n2,3\n")
    result = run("impute", tmp_path / "d.csv", "--out", tmp_path / "o.csv")
    assert result.stdout == f"wrote {tmp_path / 'o.csv'}: nothing was missing\n"
    assert (tmp_path / "o.csv").read_text() == (tmp_path / "d.csv").read_text()


@pytest.mark.parametrize("model", [True, False])
def test_samples_hold_every_draw_of_every_row(fitted, data, tmp_path, model):
    options = ["--model", fitted] if model else TINY
    result = done("sample", data, "--draws", 3, "--out", tmp_path / "out.csv", *options)
    assert (
        "3 draws of 24 rows" + (f" by {fitted} in" if model else ", 4 steps in") in result.stdout
    )
    rows = [line.split(",") for line in (tmp_path / "out.csv").read_text().splitlines()]
    assert rows[0][0] == "draw"
    assert [row[0] for row in rows[1:]] == [str(i) for i in range(3) for _ in range(24)]


def test_values_are_given_at_a_finer_spacing_and_at_times_from_a_file(fitted, data, tmp_path):
    command = ["impute", data, "--model", fitted, "--out"]
    done(*command, tmp_path / "a.csv", "--every", "30min")
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert len(lines) == 1 + 47
    assert lines[2].startswith("2024-01-01 00:30")
    (tmp_path / "at.csv").write_text("time\n2024-01-01 07:15\n")
    result = done(*command, tmp_path / "b.csv", "--at", tmp_path / "at.csv")
    assert "1 row at the given times" in result.stdout
    assert len((tmp_path / "b.csv").read_text().splitlines()) == 2


def test_info_tells_what_the_model_holds(fitted):
    text = run("info", fitted).stdout
    for line in (r"columns +time time, id none, values \[x, y\]", r"steps +4", "version"):
        assert re.search(f"^{line}", text, re.MULTILINE), text
    assert json.loads(run("info", fitted, "--json").stdout)["steps"] == 4


def waves(path):
    """A table of a hundred waves."""
    rng, rows = np.random.default_rng(0), ["id,time,x"]
    for number, phase, speed in zip(
        range(100), *rng.uniform([[0], [0.2]], [[6], [0.4]], (2, 100)), strict=True
    ):
        rows += [f"{number},{t},{np.sin(phase + speed * t):.4f}" for t in range(40)]
    path.write_text("\n".join(rows))
    return path


@pytest.mark.parametrize("names", ["analogs,gp,dynamics", "none"])
def test_info_tells_which_predictors_are_used(tmp_path, names):
    data, model = waves(tmp_path / "waves.csv"), tmp_path / "waves.nrtsi"
    columns = ["--id", "id", "--time", "time", "--predictors", names]
    assert ("analogs: " in done("fit", data, "--out", model, *columns, *TINY).stdout) == (
        names != "none"
    )
    used = re.search(r"\d+ nearest of 100 series", run("info", model).stdout)
    assert (used is not None) == (names != "none")


def test_evaluation_scores_every_method(fitted, data):
    methods = json.loads(done("evaluate", data, "--json", *TINY).stdout)["methods"]
    for name in ("nrtsi", "linear", "forward", "backward", "mean", "knn", "mice"):
        assert {"mse", "mae"} <= methods[name].keys()
    result = done("evaluate", data, "--model", fitted)
    assert re.search(r"\d+ of 44 known cells were hidden", result.stdout)


def test_intervals_limits_and_provenance(fitted, data, tmp_path):
    out, page = tmp_path / "o.csv", tmp_path / "r.html"
    options = ["--interval", 0.8, "--provenance", "--max-gap", "2h", "--max-width", "x=50,y=50"]
    done("impute", data, "--model", fitted, "--out", out, *options, "--report", page)
    rows = list(csv.DictReader(out.read_text().splitlines()))
    sources = [rows[h]["x_source"] for h in (0, 3, 4, 9)]
    assert sources == ["observed", "refused", "refused", "imputed"]
    assert (rows[9]["x_gap"], rows[9]["x_method"], rows[3]["x"]) == ("2h", "nrtsi", "")
    assert float(rows[9]["x_lower"]) <= float(rows[9]["x"]) <= float(rows[9]["x_upper"])
    assert (rows[0]["x_lower"], rows[0]["x_gap"]) == ("", "")
    assert "the gap is longer than 2h" in page.read_text()


def test_auto_tells_the_methods_of_each_column(fitted, data, tmp_path):
    command = ["impute", data, "--model", fitted, "--out", tmp_path / "o.csv"]
    result = done(*command, "--method", "auto")
    assert re.search(r"^imputed x by \w+.*; y by \w+", result.stdout, re.MULTILINE)


def test_a_report_is_one_page_and_says_how_to_repeat_it(data, tmp_path):
    page = tmp_path / "r.html"
    done("report", data, "--out", page, *TINY, "--method", "auto")
    assert page.read_text().startswith("<!doctype html>")
    assert refused(run("report", data, "--out", tmp_path / "r.pdf"), "must end in .html")
    assert refused(run("report", data, "--out", page), "exists already")


def test_a_damaged_or_foreign_model_is_refused(fitted, data, tmp_path):
    damaged, foreign = tmp_path / "damaged", tmp_path / "foreign"
    damaged.write_bytes(fitted.read_bytes()[:200])
    foreign.write_text("not a model")
    for path in (damaged, foreign, tmp_path / "gone"):
        for command in (["info", path], ["impute", data, "--model", path, "--out", "o.csv"]):
            assert refused(run(*command), re.escape(str(path)))


def test_a_table_whose_columns_differ_from_the_fitted_ones_is_refused(fitted, tmp_path):
    (tmp_path / "d.csv").write_text("time,x,z\n2024-01-01,1,2\n2024-01-02,,3\n")
    result = run("impute", tmp_path / "d.csv", "--model", fitted, "--out", tmp_path / "o.csv")
    assert refused(result, "'y'")


def test_a_series_without_observations_stays_missing_and_is_counted(tmp_path):
    rows = "".join(f"a,{t},{'' if t == 4 else t % 3}\n" for t in range(12))
    (tmp_path / "d.csv").write_text(f"id,time,x\n{rows}b,1,\nb,2,\n")
    out = tmp_path / "o.csv"
    result = done("impute", tmp_path / "d.csv", "--out", out, *TINY, "--on-empty", "skip")
    assert "1 of 14 cells imputed, 2 still missing (1 column, 2 series)" in result.stdout
    assert out.read_text().endswith("b,1,\nb,2,\n")


def test_the_same_seed_and_steps_give_the_same_bytes(data, tmp_path):
    for name in ("a.csv", "b.csv"):
        done("impute", data, "--out", tmp_path / name, *TINY, "--seed", 5)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


# The demonstration ----------------------------------------------------------------------------


def test_the_bundled_file_is_what_the_simulator_makes(tmp_path):
    from nrtsi.cli.demo import simulated_weather  # imports PyTorch
    from nrtsi.tables.files import write_table

    write_table(tmp_path / "w.csv", simulated_weather())
    bundled = resources.files("nrtsi.bench.datasets") / "weather.csv"
    assert bundled.read_bytes() == (tmp_path / "w.csv").read_bytes()
    assert len(bundled.read_bytes()) < 100_000


@pytest.mark.slow
def test_the_demo_writes_its_files_and_ends_with_the_line_to_type(tmp_path):
    result = done("demo", "--out", tmp_path / "demo", "--budget", "2s")
    assert (tmp_path / "demo" / "weather.png").stat().st_size > 10_000
    assert "nan" not in (tmp_path / "demo" / "weather_filled.csv").read_text()
    assert "linear" in result.stdout
    assert (tmp_path / "demo" / "weather_report.html").stat().st_size > 50_000
    assert result.stdout.rstrip().endswith("nrtsi impute your.csv --out filled.csv")
    assert refused(run("demo", "--out", tmp_path / "demo"), "exists already; add --overwrite")


def test_the_demo_prints_what_it_made(tmp_path, monkeypatch):
    from nrtsi.cli import demo  # imports PyTorch

    files = tuple(Path(f"a.{kind}") for kind in ("csv", "png", "html"))
    made = demo.Demo(files, 428, 4320, KnownBacktest())
    monkeypatch.setattr(demo, "run_demo", lambda folder, **options: made)
    result = done("demo", "--out", tmp_path)
    lines = result.stdout.split("\n")
    assert lines[0] == "imputed  428 of 4,320 cells of a weather station"
    assert lines[1:4] == ["wrote    a.csv", "wrote    a.png", "wrote    a.html"]
    assert result.stdout.rstrip().endswith("nrtsi impute your.csv --out filled.csv")


def test_the_demo_makes_no_folder_for_a_budget_that_cannot_be_read(tmp_path):
    result = run("demo", "--out", tmp_path / "demo", "--budget", "later")
    assert refused(result, "a duration must be .*got 'later'")
    assert not (tmp_path / "demo").exists()


def test_the_demo_refuses_a_folder_that_cannot_be_created(tmp_path):
    (tmp_path / "file").write_text("")
    result = run("demo", "--out", tmp_path / "file" / "demo")
    message = "demo cannot be created: Not a directory; choose another folder with --out"
    assert refused(result, message)


# The progress bar -----------------------------------------------------------------------------


def shown(monkeypatch, capfd, seconds, *, terminal=True, quiet=False):
    """What a bar writes when an event comes at each of these seconds."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    now = [0.0]
    with ProgressBar(quiet=quiet, clock=lambda: now[0]) as bar:
        for i, now[0] in enumerate(seconds):
            bar(TrainStep(2, i, 0.125, None, (i + 1) / 10))
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capfd.readouterr().err)


def test_the_bar_shows_level_loss_and_time_left_after_two_seconds(monkeypatch, capfd):
    text = shown(monkeypatch, capfd, [1.0, 4.0])
    for part in ("training", "20%", "level 2", "loss 0.1250", "00:24 left"):
        assert part in text


def test_no_bar_for_short_work_or_quiet_or_no_terminal(monkeypatch, capfd):
    assert shown(monkeypatch, capfd, [0.5, 1.9]) == ""
    assert shown(monkeypatch, capfd, [1.0, 9.0], quiet=True) == ""
    assert shown(monkeypatch, capfd, [1.0, 9.0], terminal=False) == ""


def test_time_left_restarts_with_every_phase(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    now = [0.0]
    bar = ProgressBar(clock=lambda: now[0])
    events = [TrainStep(None, 1, 0.5, None, 0.9), ImputeStep(0, 0.5), ImputeStep(0, 0.1)]
    for now[0], event in zip((0.1, 1.0, 1.5), events, strict=True):
        bar(event)
        (task,) = bar.bar.tasks
        assert task.start_time == now[0]
    assert task.description == "imputing"
