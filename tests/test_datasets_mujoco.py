"""The hopper: its recipe against MuJoCo itself, and linear interpolation's known error."""

import importlib.util
import sys
import warnings

import numpy as np
import pytest

from nrtsi.bench.datasets.simulators import MUJOCO, mujoco
from nrtsi.core.interpolation import interpolate
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError

needs_dm_control = pytest.mark.skipif(
    importlib.util.find_spec("dm_control") is None, reason="the bench extra is not installed"
)


def test_without_dm_control_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dm_control.suite", None)
    with pytest.raises(
        InputError, match=r"needs dm_control, which .*; pip install \"nrtsi\[bench\]\""
    ):
        mujoco(2)


def simulate(series):
    """The same without dm_control's environment: MuJoCo steps the hopper's model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = importlib.import_module("mujoco")
        hopper = importlib.import_module("dm_control.suite.hopper")
    text, assets = hopper.get_model_and_assets()
    model = engine.MjModel.from_xml_string(text.decode(), assets)
    rng = np.random.RandomState(123)
    rows = []
    for _ in range(series):
        data = engine.MjData(model)
        data.qpos[:] = [*rng.uniform(0, 0.5, 2), *rng.uniform(-2, 2, 5)]
        data.qvel[:] = rng.uniform(-5, 5, 7)
        for _ in range(200):
            rows.append([*data.qpos, *data.qvel])
            engine.mj_step(model, data)
    return np.array(rows).reshape(series, 200, 14)


@needs_dm_control
@pytest.mark.slow
def test_the_hopper_is_the_one_of_the_recipe():
    time, value = mujoco(6)
    np.testing.assert_array_equal(time, np.tile(np.arange(100.0), (6, 1)))
    assert value.shape == (6, 100, len(MUJOCO))
    whole = simulate(6)
    flat = whole.reshape(-1, 14)
    scaled = (whole - flat.min(axis=0)) / flat.max(axis=0)
    first = np.random.RandomState(1991).randint(0, 101, 6)
    for i in range(6):
        np.testing.assert_allclose(value[i], scaled[i, first[i] : first[i] + 100], atol=1e-9)


@needs_dm_control
@pytest.mark.slow
def test_a_seed_gives_the_same_hopper_again_and_touches_no_global_state():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one, two, other = mujoco(2, 5), mujoco(2, 5), mujoco(2, 6)
    np.testing.assert_array_equal(one[1], two[1])
    assert not np.array_equal(one[1], other[1])
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@needs_dm_control
@pytest.mark.slow
def test_linear_interpolation_errs_as_much_as_it_is_known_to():
    """Squared error summed over channels, a mean over missing points, in thousandths.

    All 10,000 series, because the scale hangs on the few that fly farthest; and wide bounds,
    because so does the error: from one choice of hidden points to the next it moves by 5 %.
    """
    value = mujoco(10_000)[1][8_000:]
    rng = np.random.default_rng(0)
    for observed, expected in ((10, 25.8), (20, 8.9), (30, 4.2), (50, 1.43)):
        known = rng.random(value.shape[:2]).argsort(axis=1) < observed
        hidden = SeriesSet.stack(np.where(known[:, :, None], value, np.nan))
        error = (interpolate(hidden).reshape(value.shape) - value) ** 2
        assert 1000 * error.sum(axis=2)[~known].mean() == pytest.approx(expected, rel=0.15)
