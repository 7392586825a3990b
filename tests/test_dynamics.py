"""TransitionModel: rows carried on and back, how that is learnt, and when it is kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.config import TrainConfig
from nrtsi.core.interpolation import interpolate
from nrtsi.core.series import SeriesSet
from nrtsi.imputer.functions import load
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.predictors.dynamics import REACH, TransitionModel, next_rows
from nrtsi.training import dynamics as flows
from nrtsi.training.dynamics import TransitionTrainer, _Runs
from nrtsi.training.sampler import Segments
from tests.strategies import seeds, some_series

TURN = np.deg2rad(20)
ROTATION = torch.tensor(
    [[np.cos(TURN), -np.sin(TURN)], [np.sin(TURN), np.cos(TURN)]], dtype=torch.float32
)


class Turning(torch.nn.Module):
    """The change in a step of a row that turns about the origin."""

    def __init__(self, matrix):
        super().__init__()
        self.matrix = matrix

    def forward(self, row):
        return row @ (self.matrix - torch.eye(2)).T


def turning(error_on=1.0, error_back=1.0):
    """A flow that knows how things turn."""
    flow = TransitionModel(dims=2)
    flow.ways = torch.nn.ModuleList([Turning(ROTATION), Turning(ROTATION.T)])
    flow.error[0], flow.error[1] = error_on, error_back
    return flow


def turns(count, length, seed=0):
    """Points on circles, one step after the other."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, (count, 1)) + TURN * np.arange(length)
    radius = rng.uniform(0.5, 2.0, (count, 1))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)


# Carrying ----------------------------------------------------------------------------------------


@given(seed=seeds, share=st.floats(0.05, 0.9))
@settings(max_examples=30, deadline=None)
def test_a_flow_that_is_right_fills_every_gap_exactly(seed, share):
    truth = turns(3, 40, seed)
    rng = np.random.default_rng(seed)
    known = rng.random(truth.shape[:2]) < share
    known[:, rng.integers(40)] = True
    series = SeriesSet.stack(np.where(known[..., None], truth, np.nan))
    carried = turning().carry(series)
    assert carried.there.all()
    np.testing.assert_allclose(carried.value, truth.reshape(-1, 2), atol=1e-4)
    np.testing.assert_allclose(carried.apart, 0.0, atol=1e-4)


def test_the_surer_side_counts_more_and_one_side_alone_for_all():
    value = np.full((1, 5, 2), np.nan)
    value[0, 1], value[0, 4] = [1.0, 0.0], [0.0, 0.0]  # from behind, all is 0
    on = turning(error_on=1.0, error_back=3.0).carry(SeriesSet.stack(value))
    step = ROTATION @ torch.tensor([1.0, 0.0])
    np.testing.assert_allclose(on.value[2], 0.75 * step.numpy(), atol=1e-6)
    np.testing.assert_allclose(on.apart[2], step.numpy(), atol=1e-6)
    back = (ROTATION.T @ torch.tensor([1.0, 0.0])).numpy()
    np.testing.assert_allclose(on.value[0], back, atol=1e-6)
    np.testing.assert_array_equal(on.apart[0], 0.0)


@given(seeds)
@settings(deadline=None)
def test_what_is_known_stays_and_what_is_out_of_reach_is_interpolated(seed):
    series = some_series(seed, regular=True)
    flow = TransitionModel(series.dims)
    flow.error[:] = 1.0
    carried = flow.carry(series)
    line = interpolate(series)
    np.testing.assert_array_equal(carried.value[~carried.there], line[~carried.there])
    complete = series.observed.all(axis=1)
    np.testing.assert_array_equal(carried.value[complete], series.value[complete])
    assert carried.there[complete].all()
    has = np.array([complete[series.owner == own].any() for own in series.owner], dtype=bool)
    assert (carried.there == has).all()


@given(seeds)
@settings(deadline=None)
def test_series_are_carried_each_by_itself(seed):
    series = some_series(seed, regular=True)
    flow = TransitionModel(series.dims)
    flow.error[:] = 1.0
    flow.lowest[:], flow.highest[:] = -3.0, 3.0
    torch.manual_seed(0)
    for way in flow.ways:
        torch.nn.init.normal_(way.project.weight, std=0.1)
    together = flow.carry(series).value
    alone = [flow.carry(series.select(np.array([i]))).value for i in range(series.series)]
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=1e-4, atol=1e-4)


