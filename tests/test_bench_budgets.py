"""The experiment `budgets`: its rows, its page, and that it runs, stops and resumes."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from nrtsi.bench.datasets.registry import make
from nrtsi.bench.experiments import budgets, open_experiment
from nrtsi.bench.experiments.budgets import (
    BudgetRow,
    BudgetTraining,
    format_budget,
    validation_task,
)
from nrtsi.bench.results import add, code_versions, read
from nrtsi.bench.tables import open_table
from nrtsi.bench.tasks import task_of
from nrtsi.cli.main import app
from nrtsi.core.budget_clock import CLOCKS
from nrtsi.errors import InputError
from nrtsi.tables import parse_duration


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("NRTSI_CACHE", str(tmp_path / "cache"))


def row(**changes):
    fields = {
        "data": "billiards", "budget": "10m", "changes": "", "seed": 0, "preset": "base",
        "steps": 5000, "seconds": 600.0, "parameters": 150_000, "metric": "l2", "error": 0.02,
        "error_se": 0.001, "linear": 0.2, "versions": "nrtsi 1", "revision": "abc",
    }  # fmt: skip
    return BudgetRow(**fields | changes)


def run(*options):
    return CliRunner().invoke(app, ["bench", "run", "budgets", *map(str, options)])


def page(path, rows):
    for each in rows:
        add(path, [each])
    return open_experiment("budgets").markdown(path)


def test_rows_are_read_as_they_were_written_and_replaced_by_those_of_the_same_training(tmp_path):
    path = tmp_path / "b.csv"
    first, other = row(error_se=0.5), row(seed=1, changes="model.width=48")
    for each in (first, other, replace(first, error=0.01)):
        add(path, [each])
    assert read(path, BudgetRow) == [other, replace(first, error=0.01)]


def test_a_line_that_is_no_result_is_named(tmp_path):
    path = tmp_path / "b.csv"
    add(path, [row()])
    path.write_text(path.read_text("utf-8").replace(",600.0,", ",long,"), "utf-8")
    with pytest.raises(InputError, match=r"b\.csv, line 2 is not a result; correct it or choose"):
        read(path, BudgetRow)


@given(st.integers(1, 200_000))
def test_a_budget_is_formatted_as_it_is_typed(seconds):
    assert parse_duration(format_budget(float(seconds))) == seconds


def test_changes_are_recorded_in_one_order():
    table = open_table("billiards")
    one = BudgetTraining(table, 60.0, 0, {"preset": "small", "model": {"width": 48, "blocks": 6}})
    other = BudgetTraining(
        table, 60.0, 0, {"model": {"blocks": 6, "width": 48}, "preset": "small"}
    )
    assert one.job == other.job == ("billiards", "1m", "small", "model.blocks=6 model.width=48", 0)


def test_rows_of_other_data_are_not_taken_for_these():
    data = make("sinusoids", series=(20, 3))
    one = BudgetTraining(open_table("sinusoids"), 600.0)
    versions = code_versions(data.digest, one.budget)
    rows = [row(data="sinusoids", versions=versions)]
    assert one.is_in(rows, data)
    assert not one.is_in(rows, replace(data, test=data.train))
    assert not one.is_in([replace(rows[0], seed=1)], data)


def test_a_training_has_its_clock(tmp_path, monkeypatch):
    data, ticks = make("sinusoids", series=(40, 3)), iter(range(10**6))
    monkeypatch.setitem(CLOCKS, "core", lambda: float(next(ticks)))
    by_core = BudgetTraining(
        open_table("sinusoids"), 9.0, settings={"preset": "tiny"}, clock="core"
    )
    by_wall = replace(by_core, clock="wall")
    found = by_core.run(data, by_core.checkpoint(tmp_path / "b.csv", "abc"), "abc")
    assert found.seconds == round(found.seconds) >= 9.0
    assert 1 <= found.steps <= 9
    assert found.versions.endswith("; 9s of cores")
    assert by_core.is_in([found], data)
    assert not by_wall.is_in([found], data)
    assert by_core.checkpoint(tmp_path, "abc") != by_wall.checkpoint(tmp_path, "abc")


def test_the_validation_part_is_scored_with_the_masks_of_all_settings():
    table, data = open_table("sinusoids"), make("sinusoids", series=(40, 3))
    task = validation_task(table, data)
    copies = task.truth.value.reshape(task.copies, *data.validation.value.shape)
    assert task.copies == sum(each.repeats for each in table.settings) >= len(table.settings)
    for copy in copies:
        np.testing.assert_array_equal(copy, data.validation.value)
    first = task_of(table, table.settings[0], data, part=data.validation)
    np.testing.assert_array_equal(task.hidden[: len(first.hidden)], first.hidden)


def test_the_page_shows_the_defaults_by_time_and_the_mean_of_seeds(tmp_path):
    rows = [
        row(budget="1h", seconds=3600.0, preset="large", error=0.01, error_se=0.002),
        row(),
        row(seed=1, error=0.04),
        row(changes="model.width=8"),
    ]
    text = page(tmp_path / "b.csv", rows)
    lines = [line.strip("| ").split() for line in text.splitlines() if "billiards |" in line]
    assert [line[2] for line in lines] == ["10m", "1h"]
    assert lines[0][-3:] == ["0.150", "±", "0.071"]
    assert lines[1][-3:] == ["0.0500", "±", "0.010"]
    assert len(lines) == 2
    assert "The presets" not in text
    assert page(tmp_path / "none.csv", []) == ""


def test_the_page_shows_presets_side_by_side_and_the_default_in_bold(tmp_path):
    text = page(tmp_path / "b.csv", [row(), row(preset="large", error=0.01), row(budget="1h")])
    (line,) = [line for line in text.splitlines() if "10m" in line and "**" in line]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "billiards", "10m", "**0.100 ± 0.0050**", "0.0500 ± 0.0050",
    ]  # fmt: skip


def test_the_default_preset_of_a_budget_is_no_other_training():
    table = open_table("billiards")
    default = BudgetTraining(table, 600.0)
    assert BudgetTraining(table, 600.0, 0, {"preset": "base"}).job == default.job
    assert BudgetTraining(table, 600.0, 0, {"preset": "large"}).job != default.job
    assert (row().variant, row(preset="small").variant) == ("", "small")
    hour = {"budget": "1h", "preset": "large"}
    assert (row(**hour).variant, row(**hour, data="air").variant) == ("", "large")


def test_a_quick_run_adds_a_row_and_resumes(tmp_path, monkeypatch):
    out = tmp_path / "b.csv"
    words = ["--data", "sinusoids", "--quick", "--out", out]

    def stop(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(budgets, "validation_task", stop)
        stopped = run(*words)
    assert stopped.exit_code == 130
    assert "the same command resumes" in stopped.stderr
    assert len(list(tmp_path.glob("b.csv.*.checkpoint"))) == 1

    done = run(*words)
    assert done.exit_code == 0, done.stderr
    assert not list(tmp_path.glob("*.checkpoint"))
    (found,) = read(out, BudgetRow)
    assert found.job == ("sinusoids", "quick", "tiny", "", 0)
    assert found.metric == "mse"
    assert found.steps == open_table("sinusoids").quick.steps
    assert 0 < found.error_se < found.error
    assert f"mse {found.error:g}" in done.stderr

    with monkeypatch.context() as patch:
        patch.setattr(budgets, "validation_task", stop)
        assert run(*words).exit_code == 0  # nothing is trained again

    run(*words, "--set", "model.width=8", "--set", "train.batch=16", "--preset", "tiny")
    changed = read(out, BudgetRow)[1]
    assert changed.changes == "model.width=8 train.batch=16"
    assert changed.parameters < found.parameters
    run(*words, "--overwrite")
    assert len(read(out, BudgetRow)) == 2
    mixed = run("--data", "sinusoids", "--budget", "1s", "--out", out)
    assert mixed.exit_code == 2
    assert "b.csv must not mix quick and other rows; give another --out" in mixed.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "moon"], "table must be one of ablation, air, .*, got 'moon'"),
        (["--set", "width"], "--set must be NAME=VALUE, got 'width'; write model.width=48"),
        (["--data", "air"], r"air must be read from the original files, got no path"),
        (["--budget", "soon"], "a duration must be .* got 'soon'"),
        (["--out", "none/b.csv"], "there is no folder none; create it first"),
        (["--preset", "huge"], "preset must be one of tiny, small, .*, got 'huge'"),
        (["--methods", "linear"], "--methods does not apply to budgets; leave it out"),
    ],
)
def test_a_wrong_option_is_named(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert re.search(message, line), line


def test_error_against_budget_is_drawn(tmp_path):
    from nrtsi.bench.experiments.budget_plot import plot_budgets

    plot_budgets(tmp_path / "b.svg", [row(), row(preset="large")])
    assert (tmp_path / "b.svg").read_text("utf-8").startswith("<?xml")
    with pytest.raises(InputError, match="there are no rows to draw; run the experiment budgets"):
        plot_budgets(tmp_path / "b.png", [])
