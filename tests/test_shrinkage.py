"""Shrinkage: corrections are made as far as they lower the error on validation cells."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings

from nrtsi import NRTSI
from nrtsi.config import ScheduleConfig, ShrinkageConfig
from nrtsi.core.interpolation import interpolate
from nrtsi.core.prediction import Prediction
from nrtsi.core.series import SeriesSet
from nrtsi.inference import Engine
from nrtsi.network.registry import network_of
from nrtsi.training.blending import best_share, fit_shrinkage, shrink_end_to_end
from tests.strategies import seeds
from tests.test_training import sampler

DEFAULT = ShrinkageConfig()
UNSHRUNK = ShrinkageConfig(prior_cells=1e-9, max_scale_factor=1e9)


def random_network(windows, seed):
    """A network with random corrections."""
    torch.manual_seed(seed)
    network = network_of(windows.plan.model, windows.plan.layout)
    torch.nn.init.normal_(network.head.mean.weight)
    return network


def errors(network, batch):
    """Corrections, targets and standard deviations."""
    with torch.inference_mode():
        prediction = network(batch.tokens)
    scale = prediction.sample(torch.ones_like(prediction.mean)) - prediction.mean
    return (
        prediction.mean - batch.tokens.interpolation,
        batch.truth - batch.tokens.interpolation,
        scale,
    )


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_neither_all_nor_none_of_the_corrections_has_a_lower_error(seed):
    windows = sampler(seed, partial=False)
    batch = windows.draw(0, 64)
    assume(batch is not None)
    network = random_network(windows, seed % 1000)
    correction, target, _ = errors(network, batch)
    fit_shrinkage(network, batch, 16, UNSHRUNK)
    for level in torch.unique(batch.tokens.distance_bin):
        for channel in range(windows.plan.layout.dims):
            own = (batch.tokens.distance_bin == level)[..., 0] & batch.counts[..., channel]
            one, other = correction[..., channel][own], target[..., channel][own]

            def error(share, one=one, other=other):
                return ((other - share * one) ** 2).sum()

            best = min(error(0.0), error(1.0))
            assert error(network.shrinkage[level, channel]) <= best * (1 + 1e-4) + 1e-6


def test_standard_deviations_match_the_remaining_errors():
    windows = sampler(5, partial=False)
    batch = windows.draw(0, 64)
    network = random_network(windows, 0)
    fit_shrinkage(network, batch, 7, UNSHRUNK)
    correction, target, std = errors(network, batch)
    for level in torch.unique(batch.tokens.distance_bin):
        own = (batch.tokens.distance_bin == level) & batch.counts
        standard = torch.where(own, ((target - correction) / std).square(), 0.0).sum(dim=(0, 1))
        torch.testing.assert_close(standard, own.sum(dim=(0, 1)).float(), rtol=1e-3, atol=1e-3)


def test_a_level_without_cells_is_shrunk_as_the_others_are():
    windows = sampler(5, partial=False)
    batch = windows.draw(0, 64)
    network = random_network(windows, 0)
    fit_shrinkage(network, batch, 64, DEFAULT)
    seen = torch.unique(batch.tokens.distance_bin[batch.counts.any(dim=-1)])
    unseen = [level for level in range(network.shrinkage.shape[0]) if level not in seen]
    assert unseen
    low, high = network.shrinkage[seen].min(), network.shrinkage[seen].max()
    for level in unseen:
        assert (network.shrinkage[level] >= low - 1e-6).all()
        assert (network.shrinkage[level] <= high + 1e-6).all()


@pytest.mark.parametrize("steps", [5, 40])
def test_a_short_training_is_no_worse_than_interpolation(steps):
    """Smooth channels beside a noisy one: corrections of the noise must not harm the others."""
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


def test_random_walks_are_imputed_close_to_linear_interpolation():
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
    """Adds a fixed correction to linear interpolation, as far as its network is shrunk."""

    correction: np.ndarray | None = None

    def predict(self, series, **_):
        share = float(self.networks[0].shrinkage.mean())
        imputed = interpolate(series) + share * self.correction
        return Prediction(np.where(series.observed, series.value, imputed), 0 * imputed)


@pytest.mark.parametrize(
    ("times", "share"), [(1.25, 1.0), (0.5, 1.0), (2.5, 0.5), (0.0, 1.0), (-1.0, 0.0)]
)
def test_corrections_that_harm_whole_imputations_are_shrunk(times, share):
    rng = np.random.default_rng(0)
    truth = SeriesSet.stack(rng.standard_normal((4, 50, 2)))
    gappy = truth.hide(rng.random(truth.value.shape) < 0.5)
    windows = sampler(5, partial=True)
    network = network_of(windows.plan.model, windows.plan.layout)
    torch.nn.init.constant_(network.shrinkage, 0.8)
    correction = times * (truth.value - interpolate(gappy))
    sizes = windows.plan.model, windows.plan.layout, ScheduleConfig()
    engine = Adding([network, network], *sizes, correction=correction)
    shrink_end_to_end(engine, truth, gappy)
    np.testing.assert_allclose(network.shrinkage.numpy(), 0.8 * share, atol=1e-6)


def test_one_segment_does_not_decide_on_the_share():
    rng = np.random.default_rng(0)
    segment = np.repeat(np.arange(40), 50)
    correction = rng.standard_normal(segment.size)
    noise = rng.standard_normal(segment.size)
    assert 0.3 <= best_share(correction, 0.3 * correction + noise, segment) < 0.45
    burst = np.where(segment == 7, -100 * correction, correction)
    assert best_share(correction, burst, segment) > 0.0
    assert best_share(correction, -correction, segment) == 0.0
    assert best_share(correction, np.full_like(correction, np.nan), segment) == 1.0
