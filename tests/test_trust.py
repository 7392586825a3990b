"""How far corrections are trusted: as far as they lower the error on validation cells."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from nrtsi import NRTSI
from nrtsi.model.networks import network_of
from nrtsi.training import trust as module
from nrtsi.training.trust import trust_in
from tests.strategies import seeds
from tests.test_training import some_questions


def guessing(questions, seed):
    """A network that corrects at random."""
    torch.manual_seed(seed)
    network = network_of(questions.model, questions.layout)
    torch.nn.init.normal_(network.head.mean.weight)
    return network


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_no_other_share_of_the_corrections_leaves_less(seed):
    questions = some_questions(seed, partial=False)
    batch = questions.draw(0, 64)
    if batch is None:
        return
    network = guessing(questions, seed % 1000)
    with torch.inference_mode():
        made = network(batch.tokens).mean - batch.tokens.base
    trust = trust_in(network, batch, 16)
    assert trust.shape == network.spread.shape
    wanted = batch.truth - batch.tokens.base
    for level in torch.unique(batch.tokens.level):
        own = (batch.tokens.level == level)[:, None, None] & batch.counts

        def left(share, own=own):
            return ((wanted - share * made)[own] ** 2).sum()

        best = min(left(share) for share in torch.linspace(0, 1, 101))
        # With so few cells all channels of a level are one.
        assert (trust[level] == trust[level, 0]).all()
        assert left(trust[level, 0]) <= best * (1 + 1e-4) + 1e-6


def test_channels_with_enough_cells_are_told_apart(monkeypatch):
    monkeypatch.setattr(module, "ENOUGH", 1)
    questions = some_questions(5, partial=False)
    batch = questions.draw(0, 64)
    network = guessing(questions, 0)
    with torch.inference_mode():
        made = (network(batch.tokens).mean - batch.tokens.base) * batch.counts
    wanted = (batch.truth - batch.tokens.base) * batch.counts
    trust = trust_in(network, batch, 7)
    for level in torch.unique(batch.tokens.level):
        own = batch.tokens.level == level
        share = (made * wanted)[own].sum((0, 1)) / made[own].square().sum((0, 1))
        torch.testing.assert_close(trust[level], share.clamp(0, 1))


def test_an_untrained_network_is_interpolation_with_all_its_trust():
    model = NRTSI(preset="tiny", steps=0).fit(np.sin(np.arange(200.0))[:, None])
    assert (model.fitted_.engine.networks[0].trust == 1).all()


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
