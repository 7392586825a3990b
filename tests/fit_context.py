"""A `FitContext` for tests: base predictors are fitted without the rest of training."""

from dataclasses import dataclass, field

import numpy as np

from nrtsi.config import TrainConfig
from nrtsi.core.masking import Masking
from nrtsi.core.segments import split
from nrtsi.predictors.base import FitContext, HeldOutGate, Sample


@dataclass
class Fitting:
    """The context of a fit of some steps, and the losses that were reported."""

    context: FitContext
    losses: list[float] = field(default_factory=list)


def fitting(series, steps, train, *, periods=(), mask="auto", whole_rows=False, seconds=None):
    """Budget in steps; `seconds`: the training budget that `min_seconds` is compared with."""
    config = TrainConfig.model_validate(train)
    masking = Masking.choose(mask, series, whole_rows=whole_rows, rates=config.hidden)
    training, held_out = split(series, config.validation, np.random.default_rng(0))
    losses = []
    context = FitContext(
        source=series,
        training=Sample(series, training),
        validation=Sample(series, held_out),
        masking=masking,
        periods=periods,
        seed=0,
        config=config,
        gate=HeldOutGate.of(Sample(series, held_out), masking, 0, config.gate),
        budget=lambda share: lambda step: step / steps,
        has_budget=lambda least: seconds is None or seconds >= least,
        report=losses.append,
        agree=lambda decision: decision,
    )
    return Fitting(context, losses)
