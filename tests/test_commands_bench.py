"""`nrtsi bench` and `nrtsi data`, typed as a person types them."""

import csv
import re

import numpy as np
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from nrtsi.bench import tables
from nrtsi.bench.methods import KINDS
from nrtsi.bench.results import COLUMNS, ERROR
from nrtsi.bench.runner import task_of
from nrtsi.bench.tables import open_table, table_names
from nrtsi.cli import app
from nrtsi.datasets.registry import DATASETS, make
from nrtsi.files import read_table

SIMPLE = "linear,mean,knn-sequences"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NRTSI_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def refused(result, message):
    """A mistake of the user: one line, status 2, no traceback."""
    assert result.exit_code == 2, result.output
    lines = result.stderr.strip().splitlines()
    assert re.search(f"^nrtsi: .*{message}", lines[-1]), lines[-1]
    return True


def test_the_tables_and_the_data_sets_are_listed():
    tables, data = run("bench", "list"), run("data", "list")
    assert all(name in tables.stdout for name in table_names())
    assert all(f"{name}\n" in data.stdout for name in DATASETS)
    assert "needs a path: the downloaded zip" in data.stdout


@pytest.mark.parametrize("name", ["sinusoids", "billiards"])
def test_a_quick_table_has_a_row_for_every_method(name, folder):
    result = run("bench", "run", name, "--quick", "--out", "r.csv")
    assert result.exit_code == 0, result.stderr
    with (folder / "r.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert tuple(header) == COLUMNS
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    assert {row["method"] for row in rows} == set(open_table(name).methods)
    assert {row["versions"].partition("; ")[2] for row in rows} == {"quick"}
    # Peers need the extra; without it their rows say so.
    assert all("bench" in row["value"] for row in rows if row["metric"] == ERROR)
    shown = run("bench", "show", name, "--results", "r.csv")
    assert shown.stdout == result.stdout
    assert "| nrtsi " in shown.stdout
    assert "paper" in shown.stdout


def test_a_second_run_measures_nothing_and_shows_the_same():
    first = run("bench", "run", "sinusoids", "--quick", "--methods", SIMPLE)
    second = run("bench", "run", "sinusoids", "--quick", "--methods", SIMPLE)
    assert first.stdout == second.stdout
    assert "linear: mse" in first.stderr
    assert "linear: mse" not in second.stderr
    assert "results are in bench-sinusoids.csv" in second.stderr


def test_quiet_prints_the_table_only():
    result = run("-q", "bench", "run", "sinusoids", "--quick", "--methods", "linear")
    assert result.stderr == ""
    assert result.stdout.startswith("## Sinusoids")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "moon"], "table must be one of ablation, air, .*, got 'moon'"),
        (["show", "moon"], "table must be one of"),
        (
            ["show", "air"],
            "there is no file of results bench-air.csv; make it with nrtsi bench run air",
        ),
        (["run", "air", "--quick"], r"nrtsi data make air --path FILE \(the downloaded zip"),
        (["run", "sinusoids", "--methods", "magic"], "--methods must be among linear, .*'magic'"),
        (["run", "sinusoids", "--budget", "soon"], "soon"),
        (["run", "sinusoids", "--methods", ","], "--methods must name some of linear, mean"),
        (["run", "sinusoids", "--quick", "--steps", "5"], "--quick and --steps must not be given"),
        (
            ["run", "sinusoids", "--models", "/dev/null/x"],
            "--models must be a folder, got /dev/nu",
        ),
        (["run", "sinusoids", "--out", "none/r.csv"], "there is no folder none; create it first"),
    ],
)
def test_a_mistake_is_one_line(words, message):
    assert refused(run("bench", *words), message)


def test_results_of_another_table_are_not_shown_as_none():
    run("bench", "run", "sinusoids", "--quick", "--methods", "linear", "--out", "r.csv")
    result = run("bench", "show", "air", "--results", "r.csv")
    assert refused(result, r"r\.csv has no rows of air, only of sinusoids")


def test_quick_rows_are_not_taken_for_whole_ones():
    run("bench", "run", "sinusoids", "--quick", "--methods", "linear")
    result = run("bench", "run", "sinusoids", "--methods", "linear")
    assert refused(result, "has rows of linear made with quick, not with all data; give the same")


def test_ctrl_c_says_how_to_go_on(monkeypatch):
    def stop(seed):
        raise KeyboardInterrupt

    monkeypatch.setitem(KINDS, "mean", stop)
    result = run("bench", "run", "sinusoids", "--quick", "--methods", "linear,mean")
    assert result.exit_code == 130
    assert (
        "stopped; bench-sinusoids.csv has what was done, and the same command goes on"
        in result.stderr
    )
    monkeypatch.undo()


def test_a_data_set_is_made_and_written_as_a_table(folder):
    result = run("data", "make", "sinusoids", "--out", "s.csv", "--part", "test", "--series", 3)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "wrote s.csv: 300 rows\n"
    table = read_table(folder / "s.csv").typed
    assert table.column_names == ["part", "series", "time", "value"]
    assert set(table["part"].to_pylist()) == {"test"}
    assert set(table["series"].to_pylist()) == {1000, 1001, 1002}
    again = run("data", "make", "sinusoids", "--out", "s.csv")
    assert refused(again, r"s\.csv exists already; add --overwrite")


def test_gaps_are_those_of_the_benchmark(folder):
    words = ["--part", "test", "--series", 4, "--gaps"]
    result = run("data", "make", "billiards", "--out", "b.csv", *words)
    assert "hid what the benchmark hides: table billiards, 5–20 of 200 observed" in result.stderr
    missing = pc.is_null(read_table(folder / "b.csv").typed["x"]).to_numpy(False)
    table = open_table("billiards")
    hidden = task_of(table, table.settings[0], make("billiards")).hidden[:4, :, 0]
    np.testing.assert_array_equal(missing.reshape(4, 200), hidden)


def test_a_data_set_of_no_benchmark_has_no_gaps(monkeypatch):
    monkeypatch.setattr(tables, "table_names", lambda: ("air",))
    words = ["--out", "s.csv", "--gaps"]
    assert refused(run("data", "make", "sinusoids", *words), "no benchmark is made of sinusoids")


def test_made_without_a_table_it_says_where_it_is_kept(folder):
    result = run("data", "make", "sinusoids")
    sizes = "900 train, 100 validation, 1,000 test series of 100 steps and 1 channels"
    assert f"made sinusoids: {sizes}, kept in {folder / 'cache'}" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["moon"], "name must be one of billiards, .*, got 'moon'; choose one"),
        (["sinusoids", "--gaps"], "--part, --series and --gaps say what to write; add --out FILE"),
        (
            ["sinusoids", "--path", "x"],
            "sinusoids is simulated and needs no path, got x; leave",
        ),
        (["air"], r"air must be read from an original, got no path; it is to be had at https://"),
        (["air", "--path", "absent.zip"], "absent.zip"),
        (["sinusoids", "--out", "s.txt"], "s.txt"),
    ],
)
def test_a_mistake_about_data_is_one_line(words, message):
    assert refused(run("data", "make", *words), message)
