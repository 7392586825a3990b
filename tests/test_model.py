"""Attention, heads and the network: who reads whom, and what must not matter."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd.functional import jacobian

from nrtsi.config import PRESETS, ModelConfig
from nrtsi.network.attention import SetAttention, attention_bias, rotate, turns
from nrtsi.network.heads import Gaussian, Point
from nrtsi.network.rows import RowNetwork
from nrtsi.network.time_encoding import calendar_encoding, time_encoding
from nrtsi.network.tokens import StepContext, TokenLayout, tokens
from nrtsi.schedule.windows import windows
from tests.strategies import seeds, some_series, widened

OBS, TARGETS, WIDTH = 4, 3, 8
SMALL = {"width": 8, "blocks": 2, "heads": 2, "head_size": 4, "feed_forward": 16}
VARIANTS = {
    "base": {},
    "paper": PRESETS["paper"].model.model_dump() | SMALL,
    "cross": {"encode_targets": False},
    "point": {"head": "point"},
    "absolute": {"relative": False, "neighbours": False},
    "values": {"residual": False},
}


def network(config, layout, seed=0):
    """A network whose output is not zero, though it starts as interpolation."""
    torch.manual_seed(seed)
    net = RowNetwork(config, layout).double().eval()
    torch.nn.init.normal_(net.head.mean.weight)
    return net


def question(series, config, layout):
    """All windows of a set in which the first half of the missing rows is asked."""
    known = series.observed.any(axis=1)
    asked = np.flatnonzero(~series.observed.all(axis=1))
    asked = asked[: max(1, asked.size // 2)]
    known[asked] = False
    level = np.zeros(asked.size, dtype=np.int64)
    parts = windows(np.flatnonzero(known), asked, level, series.start, config.window)
    context = StepContext.of(series, asked, np.ones(asked.size), layout)
    made = tokens(context, parts.pad(np.arange(parts.count)), layout, config)
    return made.map(lambda t: t.double() if t.is_floating_point() else t)


def shifted(made, order):
    """The same tokens with the set in another order; known tokens stay before targets."""
    own = order[order >= made.n_known] - made.n_known
    return made.resized(made.n_known, lambda t: t[:, order], lambda t: t[:, own])


def influence(layers, n_known=OBS):
    """influence[i, j] is True where output i depends on input j."""
    torch.manual_seed(0)
    valid = torch.ones(1, obs + TARGETS, dtype=bool)
    bias = attention_bias(valid, obs, torch.float32)
    blocks = [SetAttention(WIDTH, 2, 4) for _ in range(layers)]

    def run(x):
        for block in blocks:
            x = x + block(x, 0, bias, None)
        return x

    jac = jacobian(run, torch.randn(1, obs + TARGETS, WIDTH))[0, :, :, 0]  # (set, c, set, c)
    return jac.abs().amax(dim=(1, 3)) > 0


def test_one_block_shows_a_target_the_known_set_and_itself_only():
    assert torch.equal(influence(1)[OBS:, OBS:], torch.eye(TARGETS, dtype=bool))
    assert influence(1)[OBS:, :OBS].all()


def test_known_tokens_know_what_is_asked():
    assert influence(1)[:OBS, OBS:].all()


def test_targets_read_each_other_where_nothing_is_known():
    assert influence(1, n_known=0).all()


@given(seeds, st.floats(-50, 50))
def test_turned_queries_and_keys_read_differences_of_time_only(seed, shift):
    rng = torch.Generator().manual_seed(seed)
    query, key = torch.randn(2, 1, 5, 1, 8, generator=rng, dtype=torch.float64)
    time = torch.rand(1, 5, generator=rng, dtype=torch.float64) * 20

    def product(time):
        turn = turns(time, 4)
        return rotate(query, turn)[:, :, 0] @ rotate(key, turn)[:, :, 0].mT

    torch.testing.assert_close(product(time), product(time + shift), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
@given(seed=seeds, partial=st.booleans())
@settings(max_examples=8)
def test_permuting_targets_permutes_predictions_and_the_order_of_the_known_is_nothing(
    variant, seed, partial
):
    config = ModelConfig(**SMALL | VARIANTS[variant])
    series = some_series(seed, whole=not partial, some_data=True)
    layout = TokenLayout(series.dims, partial)
    if series.observed.all():
        return
    made, net = question(series, config, layout), network(config, layout)
    rng = np.random.default_rng(seed)
    size = made.feature.shape[1]
    order = np.concatenate(
        [rng.permutation(made.n_known), made.n_known + rng.permutation(size - made.n_known)]
    )
    straight, changed = net(made).mean, net(moved(made, order)).mean
    own = order[made.n_known :] - made.n_known
    seen = made.valid[:, made.n_known :][:, own]
    torch.testing.assert_close(changed[seen], straight[:, own][seen], atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("variant", VARIANTS)
@given(seed=seeds)
@settings(max_examples=8)
def test_padding_changes_nothing(variant, seed):
    config = ModelConfig(**SMALL | VARIANTS[variant])
    series = some_series(seed, some_data=True)
    layout = TokenLayout(series.dims, partial=True)
    if series.observed.all():
        return
    made, net = question(series, config, layout), network(config, layout)
    wide = widened(made, 2, 3)
    seen = made.valid[:, made.n_known :]
    straight = net(made).mean[seen]
    torch.testing.assert_close(
        net(wide).mean[:, : seen.shape[1]][seen], straight, atol=1e-8, rtol=1e-6
    )


def test_the_paper_s_network_has_the_paper_s_size():
    config = PRESETS["paper"].model
    with torch.device("meta"):
        net = RowNetwork(config, TokenLayout(dims=2, partial=False))
    assert sum(p.numel() for p in net.parameters()) == 83_924_994


def test_an_untrained_network_is_linear_interpolation():
    series = some_series(8, some_data=True)
    config, layout = ModelConfig(**SMALL), TokenLayout(series.dims, partial=True)
    made = question(series, config, layout)
    net = RowNetwork(config, layout).double()
    torch.testing.assert_close(net(made).mean, made.base)


def test_the_time_encoding_is_the_paper_s_formula_with_the_slowest_scale_reached():
    time = np.array([0.0, 3.0, 250.0])
    got = time_encoding(time, 8, 100.0)
    for k in range(4):
        angle = time / 100.0 ** (k / 3)
        np.testing.assert_allclose(got[:, 2 * k], np.sin(angle), atol=1e-6)
        np.testing.assert_allclose(got[:, 2 * k + 1], np.cos(angle), atol=1e-6)


@given(st.floats(0, 1e6), st.floats(2, 1000))
def test_the_calendar_comes_round_after_a_period(time, period):
    both = calendar_encoding(np.array([time, time + period]), [period])
    np.testing.assert_allclose(both[0], both[1], atol=1e-4)
    assert calendar_encoding(np.zeros(3), []).shape == (3, 0)


@given(seeds)
def test_a_gaussian_is_torch_s_normal(seed):
    rng = torch.Generator().manual_seed(seed)
    mean, log_scale, truth = torch.randn(3, 4, 2, generator=rng, dtype=torch.float64)
    ours, theirs = Gaussian(mean, log_scale), torch.distributions.Normal(mean, log_scale.exp())
    constant = 0.5 * np.log(2 * np.pi)
    likelihood = ours.loss(truth) - (truth - mean).square() + constant
    torch.testing.assert_close(likelihood, -theirs.log_prob(truth))
    torch.testing.assert_close(ours.quantile(0.9), theirs.icdf(torch.full_like(mean, 0.9)))
    noise = torch.randn(4, 2, generator=rng, dtype=torch.float64)
    torch.testing.assert_close(ours.draw(noise), mean + log_scale.exp() * noise)


def test_the_scale_of_a_gaussian_does_not_excuse_its_mean():
    mean = torch.zeros(1, 1, requires_grad=True)
    for log_scale in (0.0, 5.0):
        mean.grad = None
        Gaussian(mean, torch.full((1, 1), log_scale)).loss(torch.ones(1, 1)).sum().backward()
        assert mean.grad.item() == -2.0


@given(seeds)
def test_moving_a_prediction_moves_its_draws(seed):
    rng = torch.Generator().manual_seed(seed)
    mean, log_scale, shift, noise = torch.randn(4, 3, 2, generator=rng, dtype=torch.float64)
    scale = torch.rand(1, 2, generator=rng, dtype=torch.float64) + 0.1
    for prediction in (Gaussian(mean, log_scale), Point(mean)):
        expected = shift + scale * prediction.draw(noise)
        torch.testing.assert_close(prediction.shifted(shift, scale).draw(noise), expected)


def test_a_point_knows_no_uncertainty():
    point = Point(torch.ones(2, 1))
    assert torch.equal(point.draw(torch.randn(2, 1)), point.mean)
    assert torch.equal(point.quantile(0.9), point.mean)
    assert torch.equal(point.loss(torch.zeros(2, 1)), torch.ones(2, 1))


def test_a_config_refuses_what_contradicts_itself():
    with pytest.raises(ValueError, match="head_size must be even, got 3"):
        ModelConfig(head_size=3)
    with pytest.raises(ValueError, match="time_channels must be at least 4, got 2"):
        ModelConfig(time_channels=2)
