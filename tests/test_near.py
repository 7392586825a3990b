"""The network that reads a target's own token: nothing else may matter to it."""

import torch
from hypothesis import given, settings

from nrtsi.config import ModelConfig
from nrtsi.network.pointwise import PointwiseNetwork
from nrtsi.network.tokens import TokenLayout
from tests.strategies import seeds, some_series, widened
from tests.test_model import SMALL, question

NEAR = ModelConfig(**SMALL, network="pointwise")


def asked(seed):
    """Windows of a random set and a network that says something; None where nothing is missing."""
    series = some_series(seed)
    if series.observed.all():
        return None
    layout = TokenLayout(series.dims, partial=True)
    torch.manual_seed(0)
    net = PointwiseNetwork(NEAR, layout).double().eval()
    torch.nn.init.normal_(net.head.mean.weight)
    return net, question(series, NEAR, layout)


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_neither_padding_nor_known_rows_nor_other_targets_matter(seed):
    if (both := asked(seed)) is None:
        return
    net, made = both
    seen = made.valid[:, made.n_known :]
    straight = net(made).mean
    torch.testing.assert_close(
        net(widened(made, 2, 3)).mean[:, : seen.shape[1]][seen], straight[seen]
    )
    changed = made.map(lambda t: t.clone())
    changed.feature[:, : made.n_known] = 7.0
    changed.feature[:, made.n_known + 1 :] = -3.0
    torch.testing.assert_close(net(changed).mean[:, 0], straight[:, 0])


def test_it_learns_in_half_precision():
    net, made = asked(8)
    net.float().train()
    with torch.autocast("cpu", torch.bfloat16):
        said = net(made.map(lambda t: t.float() if t.is_floating_point() else t)).mean
    assert said.isfinite().all()


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_all_that_is_read_is_the_target_itself(seed):
    if (both := asked(seed)) is None:
        return
    net, made = both
    may = net.attention_mask(made)
    (weight,) = net.attention_weights(made)
    seen = made.valid[:, made.n_known :]
    torch.testing.assert_close(weight.squeeze(1), may.float())
    assert (may.sum(dim=-1) == seen).all()
    assert not may[:, :, : made.n_known].any()
