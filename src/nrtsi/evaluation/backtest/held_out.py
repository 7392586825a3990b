"""`BacktestRun`: lets methods fill data of which cells are hidden, and keeps what they said."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from nrtsi.baselines import BASELINES
from nrtsi.core.bounds import Bounds
from nrtsi.core.prediction import Prediction
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError, NrtsiError, TrainingError
from nrtsi.evaluation.backtest.result import Backtest
from nrtsi.evaluation.calibration import HoldOut
from nrtsi.tables import Clock

__all__ = ["OUR_FAILURES", "BacktestRun", "check_baselines"]

log = logging.getLogger(__name__)

FAILURES = (NrtsiError, ValueError, ArithmeticError, MemoryError)
"""What may keep a baseline from running; the others are scored all the same."""

OUR_FAILURES = (TrainingError, ArithmeticError)
"""What may keep nrtsi from running; a setting that cannot be used is the caller's to correct."""

Way: TypeAlias = Callable[[], Float[np.ndarray, "row dim"]]
"""Fills the stretches; gives a value of every cell."""


class BacktestRun:
    """Runs methods on data of which cells are hidden, and keeps what they said."""

    def __init__(self, aside: HoldOut, clock: Clock) -> None:
        self.aside = aside
        self.clock = clock
        self.guesses: dict[str, Float[np.ndarray, " cell"]] = {}
        self.seconds: dict[str, float] = {}
        self.failed: dict[str, str] = {}
        self.scale: Float[np.ndarray, "row dim"] | None = None

    def run(self, name: str, way: Way, failures: tuple[type[Exception], ...] = FAILURES) -> None:
        """Asks one method, or keeps the reason why it gave nothing to score."""
        began = time.perf_counter()
        try:
            guess = way()[self.aside.hidden]
            if not np.isfinite(guess).all():
                raise ArithmeticError("it gave values that are not finite")
        except failures as error:
            self.fail(name, error)
            return
        self.guesses[name] = guess
        self.seconds[name] = time.perf_counter() - began

    def run_model(self, believe: Callable[[SeriesSet], Prediction]) -> None:
        """Asks nrtsi, and keeps how far off it takes itself to be."""

        def fill() -> Float[np.ndarray, "row dim"]:
            belief = believe(self.aside.known)
            self.scale = belief.std
            return belief.mean

        self.run("nrtsi", fill, OUR_FAILURES)

    def fail(self, name: str, error: Exception) -> None:
        """Keeps the reason why a method gave nothing to score."""
        log.info("%s failed", name, exc_info=error)
        self.failed[name] = (str(error) or type(error).__name__).splitlines()[0]

    def run_baseline(self, name: str) -> None:
        """Asks a baseline, fitted on what is left."""

        def fill() -> Float[np.ndarray, "row dim"]:
            baseline, known = BASELINES[name](), self.aside.known
            baseline.clock_ = self.clock
            baseline.fit_series(known)
            return baseline.fill_series(known)

        self.run(name, fill)

    def result(self, names: tuple[str, ...], cells: int, bounds: Bounds | None) -> Backtest:
        """What came of it; `cells` are those that were known in all the data."""
        return Backtest(
            aside=self.aside,
            guesses=self.guesses,
            scale=self.scale,
            seconds=self.seconds,
            failed=self.failed,
            names=names,
            clock=self.clock,
            cells=cells,
            bounds=bounds,
        )


def check_baselines(names: Sequence[str]) -> None:
    """Refuses names that no baseline has."""
    unknown = [name for name in names if name not in BASELINES]
    if unknown:
        raise InputError(
            f"baselines must be among {', '.join(BASELINES)}, got {unknown[0]!r}; "
            f"leave it out or correct it"
        )
