"""Runs of a table: the same masks for all, nothing measured twice, nothing lost."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nrtsi.bench import methods, runner, tasks
from nrtsi.bench.datasets.registry import make
from nrtsi.bench.experiments import RunOptions
from nrtsi.bench.methods import Method, NRTSIMethod, method_of
from nrtsi.bench.results import ERROR, read
from nrtsi.bench.runner import effort_of
from nrtsi.bench.runner import run_table as run
from nrtsi.bench.tables import Table, open_table, table_names
from nrtsi.bench.tasks import task_of
from nrtsi.config import validated
from nrtsi.core.budget_clock import CLOCKS
from nrtsi.errors import InputError, TrainingError
from nrtsi.imputer.functions import load
from nrtsi.training.settings import Budget

TIMINGS = {"train_s": "", "impute_s": "", "peak_mib": ""}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NRTSI_CACHE", str(tmp_path / "cache"))


def table(**changes):
    fields = {
        "name": "small",
        "title": "Small",
        "about": "",
        "data": "sinusoids",
        "training": {"rows": [85, 95]},
        "settings": [
            {"name": "90", "masks": {"rows": [90, 90]}, "repeats": 2},
            {"name": "50", "masks": {"rows": [50, 50]}},
        ],
        "metrics": ["mse", "mae"],
        "methods": ["linear", "mean"],
        "quick": {"train": 20, "test": 6, "steps": 2},
    }
    return validated(Table, fields | changes)


def plan(path, some=None, **changes):
    some = some or table()
    fields = {"methods": some.methods, "steps": 2, "quick": True}
    return some, RunOptions(path / "out.csv", **fields | changes)


class Witness(Method):
    """Answers zeros, and keeps what it was asked."""

    asked = ()

    def fit(self, task):
        self.task = task

    def impute(self, given, draws):
        type(self).asked = (*self.asked, given)
        return np.zeros_like(given.value), None


def witnesses(monkeypatch, *names):
    kinds = {name: type(name, (Witness,), {}) for name in names}
    for name, kind in kinds.items():
        monkeypatch.setitem(methods.KINDS, name, lambda seed, _kind=kind: _kind())
    return kinds.values()


def without_timings(rows):
    return sorted((replace(row, **TIMINGS) for row in rows), key=lambda row: (row.job, row.metric))


def test_every_method_is_asked_the_same(tmp_path, monkeypatch):
    first, second = witnesses(monkeypatch, "first", "second")
    some = table(methods=["first", "second"])
    run(*plan(tmp_path, some))
    assert len(first.asked) == len(second.asked) == 2
    for one, other in zip(first.asked, second.asked, strict=True):
        np.testing.assert_array_equal(one.time, other.time)
        np.testing.assert_array_equal(one.value, other.value)


def test_what_is_hidden_depends_on_the_words_of_the_table_and_on_nothing_else(tmp_path):
    data = make("sinusoids", series=(20, 6))
    some = table()
    np.random.seed(7)  # noqa: NPY002  # a global generator must not matter
    tasks = [task_of(some, setting, data) for setting in some.settings]
    turned = table(settings=list(reversed(some.model_dump()["settings"])))
    for task, setting in zip(reversed(tasks), turned.settings, strict=True):
        np.testing.assert_array_equal(task.hidden, task_of(turned, setting, data).hidden)
    both = tasks[0].hidden.reshape(2, 6, 100)
    assert (both.sum(axis=2) == 90).all()
    assert (both[0] != both[1]).any()
    assert np.isnan(tasks[0].given.value[tasks[0].hidden]).all()
    np.testing.assert_array_equal(tasks[0].given.value[~tasks[0].hidden],
                                  tasks[0].truth.value[~tasks[0].hidden])  # fmt: skip


def test_a_slow_method_gets_some_of_the_same_questions(tmp_path, monkeypatch):
    quick, slow = witnesses(monkeypatch, "quick", "slow")
    rows = run(*plan(tmp_path, table(methods=["quick", "slow"], method={"slow": {"series": 3}})))
    whole, part = quick.asked[1].value, slow.asked[1].value
    assert part.shape[0] == 3
    assert all((np.isclose(whole, each, equal_nan=True).all(axis=(1, 2))).any() for each in part)
    told = {(r.method, r.setting): r.value for r in rows if r.metric == "series"}
    assert told == {("quick", "90"): "12", ("quick", "50"): "6", ("slow", "90"): "3",
                    ("slow", "50"): "3"}  # fmt: skip


def test_a_run_has_a_row_for_every_figure_and_measures_nothing_twice(tmp_path, monkeypatch):
    rows = run(*plan(tmp_path))
    found = {(row.setting, row.method, row.metric) for row in rows}
    metrics = ("mse", "mse_se", "mae", "series")
    assert found == {(s, m, x) for s in ("90", "50") for m in ("linear", "mean") for x in metrics}
    monkeypatch.setattr(runner, "add", lambda *args: pytest.fail("measured again"))
    assert run(*plan(tmp_path)) == rows


def test_a_run_that_was_stopped_resumes_to_the_same_rows(tmp_path, monkeypatch):
    some = table(methods=["linear", "nrtsi", "mean"])
    whole = run(*plan(tmp_path, some))

    def stop(line):
        if "linear" in line and "50" in line:
            raise KeyboardInterrupt

    other = replace(plan(tmp_path, some)[1], out=tmp_path / "other.csv")
    with pytest.raises(KeyboardInterrupt):
        run(some, other, stop)
    assert {row.method for row in read(other.out)} == {"linear"}
    assert without_timings(run(some, other)) == without_timings(whole)


KILLED = """
import os, signal, sys
from nrtsi.bench import runner
from tests.test_bench_runner import plan, table
from pathlib import Path

