"""Simulators of the paper: a ball on a table, sinusoids, and MuJoCo's hopper.

Each maps a number of series and a seed to ascending times and values.
"""

import importlib
import warnings
from types import ModuleType

import numpy as np
from jaxtyping import Float

from nrtsi.errors import InputError

__all__ = ["BILLIARDS", "MUJOCO", "WALL", "billiards", "mujoco", "sinusoids"]

Simulated = tuple[Float[np.ndarray, "series step"], Float[np.ndarray, "series step dim"]]

BILLIARDS = ("x", "y")

WALL = 0.8828
"""The table extends from minus this to plus this, in both directions."""

SPEED = (0.0018, 0.1075)
"""Slowest and fastest ball, in table units a second."""

SECONDS, PER_SECOND = 5.0, 20.0
"""Length of a sinusoid, and units of time in a second: a hundred points have a mean step of 1."""

JOINTS = ("rootx", "rootz", "rooty", "waist", "hip", "knee", "ankle")
MUJOCO = (*JOINTS, *(f"{joint}_velocity" for joint in JOINTS))
"""Seven positions, then their seven velocities."""

SIMULATED = 200
"""Simulated steps of each series of MuJoCo, of which a slice is kept."""

STATE_SEED, SLICE_SEED = 123, 1991
"""Seeds of the two generators of the published MuJoCo data set."""


def billiards(series: int, seed: int, *, steps: int = 200, irregular: bool = False) -> Simulated:
    """A frictionless ball on a square table.

    Every ball starts at time 0 at a random position, with random direction and speed, and is
    reflected without loss. It is observed at 0, 1, 2, … seconds or, if `irregular`, at times
    uniform in 0 to `steps` seconds.

    >>> time, place = billiards(3, seed=0)
    >>> time.shape, place.shape
    ((3, 200), (3, 200, 2))
    """
    rng = np.random.default_rng(seed)
    start = rng.uniform(-WALL, WALL, size=(series, 2))
    angle = rng.uniform(0.0, 2 * np.pi, size=series)
    speed = rng.uniform(*SPEED, size=series)
    velocity = speed[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    if irregular:
        time = np.sort(rng.uniform(0.0, float(steps), size=(series, steps)), axis=1)
    else:
        time = np.tile(np.arange(steps, dtype=np.float64), (series, 1))
    return time, reflected(start[:, None] + velocity[:, None] * time[:, :, None])


def reflected(place: Float[np.ndarray, "*any 2"]) -> Float[np.ndarray, "*any 2"]:
    """The position of a ball that would be at `place` without walls, which act as mirrors.

    >>> reflected(np.array([WALL + 0.1, -3 * WALL - 0.1])).round(4)
    array([0.7828, 0.7828])
    """
    width = 2 * WALL
    return WALL - np.abs(np.mod(place + WALL, 2 * width) - width)


def sinusoids(series: int, seed: int, *, steps: int = 100) -> Simulated:
    """Sines of amplitude 1 and phase 0, with frequencies of 0.5 to 1 Hz, at uniform times.

    >>> time, value = sinusoids(3, seed=0)
    >>> time.shape, value.shape
    ((3, 100), (3, 100, 1))
    """
    rng = np.random.default_rng(seed)
    frequency = rng.uniform(0.5, 1.0, size=(series, 1))
    second = np.sort(rng.uniform(0.0, SECONDS, size=(series, steps)), axis=1)
    value = np.sin(2 * np.pi * frequency * second)
    return PER_SECOND * second, value[:, :, None]


def mujoco(series: int, seed: int = 0, *, steps: int = 100) -> Simulated:
    """MuJoCo's hopper, thrown into the air without control, at the times 0, 1, 2, ….

    Seed 0 gives the published data set; the seed is added to the two seeds of its recipe. Each
    channel is scaled by `(x - min) / max` over all simulated series, so the scale depends on the
    number of series. Takes about a minute for 10,000 series.
    """
    state = _simulate_hopper(_suite(), series, seed)
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


def _simulate_hopper(
    suite: ModuleType, series: int, seed: int
) -> Float[np.ndarray, "series 200 14"]:
    """Simulates the hopper from random states, one physics step a row."""
    physics = suite.load("hopper", "stand").physics
    rng = np.random.RandomState(STATE_SEED + seed)
    state = np.empty((series, SIMULATED, len(MUJOCO)))
    for i in range(series):
        with physics.reset_context():
            # Both root positions from 0 up, so that the hopper starts above the ground.
            physics.data.qpos[:2] = rng.uniform(0.0, 0.5, size=2)
            physics.data.qpos[2:] = rng.uniform(-2.0, 2.0, size=5)
            physics.data.qvel[:] = rng.uniform(-5.0, 5.0, size=7)
        position, velocity = physics.data.qpos, physics.data.qvel
        for step in range(SIMULATED):
            state[i, step, :7], state[i, step, 7:] = position, velocity
            physics.step()
    return state
