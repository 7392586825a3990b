"""Error against budget: its rows, its section, and that it runs, stops and goes on."""

import re
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrtsi.bench.datasets.registry import make
from nrtsi.bench.tables import open_table
from nrtsi.bench.tasks import task_of
from nrtsi.errors import InputError
from nrtsi.tables import parse_duration

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def _the_scripts_see_each_other(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("NRTSI_CACHE", str(tmp_path / "cache"))


def part(name):
    return import_module(f"budgeting.{name}")


def row(**changes):
    fields = {
        "data": "billiards", "budget": "10m", "changes": "", "seed": 0, "preset": "base",
        "steps": 5000, "seconds": 600.0, "parameters": 150_000, "metric": "l2", "error": 0.02,
        "error_se": 0.001, "linear": 0.2, "versions": "nrtsi 1", "revision": "abc",
    }  # fmt: skip
    return part("rows").Row(**fields | changes)


def main(monkeypatch, *options):
    monkeypatch.setattr(sys, "argv", ["budgets.py", *map(str, options)])
    import_module("budgets").main()


def test_rows_are_read_as_they_were_written_and_replaced_by_those_of_the_same_training(tmp_path):
    rows, path = part("rows"), tmp_path / "b.csv"
    assert rows.read(path) == []
    first, other = row(error_se=0.5), row(seed=1, changes="model.width=48")
    for each in (first, other, replace(first, error=0.01)):
        rows.add(path, each)
    assert rows.read(path) == [other, replace(first, error=0.01)]


def test_a_line_that_is_no_result_is_named(tmp_path):
    rows, path = part("rows"), tmp_path / "b.csv"
    rows.add(path, row())
    path.write_text(path.read_text("utf-8").replace(",600.0,", ",long,"), "utf-8")
    with pytest.raises(InputError, match=r"b\.csv, line 2 is not a result; mend it or choose"):
        rows.read(path)


@given(st.integers(1, 200_000))
def test_a_time_is_spelled_so_that_it_can_be_typed(seconds):
    assert parse_duration(part("trial").spelled(float(seconds))) == seconds


def test_changes_are_told_in_one_order():
    trial, table = part("trial").Trial, open_table("billiards")
    one = trial(table, 60.0, 0, {"preset": "small", "model": {"width": 48, "blocks": 6}})
    other = trial(table, 60.0, 0, {"model": {"blocks": 6, "width": 48}, "preset": "small"})
    assert one.job == other.job == ("billiards", "1m", "small", "model.blocks=6 model.width=48", 0)


def test_rows_of_other_data_are_not_taken_for_these():
    trial, data = part("trial"), make("sinusoids", series=(20, 3))
    one = trial.Trial(open_table("sinusoids"), 600.0)
    versions = trial.code_versions(data.digest, one.budget)
    assert one.is_in([row(data="sinusoids", versions=versions)], data)
    assert not one.is_in(
        [row(data="sinusoids", versions=versions)], replace(data, test=data.train)
    )
    assert not one.is_in([row(data="sinusoids", versions=versions, seed=1)], data)


def test_a_training_goes_by_its_clock_and_is_no_other_clocks(tmp_path, monkeypatch):
    trial, data = part("trial"), make("sinusoids", series=(40, 3))
    ticks = iter(range(10**6))
    monkeypatch.setitem(trial.CLOCKS, "core", lambda: float(next(ticks)))
    by_core = trial.Trial(open_table("sinusoids"), 9.0, settings={"preset": "tiny"}, clock="core")
    by_wall = replace(by_core, clock="wall")
    found = by_core.run(data, by_core.checkpoint(tmp_path / "b.csv", "abc"), "abc")
    assert found.seconds == round(found.seconds) >= 9.0
    assert 1 <= found.steps <= 9
    assert found.versions.endswith("; 9s of cores")
    assert by_core.is_in([found], data)
    assert not by_wall.is_in([found], data)
    assert by_core.checkpoint(tmp_path, "abc") != by_wall.checkpoint(tmp_path, "abc")


def test_what_is_scored_is_the_validation_part_with_all_that_the_settings_hide():
    table, data = open_table("sinusoids"), make("sinusoids", series=(40, 3))
    task = part("trial").validation_task(table, data)
    settings = len(table.settings)
    copies = task.truth.value.reshape(task.copies, *data.validation.value.shape)
    assert task.copies == sum(each.repeats for each in table.settings) >= settings
    for copy in copies:
        np.testing.assert_array_equal(copy, data.validation.value)
    first = task_of(table, table.settings[0], data, part=data.validation)
    np.testing.assert_array_equal(task.hidden[: len(first.hidden)], first.hidden)


def test_the_section_shows_the_defaults_by_time_and_the_mean_of_seeds():
    rows = [
        row(budget="1h", seconds=3600.0, preset="large", error=0.01, error_se=0.002),
        row(),
        row(seed=1, error=0.04),
        row(changes="model.width=8"),
    ]
    page = part("page").section(rows, "pictures/budgets.png")
    assert page.startswith("## Error against budget")
    assert "(pictures/budgets.png)" in page
    lines = [line.strip("| ").split() for line in page.splitlines() if "billiards |" in line]
    assert [line[2] for line in lines] == ["10m", "1h"]
    assert lines[0][-3:] == ["0.150", "±", "0.071"]
    assert lines[1][-3:] == ["0.0500", "±", "0.010"]
    assert len(lines) == 2
    assert "The sizes" not in page
    assert part("page").section([]) == ""


def test_the_section_shows_sizes_beside_each_other_and_which_one_is_chosen():
    page = part("page").section([row(), row(preset="large", error=0.01), row(budget="1h")])
    (line,) = [line for line in page.splitlines() if "10m" in line and "**" in line]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "billiards", "10m", "**0.100 ± 0.0050**", "0.0500 ± 0.0050",
    ]  # fmt: skip


