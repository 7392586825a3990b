"""What to select_analogs of the series at hand, and in which way: as it turns out to help."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int

from nrtsi.core.interpolation import interpolate
from nrtsi.core.masking import Masking
from nrtsi.core.series import SeriesSet
from nrtsi.predictors.analogs.conditional_gaussian import ConditionalGaussian
from nrtsi.predictors.analogs.fingerprints import SeriesFingerprints
from nrtsi.predictors.analogs.knn import KNNAnalogs
from nrtsi.predictors.analogs.library import SeriesLibrary
from nrtsi.predictors.analogs.local_linear import SYMMETRIES, LocalLinearAnalogs
from nrtsi.predictors.analogs.method import AnalogMethod
from nrtsi.predictors.analogs.mixture import AnalogMixture
from nrtsi.predictors.analogs.model import AnalogModel

__all__ = ["AnalogFit", "select_analogs"]

log = logging.getLogger(__name__)

# Cells of a series that a covariance is made of, at most.
CELLS = 2048

# Channels, at most: each is looked for by itself.
CHANNELS = 64

# Series that ways of remembering are tried on, at least and at most; and the cells remembered
# above which they are fewer: with these, trying takes some seconds.
TRIED, QUICK = (16, 32), 2**21

# Cells that are looked at for one series, at most, where symmetries hold.
MOST = 2**25

# What a way has to be better by than a simpler one; and two of them together than the better.
WORTH, TWO = 0.9, 0.95

# An error so many times another that nothing will make up for it.
FAR = 2.0

# Series that are put together, and how closely they follow what is known: what is tried. And how
# many, where they are looked for in all channels together.
NEAR, RIDGES, LIKE = (8, 32), (1e-1, 1e-2, 1e-3), (10, 30)

# The same where all series are one distribution, of which more is known.
FINER = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)

# How often what is remembered is put into the gaps of the remembered series themselves.
ROUNDS = 6

# While ways are tried it is known who is who.
NOBODY = SeriesFingerprints(np.zeros((0, 0), dtype=np.int64))

WayT = TypeVar("WayT", bound=AnalogMethod)


@dataclass(frozen=True)
class AnalogFit:
    """A memory, and where the series that were learnt from are in it."""

    memory: AnalogModel

    own: Int[np.ndarray, " series"]
    """The number of each series among the remembered ones; -1 where it is none of them."""


def select_analogs(
    series: SeriesSet, hiding: Masking, seed: int, held: SeriesSet | None = None
) -> AnalogFit | None:
    """Remembers `series`, which are scaled; None where they have no time in common, or no likes.

    The ways to do so are tried on some series with cells hidden; the best is used, if it is better
    than interpolation. They are tried on `held`, where that is enough, which is not remembered:
    among `series` each may have its next of kin, such as the same day at another station, which
    those that will be asked about have not. The same data and seed are always remembered in the
    same way.
    """
    rng = np.random.default_rng([seed, 5])
    stock = SeriesLibrary.of(series, rng)
    if stock is None or stock.value.shape[0] > CHANNELS:
        return None
    own = np.full(series.series, -1)
    own[stock.kept] = np.arange(stock.kept.size)
    some = _enough(stock.value.size)
    strangers = None if held is None else held.select(np.flatnonzero(held.length))
    if strangers is not None and strangers.series >= TRIED[0]:
        truth = strangers.select(rng.permutation(strangers.series)[:some])
        who = SeriesFingerprints.of(stock.series).find(truth)
    else:
        tried = rng.permutation(stock.kept)[:some]
        truth, who = series.select(tried), own[tried]
    hidden = hiding.draw(truth, rng)
    if not hidden.any():
        return None
    trial = _Trial(stock, truth, hidden, who)
    way, error = trial.best()
    if stock.bridged:
        other, changed = replace(trial, stock=_completed(stock, way)).best()
        way, error = (other, changed) if changed < error else (way, error)
    line = trial.error(interpolate(truth.hide(hidden)))
    log.info("memory: error %.3g, interpolation's %.3g", error, line)
    if error >= WORTH * line:
        return None
    return AnalogFit(AnalogModel(stock.point, way, SeriesFingerprints.of(stock.series)), own)


def _completed(stock: SeriesLibrary, way: AnalogMethod) -> SeriesLibrary:
    """The series with what is remembered in their own gaps, each time by what is there by now."""
    everyone = np.arange(stock.kept.size)
    for _ in range(ROUNDS):
        told = AnalogModel(stock.point, way, NOBODY).recall(stock.series, everyone)
        stock = stock.filled(told.value)
        way = way.anew(stock)
    return stock


def _enough(cells: int) -> int:
    """Series to try on, where so many cells are remembered.

    >>> _enough(1000), _enough(2**30)
    (32, 16)
    """
    least, most = TRIED
    return int(np.clip(most * QUICK // cells, least, most))


@dataclass(frozen=True)
class _Trial:
    """Ways of remembering, tried on series of which cells are hidden."""

    stock: SeriesLibrary
    truth: SeriesSet
    hidden: Bool[np.ndarray, "row dim"]
    own: Int[np.ndarray, " tried"]

    def best(self) -> tuple[AnalogMethod, float]:
        """The way with the least error, or two, where they are clearly better together."""
        one, error = self._single()
        plain = KNNAnalogs.of(self.stock, LIKE[0])
        other, others = self._better([replace(plain, near=near) for near in LIKE])
        if others > FAR * error:
            return one, error
        said, more = (self._told(way)[self.hidden] for way in (one, other))
        wanted, gained = self.truth.value[self.hidden] - said, more - said
        share = float(np.clip(gained @ wanted / max(float(gained @ gained), 1e-30), 0.0, 1.0))
        both = float(np.square(wanted - share * gained).mean())
        return (AnalogMixture(one, other, share), both) if both < TWO * error else (one, error)

    def _single(self) -> tuple[LocalLinearAnalogs | ConditionalGaussian, float]:
        """One distribution, unless analogs are clearly better."""
        if self.stock.value[..., 0].size > CELLS:
            return self._analogs(np.inf)
        normal = ConditionalGaussian.of(self.stock, FINER[0])
        all_at_once = self._better([replace(normal, ridge=ridge) for ridge in FINER])
        few = self._analogs(all_at_once[1])
        return few if few[1] < WORTH * all_at_once[1] else all_at_once

    def error(self, filled: Float[np.ndarray, "row dim"]) -> float:
        """Mean squared error of the hidden cells."""
        return float(np.square(filled - self.truth.value)[self.hidden].mean())

    def _analogs(self, other: float) -> tuple[LocalLinearAnalogs, float]:
        """How many, how closely, and whether series that have never been are like them, too.

        Not to the end, where they are far from the error of the `other` way.
        """
        plain = LocalLinearAnalogs.of(self.stock, near=NEAR[0], ridge=RIDGES[1])
        best, error = self._better([replace(plain, near=near) for near in NEAR])
        if error > FAR * other:
            return best, error
        for symmetry in SYMMETRIES:
            if symmetry == "alike" and self.truth.dims == 1:
                continue
            held = replace(best.images, symmetries=(*best.images.symmetries, symmetry))
            more = replace(best, images=held)
            if held.work <= MOST and (changed := self._error(more)) < WORTH * error:
                best, error = more, changed
        half = replace(best, near=best.near // 2)
        closely = [replace(each, ridge=ridge) for each in (best, half) for ridge in RIDGES]
        return self._better(closely)

    def _better(self, ways: Sequence[WayT]) -> tuple[WayT, float]:
        """The way with the least error."""
        errors = [self._error(way) for way in ways]
        least = int(np.argmin(errors))
        return ways[least], errors[least]

    def _error(self, way: AnalogMethod) -> float:
        return self.error(self._told(way))

    def _told(self, way: AnalogMethod) -> Float[np.ndarray, "row dim"]:
        memory = AnalogModel(self.stock.point, way, NOBODY)
        return memory.recall(self.truth.hide(self.hidden), self.own).value