def test_rows_off_the_grid_and_beyond_the_reach_are_left_to_interpolation():
    time = np.array([0.0, 1.0, 1.5, REACH, REACH + 1.0])
    observed = np.array([[True], [False], [False], [False], [False]])
    value = np.where(observed, 1.0, 0.0)
    series = SeriesSet(time, value, observed, np.array([0, 5]))
    flow = TransitionModel(1)
    flow.error[:] = 1.0
    assert flow.carry(series).there.tolist() == [True, True, False, True, False]


def test_carried_rows_stay_near_what_has_been():
    flow = TransitionModel(2)
    rows = torch.tensor([[0.0, -1.0], [1.0, 1.0]])
    flow.settle(rows, rows)
    flow.error[:] = 1.0
    for way in flow.ways:
        way.project.bias.data.fill_(100.0)
    value = np.full((1, 3, 2), np.nan)
    value[0, 0] = 0.5
    carried = flow.carry(SeriesSet.stack(value)).value
    np.testing.assert_allclose(carried[1:], [[1.1, 1.2]] * 2, atol=1e-6)


def test_rows_unlike_all_that_has_been_are_left_to_interpolation():
    flow = turning()
    flow.lowest[:], flow.highest[:] = -3.0, 3.0
    value = np.full((1, 5, 2), np.nan)
    value[0, 0], value[0, 4] = [9.0, 0.0], [1.0, 1.0]  # a shift of the first that was never seen
    carried = flow.carry(SeriesSet.stack(value))
    np.testing.assert_array_equal(carried.apart, 0.0)
    back = np.array([1.0, 1.0]) @ np.linalg.matrix_power(ROTATION.numpy(), 2)
    np.testing.assert_allclose(carried.value[2], back, atol=1e-5)
    value[0, 4] = np.nan
    assert flow.carry(SeriesSet.stack(value)).there.tolist() == [True, *[False] * 4]


def test_a_channel_that_never_changed_does_not_drown_the_others_when_it_does():
    flow = TransitionModel(2)
    flow.error[:] = 1.0
    rows = torch.stack([torch.linspace(-1, 1, 50), torch.full((50,), 0.5)], dim=1)
    flow.settle(rows, rows)
    flow.lowest[1], flow.highest[1] = 0.0, 1.0
    torch.manual_seed(0)
    for way in flow.ways:
        torch.nn.init.normal_(way.project.weight, std=0.1)
    row = torch.tensor([[0.2, 0.5], [0.2, 0.51]])
    usual, changed = flow.step(row, back=False).detach()
    torch.testing.assert_close(usual[0], changed[0], atol=0.05, rtol=0)


# Learning ----------------------------------------------------------------------------------------


@given(seeds)
@settings(deadline=None)
def test_how_far_one_can_go_is_what_counting_says(seed):
    series = some_series(seed, regular=bool(seed % 2))
    rng = np.random.default_rng(seed)
    whole = Segments.whole(series)
    spans = whole if seed % 3 else whole.draw(1, rng, longest=5)
    runs = _Runs.of(series, spans)
    follows = next_rows(series)
    inside = np.zeros(series.rows, dtype=bool)
    for begin, end in zip(spans.begin, spans.end, strict=True):
        inside[begin : end - 1] = True
    for row in range(series.rows):
        ahead = row
        while follows[ahead] and inside[ahead]:
            ahead += 1
        assert runs.ahead[row] == ahead - row
        behind = row
        while behind > 0 and follows[behind - 1] and inside[behind - 1]:
            behind -= 1
        assert runs.behind[row] == row - behind


def test_it_learns_to_go_on_and_measures_how_well(monkeypatch):
    monkeypatch.setattr(flows, "ROWS", 1024)
    series = SeriesSet.stack(turns(150, 20))
    material = series, Segments.whole(series)
    apprentice = TransitionTrainer.of(material, material, TrainConfig(), seed=0)
    before = apprentice.measured().error.clone()
    for step in range(150):
        apprentice.advance(step / 150)
    after = apprentice.measured().error
    assert (after[:, :16] < before[:, :16] / 100).all()
    # No series is longer than 19 steps; twice as far errors are taken to grow as the steps do.
    torch.testing.assert_close(after[:, 37], 2 * after[:, 18])
    assert after[:, 38:].isinf().all()


