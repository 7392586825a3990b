"""MuJoCo's hopper thrown into the air without control, as in the paper."""

import importlib
import warnings
from types import ModuleType

import numpy as np
from jaxtyping import Float

from nrtsi.errors import InputError

__all__ = ["mujoco"]

JOINTS = ("rootx", "rootz", "rooty", "waist", "hip", "knee", "ankle")
CHANNELS = (*JOINTS, *(f"{joint}_velocity" for joint in JOINTS))
"""Seven positions, then their seven velocities."""

SIMULATED = 200
"""Simulated steps of each series, of which a slice is kept."""

STATE_SEED = 123
SLICE_SEED = 1991
"""Seeds of the two generators of the published data set."""


def mujoco(
    series: int, seed: int = 0, *, steps: int = 100
) -> tuple[Float[np.ndarray, "series step"], Float[np.ndarray, "series step 14"]]:
    """Returns the times 0, 1, 2, … and the scaled state of the hopper.

    Seed 0 gives the published data set; the seed is added to the two seeds of its recipe. Each
    channel is scaled by `(x - min) / max` over all simulated series, so the scale depends on the
    number of series. Takes about a minute for 10,000 series.
    """
    state = _simulate(_suite(), series, seed)
    low, high = state.min(axis=(0, 1)), state.max(axis=(0, 1))
    scaled = (state - low) / np.where(high == 0, 1.0, high)
    # The old generator, not default_rng: its numbers are part of the recipe.
    rng = np.random.RandomState(SLICE_SEED + seed)
    first = rng.randint(0, SIMULATED - steps + 1, size=series)
    rows = first[:, None] + np.arange(steps)
    time = np.tile(np.arange(steps, dtype=np.float64), (series, 1))
    return time, scaled[np.arange(series)[:, None], rows]


def _suite() -> ModuleType:
    try:
        # Nothing is rendered, so a warning about a missing display is irrelevant.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("dm_control.suite")
    except ImportError as error:
        raise InputError(
            "the data set mujoco needs dm_control, which is not installed; "
            'pip install "nrtsi[bench]"'
        ) from error


def _simulate(suite: ModuleType, series: int, seed: int) -> Float[np.ndarray, "series 200 14"]:
    """Simulates the hopper from random states, without control, one physics step a row."""
    physics = suite.load("hopper", "stand").physics
    rng = np.random.RandomState(STATE_SEED + seed)
    state = np.empty((series, SIMULATED, len(CHANNELS)))
    for i in range(series):
        with physics.reset_context():
            # Both root positions from 0 up, so that the hopper starts above the ground.
            physics.data.qpos[:2] = rng.uniform(0.0, 0.5, size=2)
            physics.data.qpos[2:] = rng.uniform(-2.0, 2.0, size=5)
            physics.data.qvel[:] = rng.uniform(-5.0, 5.0, size=7)
        position, velocity = physics.data.qpos, physics.data.qvel
        for step in range(SIMULATED):
            state[i, step, :7] = position
            state[i, step, 7:] = velocity
            physics.step()
    return state
