"""The network of cells: what must not matter to it, what it is shown, and when it is chosen."""

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
from nrtsi.network.cells import MANY, CellNetwork
from nrtsi.network.registry import network_of, windows_of
from nrtsi.network.rows import RowNetwork
from nrtsi.network.tokens import StepContext, TokenLayout, Tokens, tokens
from nrtsi.schedule.plan import plan
from nrtsi.schedule.windows import windows
from nrtsi.tables import Clock
from nrtsi.training.settings import resolve
from tests.strategies import seeds, some_series, widened

TINY = PRESETS["tiny"].cells
VARIANTS = {
    "base": {},
    "point": {"head": "point"},
    "absolute": {"relative": False, "neighbours": False},
    "values": {"residual": False, "normalise": False},
}

CLOCK = Clock("number", 0, 1.0)


def network(config, layout):
    """A network whose output is not zero, though it starts as interpolation."""
    torch.manual_seed(0)
    net = CellNetwork(config, layout).eval()
    torch.nn.init.normal_(net.head.mean.weight, std=0.3)
    return net


def engine(dims, *, together=4.0, order="local", max_level=60):
    layout = TokenLayout(dims, partial=True, levels=4)
    schedule = ScheduleConfig(order=order, max_level=max_level, together=together)
    return Engine([network(TINY, layout)], TINY, layout, schedule)


def question(series, config, layout):
    """The windows of the last step, in double precision; None where nothing is missing."""
    step = next(iter(plan(series, ScheduleConfig(order="all", together=0.0))), None)
    if step is None:
        return None
    parts = windows_of(step, series.start, config)
    context = StepContext.of(series, step.rows, step.distance, layout)
    made = tokens(context, parts.pad(np.arange(parts.count)), layout, config)
    return made.map(lambda t: t.double() if t.is_floating_point() else t)


def partly(seed, rows=60, dims=3, rate=0.4):
    rng = np.random.default_rng(seed)
    value = np.cumsum(rng.normal(size=(2, rows, dims)), axis=1)
    return np.where(rng.random(value.shape) < rate, np.nan, value)


@pytest.mark.parametrize("variant", VARIANTS)
@given(seed=seeds)
@settings(max_examples=8)
def test_padding_and_the_order_of_the_rows_change_nothing(variant, seed):
    config = TINY.model_copy(update=VARIANTS[variant])
    series = some_series(seed, some_data=True)
    layout = TokenLayout(series.dims, partial=True, periods=(7.0,))
    made = question(series, config, layout)
    if made is None:
        return
    net = network(config, layout).double()
    rng = np.random.default_rng(seed)
    size, targets = made.feature.shape[1] + 5, made.base.shape[1]
    known, own = rng.permutation(made.n_known + 2), rng.permutation(targets + 3)
    order = np.concatenate([known, made.n_known + 2 + own])
    wide = widened(made, 2, 3)
    moved = wide.resized(wide.n_known, lambda t: t[:, order], lambda t: t[:, own])
    assert order.size == size
    back = np.argsort(own)[:targets]
    seen = made.valid[:, made.n_known :]
    changed = net(moved).mean[:, back][seen]
    torch.testing.assert_close(changed, net(made).mean[seen], atol=1e-8, rtol=1e-6)


@given(seeds)
@settings(max_examples=10)
def test_channels_in_another_order_with_their_identities_give_the_same_answers(seed):
    series = some_series(seed, some_data=True)
    layout = TokenLayout(series.dims, partial=True)
    order = np.random.default_rng(seed).permutation(series.dims)
    other = SeriesSet(series.time, series.value[:, order], series.observed[:, order], series.start)
    made, moved = question(series, TINY, layout), question(other, TINY, layout)
    if made is None:
        return
    net, changed = network(TINY, layout).double(), network(TINY, layout).double()
    with torch.no_grad():
        changed.identity.copy_(net.identity[order])
    torch.testing.assert_close(changed(moved).mean, net(made).mean[..., order])


@given(seeds, st.sampled_from([None, 0.0, 4.0]), st.sampled_from(["local", "all", "smallest"]))
@settings(max_examples=25)
def test_nothing_is_missing_afterwards_and_observed_cells_are_untouched(seed, together, order):
    series = some_series(seed)
    made = engine(series.dims, together=together, order=order)
    for draw in (None, noise(series, seed, 0)):
        filled = made.fill(series, draw=draw)
        assert np.isfinite(filled).all()
        np.testing.assert_array_equal(filled[series.observed], series.value[series.observed])


