"""The experiment `speed`: its pure parts, its page, and that it runs."""

import json
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.bench.experiments.arithmetic import FlopCounter, fastest_steps, peak_rate
from nrtsi.bench.experiments.long_series import (
    gap_lengths,
    hidden_points,
    long_series,
    merge_runs,
)
from nrtsi.bench.experiments.speed import EXPERIMENT, GOALS, markdown, ratios
from nrtsi.bench.meter import take_turns
from nrtsi.errors import InputError

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

COMPETITORS = {"over_brits", "over_csdi", "over_saits", "over_helix"}
REQUIRED = COMPETITORS | {
    "over_paper_arrangement",
    "growth_1e6_over_1e5",
    "peak_gib_1e6",
    "startup_over_torch",
}


def run(*options):
    command = [sys.executable, str(BENCHMARKS / "speed.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@settings(max_examples=20, deadline=None)
@given(st.integers(500, 200_000), st.integers(0, 9))
def test_gaps_are_as_long_as_said_and_never_touch(points, seed):
    hidden = hidden_points(points, np.random.default_rng(seed))
    edges = np.flatnonzero(np.diff(hidden.astype(int)))
    assert hidden.size == points
    assert not hidden[0]
    assert not hidden[-1]
    assert sorted(np.diff(edges)[::2]) == sorted(gap_lengths(points))


@pytest.mark.parametrize("points", [1_000, 10_000, 100_000, 1_000_000])
def test_a_tenth_is_missing_whatever_the_length(points):
    lengths = gap_lengths(points)
    assert lengths.sum() / points == pytest.approx(0.1, abs=0.02)
    assert lengths.max() <= min(5_000, points // 20)


def test_gaps_are_in_whole_rows_or_in_each_channel():
    rows, channels = (np.isnan(long_series(2_000, k)) for k in ("rows", "channels"))
    assert (rows.all(axis=1) == rows.any(axis=1)).all()
    assert (channels.all(axis=1) != channels.any(axis=1)).any()


def test_of_repeated_runs_the_fastest_and_the_largest_count():
    runs = [
        {"kind": "rows", "points": 10, "seconds": s, "peak_gib": g} for s, g in ((2, 3), (1, 4))
    ]
    assert merge_runs(runs, "rows") == [{"points": 10, "seconds": 1, "peak_gib": 4}]


def test_a_competitor_is_compared_as_it_comes_and_at_its_best():
    rates = {"nrtsi": 8.0, "paper": 1.0, "paper, shared": 4.0}
    rates |= {"brits, 32 at once": 1.0, "brits, 256 at once": 2.0}
    found = ratios({n: {"series_per_second": r} for n, r in rates.items()})
    assert (found["over_brits"], found["over_paper_arrangement"]) == (8.0, 8.0)
    assert found["over_brits_fastest"] == 4.0
    assert found["over_saits"] is None


def test_measurements_take_turns():
    order = []
    works = {name: lambda name=name: order.append(name) for name in "ab"}
    meters = take_turns(works, 3)
    assert order == list("ababab")
    assert len(meters["a"]) == 3


@pytest.mark.parametrize(
    ("figure", "shown", "met"),
    [(9.0, "9×", "yes"), (7.0, "7×", "**no**"), (None, "–", "–")],
)
def test_a_goal_says_whether_it_is_reached(figure, shown, met):
    goal = GOALS["over_paper_arrangement"]
    assert (goal.format(figure), goal.met(figure)) == (shown, met)
    assert goal.bound == "at least 8×"


def test_a_goal_may_be_an_upper_bound_or_none():
    assert GOALS["startup_over_torch"].bound == "at most 1.6×"
    assert GOALS["startup_over_torch"].met(1.7) == "**no**"
    assert GOALS["planning_share"].format(0.456) == "45.6 %"
    assert (GOALS["over_saits"].bound, GOALS["over_saits"].met(0.5)) == ("–", "–")


def test_the_page_tells_what_was_not_measured():
    record = dict.fromkeys(GOALS) | {"quick": True, "threads": 1}
    text = markdown(record | {"versions": "", "revision": ""})
    assert "its figures mean little" in text
    assert "## " not in text


def test_the_committed_record_has_every_figure():
    record = json.loads((BENCHMARKS / "results" / "speed.json").read_text("utf-8"))
    assert set(GOALS) >= REQUIRED
    assert all(record[key] > 0 for key in GOALS)


def test_another_file_is_not_shown(tmp_path):
    path = tmp_path / "x.json"
    assert EXPERIMENT.markdown(path) == ""
    for text in ("{}", "text", "[]"):
        path.write_text(text)
        with pytest.raises(InputError, match=r"x\.json must be a file of nrtsi bench run speed"):
            EXPERIMENT.markdown(path)


def test_an_option_of_other_experiments_does_not_apply():
    done = run("--budget", "1m")
    assert done.returncode == 2
    assert "--budget does not apply to speed; leave it out" in done.stderr


def test_a_place_that_cannot_be_written_is_found_before_the_work(tmp_path):
    done = run("--quick", "--out", str(tmp_path / "no" / "x.json"))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("nrtsi: ")
    assert "there is no folder" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_quick_run_records_every_figure(tmp_path):
    done = run("--quick", "--out", str(tmp_path / "speed.json"))
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "speed.json").read_text("utf-8"))
    assert done.stdout == markdown(record)
    assert record["quick"]
    for key in REQUIRED:
        absent = key in COMPETITORS and record[key] is None
        assert absent or (math.isfinite(record[key]) and record[key] > 0), key
    assert "## Start" in done.stdout


def test_arithmetic_is_counted_with_attention_forward_and_backward():
    count = FlopCounter()
    left, right = torch.rand(8, 16, requires_grad=True), torch.rand(16, 4)
    query, key, value = (torch.rand(2, 3, 5, 32, requires_grad=True) for _ in range(3))
    with count:
        left @ right  # not yet
        count.begin()
        (left @ right).sum().backward()
        attended = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        attended.sum().backward()
        count.end()
        left @ right  # no more
    assert count.products == Counter({(8, 16, 4): 1, (8, 4, 16): 1})
    product = 2 * 2 * 3 * 5 * 5 * 32
    assert count.attention == 7 * product  # 2 forward; 1 again and 4 more backward
    assert count.operations == 2 * (2 * 8 * 16 * 4) + 7 * product


def test_each_step_counts_as_in_its_fastest_repetition():
    assert fastest_steps([[1.0, 5.0], [2.0, 3.0]]) == 4.0


def test_the_peak_lies_between_the_rates_of_the_products():
    both = Counter({(10, 1, 1): 4, (20, 1, 1): 2})  # as much work in the one as in the other
    assert peak_rate(both, 1, lambda size, timings: float(size[0])) == pytest.approx(
        2 / (1 / 10 + 1 / 20)
    )