def killing(event):
    if event.step == 60:
        os.kill(os.getpid(), signal.SIGKILL)

some = table(methods=["linear", "nrtsi"])
settings = {"quick": False, "steps": 80}
runner.run_table(*plan(Path(sys.argv[1]), some, **settings), listener=killing)
"""


@pytest.mark.slow
def test_a_killed_run_resumes_in_the_middle_of_a_training_to_the_same_rows(tmp_path, monkeypatch):
    some = table(methods=["linear", "nrtsi"], method={"nrtsi": {"preset": "tiny"}})
    source = KILLED.replace('"nrtsi"])', '"nrtsi"], method={"nrtsi": {"preset": "tiny"}})')
    folder = tmp_path / "killed"
    folder.mkdir()
    found = subprocess.run(
        [sys.executable, "-c", source, str(folder)], env=os.environ, check=False
    )
    assert found.returncode == -signal.SIGKILL
    left = [path.name for path in folder.iterdir()]
    assert any(name.endswith(".checkpoint") for name in left)
    steps = []
    settings = {"quick": False, "steps": 80}
    resumed = run(*plan(folder, some, **settings), listener=lambda event: steps.append(event))
    assert 0 < len([event for event in steps if hasattr(event, "loss")]) < 80
    assert [path.name for path in folder.iterdir()] == ["out.csv"]
    whole = run(*plan(tmp_path, some, **settings))
    assert without_timings(resumed) == without_timings(whole)


def test_a_method_that_fails_is_a_row_that_says_so_and_is_tried_again(tmp_path, monkeypatch):
    witnesses(monkeypatch, "broken")
    some = table(methods=["broken", "linear"])
    monkeypatch.setattr(
        Witness, "impute", lambda self, given, draws: (np.full_like(given.value, np.nan), None)
    )
    rows = run(*plan(tmp_path, some))
    bad = [row for row in rows if row.method == "broken"]
    assert [(row.metric, row.value) for row in bad] == 2 * [(ERROR, "values that are not finite")]
    assert {row.method for row in rows} == {"broken", "linear"}
    monkeypatch.undo()
    monkeypatch.setenv("NRTSI_CACHE", str(tmp_path / "cache"))
    witnesses(monkeypatch, "broken")
    assert ERROR not in {row.metric for row in run(*plan(tmp_path, some))}


def test_training_that_fails_is_a_row_in_every_setting(tmp_path, monkeypatch):
    witnesses(monkeypatch, "broken")
    monkeypatch.setattr(Witness, "fit", lambda self, task: 1 / 0)
    rows = run(*plan(tmp_path, table(methods=["broken"])))
    assert [(row.setting, row.metric) for row in rows] == [("90", ERROR), ("50", ERROR)]
    assert rows[0].value == "division by zero"


def test_a_bug_of_ours_is_not_a_row(tmp_path, monkeypatch):
    witnesses(monkeypatch, "broken")
    monkeypatch.setattr(Witness, "fit", lambda self, task: task.nothing_of_the_kind)
    with pytest.raises(AttributeError):
        run(*plan(tmp_path, table(methods=["broken"])))


def test_any_error_of_a_competitor_is_a_row(tmp_path, monkeypatch):
    witnesses(monkeypatch, "saits")
    monkeypatch.setattr(Witness, "fit", lambda self, task: task.nothing_of_the_kind)
    monkeypatch.setattr(runner, "quick_settings", lambda kind: {})
    rows = run(*plan(tmp_path, table(methods=["saits"])))
    assert {row.metric for row in rows} == {ERROR}


def test_a_checkpoint_of_another_training_is_not_resumed(tmp_path, monkeypatch):
    some = table(methods=["nrtsi"])
    stop = KeyboardInterrupt()
    monkeypatch.setattr(NRTSIMethod, "impute", lambda *args: (_ for _ in ()).throw(stop))
    with pytest.raises(KeyboardInterrupt):
        run(*plan(tmp_path, some))
    (left,) = tmp_path.glob("*.checkpoint")
    monkeypatch.undo()
    monkeypatch.setenv("NRTSI_CACHE", str(tmp_path / "cache"))
    rows = run(*plan(tmp_path, table(methods=["nrtsi"], training={"rows": [50, 60]})))
    assert ERROR not in {row.metric for row in rows}
    assert not left.exists()
    assert not list(tmp_path.glob("*.checkpoint"))


def test_a_training_that_failed_starts_again(tmp_path, monkeypatch):
    fit = NRTSIMethod.fit

    def broken(self, task):
        fit(self, task)
        raise TrainingError("the loss is not finite")

    monkeypatch.setattr(NRTSIMethod, "fit", broken)
    run(*plan(tmp_path, table(methods=["nrtsi"])))
    assert not list(tmp_path.glob("*.checkpoint"))


def test_a_training_whose_scoring_failed_is_kept(tmp_path, monkeypatch):
    def broken(self, given, draws):
        raise MemoryError("too much")

    monkeypatch.setattr(NRTSIMethod, "impute", broken)
    rows = run(*plan(tmp_path, table(methods=["nrtsi"])))
    assert {row.value for row in rows} == {"too much"}
    assert len(list(tmp_path.glob("*.checkpoint"))) == 1


def test_seconds_of_all_sessions_are_recorded(tmp_path, monkeypatch):
    fit = NRTSIMethod.fit

    def resumed(self, task):
        fit(self, task)
        self.seconds = 1234.5

    monkeypatch.setattr(NRTSIMethod, "fit", resumed)
    rows = run(*plan(tmp_path, table(methods=["nrtsi"])))
    assert {row.train_s for row in rows} == {"1234.5"}


def test_the_expert_is_the_truth(tmp_path):
    rows = run(*plan(tmp_path, table(methods=["expert"])))
    assert {row.value for row in rows if row.metric in ("mse", "mae")} == {"0"}


def test_a_long_training_has_a_time_of_its_own_and_is_run_where_it_is_asked_for(tmp_path):
    words = {"nrtsi-90m": {"kind": "nrtsi", "budget": "90m"}}
    some = table(methods=["linear", "nrtsi", "nrtsi-90m"], method=words)
    assert some.default_methods == ("linear", "nrtsi")
    asked = plan(tmp_path, some, quick=False, budget="60s", steps=None)
    efforts = {name: effort_of(*asked, name) for name in some.methods}
    assert efforts == {"linear": "", "nrtsi": "budget 60 s", "nrtsi-90m": "budget 5400 s"}
    rows = run(*plan(tmp_path, some, methods=("nrtsi-90m",)))
    assert {row.method for row in rows} == {"nrtsi-90m"}
    assert ERROR not in {row.metric for row in rows}


def test_rows_of_another_budget_are_not_taken_for_these(tmp_path):
    some = table(methods=["nrtsi", "linear"], method={"nrtsi": {"preset": "tiny"}})
    run(*plan(tmp_path, some))
    longer = plan(tmp_path, some, quick=False, budget="60s", steps=None)
    message = r"out\.csv has rows of nrtsi made with quick, not with budget 60 s; give the same"
    with pytest.raises(InputError, match=message):
        run(*longer)
    rows = run(*plan(tmp_path, some, quick=False, steps=1, overwrite=True))
    assert {row.effort for row in rows} == {"1 steps", ""}


def test_rows_of_other_data_are_not_taken_for_these(tmp_path, monkeypatch):
    run(*plan(tmp_path, methods=("linear",)))
    monkeypatch.setattr(tasks, "make", lambda name, series: make(name, seed=1, series=series))
    message = r"out\.csv has rows of linear measured on other data of the name sinusoids \("
    with pytest.raises(InputError, match=message):
        run(*plan(tmp_path))
    rows = run(*plan(tmp_path, overwrite=True))
    assert {row.method for row in rows} == {"linear", "mean"}
    assert len({row.data for row in rows}) == 2


def test_data_that_cannot_be_had_are_left_out_unless_there_are_no_others(tmp_path):
    settings = [*table().model_dump()["settings"], {"name": "air", "data": "air",
                "masks": {"rows": [9, 9]}}]  # fmt: skip
    said = []
    rows = run(*plan(tmp_path, table(settings=settings)), said.append)
    assert {row.setting for row in rows} == {"90", "50"}
    assert any(line.startswith("air is skipped: air must be read") for line in said)
    with pytest.raises(InputError, match="nrtsi data make air --path FILE"):
        run(*plan(tmp_path, table(data="air")))


def test_a_method_the_table_does_not_have_is_refused(tmp_path):
    with pytest.raises(InputError, match="--methods must be among linear, mean for the"):
        run(*plan(tmp_path, methods=("magic",)))


def test_a_kind_there_is_not_is_refused():
    with pytest.raises(InputError, match=r"kind of x must be one of nrtsi, .*, got 'magic'"):
        method_of("x", 0, {"kind": "magic"})


def test_models_are_kept_and_seeds_are_rows_of_their_own(tmp_path):
    some = table(methods=["nrtsi"])
    rows = run(*plan(tmp_path, some, seeds=(0, 3), models=tmp_path))
    assert {row.seed for row in rows} == {0, 3}
    model = load(tmp_path / "small-sinusoids-nrtsi-3-quick.nrtsi")
    task = task_of(some, some.settings[1], make("sinusoids", series=(20, 6)))
    data = make("sinusoids", series=(20, 6))
    test = replace(data, train=data.train.head(0), validation=data.validation.head(0),
                   test=task.given)  # fmt: skip
    frame = test.to_table()
    filled = model.impute(frame)["value"].to_numpy().reshape(task.truth.value.shape)
    row = next(r for r in rows if (r.seed, r.setting, r.metric) == (3, "50", "mse"))
    error = (filled - task.truth.value)[task.hidden]
    assert row.number == pytest.approx(np.mean(error**2), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "setting"), [("billiards", "regular"), ("sinusoids", "irregular")]
)
def test_nrtsi_imputes_in_the_order_that_suits_the_data(name, setting):
    ours, data = NRTSIMethod(0, preset="tiny"), make(name, series=(20, 2))
    some = open_table(name)
    ours.fit(methods.TrainingTask(data, some.training, Budget(steps=1)))
    assert ours.model.setting_ == setting
    assert not ours.model.fitted_.engine.layout.partial
    least, most = some.training.rows
    steps = data.train.value.shape[1]
    assert ours.model.train["hidden"] == (least / steps, most / steps)


def test_seconds_are_those_of_the_clock_that_is_asked_for(tmp_path, monkeypatch):
    ticks = iter(range(10**6))
    monkeypatch.setitem(CLOCKS, "core", lambda: float(next(ticks)))
    for clock, seconds in (("core", {"1.00"}), ("wall", {"0.00"})):
        rows = run(*plan(tmp_path, methods=("mean",), clock=clock, overwrite=True))
        assert {row.impute_s for row in rows} == seconds
        (tmp_path / "out.csv").unlink()
    some, timed = plan(tmp_path, table(methods=["nrtsi"]), budget="60s", steps=None, quick=False)
    assert effort_of(some, timed, "nrtsi") == "budget 60 s"
    assert effort_of(some, replace(timed, clock="core"), "nrtsi") == "budget 60 s of cores"


ORIGINALS = Path(__file__).parents[2] / "shared" / "data"
FILES = {
    "air": "beijing_air.zip",
    "air-shuffled": "beijing_air.zip",
    "gas": "gas_fragment.csv",
    "nfl": "nfl_offense6_50x12.npy",
    "traffic20": "traffic20.txt",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", table_names())
def test_every_table_runs_within_a_minute(name, tmp_path):
    pytest.importorskip("pypots")
    some = open_table(name)
    for data in {some.data_of(setting) for setting in some.settings} & set(FILES):
        if not ORIGINALS.exists():
            pytest.skip(f"the original of {data} is not there: {ORIGINALS / FILES[data]}")
        make(data, path=ORIGINALS / FILES[data])
    begun = time.monotonic()
    rows = run(*plan(tmp_path, some, methods=some.methods))
    assert time.monotonic() - begun < 60
    assert {row.method: row.value for row in rows if row.metric == ERROR} == {}
    assert {row.method for row in rows} == set(some.methods)