@given(seeds)
@settings(max_examples=10)
def test_a_series_alone_is_filled_as_in_a_set_and_memory_changes_nothing(seed):
    series = some_series(seed)
    made = engine(series.dims)
    together = made.fill(series)
    for i in range(series.series):
        alone = made.fill(series.select(np.array([i])))
        own = slice(series.start[i], series.start[i + 1])
        np.testing.assert_allclose(together[own], alone, rtol=2e-4, atol=2e-4)
    tight = Engine(made.networks, made.model, made.layout, made.schedule, memory=5_000)
    np.testing.assert_allclose(tight.fill(series), together, rtol=2e-4, atol=2e-4)


def test_an_untrained_network_is_linear_interpolation():
    series, layout = some_series(8, some_data=True), TokenLayout(2, partial=True)
    layout = TokenLayout(series.dims, partial=True)
    made = question(series, TINY, layout)
    torch.testing.assert_close(CellNetwork(TINY, layout).double()(made).mean, made.base)


def test_a_known_cell_of_a_row_that_is_asked_for_is_read_by_other_rows():
    series = SeriesSet.stack(partly(1))
    layout = TokenLayout(series.dims, partial=True)
    made = question(series, TINY, layout)
    net = network(TINY, layout).double()
    feature = made.feature.clone().requires_grad_()
    changed = replace(made, feature=feature)
    net(changed).mean[0, 0].sum().backward()
    read = feature.grad[0].abs().sum(dim=-1) > 0
    assert torch.equal(read, made.valid[0])


@given(seeds)
@settings(max_examples=10)
def test_what_is_read_sums_to_one_over_the_rows_that_may_be_read(seed):
    series = some_series(seed, some_data=True)
    layout = TokenLayout(series.dims, partial=True)
    made = question(series, TINY, layout)
    if made is None:
        return
    net = network(TINY, layout).double()
    seen, may = made.valid[:, made.n_known :], net.attention_mask(made)
    for weight in net.attention_weights(made):
        shown = torch.where(may.unsqueeze(1), weight, 0.0).sum(-1).transpose(1, 2)[seen]
        torch.testing.assert_close(shown, torch.ones_like(shown))


# What a window holds ----------------------------------------------------------------------------


def some_shared_rows(seed):
    rng = np.random.default_rng(seed)
    start = np.concatenate([[0], np.cumsum(rng.integers(1, 60, rng.integers(1, 5)))])
    known = rng.random(start[-1]) < rng.random()
    asked = rng.random(start[-1]) < rng.random()
    asked[rng.integers(start[-1])] = True
    level = rng.integers(0, 2, asked.sum())
    return np.flatnonzero(known), np.flatnonzero(asked), level, start


@given(seeds, st.sampled_from([4, 8, 16, None]))
def test_targets_that_are_known_rows_too_stand_in_their_own_window_once(seed, size):
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
            assert size is None or len(known) <= size
            assert size is None or len(own) <= size
            low = start[np.searchsorted(start, own[0], side="right") - 1]
            high = start[np.searchsorted(start, own[0], side="right")]
            there = sources[(sources >= low) & (sources < high)]
            held = np.array(known + [row for row in own if row in set(sources.tolist())])
            assert held.size == (there.size if size is None else min(there.size, size))
            for target in own:
                for side in (np.less, np.greater):
                    wanted = there.size if size is None else size // 4
                    available = int(side(there, target).sum())
                    assert side(held, target).sum() >= min(available, wanted)
    assert sorted(owned) == targets.tolist()


@given(seeds, st.sampled_from([0.0, 4.0]), st.sampled_from(["widest", "local", "midpoints"]))
def test_what_is_near_goes_together_in_the_end_and_the_rest_coarse_to_fine(seed, near, order):
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
def test_rows_that_are_partly_known_are_of_the_finest_level(seed, together):
    series = some_series(seed)
    for step in plan(series, ScheduleConfig(together=together)):
        parts = windows_of(step, series.start, TINY)
        level = dict(zip(parts.targets, np.repeat(parts.level, parts.target_count), strict=True))
        for row, own in zip(step.rows, step.level, strict=True):
            assert level[row] == (0 if step.known[row] else own)


def test_a_gap_of_all_channels_beside_scattered_cells_is_not_filled_in_one_step():
    value = partly(3, rows=400)
    value[:, 100:300] = np.nan
    series = SeriesSet.stack(value)
    config = ScheduleConfig(order="midpoints", together=4.0, max_level=10)
    sizes = [step.rows.size for step in plan(series, config)]
    assert 4 <= len(sizes) <= 8
    assert sizes[0] <= 4
    assert np.isfinite(engine(3, order="midpoints").fill(series)).all()


# Many channels ----------------------------------------------------------------------------------


