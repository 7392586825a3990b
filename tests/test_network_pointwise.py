"""The pointwise network: a prediction depends on the target's own token only."""

import torch
from hypothesis import given, settings

from nrtsi.config import ModelConfig, ScheduleConfig
from nrtsi.network.tokens import TokenLayout
from nrtsi.schedule.plan import plan
from tests.network_samples import SMALL, some_network, tokens_of
from tests.strategies import seeds, some_series, widened

CONFIG = ModelConfig(**SMALL, network="pointwise")


def sample(seed):
    """A network and the inputs of a step, with known rows that it must ignore."""
    series = some_series(seed, some_missing=True)
    layout = TokenLayout(series.dims, partial=True)
    step = next(plan(series, ScheduleConfig()))
    rows = CONFIG.model_copy(update={"network": "rows"})
    return some_network(CONFIG, layout), tokens_of(series, step, rows, layout)


@given(seeds)
@settings(max_examples=25)
def test_padding_known_rows_and_other_targets_change_nothing(seed):
    network, inputs = sample(seed)
    valid = inputs.valid[:, inputs.n_known :]
    expected = network(inputs).mean
    padded = network(widened(inputs, 2, 3)).mean[:, : valid.shape[1]]
    torch.testing.assert_close(padded[valid], expected[valid])
    changed = inputs.map(lambda t: t.clone())
    changed.feature[:, : inputs.n_known] = 7.0
    changed.feature[:, inputs.n_known + 1 :] = -3.0
    torch.testing.assert_close(network(changed).mean[:, 0], expected[:, 0])


def test_it_runs_in_half_precision():
    network, inputs = sample(8)
    network.float().train()
    with torch.autocast("cpu", torch.bfloat16):
        mean = network(inputs.map(lambda t: t.float() if t.is_floating_point() else t)).mean
    assert mean.isfinite().all()


@given(seeds)
@settings(max_examples=25)
def test_a_target_attends_to_itself_only(seed):
    network, inputs = sample(seed)
    mask = network.attention_mask(inputs)
    (weight,) = network.attention_weights(inputs)
    valid = inputs.valid[:, inputs.n_known :]
    torch.testing.assert_close(weight.squeeze(1), mask.float())
    assert (mask.sum(dim=-1) == valid).all()
    assert not mask[:, :, : inputs.n_known].any()


def test_windows_hold_no_known_rows():
    network, _ = sample(8)
    series = some_series(8, some_missing=True)
    step = next(plan(series, ScheduleConfig()))
    windows = network.windows(step, series.start, CONFIG)
    assert not windows.source_count.any()
    assert sorted(windows.targets) == step.rows.tolist()
