"""How far a network is shrunk: as far as its corrections lower the error on validation cells."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from nrtsi import NRTSI
from nrtsi.config import ScheduleConfig
from nrtsi.core.interpolation import interpolate
from nrtsi.core.series import SeriesSet
from nrtsi.inference import Engine
from nrtsi.network.registry import network_of
from nrtsi.training import shrinkage
from nrtsi.training.shrinkage import fit_shrinkage, shrink_end_to_end
from tests.strategies import seeds
from tests.test_training import some_questions


def guessing(questions, seed):
    """A network that corrects at random."""
    torch.manual_seed(seed)
    network = network_of(questions.model, questions.layout)
    torch.nn.init.normal_(network.head.mean.weight)
    return network


def errors(network, batch):
    """Errors of the counted cells, and their scales, of one level at a time."""
    with torch.inference_mode():
        prediction = network(batch.tokens)
    scale = prediction.draw(torch.ones_like(prediction.mean)) - prediction.mean
    return (
        prediction.mean - batch.tokens.interpolation,
        batch.truth - batch.tokens.interpolation,
        scale,
    )


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_neither_all_nor_none_of_the_corrections_leaves_less(seed):
    questions = some_questions(seed, partial=False)
    batch = questions.draw(0, 64)
    if batch is None:
        return
    network = guessing(questions, seed % 1000)
    made, wanted, _ = errors(network, batch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shrinkage, "FEW", 1e-9)
        fit_shrinkage(network, batch, 16)
    for level in torch.unique(batch.tokens.distance_bin):
        for channel in range(questions.layout.dims):
            own = (batch.tokens.distance_bin == level)[..., 0] & batch.counts[..., channel]
            one, other = made[..., channel][own], wanted[..., channel][own]

            def left(share, one=one, other=other):
                return ((other - share * one) ** 2).sum()

            best = min(left(0.0), left(1.0))
            assert left(network.shrinkage[level, channel]) <= best * (1 + 1e-4) + 1e-6


def test_scales_fit_what_is_left_over(monkeypatch):
    monkeypatch.setattr(shrinkage, "FEW", 1e-9)
    monkeypatch.setattr(shrinkage, "WIDEST", 1e9)
    questions = some_questions(5, partial=False)
    batch = questions.draw(0, 64)
    network = guessing(questions, 0)
    fit_shrinkage(network, batch, 7)
    made, wanted, scale = errors(network, batch)
    for level in torch.unique(batch.tokens.distance_bin):
        own = (batch.tokens.distance_bin == level) & batch.counts
        standard = torch.where(own, ((wanted - made) / scale).square(), 0.0).sum(dim=(0, 1))
        torch.testing.assert_close(standard, own.sum(dim=(0, 1)).float(), rtol=1e-3, atol=1e-3)


def test_a_level_that_was_never_seen_is_trusted_as_the_others_are():
    questions = some_questions(5, partial=False)
    batch = questions.draw(0, 64)
    network = guessing(questions, 0)
    fit_shrinkage(network, batch, 64)
    seen = torch.unique(batch.tokens.distance_bin[batch.counts.any(dim=-1)])
    unseen = [level for level in range(network.shrinkage.shape[0]) if level not in seen]
    assert unseen
    low, high = network.shrinkage[seen].min(), network.shrinkage[seen].max()
    for level in unseen:
        assert (network.shrinkage[level] >= low - 1e-6).all()
        assert (network.shrinkage[level] <= high + 1e-6).all()


@pytest.mark.parametrize("steps", [5, 40])
def test_what_is_learnt_in_no_time_is_no_worse_than_interpolation(steps):
    """Smooth channels beside a noisy one: what helps the noise must not spoil the others."""
    rng = np.random.default_rng(0)
    wave = np.sin(np.arange(1500) / 20)
    truth = np.stack([wave, 1 - wave, rng.standard_normal(1500)], axis=1)
    hidden = rng.random(truth.shape) < 0.2
    gappy = np.where(hidden, np.nan, truth)
    got, line = (
        NRTSI(preset="tiny", steps=n, seed=1).fit(gappy).impute(gappy) for n in (steps, 0)
    )
    for channel in range(3):
        own = hidden[:, channel]
        ours, theirs = (np.mean((x - truth)[own, channel] ** 2) for x in (got, line))
        assert ours <= 1.1 * theirs + 1e-3


def test_a_small_table_with_nothing_to_learn_comes_out_close_to_interpolation():
    """Random walks of 50 rows: interpolation is the best there is."""
    ratio = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth = rng.standard_normal((50, 3)).cumsum(axis=0)
        hidden = rng.random(truth.shape) < 0.25
        gappy = np.where(hidden, np.nan, truth)
        got, line = (
            NRTSI(preset="tiny", steps=n, seed=seed).fit(gappy).impute(gappy) for n in (100, 0)
        )
        ratio.append([np.mean((x - truth)[hidden] ** 2) for x in (got, line)])
    ours, theirs = np.mean(ratio, axis=0)
    assert ours <= 1.1 * theirs


@dataclass(frozen=True)
class Adding(Engine):
    """Corrects straight lines by what it is told, as far as its network is shrunk."""

    made: np.ndarray | None = None

    def fill(self, series, **_):
        shrinkage = float(self.networks[0].shrinkage.mean())
        return np.where(series.observed, series.value, interpolate(series) + shrinkage * self.made)


@pytest.mark.parametrize(
    ("times", "share"), [(1.25, 1.0), (0.5, 1.0), (2.5, 0.5), (0.0, 1.0), (-1.0, 0.0)]
)
def test_whole_fillings_take_back_what_does_them_harm(times, share):
    rng = np.random.default_rng(0)
    truth = SeriesSet.stack(rng.standard_normal((4, 50, 2)))
    gappy = truth.hide(rng.random(truth.value.shape) < 0.5)
    questions = some_questions(5, partial=True)
    network = network_of(questions.model, questions.layout)
    torch.nn.init.constant_(network.shrinkage, 0.8)
    made = times * (truth.value - interpolate(gappy))
    sizes = questions.model, questions.layout, ScheduleConfig()
    shrink_end_to_end(Adding([network, network], *sizes, made=made), truth, gappy)
    np.testing.assert_allclose(network.shrinkage.numpy(), 0.8 * share, atol=1e-6)


def test_one_burst_does_not_decide_on_whole_fillings():
    rng = np.random.default_rng(0)
    stretch = np.repeat(np.arange(40), 50)
    made = rng.standard_normal(stretch.size)
    noise = rng.standard_normal(stretch.size)
    few = shrinkage._kept(made, 0.3 * made + noise, stretch)
    assert 0.3 <= few < 0.45  # within some errors of what is right
    burst = np.where(stretch == 7, -100 * made, made)
    assert shrinkage._kept(made, burst, stretch) > shrinkage._kept(made, -made, stretch) == 0.0
    assert shrinkage._kept(made, np.full_like(made, np.nan), stretch) == 1.0