def test_many_channels_are_read_by_way_of_summaries_in_linear_time():
    seconds = []
    for dims in (100, 400):
        layout = TokenLayout(dims, partial=True)
        net = network(TINY, layout)
        made = Tokens(
            feature=torch.randn(2, 16, layout.channels(TINY)),
            time=torch.arange(16.0).expand(2, -1),
            valid=torch.ones(2, 16, dtype=torch.bool),
            base=torch.zeros(2, 8, dims),
            base_predictions=torch.zeros(2, 8, 0, dims),
            distance_bin=torch.zeros(2, 8, 1, dtype=torch.int64),
            level=torch.zeros(2, dtype=torch.int64),
            n_known=8,
        )
        with torch.inference_mode():
            times = []
            for _ in range(5):
                began = time.perf_counter()
                assert torch.isfinite(net(made).mean).all()
                times.append(time.perf_counter() - began)
        seconds.append(min(times))
    assert seconds[1] < 12 * seconds[0]  # four times the channels; sixteen times would be squared


def test_up_to_so_many_channels_read_each_other_one_by_one():
    few, many = (network_of(TINY, TokenLayout(dims, partial=True)) for dims in (MANY, MANY + 1))
    assert not hasattr(few.blocks[0].over_channels, "ask")
    assert many.blocks[0].over_channels.ask.shape[2] == 16


# When it is chosen ------------------------------------------------------------------------------


def test_partly_observed_rows_choose_cells_and_the_model_says_so(tmp_path):
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
    ("words", "dims", "whole", "reason"),
    [
        ({}, 1, False, "rows: one column"),
        ({}, 3, True, "rows: rows are complete or missing as a whole"),
        ({"model": {"network": "rows"}}, 3, False, "rows: as asked for"),
        ({"model": {"network": "cells"}, "setting": "regular"}, 3, True, "cells: "),
        ({"setting": "all"}, 3, False, "cells: rows may be partly observed"),
        ({"setting": "stochastic"}, 3, False, "cells: rows may be partly observed"),
    ],
)
def test_the_data_and_the_caller_s_words_decide_the_network(words, dims, whole, reason):
    value = partly(0, dims=dims)
    if whole:
        value = np.where(np.isnan(value[..., :1]), np.nan, np.nan_to_num(value))
    model = NRTSI(preset="tiny", steps=1, **words).fit(value)
    assert model.info()["network"].startswith(reason)
    filled = model.impute(value)
    assert np.isfinite(filled).all()


def test_the_paper_s_preset_has_the_paper_s_network():
    small = {"width": 8, "blocks": 1, "heads": 1, "head_size": 4, "feed_forward": 8}
    model = NRTSI(preset="paper", steps=1, model=small).fit(partly(0))
    assert isinstance(model.fitted_.engine.networks[0], RowNetwork)


def test_cells_refuse_what_they_cannot_do():
    with pytest.raises(InputError, match="network must be 'rows' for data of one column"):
        NRTSI(preset="tiny", steps=1, model={"network": "cells"}).fit(partly(0, dims=1))
    with pytest.raises(ValueError, match="encode_targets must be True for the network 'cells'"):
        ModelConfig(network="cells", encode_targets=False)
    with pytest.raises(ValueError, match="per_level must be False for the network 'cells'"):
        ModelConfig(network="cells", per_level=True)


@pytest.mark.parametrize(("dims", "windows"), [(2, 42), (11, 7), (100, 4)])
def test_windows_of_many_cells_are_fewer_in_a_step(dims, windows):
    words = NRTSI(preset="base", steps=0).get_params()
    series = SeriesSet.stack(partly(0, dims=dims))
    course, _, _ = resolve(words, series, CLOCK)
    assert course.train.batch == windows


@pytest.mark.parametrize(("budget", "sizes"), [("1m", "small small"), ("1h", "base large")])
def test_the_budget_chooses_the_size_by_the_kind_of_gaps(budget, sizes):
    cells = partly(0, dims=3)
    rows = np.where(np.isnan(cells).any(axis=-1, keepdims=True), np.nan, cells)
    chosen = [
        resolve(NRTSI(budget=budget).get_params(), SeriesSet.stack(each), CLOCK)[2]
        for each in (cells, rows)
    ]
    assert " ".join(chosen) == sizes


def test_a_training_cut_short_goes_on_to_the_same_weights(tmp_path):
    value, path = partly(0), tmp_path / "run.checkpoint"
    words = {"preset": "tiny", "train": {"validate_every": 2}}
    whole = NRTSI(steps=6, **words).fit(value)

    def stop(event):
        if event.step == 4:
            raise KeyboardInterrupt

    NRTSI(steps=6, **words).fit(value, checkpoint=path, listener=stop)
    resumed = NRTSI(steps=6, **words).fit(value, checkpoint=path, resume=True)
    np.testing.assert_array_equal(resumed.impute(value), whole.impute(value))


@pytest.mark.slow
def test_cells_learn_what_interpolation_cannot_know():
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
