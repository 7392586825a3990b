"""Networks and their inputs for tests."""

import numpy as np
import torch

from nrtsi.network.registry import NETWORKS, network_of
from nrtsi.network.tokens import StepContext, tokens

SMALL = {"width": 8, "blocks": 2, "heads": 2, "head_size": 4, "feed_forward": 16}


def some_network(config, layout, std=1.0):
    """An untrained network in double precision whose corrections are not 0."""
    torch.manual_seed(0)
    network = network_of(config, layout).double().eval()
    torch.nn.init.normal_(network.head.mean.weight, std=std)
    return network


def double(inputs):
    return inputs.map(lambda t: t.double() if t.is_floating_point() else t)


def tokens_of(series, step, config, layout):
    """The inputs of a network for all windows of a step, in double precision."""
    windows = NETWORKS[config.network].windows(step, series.start, config)
    context = StepContext.of(series, step.rows, step.distance, layout)
    return double(tokens(context, windows.pad(np.arange(windows.count)), layout, config))
