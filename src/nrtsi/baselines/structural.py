"""A level that wanders and a season that changes slowly, seen through noise."""

# statsmodels takes seconds to import and is an extra, so only who smooths imports it.

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.errors import InputError

__all__ = ["Structure", "likeliest", "statsmodels"]

HARMONICS = (1, 2)
"""Waves of the season: one in a period, and two."""

LOWEST = (1e-6, 1e-8, 1e-10)
HIGHEST = (10.0, 10.0, 1.0)
START = (0.1, 0.1, 0.001)
"""Bounds of the variances (noise, level, season) of scaled data, and where the search begins."""

PRIOR_LEVEL = 1e4
PRIOR_SEASON = 1.0
"""Variances of a series' first level, which could be anything, and of its season, in units of
the variance of the data, which the season is a part of."""

TRIES = 30
"""Most steps of the search for variances; a baseline need not converge."""


@dataclass(frozen=True)
class Structure:
    """A local level with a trigonometric season, for values of about variance 1.

    It is statsmodels' `UnobservedComponents("local level", freq_seasonal=…)`, for many series at
    once: they are laid end to end, and at the end of each the state is drawn anew.
    """

    noise: float
    level: float
    season: float
    """Variances: of the noise, and of what is added to level and season from slot to slot."""

    period: float | None
    """Slots of a period; None for a level without a season."""

    def smooth(
        self, value: Float[np.ndarray, " slot"], last: Bool[np.ndarray, " slot"]
    ) -> Float[np.ndarray, " slot"]:
        """Mean of level and season in every slot, given all values of the same series.

        Values are NaN where unknown; `last` is True in the last slot of a series.

        Raises:
            ArithmeticError: The smoother gave nothing finite.
        """
        kalman = _kalman(value, last, self.period)
        self._enter(kalman, last)
        with _quiet():
            state = kalman.smooth().smoothed_state
        smooth: np.ndarray = kalman["design"][0] @ state
        if not np.isfinite(smooth).all():
            raise ArithmeticError("the Kalman smoother gave values that are not finite")
        return smooth

    def _enter(self, kalman: Any, last: Bool[np.ndarray, " slot"]) -> None:
        """Writes the variances into statsmodels' matrices."""
        added = np.full(kalman.k_states, self.season)
        added[0] = self.level
        anew = _prior(kalman.k_states)
        kalman["obs_cov"] = np.array([[self.noise]])
        kalman["state_cov"] = np.where(last, anew[:, :, None], np.diag(added)[:, :, None])


def likeliest(
    value: Float[np.ndarray, " slot"], last: Bool[np.ndarray, " slot"], period: float | None
) -> Structure:
    """The structure of greatest likelihood, with the season or without it.

    Raises:
        ArithmeticError: No structure has a finite likelihood.
    """
    found = [_search(value, last, each) for each in {None: None, period: None}]
    likelihood, best = max(found, key=lambda pair: pair[0])
    if not np.isfinite(likelihood):
        raise ArithmeticError("the Kalman filter found no finite likelihood")
    return best


def _search(
    value: Float[np.ndarray, " slot"], last: Bool[np.ndarray, " slot"], period: float | None
) -> tuple[float, Structure]:
    """The greatest likelihood found, and its structure."""
    from scipy.optimize import minimize

    kalman = _kalman(value, last, period)
    count = 2 if period is None else 3

    def structure(logs: np.ndarray) -> Structure:
        noise, level, *season = np.exp(logs).tolist()
        return Structure(noise, level, sum(season, 0.0), period)

    def unlikely(logs: np.ndarray) -> float:
        structure(logs)._enter(kalman, last)
        return -float(kalman.loglike()) / value.size

    bounds = np.log(np.array([LOWEST, HIGHEST]).T)[:count]
    # A step of 1e-4 keeps the differences clear of rounding, so that units do not matter.
    options = {"maxiter": TRIES, "eps": 1e-4}
    start = np.log(START)[:count]
    with _quiet():
        found = minimize(unlikely, start, method="L-BFGS-B", bounds=bounds, options=options)
    likelihood = -float(found.fun)
    return (likelihood if np.isfinite(likelihood) else -np.inf), structure(found.x)


def statsmodels() -> Any:
    """The smoothers of statsmodels.

    Raises:
        InputError: It is not installed.
    """
    with _quiet():
        try:
            from statsmodels.tsa.statespace import kalman_smoother
        except ImportError:
            raise InputError(
                "kalman needs statsmodels, which is not installed; "
                "pip install 'nrtsi[kalman]', or use another method"
            ) from None
    return kalman_smoother


def _kalman(
    value: Float[np.ndarray, " slot"], last: Bool[np.ndarray, " slot"], period: float | None
) -> Any:
    """A smoother of these values, still without variances."""
    kalman_smoother = statsmodels()
    turn = _turn(period)
    states = len(turn)
    kalman = kalman_smoother.KalmanSmoother(1, states, k_posdef=states)
    kalman.smoother_output = kalman_smoother.SMOOTHER_STATE
    kalman.bind(value[:, None].copy())
    kalman["design"] = np.array([[1.0, *[1.0, 0.0] * (states // 2)]])
    kalman["selection"] = np.eye(states)
    kalman["transition"] = np.where(last, 0.0, turn[:, :, None])
    kalman.initialize_known(np.zeros(states), _prior(states))
    return kalman


def _turn(period: float | None) -> Float[np.ndarray, "state state"]:
    """What becomes of level and waves from one slot to the next."""
    waves = () if period is None else HARMONICS
    turn = np.eye(1 + 2 * len(waves))
    for wave in waves:
        angle = 2 * np.pi * wave / (period or 1.0)
        place = slice(2 * wave - 1, 2 * wave + 1)
        turn[place, place] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return turn


def _prior(states: int) -> Float[np.ndarray, "state state"]:
    """Variance of a state of which nothing was seen."""
    return np.diag([PRIOR_LEVEL, *[PRIOR_SEASON] * (states - 1)])


def _quiet() -> warnings.catch_warnings:
    """Keeps what statsmodels has to say of itself from the user."""
    return warnings.catch_warnings(action="ignore")
