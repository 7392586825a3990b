"""The experiment `budgets`: its rows, its page, and that it runs, stops and resumes."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

from nrtsi.bench.datasets.registry import make
from nrtsi.bench.experiments import budgets, open_experiment
from nrtsi.bench.experiments.budgets import preset_of, validation_task
from nrtsi.bench.results import Row, add, read
from nrtsi.bench.tables import open_table
from nrtsi.bench.tasks import task_of
from nrtsi.cli.main import app
from nrtsi.core.budget_clock import CLOCKS


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("NRTSI_CACHE", str(tmp_path / "cache"))


def rows(budget="10m", preset="base", seed=0, error=0.02, error_se=0.001, seconds=600.0):
    """The rows of one training."""
    figures = {"l2": error, "l2_se": error_se, "steps": 5000}
    return [
        Row("billiards", budget, preset, seed, name, str(value), train_s=str(seconds),
            parameters="150000", reference="0.2" if name == "l2" else "")
        for name, value in figures.items()
    ]  # fmt: skip


def run(*options):
    return CliRunner().invoke(app, ["bench", "run", "budgets", *map(str, options)])


def page(path, *trainings):
    for each in trainings:
        add(path, each)
    return open_experiment("budgets").markdown(path)


def test_a_training_has_its_clock(tmp_path, monkeypatch):
    ticks = iter(range(10**6))
    monkeypatch.setitem(CLOCKS, "core", lambda: float(next(ticks)))
    words = ["--data", "sinusoids", "--budget", "9s", "--preset", "tiny", "--clock", "core"]
    assert run(*words, "--out", tmp_path / "b.csv").exit_code == 0
    found = read(tmp_path / "b.csv")
    seconds, steps = float(found[0].train_s), next(r for r in found if r.metric == "steps").number
    assert seconds == round(seconds) >= 9.0
    assert 1 <= steps <= 9
    assert found[0].effort == "9s of cores"


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
    text = page(
        tmp_path / "b.csv",
        rows("1h", "large", error=0.01, error_se=0.002, seconds=3600.0),
        rows(),
        rows(seed=1, error=0.04),
        rows(preset="base model.width=8"),
    )
    lines = [line.strip("| ").split() for line in text.splitlines() if "billiards |" in line]
    assert [line[2] for line in lines] == ["10m", "1h"]
    assert lines[0][-3:] == ["0.150", "±", "0.071"]
    assert lines[1][-3:] == ["0.0500", "±", "0.010"]
    assert len(lines) == 2
    assert "The presets" not in text
    assert page(tmp_path / "none.csv") == ""


def test_the_page_shows_presets_side_by_side_and_the_default_in_bold(tmp_path):
    other = rows(preset="large", error=0.01)
    text = page(tmp_path / "b.csv", rows(), other, rows("1h", "base"))
    (line,) = [line for line in text.splitlines() if "10m" in line and "**" in line]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "billiards", "10m", "**0.100 ± 0.0050**", "0.0500 ± 0.0050",
    ]  # fmt: skip


def test_the_budget_and_the_table_select_the_preset():
    billiards, air = open_table("billiards"), open_table("air")
    assert [preset_of(billiards, each) for each in ("quick", "10m", "1h")] == [
        "tiny", "base", "large",
    ]  # fmt: skip
    assert preset_of(air, "1h") == "base"
    assert preset_of(billiards, "10m", "large") == "large"


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
    found = read(out)
    assert {row.job for row in found} == {("sinusoids", "quick", "tiny", 0)}
    assert [row.metric for row in found] == ["mse", "mse_se", "steps"]
    error, error_se, steps = (row.number for row in found)
    assert steps == open_table("sinusoids").quick.steps
    assert 0 < error_se < error
    assert f"mse {error:g}" in done.stderr

    with monkeypatch.context() as patch:
        patch.setattr(budgets, "validation_task", stop)
        assert run(*words).exit_code == 0  # nothing is trained again

    run(*words, "--preset", "small")
    run(*words, "--overwrite")
    assert {row.method for row in read(out)} == {"tiny", "small"}
    assert len(read(out)) == 6
    mixed = run("--data", "sinusoids", "--budget", "1s", "--out", out)
    assert mixed.exit_code == 2
    assert "b.csv must not mix quick and other rows; give another --out" in mixed.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "moon"], "table must be one of ablation, air, .*, got 'moon'"),
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
