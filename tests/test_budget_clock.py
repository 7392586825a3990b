"""Budgets go by the clock that they are given."""

import time

import numpy as np
import pytest

from nrtsi import NRTSI
from nrtsi.core.budget_clock import going_by, now


def test_the_clock_on_the_wall_is_the_usual_one():
    before = time.monotonic()
    assert before <= now() <= time.monotonic()


def test_the_usual_clock_is_back_after_a_failure():
    with pytest.raises(ZeroDivisionError), going_by(lambda: 1 / 0):
        now()
    assert now() <= time.monotonic()


def test_a_training_is_as_long_as_its_clock_says():
    ticks = iter(range(10**6))
    table = np.sin(np.arange(400.0))[:, None] + np.zeros((1, 2))
    table[100:120] = np.nan
    with going_by(lambda: float(next(ticks))):
        model = NRTSI(preset="tiny", budget=9.0).fit(table)
    assert 9.0 <= model.seconds_ < 40.0  # ticks, each of which is a look at the clock
    assert 1 <= model.steps_ <= 9
