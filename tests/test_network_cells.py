"""The network of cells: invariances, its windows, and when it is selected."""

import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.config import PRESETS, ModelConfig, ScheduleConfig
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.imputer.functions import load
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.inference import Engine, noise
from nrtsi.network.attention import SummaryAttention
from nrtsi.network.cells import CellNetwork
from nrtsi.network.registry import network_of
from nrtsi.network.rows import RowNetwork
from nrtsi.network.tokens import TokenLayout, Tokens
from nrtsi.schedule.plan import plan
from nrtsi.schedule.windows import windows
from nrtsi.tables import Clock
from nrtsi.training.settings import resolve
from tests.network_samples import some_network, tokens_of
from tests.strategies import seeds, some_series, widened

TINY = PRESETS["tiny"].cells
VARIANTS = {
    "base": {},
    "point": {"head": "point"},
    "absolute": {"relative": False, "neighbours": False},
    "values": {"residual": False, "normalise": False},
}

CLOCK = Clock("number", 0, 1.0)


def engine(dims, *, together=4.0, order="local", max_level=60):
    layout = TokenLayout(dims, partial=True, levels=4)
    schedule = ScheduleConfig(order=order, max_level=max_level, together=together)
    return Engine([some_network(TINY, layout, 0.3).float()], TINY, layout, schedule)


def sample(series, config=TINY, periods=()):
    """The inputs of a step that imputes every row, and a network."""
    layout = TokenLayout(series.dims, partial=True, periods=periods)
    step = next(plan(series, ScheduleConfig(order="all", together=0.0)))
    return tokens_of(series, step, config, layout), some_network(config, layout, 0.3)


def partly(seed, rows=60, dims=3, rate=0.4):
    rng = np.random.default_rng(seed)
    value = np.cumsum(rng.normal(size=(2, rows, dims)), axis=1)
    return np.where(rng.random(value.shape) < rate, np.nan, value)


@pytest.mark.parametrize("variant", VARIANTS)
@given(seed=seeds)
@settings(max_examples=8)
def test_padding_and_the_order_of_the_rows_change_nothing(variant, seed):
    config = TINY.model_copy(update=VARIANTS[variant])
    series = some_series(seed, some_data=True, some_missing=True)
    inputs, net = sample(series, config, periods=(7.0,))
    rng = np.random.default_rng(seed)
    size, targets = inputs.feature.shape[1] + 5, inputs.interpolation.shape[1]
    known, own = rng.permutation(inputs.n_known + 2), rng.permutation(targets + 3)
    order = np.concatenate([known, inputs.n_known + 2 + own])
    wide = widened(inputs, 2, 3)
    moved = wide.resized(wide.n_known, lambda t: t[:, order], lambda t: t[:, own])
    assert order.size == size
    back = np.argsort(own)[:targets]
    valid = inputs.valid[:, inputs.n_known :]
    changed = net(moved).mean[:, back][valid]
    torch.testing.assert_close(changed, net(inputs).mean[valid], atol=1e-8, rtol=1e-6)


@given(seeds)
@settings(max_examples=10)
def test_predictions_are_equivariant_in_channels_with_their_embeddings(seed):
    series = some_series(seed, some_data=True, some_missing=True)
    order = np.random.default_rng(seed).permutation(series.dims)
    other = SeriesSet(series.time, series.value[:, order], series.observed[:, order], series.start)
    (inputs, net), (moved, changed) = sample(series), sample(other)
    with torch.no_grad():
        changed.channel_embedding.copy_(net.channel_embedding[order])
    torch.testing.assert_close(changed(moved).mean, net(inputs).mean[..., order])


@given(seeds, st.sampled_from([None, 0.0, 4.0]), st.sampled_from(["local", "all", "smallest"]))
@settings(max_examples=25)
def test_nothing_is_missing_afterwards_and_observed_cells_are_untouched(seed, together, order):
    series = some_series(seed)
    model = engine(series.dims, together=together, order=order)
    for draw in (None, noise(series, seed, 0)):
        filled = model.predict(series, draw=draw).mean
        assert np.isfinite(filled).all()
        np.testing.assert_array_equal(filled[series.observed], series.value[series.observed])


