"""The experiment `trust`: the tables, the tolerances, the rows and the page."""

import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from nrtsi import NRTSI
from nrtsi.bench.experiments import open_experiment
from nrtsi.bench.experiments.trust import TABLES, Trial, is_within
from nrtsi.bench.results import Row, add, read
from nrtsi.cli.main import app


@pytest.mark.parametrize("name", ["station", "drifting", "rain"])
def test_a_table_has_the_values_of_the_truth_and_gaps(name):
    gappy, truth = TABLES[name](0)
    seen = gappy.notna().to_numpy()
    np.testing.assert_array_equal(gappy.to_numpy()[seen], truth.to_numpy()[seen])
    assert truth.notna().to_numpy().all()
    assert 0.05 < 1 - seen.mean() < 0.25
    pd.testing.assert_frame_equal(gappy, TABLES[name](0)[0])
    assert (TABLES["rain"](0)[1].to_numpy() >= 0).all()


@pytest.mark.parametrize(
    ("metric", "reported", "true", "within"),
    [
        ("coverage", 0.9, 0.93, True),  # 0.02 and two standard errors of 1,000 cells
        ("coverage", 0.9, 0.95, False),
        ("total", 0.9, 0.96, True),
        ("error", 1.0, 1.19, True),
        ("error", 1.0, 0.79, False),
        ("auto", 1.0, 1.02, True),
        ("auto", 1.0, 1.04, False),
    ],
)
def test_a_figure_is_within_its_tolerance(metric, reported, true, within):
    figures = {"value": str(true), "reference": str(reported), "cells": "1000"}
    assert is_within(Row("rain", "all", "nrtsi", 0, metric, **figures)) == within


def test_a_model_has_a_row_for_each_figure_and_a_line_of_the_page(tmp_path):
    gappy, truth = (frame.iloc[:720] for frame in TABLES["station"](0))
    model = NRTSI(preset="tiny", steps=2, seed=0).fit(gappy)
    rows = list(Trial("station", 0, gappy, truth, model).measure())
    assert {row.metric for row in rows} == {"coverage", "error", "auto", "total"}
    assert {"nrtsi", "linear"} <= {row.method for row in rows if row.metric == "error"}
    out = tmp_path / "trust.csv"
    add(out, rows)
    assert read(out) == rows
    page = open_experiment("trust").markdown(out)
    assert re.search(r"\| station, seed 0 \| \d+\.\d % of [\d,]+ \| none has 500 cells \|", page)
    assert open_experiment("trust").markdown(tmp_path / "none.csv") == ""


def test_an_unknown_table_is_refused(tmp_path):
    words = ["bench", "run", "trust", "--data", "moon", "--out", str(tmp_path / "t.csv")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert "--data must be among station; drifting; rain; air, got 'moon'" in result.stderr
