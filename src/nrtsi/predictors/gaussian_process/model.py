"""`MultiOutputGP`: predicts cells by Gaussian process regression on the nearest observed cells."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nrtsi.config import CovarianceConfig
from nrtsi.core.interpolation import Known, interpolate
from nrtsi.core.prediction import BasePrediction
from nrtsi.core.series import SeriesSet
from nrtsi.network.threads import Threads
from nrtsi.predictors.base import FitContext, State
from nrtsi.predictors.gaussian_process.covariance import (
    CellIndex,
    Covariance,
    CovarianceTable,
    is_on_grid,
)
from nrtsi.predictors.gaussian_process.trainer import GPTrainer

__all__ = ["MultiOutputGP"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class MultiOutputGP:
    """Gaussian process over time and channels with a stationary covariance function.

    The rows of a series are divided into blocks. The missing cells of a block are predicted
    together, from the observed cells in the block and the nearest ones of each channel on both
    sides of it.
    """

    title: ClassVar[str] = "Gaussian process"
    from_gradients: ClassVar[bool] = True
    slow: ClassVar[bool] = True
    network: ClassVar[str | None] = None
    gate_power: ClassVar[int] = 1

    covariance: Covariance

    @classmethod
    def fit(cls, context: FitContext) -> "MultiOutputGP | None":
        """Maximises the likelihood of the training part; None if that does not help early on."""
        config, gate = context.config.gp, context.gate
        if not context.has_budget(config.min_seconds):
            return None
        trainer = GPTrainer.of(context.training, context.periods, config, context.seed)
        if trainer is None or not context.agree(gate.is_open):
            return None
        budget = context.budget(config.share)
        model = cls(trainer.covariance)
        context.train(trainer, budget, until=0.0)
        early_ratio = context.config.gate.early_ratio
        if not context.agree(gate.improves(model, early_ratio, power=cls.gate_power)):
            log.info("%s: does not lower the error after %d steps", cls.title, trainer.step)
            return None
        context.train(trainer, budget)
        log.info("%s: trained for %d steps", cls.title, trainer.step)
        return model

    @torch.inference_mode()
    def predict(
        self,
        series: SeriesSet,
        exclude: Int[np.ndarray, " series"] | None = None,
        threads: Threads | None = None,
    ) -> BasePrediction:
        """Predicts every missing cell; interpolation where no observed cell is near."""
        config, covariance = self.covariance.config, self.covariance
        mean, variance = interpolate(series), covariance.variance.numpy()
        std = np.where(series.observed, 0.0, np.sqrt(variance))
        known = Known.of(series.observed, series.start)
        table = None
        if is_on_grid(series):
            max_lag = min(_longest_duration(series), 3 * config.max_distance)
            table = CovarianceTable(covariance, max_lag)

        def predict_block(block: slice) -> _Posterior | None:
            return self._predict_block(series, known, block, table)

        blocks = _blocks(series, self._neighbours, config.max_distance)
        found = (threads or Threads(1)).map(predict_block, blocks)
        for block, posterior in zip(blocks, found, strict=True):
            if posterior is not None:
                missing = ~series.observed[block]
                left = np.broadcast_to(variance, missing.shape)[missing] - posterior.explained
                mean[block][missing] = posterior.mean
                std[block][missing] = np.sqrt(np.maximum(left, config.jitter))
        return BasePrediction(mean, std, np.ones_like(series.observed))

    @property
    def _neighbours(self) -> int:
        """Rows of a block, and observed cells of a channel that are read on each side of it."""
        config = self.covariance.config
        per_channel = config.context_cells // (3 * self.covariance.dims)
        return int(np.clip(per_channel, *config.neighbours))

    def _predict_block(
        self, series: SeriesSet, known: Known, block: slice, table: CovarianceTable | None
    ) -> "_Posterior | None":
        """Predicts the missing cells of a block; None if no observed cell is near."""
        config = self.covariance.config
        rows = [
            _observed_near(cells, series, block, self._neighbours, config.max_distance)
            for cells in known.cells
        ]
        row = np.concatenate(rows)
        channel = np.repeat(np.arange(len(rows)), [each.size for each in rows])
        if not row.size:
            return None
        missing_row, missing_channel = np.nonzero(~series.observed[block])
        observed = CellIndex(series.time[row], channel)
        both = CellIndex(
            np.concatenate([observed.time, series.time[block][missing_row]]),
            np.concatenate([channel, missing_channel]),
        )
        value = series.value[row, channel].clip(-config.max_deviation, config.max_deviation)
        with torch.inference_mode():  # the mode is a thread's own
            covariance = self.covariance.between(both, observed, table)
            among, across = covariance[: row.size], covariance[row.size :]
            right = torch.cat([torch.from_numpy(value)[:, None], across.mT], dim=1)
            lower = self.covariance.cholesky(among, observed)
            solved = torch.linalg.solve_triangular(lower, right, upper=False)
            mean = solved[:, 1:].mT @ solved[:, 0]
            return _Posterior(mean.numpy(), solved[:, 1:].square().sum(dim=0).numpy())

    def locate(self, source: SeriesSet) -> None:
        """None: no series is stored."""
        return

    def __str__(self) -> str:
        """The size of the neighbourhood."""
        return f"reads {self._neighbours} observed cells per column on each side"

    def state(self) -> State:
        """Parameters of the covariance function, and what defines their shapes and use."""
        covariance = self.covariance
        record = {
            "dims": covariance.dims,
            "periods": list(covariance.periods),
            "config": covariance.config.model_dump(mode="json"),
        }
        return dict(covariance.state_dict()), record

    @classmethod
    def from_state(
        cls, tensors: Mapping[str, Tensor], record: Mapping[str, Any]
    ) -> "MultiOutputGP":
        """Builds the model that `state` describes."""
        config = CovarianceConfig.model_validate(record["config"])
        covariance = Covariance(record["dims"], record["periods"], config)
        covariance.load_state_dict(dict(tensors))
        return cls(covariance.eval())


@dataclass(frozen=True)
class _Posterior:
    """Posterior of the missing cells of a block."""

    mean: Float[np.ndarray, " cell"]
    explained: Float[np.ndarray, " cell"]
    """Prior variance minus posterior variance."""


def _longest_duration(series: SeriesSet) -> float:
    """Time from the first to the last row of the longest series."""
    full = series.length > 0
    first, last = series.start[:-1][full], series.start[1:][full] - 1
    return float((series.time[last] - series.time[first]).max(initial=0.0))


def _blocks(series: SeriesSet, size: int, max_duration: float) -> list[slice]:
    """Blocks of at most `size` successive rows of a series; only those with missing cells."""
    first = series.start[series.owner]
    by_rows = (np.arange(series.rows) - first) // size
    by_time = (series.time - series.time[first]) // max_duration
    new = np.ones(series.rows, dtype=bool)
    new[1:] = (np.diff(series.owner) != 0) | (np.diff(by_rows) != 0) | (np.diff(by_time) != 0)
    begin = np.flatnonzero(new)
    end = np.append(begin[1:], series.rows)
    incomplete = ~np.logical_and.reduce(series.observed, axis=1)
    chosen = np.logical_or.reduceat(incomplete, begin) if begin.size else begin.astype(bool)
    bounds = zip(begin[chosen].tolist(), end[chosen].tolist(), strict=True)
    return [slice(*each) for each in bounds]


def _observed_near(
    cells: Int[np.ndarray, " _"],
    series: SeriesSet,
    block: slice,
    neighbours: int,
    max_distance: float,
) -> Int[np.ndarray, " near"]:
    """Observed rows of a channel in a block, and the nearest ones before and after it."""
    owner = int(np.searchsorted(series.start, block.start, side="right")) - 1
    bounds = series.start[owner], block.start, block.stop, series.start[owner + 1]
    begin, first, last, end = np.searchsorted(cells, bounds)
    # Known.cells has one entry more at each end, which is no row.
    rows = cells[max(begin, 1, first - neighbours) : min(end, cells.size - 1, last + neighbours)]
    earliest = series.time[block.start] - max_distance
    latest = series.time[block.stop - 1] + max_distance
    return rows[(series.time[rows] >= earliest) & (series.time[rows] <= latest)]