def test_too_few_rows_in_a_row_teach_nothing():
    series = SeriesSet.stack(turns(120, 50))
    lonely = replace(series, observed=series.observed & (np.arange(series.rows) % 2 == 0)[:, None])
    for each in (lonely, series.select(np.arange(40))):
        material = each, Segments.whole(each)
        assert TransitionTrainer.of(material, material, TrainConfig(), seed=0) is None


# As a part of the model --------------------------------------------------------------------------


def lorenz(rows, seed=0):
    """A path whose every row decides the next, and that never comes back to where it was."""
    row = np.random.default_rng(seed).normal(size=3) + np.array([0, 0, 25])
    path = []
    for step in range(10 * rows + 1000):
        x, y, z = row
        row = row + 0.004 * np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])
        if step >= 1000 and step % 10 == 0:
            path.append(row)
    return np.array(path)


def model(steps=100, **words):
    """A small one, for whole rows that are mostly missing."""
    return NRTSI(
        steps=steps,
        preset="tiny",
        seed=0,
        unit=1.0,
        setting="regular",
        mask="points",
        train={"hidden": (0.7, 0.9)},
        **words,
    )


@pytest.fixture
def quick(monkeypatch):
    """Fewer rows a step, carried less far."""
    monkeypatch.setattr(flows, "ROWS", 512)
    monkeypatch.setattr(flows, "LONGEST", 4)


@pytest.fixture(scope="module")
def attractor():
    """The path that is learnt from, made once."""
    return lorenz(4000)


def gappy(rows=400):
    truth = lorenz(rows, seed=5)
    known = np.random.default_rng(0).random(rows) < 0.2
    return truth, known, np.where(known[:, None], truth, np.nan)


@pytest.mark.usefixtures("quick")
def test_a_path_that_goes_on_by_itself_is_filled_far_better(attractor, tmp_path):
    truth, known, gaps = gappy()
    with_flow = model().fit(attractor)
    about = with_flow.info()
    assert about["carried"].startswith("rows carried up to ")
    assert about["network"] == "near: rows go on by themselves"
    without = model(model={"flow": False}).fit(attractor)
    assert without.info()["carried"] == "nothing"
    filled = with_flow.impute(gaps)

    def error(values):
        return np.square(values - truth)[~known].mean()

    assert error(filled) < error(without.impute(gaps)) / 5
    np.testing.assert_array_equal(filled[known], truth[known])
    with_flow.save(tmp_path / "model.nrtsi")
    np.testing.assert_array_equal(load(tmp_path / "model.nrtsi").impute(gaps), filled)


@pytest.mark.usefixtures("quick")
def test_a_network_that_is_named_is_taken(attractor):
    about = model(model={"network": "rows"}).fit(attractor).info()
    assert about["network"].startswith("rows: ")
    assert about["carried"].startswith("rows carried up to ")
    named = model(steps=2, model={"network": "pointwise"}).fit(attractor).info()
    assert named["network"] == "near: as asked for"


@pytest.mark.usefixtures("quick")
def test_a_run_that_was_stopped_goes_on_with_its_flow(attractor, tmp_path):
    panel = attractor[:3000]
    whole = model(steps=110).fit(panel, checkpoint=tmp_path / "whole")
    part = model(steps=110)

    def stop(event):
        if event.valid_loss is not None and event.step >= 50:
            raise KeyboardInterrupt

    part.fit(panel, checkpoint=tmp_path / "part", listener=stop)
    assert part.interrupted_
    again = model(steps=110).fit(panel, checkpoint=tmp_path / "part", resume=True)
    for mine, theirs in zip(
        whole.fitted_.engine.networks[0].parameters(),
        again.fitted_.engine.networks[0].parameters(),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
    _, _, gaps = gappy(100)
    np.testing.assert_array_equal(whole.impute(gaps), again.impute(gaps))


@pytest.mark.usefixtures("quick")
def test_a_random_walk_is_not_carried():
    walk = np.cumsum(np.random.default_rng(0).standard_normal((4000, 2)), axis=0)
    about = model().fit(walk).info()
    assert about["carried"] == "nothing"
    assert about["network"].startswith("rows: ")