@given(seeds)
@settings(max_examples=10)
def test_a_series_alone_is_imputed_as_in_a_set_and_memory_changes_nothing(seed):
    series = some_series(seed)
    model = engine(series.dims)
    together = model.predict(series).mean
    for i in range(series.series):
        alone = model.predict(series.select(np.array([i]))).mean
        own = slice(series.start[i], series.start[i + 1])
        np.testing.assert_allclose(together[own], alone, rtol=2e-4, atol=2e-4)
    tight = replace(model, memory_limit=5_000)
    np.testing.assert_allclose(tight.predict(series).mean, together, rtol=2e-4, atol=2e-4)


def test_an_untrained_network_interpolates_linearly():
    series = some_series(8, some_data=True, some_missing=True)
    inputs, _ = sample(series)
    untrained = CellNetwork(TINY, TokenLayout(series.dims, partial=True)).double()
    torch.testing.assert_close(untrained(inputs).mean, inputs.interpolation)


def test_targets_depend_on_all_rows_of_their_window():
    series = SeriesSet.stack(partly(1))
    inputs, net = sample(series)
    feature = inputs.feature.clone().requires_grad_()
    changed = replace(inputs, feature=feature)
    net(changed).mean[0, 0].sum().backward()
    used = feature.grad[0].abs().sum(dim=-1) > 0
    assert torch.equal(used, inputs.valid[0])


@given(seeds)
@settings(max_examples=10)
def test_attention_weights_sum_to_1_over_the_attended_rows(seed):
    inputs, net = sample(some_series(seed, some_data=True, some_missing=True))
    valid, mask = inputs.valid[:, inputs.n_known :], net.attention_mask(inputs)
    for weight in net.attention_weights(inputs):
        shown = torch.where(mask.unsqueeze(1), weight, 0.0).sum(-1).transpose(1, 2)[valid]
        torch.testing.assert_close(shown, torch.ones_like(shown))


# Windows ----------------------------------------------------------------------------


def some_shared_rows(seed):
    rng = np.random.default_rng(seed)
    start = np.concatenate([[0], np.cumsum(rng.integers(1, 60, rng.integers(1, 5)))])
    known = rng.random(start[-1]) < rng.random()
    targets = rng.random(start[-1]) < rng.random()
    targets[rng.integers(start[-1])] = True
    level = rng.integers(0, 2, targets.sum())
    return np.flatnonzero(known), np.flatnonzero(targets), level, start


