"""The engine: memory, threads and other series change no result; long series take few steps."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.config import PRESETS, ScheduleConfig
from nrtsi.core.series import SeriesSet
from nrtsi.inference import Engine, noise
from nrtsi.network.rows import RowNetwork
from nrtsi.network.tokens import TokenLayout
from tests.strategies import seeds, some_series

ORDERS = ["widest", "midpoints", "smallest", "all"]


def engine(dims, *, order="midpoints", max_level=60, networks=1):
    """Untrained networks that do more than interpolate."""
    layout = TokenLayout(dims, partial=True, levels=4)
    made = []
    for seed in range(networks):
        torch.manual_seed(seed)
        network = RowNetwork(PRESETS["tiny"].model, layout).eval()
        torch.nn.init.normal_(network.head.mean.weight, std=0.3)
        made.append(network)
    schedule = ScheduleConfig(order=order, max_level=max_level)
    return Engine(made, PRESETS["tiny"].model, layout, schedule)


@given(seeds, st.sampled_from(ORDERS), st.sampled_from([1, 4]), st.integers(1, 10**6))
@settings(max_examples=25)
def test_the_memory_limit_changes_no_draw(seed, order, networks, memory):
    series = some_series(seed)
    ample = engine(series.dims, order=order, networks=networks)
    draw = noise(series, seed, 0)
    tight = replace(ample, memory_limit=memory).predict(series, draw=draw).mean
    expected = ample.predict(series, draw=draw).mean
    np.testing.assert_allclose(tight, expected, rtol=2e-4, atol=2e-4)


@given(seeds, st.sampled_from(ORDERS))
@settings(max_examples=15)
def test_a_set_of_series_is_imputed_as_each_of_them_alone(seed, order):
    series = some_series(seed)
    made = engine(series.dims, order=order)
    together = made.predict(series).mean
    for i in range(series.series):
        alone = made.predict(series.select(np.array([i]))).mean
        own = slice(series.start[i], series.start[i + 1])
        np.testing.assert_allclose(together[own], alone, rtol=2e-4, atol=2e-4)


@given(seeds)
@settings(max_examples=10)
def test_the_number_of_threads_changes_no_result(seed):
    series = some_series(seed)
    made = replace(engine(series.dims), memory_limit=20_000)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            results.append(made.predict(series).mean)
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(*results, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("networks", [1, 4])
def test_gaps_beyond_the_trained_levels_are_imputed(networks):
    value = np.sin(np.arange(3000.0) / 30)[None, :, None]
    value[0, 200:2600] = np.nan
    filled = engine(1, networks=networks).predict(SeriesSet.stack(value)).mean
    assert np.isfinite(filled).all()


def test_a_long_series_takes_few_steps():
    rng = np.random.default_rng(0)
    value = rng.normal(size=(1, 20_000, 1))
    for begin in rng.integers(0, 18_000, 12):
        value[0, begin : begin + rng.integers(1, 2000)] = np.nan
    steps = sum(1 for _ in engine(1).steps(SeriesSet.stack(value)))
    assert steps <= 14
