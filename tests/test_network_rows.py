"""The paper's network, its attention and its heads: masks, permutations, padding, formulas."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd.functional import jacobian

from nrtsi.config import PRESETS, ModelConfig
from nrtsi.network.attention import (
    SetAttention,
    additive_mask,
    attention_mask,
    rotary_angles,
    rotate,
)
from nrtsi.network.features import calendar_encoding, time_encoding
from nrtsi.network.heads import Gaussian, Point
from nrtsi.network.rows import RowNetwork
from nrtsi.network.tokens import TokenLayout
from nrtsi.schedule.plan import Step
from tests.network_samples import SMALL, some_network, tokens_of
from tests.strategies import seeds, some_series, widened

KNOWN, TARGETS, WIDTH = 4, 3, 8
VARIANTS = {
    "base": {},
    "paper": PRESETS["paper"].model.model_dump() | SMALL,
    "cross": {"encode_targets": False},
    "point": {"head": "point"},
    "absolute": {"relative": False, "neighbours": False},
    "values": {"residual": False},
}


def half_of(series):
    """A step that imputes the first half of the rows with missing cells."""
    rows = np.flatnonzero(~series.observed.all(axis=1))
    rows = rows[: max(1, rows.size // 2)]
    level = np.zeros(rows.size, dtype=np.int64)
    return Step(rows, np.ones(rows.size), level, series.observed.any(axis=1))


def sample(seed, config, partial):
    series = some_series(seed, whole=not partial, some_data=True, some_missing=True)
    layout = TokenLayout(series.dims, partial)
    inputs = tokens_of(series, half_of(series), config, layout)
    return inputs, some_network(config, layout)


def reordered(inputs, order):
    """The same tokens with the set in another order; known tokens stay before targets."""
    own = order[order >= inputs.n_known] - inputs.n_known
    return inputs.resized(inputs.n_known, lambda t: t[:, order], lambda t: t[:, own])


def influence(layers, n_known=KNOWN):
    """influence[i, j] is True where output i depends on input j."""
    torch.manual_seed(0)
    valid = torch.ones(1, n_known + TARGETS, dtype=bool)
    bias = additive_mask(attention_mask(valid, n_known).unsqueeze(1), torch.float32)
    blocks = [SetAttention(WIDTH, 2, 4) for _ in range(layers)]

    def run(x):
        for block in blocks:
            x = x + block(x, 0, bias, None)
        return x

    jac = jacobian(run, torch.randn(1, n_known + TARGETS, WIDTH))[0, :, :, 0]  # (set, c, set, c)
    return jac.abs().amax(dim=(1, 3)) > 0


def test_a_target_attends_to_the_known_tokens_and_itself_only():
    assert torch.equal(influence(1)[KNOWN:, KNOWN:], torch.eye(TARGETS, dtype=bool))
    assert influence(1)[KNOWN:, :KNOWN].all()


def test_known_tokens_attend_to_the_targets():
    assert influence(1)[:KNOWN, KNOWN:].all()


def test_targets_attend_to_each_other_if_nothing_is_known():
    assert influence(1, n_known=0).all()


@given(seeds, st.floats(-50, 50))
def test_rotated_queries_and_keys_depend_on_time_differences_only(seed, shift):
    rng = torch.Generator().manual_seed(seed)
    query, key = torch.randn(2, 1, 5, 1, 8, generator=rng, dtype=torch.float64)
    time = torch.rand(1, 5, generator=rng, dtype=torch.float64) * 20

    def product(time):
        angles = rotary_angles(time, 4, (2.5, 400.0))
        return rotate(query, angles)[:, :, 0] @ rotate(key, angles)[:, :, 0].mT

    torch.testing.assert_close(product(time), product(time + shift), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
@given(seed=seeds, partial=st.booleans())
@settings(max_examples=8)
def test_predictions_are_equivariant_in_targets_and_invariant_in_known_rows(
    variant, seed, partial
):
    config = ModelConfig(**SMALL | VARIANTS[variant])
    inputs, net = sample(seed, config, partial)
    rng = np.random.default_rng(seed)
    size = inputs.feature.shape[1]
    order = np.concatenate(
        [rng.permutation(inputs.n_known), inputs.n_known + rng.permutation(size - inputs.n_known)]
    )
    straight, changed = net(inputs).mean, net(reordered(inputs, order)).mean
    own = order[inputs.n_known :] - inputs.n_known
    valid = inputs.valid[:, inputs.n_known :][:, own]
    torch.testing.assert_close(changed[valid], straight[:, own][valid], atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("variant", VARIANTS)
@given(seed=seeds)
@settings(max_examples=8)
def test_padding_changes_nothing(variant, seed):
    config = ModelConfig(**SMALL | VARIANTS[variant])
    inputs, net = sample(seed, config, partial=True)
    wide = widened(inputs, 2, 3)
    valid = inputs.valid[:, inputs.n_known :]
    straight = net(inputs).mean[valid]
    torch.testing.assert_close(
        net(wide).mean[:, : valid.shape[1]][valid], straight, atol=1e-8, rtol=1e-6
    )


def test_the_paper_s_network_has_the_paper_s_size():
    config = PRESETS["paper"].model
    with torch.device("meta"):
        net = RowNetwork(config, TokenLayout(dims=2, partial=False))
    assert sum(p.numel() for p in net.parameters()) == 83_924_994


def test_an_untrained_network_interpolates_linearly():
    series = some_series(8, some_data=True, some_missing=True)
    config, layout = ModelConfig(**SMALL), TokenLayout(series.dims, partial=True)
    inputs = tokens_of(series, half_of(series), config, layout)
    net = RowNetwork(config, layout).double()
    torch.testing.assert_close(net(inputs).mean, inputs.interpolation)


def test_the_time_encoding_is_the_paper_s_formula_with_the_slowest_scale_reached():
    time = np.array([0.0, 3.0, 250.0])
    got = time_encoding(time, 8, 100.0)
    for k in range(4):
        angle = time / 100.0 ** (k / 3)
        np.testing.assert_allclose(got[:, 2 * k], np.sin(angle), atol=1e-6)
        np.testing.assert_allclose(got[:, 2 * k + 1], np.cos(angle), atol=1e-6)


@given(st.floats(0, 1e6), st.floats(2, 1000))
def test_the_calendar_encoding_is_periodic(time, period):
    both = calendar_encoding(np.array([time, time + period]), [period])
    np.testing.assert_allclose(both[0], both[1], atol=1e-4)
    assert calendar_encoding(np.zeros(3), []).shape == (3, 0)


@given(seeds)
def test_a_gaussian_equals_torch_s_normal(seed):
    rng = torch.Generator().manual_seed(seed)
    mean, log_std, truth = torch.randn(3, 4, 2, generator=rng, dtype=torch.float64)
    ours, theirs = Gaussian(mean, log_std), torch.distributions.Normal(mean, log_std.exp())
    constant = 0.5 * np.log(2 * np.pi)
    likelihood = ours.loss(truth) - (truth - mean).square() + constant
    torch.testing.assert_close(likelihood, -theirs.log_prob(truth))
    noise = torch.randn(4, 2, generator=rng, dtype=torch.float64)
    torch.testing.assert_close(ours.sample(noise), mean + log_std.exp() * noise)


def test_the_std_of_a_gaussian_does_not_change_the_gradient_of_its_mean():
    mean = torch.zeros(1, 1, requires_grad=True)
    for log_std in (0.0, 5.0):
        mean.grad = None
        Gaussian(mean, torch.full((1, 1), log_std)).loss(torch.ones(1, 1)).sum().backward()
        assert mean.grad.item() == -2.0


@given(seeds)
def test_a_shifted_prediction_has_shifted_samples(seed):
    rng = torch.Generator().manual_seed(seed)
    mean, log_std, shift, noise = torch.randn(4, 3, 2, generator=rng, dtype=torch.float64)
    scale = torch.rand(1, 2, generator=rng, dtype=torch.float64) + 0.1
    for prediction in (Gaussian(mean, log_std), Point(mean)):
        expected = shift + scale * prediction.sample(noise)
        torch.testing.assert_close(prediction.shifted(shift, scale).sample(noise), expected)


def test_a_point_prediction_has_no_uncertainty():
    point = Point(torch.ones(2, 1))
    assert torch.equal(point.sample(torch.randn(2, 1)), point.mean)
    assert torch.equal(point.loss(torch.zeros(2, 1)), torch.ones(2, 1))


def test_a_config_rejects_invalid_sizes():
    with pytest.raises(ValueError, match="head_size must be even, got 3"):
        ModelConfig(head_size=3)
    with pytest.raises(ValueError, match="time_channels must be at least 4, got 2"):
        ModelConfig(time_channels=2)
