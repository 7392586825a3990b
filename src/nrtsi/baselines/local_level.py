"""The structural time series model of the Kalman baseline: local level, seasonal waves, noise."""

# statsmodels is optional and takes seconds to import, so functions import it.

import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.errors import InputError

__all__ = ["LocalLevelModel", "SlotFlags", "Slots", "fit_local_level", "require_statsmodels"]

HARMONICS = (1, 2)  # waves in a period
# Bounds and initial values of the variances of scaled data: noise, level, season.
LOWER, UPPER, START = (1e-6, 1e-8, 1e-10), (10.0, 10.0, 1.0), (0.1, 0.1, 0.001)
LEVEL_PRIOR = 1e4  # prior variance of the initial level, which is unknown
SEASON_PRIOR = 1.0  # prior variance of the initial season
ITERATIONS = 30  # iterations of the optimiser, at most; a baseline need not converge

Slots: TypeAlias = Float[np.ndarray, " slot"]
SlotFlags: TypeAlias = Bool[np.ndarray, " slot"]
Variances: TypeAlias = tuple[float, float, float]


@dataclass(frozen=True)
class LocalLevelModel:
    """A local level with a trigonometric season, for values with a variance of about 1.

    It is statsmodels' `UnobservedComponents("local level", freq_seasonal=…)` for many series at
    once: the series are concatenated, and the state is reset after the last slot of each.
    """

    noise: float  # variance of the noise
    level: float  # variance of the increments of the level
    season: float  # variance of the increments of the season
    period: float | None  # slots in a period; None without a season

    def smooth(self, value: Slots, last: SlotFlags) -> Slots:
        """Smoothed mean of level plus season in every slot.

        Args:
            value: Values, NaN where missing.
            last: True in the last slot of each series.
        """
        kalman = _smoother(value, last, self.period)
        self.set_variances(kalman, last)
        with _no_warnings():
            state = kalman.smooth().smoothed_state
        smooth: np.ndarray = kalman["design"][0] @ state
        if not np.isfinite(smooth).all():
            raise ArithmeticError("the Kalman smoother returned values that are not finite")
        return smooth

    def set_variances(self, kalman: Any, last: SlotFlags) -> None:
        """Writes the variances into the matrices of statsmodels."""
        increments = np.full(kalman.k_states, self.season)
        increments[0] = self.level
        prior = _prior(kalman.k_states)
        kalman["obs_cov"] = np.array([[self.noise]])
        kalman["state_cov"] = np.where(last, prior[:, :, None], np.diag(increments)[:, :, None])


def fit_local_level(
    value: Slots, last: SlotFlags, period: float | None, start: Variances = START
) -> LocalLevelModel:
    """The maximum-likelihood model, with or without the season."""
    fits = [_maximise(value, last, each, start) for each in dict.fromkeys((None, period))]
    likelihood, best = max(fits, key=lambda fit: fit[0])
    if not np.isfinite(likelihood):
        raise ArithmeticError("the Kalman filter found no finite likelihood")
    return best


def _maximise(
    value: Slots, last: SlotFlags, period: float | None, start: Variances
) -> tuple[float, LocalLevelModel]:
    """The maximum likelihood and its model."""
    from scipy.optimize import minimize

    kalman = _smoother(value, last, period)
    count = 2 if period is None else 3

    def model(logs: np.ndarray) -> LocalLevelModel:
        noise, level, *season = np.exp(logs).tolist()
        return LocalLevelModel(noise, level, sum(season, 0.0), period)

    def loss(logs: np.ndarray) -> float:
        model(logs).set_variances(kalman, last)
        return -float(kalman.loglike()) / value.size

    bounds = np.log(np.array([LOWER, UPPER]).T)[:count]
    # With steps of 1e-4, finite differences exceed rounding errors for any units of the data.
    options = {"maxiter": ITERATIONS, "eps": 1e-4}
    with _no_warnings():
        found = minimize(
            loss, np.log(start)[:count], method="L-BFGS-B", bounds=bounds, options=options
        )
    likelihood = -float(found.fun)
    return (likelihood if np.isfinite(likelihood) else -np.inf), model(found.x)


def require_statsmodels() -> Any:
    """Imports the Kalman smoother of statsmodels."""
    with _no_warnings():
        try:
            from statsmodels.tsa.statespace import kalman_smoother
        except ImportError:
            raise InputError(
                "kalman needs statsmodels, which is not installed; "
                "pip install 'nrtsi[kalman]', or use another method"
            ) from None
    return kalman_smoother


def _smoother(value: Slots, last: SlotFlags, period: float | None) -> Any:
    """A smoother of these values, without variances."""
    kalman_smoother = require_statsmodels()
    transition = _transition(period)
    states = len(transition)
    kalman = kalman_smoother.KalmanSmoother(1, states, k_posdef=states)
    kalman.smoother_output = kalman_smoother.SMOOTHER_STATE
    kalman.bind(value[:, None].copy())
    kalman["design"] = np.array([[1.0, *[1.0, 0.0] * (states // 2)]])
    kalman["selection"] = np.eye(states)
    kalman["transition"] = np.where(last, 0.0, transition[:, :, None])
    kalman.initialize_known(np.zeros(states), _prior(states))
    return kalman


def _transition(period: float | None) -> Float[np.ndarray, "state state"]:
    """The transition matrix: a constant level, and a rotation for each wave."""
    waves = () if period is None else HARMONICS
    matrix = np.eye(1 + 2 * len(waves))
    for wave in waves:
        angle = 2 * np.pi * wave / (period or 1.0)
        block = slice(2 * wave - 1, 2 * wave + 1)
        matrix[block, block] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return matrix


def _prior(states: int) -> Float[np.ndarray, "state state"]:
    return np.diag([LEVEL_PRIOR, *[SEASON_PRIOR] * (states - 1)])


def _no_warnings() -> warnings.catch_warnings:
    return warnings.catch_warnings(action="ignore")
