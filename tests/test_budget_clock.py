"""Training budgets are measured by the selected clock."""

import time

import numpy as np
import pytest

from nrtsi import NRTSI
from nrtsi.core.budget_clock import now, use_clock


def test_wall_time_is_the_default():
    before = time.monotonic()
    assert before <= now() <= time.monotonic()


def test_the_default_is_restored_after_an_error():
    with pytest.raises(ZeroDivisionError), use_clock(lambda: 1 / 0):
        now()
    assert now() <= time.monotonic()


def test_training_stops_by_the_selected_clock():
    ticks = iter(range(10**6))
    table = np.sin(np.arange(400.0))[:, None] + np.zeros((1, 2))
    table[100:120] = np.nan
    with use_clock(lambda: float(next(ticks))):
        model = NRTSI(preset="tiny", budget=9.0).fit(table)
    assert 9.0 <= model.seconds_ < 40.0  # ticks; each reading of the clock is one
    assert 1 <= model.steps_ <= 9
