"""The experiment `single`: which cells are removed, how methods are scored, and the page."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

from nrtsi.bench.experiments import open_experiment
from nrtsi.bench.experiments.single import with_gaps
from nrtsi.bench.results import read
from nrtsi.cli.main import app

NAME = "simulated weather, 60 days"


def run(*arguments):
    return CliRunner().invoke(app, ["bench", "run", "single", *map(str, arguments)])


def test_removed_cells_are_missing_in_the_table_and_known_in_the_truth():
    value = np.random.default_rng(0).normal(size=(40, 24, 3))
    value[5, 3, 1] = np.nan
    table = with_gaps(value, days=30)
    known = table.gappy.drop(columns="time").to_numpy()
    assert len(table.gappy) == 30 * 24
    assert np.isnan(known[table.removed]).all()
    assert not table.removed[5 * 24 + 3, 1]
    seen = ~np.isnan(known)
    np.testing.assert_array_equal(known[seen], table.truth[seen])
    assert 0.03 < table.removed.mean() < 0.3
    assert table.digest != with_gaps(value + 1, days=30).digest


def test_a_method_is_scored_and_its_row_replaced(tmp_path):
    out = tmp_path / "single.csv"
    for _ in range(2):
        result = run("--data", NAME, "--methods", "linear,spline", "--out", out)
        assert result.exit_code == 0, result.stderr
    assert f"{NAME}: linear 0." in result.stderr
    jobs = [("single", NAME, method, 0) for method in ("linear", "spline")]
    assert [row.job for row in read(out)] == jobs
    line = next(line for line in result.stdout.splitlines() if line.startswith(f"| {NAME}"))
    figures = [cell.strip() for cell in line.split("|")[2:4]]
    assert figures[1].startswith("**")  # the spline has the lower error
    assert not figures[0].startswith("**")


def test_nrtsi_is_trained_for_the_budget(tmp_path):
    out = tmp_path / "single.csv"
    result = run("--data", NAME, "--methods", "nrtsi", "--budget", "1s", "--out", out)
    assert result.exit_code == 0, result.stderr
    (row,) = read(out)
    assert row.versions.endswith("; budget 1s, seed 0")
    assert 0 < row.number < 2


def test_without_results_there_is_no_page(tmp_path):
    assert open_experiment("single").markdown(tmp_path / "none.csv") == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "moon"], "--data must be among simulated weather, 60 days; .*, got 'moon'"),
        (["--methods", "magic"], "--methods must be among nrtsi; .*; mice, got 'magic'"),
        (["--quick"], "--quick does not apply to single; leave it out"),
        (["--clock", "sun"], "--clock must be one of wall, core, got 'sun'"),
    ],
)
def test_a_wrong_option_is_named(options, message, tmp_path):
    result = run(*options, "--out", tmp_path / "single.csv")
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert re.search(message, line), line