def test_a_preset_that_the_budget_would_choose_is_no_other_training():
    trial, table = part("trial").Trial, open_table("billiards")
    assert trial(table, 600.0, 0, {"preset": "base"}).job == trial(table, 600.0).job
    assert trial(table, 600.0, 0, {"preset": "large"}).job != trial(table, 600.0).job
    assert (row().asked, row(preset="small").asked) == ("", "small")
    hour = {"budget": "1h", "preset": "large"}
    assert (row(**hour).asked, row(**hour, data="air").asked) == ("", "large")


def test_a_quick_run_makes_a_row_goes_on_and_draws(tmp_path, monkeypatch, capsys):
    out, picture = tmp_path / "b.csv", tmp_path / "b.svg"
    words = ["sinusoids", "--quick", "--out", out]
    trial = part("trial")
    score = trial._figures

    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(trial, "_figures", stop)
    with pytest.raises(SystemExit, match="130"):
        main(monkeypatch, *words)
    assert "budgets: stopped; the same command goes on" in capsys.readouterr().err
    assert len(list(tmp_path.glob("b.csv.*.checkpoint"))) == 1

    monkeypatch.setattr(trial, "_figures", score)
    main(monkeypatch, *words)
    assert not list(tmp_path.glob("*.checkpoint"))
    (found,) = part("rows").read(out)
    assert found.job == ("sinusoids", "quick", "tiny", "", 0)
    assert (found.preset, found.metric) == ("tiny", "mse")
    assert found.steps == open_table("sinusoids").quick.steps
    assert 0 < found.error_se < found.error
    assert f"mse {found.error:g}" in capsys.readouterr().out

    monkeypatch.setattr(trial, "_figures", stop)
    main(monkeypatch, *words, "--plot", picture)  # nothing is trained again
    assert picture.read_text("utf-8").startswith("<?xml")

    monkeypatch.setattr(trial, "_figures", score)
    main(monkeypatch, *words, "--model", "width=8", "--train", "batch=16", "--preset", "tiny")
    changed = part("rows").read(out)[1]
    assert changed.changes == "model.width=8 train.batch=16"
    assert changed.parameters < found.parameters
    main(monkeypatch, *words, "--overwrite")
    assert len(part("rows").read(out)) == 2


def test_a_model_that_was_kept_is_scored_as_its_own_training(tmp_path):
    table, data = open_table("sinusoids"), make("sinusoids", series=(40, 3))
    trial = part("trial").Trial(table, 1.0, settings={"preset": "tiny"})
    path = tmp_path / "model.nrtsi"
    ours = part("trial").Ours(0, preset="tiny")
    ours.fit(trial._lesson(data))
    ours.save(path)
    found = replace(trial, settings={}).of_kept(path, data, "abc")
    scored = trial._scored(ours, data, "1s", "abc")
    assert found.job == ("sinusoids", "1s", "tiny", "", 0)
    assert found.versions == scored.versions + ", model.nrtsi"
    for name in ("steps", "preset", "parameters", "error", "error_se", "linear"):
        assert getattr(found, name) == getattr(scored, name)
    for other in (replace(trial, seconds=2.0), replace(trial, seed=1)):
        message = (
            r"must be a model of sinusoids after .* got .*budget 1\.0 and seed 0; name its own"
        )
        with pytest.raises(InputError, match=message):
            other.of_kept(path, data, "abc")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["moon"], "budgets: table must be one of ablation, air, .*, got 'moon'"),
        (["sinusoids", "--model", "width"], "--model and --train must be NAME=VALUE, got 'width'"),
        (["air"], r"budgets: air must be read from an original, got no path"),
        (["sinusoids", "--budgets", "soon"], "a duration must be .* got 'soon'"),
        (["sinusoids", "--plot", "b.txt"], "a picture must end in one of"),
        (["sinusoids", "--out", "none/b.csv"], "there is no folder none; create it first"),
        (["sinusoids", "--kept", "m", "--preset", "tiny"], "--kept must have one table and one b"),
        (["sinusoids", "--kept", "none.nrtsi"], "none.nrtsi does not exist; give the path"),
        (["sinusoids", "--preset", "huge"], "preset must be one of tiny, small, .*, got 'huge'"),
    ],
)
def test_a_mistake_is_one_line(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(monkeypatch, "--out", "b.csv", "--budgets", "1s", *words)
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line), line


def test_quick_figures_do_not_get_among_the_others(monkeypatch, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(monkeypatch, "sinusoids", "--quick")
    message = "--quick must have an --out of its own: its figures mean nothing"
    assert message in capsys.readouterr().err


def test_nothing_is_drawn_of_nothing(tmp_path):
    with pytest.raises(InputError, match="there is nothing to draw; measure something first"):
        part("picture").plot(tmp_path / "b.png", [])
