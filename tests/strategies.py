"""Random series for property tests."""

import numpy as np
import torch
from hypothesis import strategies as st

from nrtsi.core.series import SeriesSet

seeds = st.integers(0, 2**32 - 1)


def some_series(seed, *, regular=False, whole=False, some_data=False, some_missing=False):
    """Up to four series of up to 40 rows and 3 channels, missing at a random rate.

    With `some_data` the first row of every series is observed, with `some_missing` the last cell
    of the first channel is not.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2 if some_missing else 1, 40, rng.integers(1, 5))
    dims = int(rng.integers(1, 4))
    step = np.ones(lengths.sum()) if regular else rng.uniform(0.01, 20, lengths.sum())
    start = np.concatenate([[0], np.cumsum(lengths)])
    observed = rng.random((lengths.sum(), 1 if whole else dims)) < rng.random()
    if some_data:
        observed[start[:-1]] = True
    if some_missing:
        observed[-1, 0] = False
    observed = np.broadcast_to(observed, (lengths.sum(), dims)).copy()
    value = np.where(observed, rng.normal(size=observed.shape), 0.0)
    return SeriesSet(np.cumsum(step), value, observed, start)


def widened(tokens, before, after):
    """Adds padding before the known rows and after the targets of tokens."""

    def wide(tensor, *sizes):
        return torch.nn.functional.pad(tensor, (*(0, 0) * (tensor.ndim - 2), *sizes))

    return tokens.resized(
        tokens.n_known + before, lambda t: wide(t, before, after), lambda t: wide(t, 0, after)
    )
