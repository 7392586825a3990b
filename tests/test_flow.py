"""Flow: rows carried on and back, how that is learnt, and when it is kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.config import TrainConfig
from nrtsi.imputer import NRTSI, load
from nrtsi.interpolation import interpolate
from nrtsi.model.flow import REACH, Flow, next_rows
from nrtsi.series import SeriesSet
from nrtsi.training.batches import Spans
from nrtsi.training.flows import Apprentice, _Runs
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
    flow = Flow(dims=2)
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
def test_a_flow_that_is_right_fills_every_hole_exactly(seed, share):
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
    flow = Flow(series.dims)
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
    flow = Flow(series.dims)
    flow.error[:] = 1.0
    flow.lowest[:], flow.highest[:] = -3.0, 3.0
    torch.manual_seed(0)
    for way in flow.ways:
        torch.nn.init.normal_(way.leave.weight, std=0.1)
    together = flow.carry(series).value
    alone = [flow.carry(series.select(np.array([i]))).value for i in range(series.series)]
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=1e-4, atol=1e-4)


def test_rows_off_the_grid_and_beyond_the_reach_are_left_to_interpolation():
    time = np.array([0.0, 1.0, 1.5, REACH, REACH + 1.0])
    observed = np.array([[True], [False], [False], [False], [False]])
    value = np.where(observed, 1.0, 0.0)
    series = SeriesSet(time, value, observed, np.array([0, 5]))
    flow = Flow(1)
    flow.error[:] = 1.0
    assert flow.carry(series).there.tolist() == [True, True, False, True, False]


def test_carried_rows_stay_near_what_has_been():
    flow = Flow(2)
    rows = torch.tensor([[0.0, -1.0], [1.0, 1.0]])
    flow.settle(rows, rows)
    flow.error[:] = 1.0
    for way in flow.ways:
        way.leave.bias.data.fill_(100.0)
    value = np.full((1, 3, 2), np.nan)
    value[0, 0] = 0.5
    carried = flow.carry(SeriesSet.stack(value)).value
    np.testing.assert_allclose(carried[1:], [[1.1, 1.2]] * 2, atol=1e-6)


# Learning ----------------------------------------------------------------------------------------


@given(seeds)
@settings(deadline=None)
def test_how_far_one_can_go_is_what_counting_says(seed):
    series = some_series(seed, regular=bool(seed % 2))
    rng = np.random.default_rng(seed)
    whole = Spans.whole(series)
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


def test_it_learns_to_go_on_and_measures_how_well():
    series = SeriesSet.stack(turns(120, 50))
    material = series, Spans.whole(series)
    torch.manual_seed(0)
    apprentice = Apprentice.of(material, material, TrainConfig(), seed=0)
    before = apprentice.measured().error.clone()
    for step in range(150):
        apprentice.advance(step / 150)
    after = apprentice.measured().error
    assert (after[:, :16] < before[:, :16] / 100).all()
    assert after[:, 48].isfinite().all()
    assert after[:, 50:].isinf().all()  # no series is that long


def test_too_few_rows_in_a_row_teach_nothing():
    series = SeriesSet.stack(turns(120, 50))
    lonely = replace(series, observed=series.observed & (np.arange(series.rows) % 2 == 0)[:, None])
    for each in (lonely, series.select(np.arange(50))):
        material = each, Spans.whole(each)
        assert Apprentice.of(material, material, TrainConfig(), seed=0) is None


# As a part of the model --------------------------------------------------------------------------


def bent(count=220, length=40, seed=0):
    """Paths that no straight line and no single distribution tells: a pendulum, far out."""
    rng = np.random.default_rng(seed)
    state = np.stack([rng.uniform(-2.5, 2.5, count), rng.uniform(-1, 1, count)], axis=-1)
    rows = []
    for _ in range(length):
        rows.append(state)
        for _ in range(10):
            speed = state[:, 1] - 0.05 * np.sin(state[:, 0])
            state = np.stack([state[:, 0] + 0.05 * speed, speed], axis=-1)
    return np.stack(rows, axis=1)


TINY = {"preset": "tiny", "seed": 0, "unit": 1.0, "setting": "regular"}


@pytest.fixture(scope="module")
def pendulums():
    """A model of them."""
    return NRTSI(steps=200, hide="points", train={"hidden": (0.7, 0.9)}, **TINY).fit(bent())


def gappy(seed=1):
    truth = bent(20, seed=seed)
    known = np.random.default_rng(seed).random(truth.shape[:2]) < 0.15
    known[:, 20] = True
    return truth, np.where(known[..., None], truth, np.nan)


def test_a_model_of_what_goes_on_by_itself_says_so(pendulums):
    assert pendulums.info()["carried"].startswith("rows carried up to 39 steps")


def test_noise_is_not_carried():
    noise = np.random.default_rng(0).standard_normal((220, 40, 2))
    assert NRTSI(steps=100, **TINY).fit(noise).info()["carried"] == "nothing"


def test_it_can_be_done_without():
    model = NRTSI(steps=100, model={"flow": False}, **TINY).fit(bent())
    assert model.info()["carried"] == "nothing"


def test_a_file_says_the_same(pendulums, tmp_path):
    _, holes = gappy()
    pendulums.save(tmp_path / "model.nrtsi")
    np.testing.assert_array_equal(
        load(tmp_path / "model.nrtsi").impute(holes), pendulums.impute(holes)
    )