@given(seeds, st.sampled_from([4, 8, 16, 2048]))
def test_targets_that_are_known_rows_are_in_their_own_window_once(seed, size):
    sources, targets, level, start = some_shared_rows(seed)
    parts = windows(sources, targets, level, start, size)
    owned = []
    for padded in parts.batches(2**12, np.square):
        for i in range(padded.known.shape[0]):
            known = padded.known[i][padded.known_valid[i]].tolist()
            own = padded.target[i][padded.target_valid[i]].tolist()
            owned += own
            assert not set(known) & set(own)
            assert set(known) <= set(sources.tolist())
            assert len(known) <= size
            assert len(own) <= size
            low = start[np.searchsorted(start, own[0], side="right") - 1]
            high = start[np.searchsorted(start, own[0], side="right")]
            there = sources[(sources >= low) & (sources < high)]
            held = np.array(known + [row for row in own if row in set(sources.tolist())])
            assert held.size == min(there.size, size)
            for target in own:
                for side in (np.less, np.greater):
                    available = int(side(there, target).sum())
                    assert side(held, target).sum() >= min(available, size // 4)
    assert sorted(owned) == targets.tolist()


@given(seeds, st.sampled_from([0.0, 4.0]), st.sampled_from(["widest", "local", "midpoints"]))
def test_the_last_step_takes_all_rows_near_data_and_others_come_before(seed, near, order):
    series = some_series(seed)
    config = ScheduleConfig(order=order, together=near, max_level=60)
    known = series.observed.copy()
    steps = list(plan(series, config))
    for number, step in enumerate(steps):
        np.testing.assert_array_equal(step.known, known.any(axis=1))
        whole = ~known[step.rows].any(axis=1)
        if number < len(steps) - 1:
            assert whole.all()
            assert (step.distance > near).all()
        known[step.rows] = True
    assert known.all()


@given(seeds, st.sampled_from([None, 0.0]))
@settings(max_examples=20)
def test_partially_observed_rows_are_of_the_finest_level(seed, together):
    series = some_series(seed)
    for step in plan(series, ScheduleConfig(together=together)):
        parts = CellNetwork.windows(step, series.start, TINY)
        level = dict(zip(parts.targets, np.repeat(parts.level, parts.target_count), strict=True))
        for row, own in zip(step.rows, step.level, strict=True):
            assert level[row] == (0 if step.known[row] else own)


def test_a_gap_of_all_channels_is_imputed_in_several_steps():
    value = partly(3, rows=400)
    value[:, 100:300] = np.nan
    series = SeriesSet.stack(value)
    config = ScheduleConfig(order="midpoints", together=4.0, max_level=10)
    sizes = [step.rows.size for step in plan(series, config)]
    assert 4 <= len(sizes) <= 8
    assert sizes[0] <= 4
    assert np.isfinite(engine(3, order="midpoints").predict(series).mean).all()


# Many channels ----------------------------------------------------------------------------------


def test_summaries_make_many_channels_linear_in_time():
    seconds = []
    for dims in (100, 400):
        layout = TokenLayout(dims, partial=True)
        net = some_network(TINY, layout).float()
        inputs = Tokens(
            feature=torch.randn(2, 16, layout.channels(TINY)),
            time=torch.arange(16.0).expand(2, -1),
            valid=torch.ones(2, 16, dtype=torch.bool),
            interpolation=torch.zeros(2, 8, dims),
            base_predictions=torch.zeros(2, 8, 0, dims),
            distance_bin=torch.zeros(2, 8, 1, dtype=torch.int64),
            level=torch.zeros(2, dtype=torch.int64),
            n_known=8,
        )
        with torch.inference_mode():
            times = []
            for _ in range(5):
                began = time.perf_counter()
                assert torch.isfinite(net(inputs).mean).all()
                times.append(time.perf_counter() - began)
        seconds.append(min(times))
    assert seconds[1] < 12 * seconds[0]  # 4 times the channels; quadratic would be 16


def test_more_channels_than_the_limit_are_summarised():
    few, many = (network_of(TINY, TokenLayout(dims, partial=True)) for dims in (64, 65))
    assert not isinstance(few.blocks[0].channel_attention, SummaryAttention)
    assert many.blocks[0].channel_attention.summary_query.shape[2] == 16


# Selection of the network ----------------------------------------------------------------------


def test_partially_observed_rows_select_cells(tmp_path):
    value = partly(0)
    model = NRTSI(preset="tiny", steps=2).fit(value)
    assert isinstance(model.fitted_.engine.networks[0], CellNetwork)
    assert model.info()["network"] == "cells: rows may be partly observed"
    assert model.fitted_.engine.schedule.together is not None
    model.save(tmp_path / "model.nrtsi")
    again = load(tmp_path / "model.nrtsi")
    np.testing.assert_array_equal(again.impute(value), model.impute(value))
    np.testing.assert_array_equal(again.sample(value, draws=2), model.sample(value, draws=2))


@pytest.mark.parametrize(
    ("params", "dims", "whole", "reason"),
    [
        ({}, 1, False, "rows: one column"),
        ({}, 3, True, "rows: rows are complete or missing as a whole"),
        ({"model": {"network": "rows"}}, 3, False, "rows: as requested"),
        ({"model": {"network": "cells"}, "setting": "regular"}, 3, True, "cells: "),
        ({"setting": "all"}, 3, False, "cells: rows may be partly observed"),
        ({"setting": "stochastic"}, 3, False, "cells: rows may be partly observed"),
    ],
)
def test_data_and_parameters_select_the_network(params, dims, whole, reason):
    value = partly(0, dims=dims)
    if whole:
        value = np.where(np.isnan(value[..., :1]), np.nan, np.nan_to_num(value))
    model = NRTSI(preset="tiny", steps=1, **params).fit(value)
    assert model.info()["network"].startswith(reason)
    filled = model.impute(value)
    assert np.isfinite(filled).all()


def test_the_paper_s_preset_has_the_paper_s_network():
    small = {"width": 8, "blocks": 1, "heads": 1, "head_size": 4, "feed_forward": 8}
    model = NRTSI(preset="paper", steps=1, model=small).fit(partly(0))
    assert isinstance(model.fitted_.engine.networks[0], RowNetwork)


def test_cells_reject_unsupported_parameters():
    with pytest.raises(InputError, match="network must be 'rows' for data of one column"):
        NRTSI(preset="tiny", steps=1, model={"network": "cells"}).fit(partly(0, dims=1))
    with pytest.raises(ValueError, match="encode_targets must be True for the network 'cells'"):
        ModelConfig(network="cells", encode_targets=False)
    with pytest.raises(ValueError, match="per_level must be False for the network 'cells'"):
        ModelConfig(network="cells", per_level=True)


@pytest.mark.parametrize(("dims", "windows"), [(2, 42), (11, 7), (100, 4)])
def test_a_training_step_has_fewer_windows_of_many_cells(dims, windows):
    params = NRTSI(preset="base", steps=0).get_params()
    series = SeriesSet.stack(partly(0, dims=dims))
    assert resolve(params, series, CLOCK).plan().train.batch == windows


@pytest.mark.parametrize(("budget", "sizes"), [("1m", "small small"), ("1h", "base large")])
def test_budget_and_kind_of_gaps_select_the_size(budget, sizes):
    cells = partly(0, dims=3)
    rows = np.where(np.isnan(cells).any(axis=-1, keepdims=True), np.nan, cells)
    chosen = [
        resolve(NRTSI(budget=budget).get_params(), SeriesSet.stack(each), CLOCK).preset
        for each in (cells, rows)
    ]
    assert " ".join(chosen) == sizes


def test_a_resumed_training_ends_with_the_same_weights(tmp_path):
    value, path = partly(0), tmp_path / "run.checkpoint"
    params = {"preset": "tiny", "train": {"validate_every": 2}}
    whole = NRTSI(steps=6, **params).fit(value)

    def stop(event):
        if event.step == 4:
            raise KeyboardInterrupt

    NRTSI(steps=6, **params).fit(value, checkpoint=path, listener=stop)
    resumed = NRTSI(steps=6, **params).fit(value, checkpoint=path, resume=True)
    np.testing.assert_array_equal(resumed.impute(value), whole.impute(value))


@pytest.mark.slow
def test_cells_learn_correlated_channels():
    rng = np.random.default_rng(0)
    first = np.cumsum(rng.normal(size=(40, 64)), axis=1)
    value = np.stack([first, 1 - first], axis=-1)
    hidden = rng.random(value.shape) < 0.4
    hidden[..., 1] &= ~hidden[..., 0]
    model = NRTSI(preset="tiny", steps=400, seed=1, mask="points").fit(value)
    filled = model.impute(np.where(hidden, np.nan, value))
    linear = NRTSI(preset="tiny", steps=0).fit(value).impute(np.where(hidden, np.nan, value))
    ours, theirs = (np.square(x - value)[hidden].mean() for x in (filled, linear))
    assert ours < 0.5 * theirs
