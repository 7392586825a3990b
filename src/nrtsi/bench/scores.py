"""The metrics of the tables by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.bench.datasets.simulators import WALL
from nrtsi.errors import InputError
from nrtsi.evaluation import metrics, path_metrics

__all__ = ["SCORES", "Imputation", "score", "standard_error"]


@dataclass(frozen=True)
class Imputation:
    """The values of a method beside the truth."""

    truth: Float[np.ndarray, "series step dim"]
    hidden: Bool[np.ndarray, "series step dim"]
    """The cells that are scored."""

    mean: Float[np.ndarray, "series step dim"]

    draws: Float[np.ndarray, "draw series step dim"] | None = None
    """Draws, if the method gives them and the table asks for them."""

    copies: int = 1
    """Copies of the test series, each with other hidden cells, one after the other."""

    @property
    def samples(self) -> Float[np.ndarray, "draw series step dim"]:
        """The draws; the mean if there are none."""
        return self.mean[None] if self.draws is None else self.draws

    @property
    def paths(self) -> Float[np.ndarray, "path step dim"]:
        """Whole series: the draws, because their mean is not a plausible path."""
        return self.samples.reshape(-1, *self.mean.shape[1:])

    @property
    def true_paths(self) -> Float[np.ndarray, "path step dim"]:
        """The truth of each of the paths."""
        return np.tile(self.truth, (len(self.samples), 1, 1))


SCORES: dict[str, Callable[[Imputation], float]] = {
    "l2": lambda i: metrics.l2(i.truth, i.mean, i.hidden),
    "mse": lambda i: metrics.mse(i.truth, i.mean, i.hidden),
    "mae": lambda i: metrics.mae(i.truth, i.mean, i.hidden),
    "crps": lambda i: metrics.crps(i.truth, i.samples, i.hidden),
    "min_l2": lambda i: metrics.min_l2(i.truth, i.samples, i.hidden),
    "avg_over_min": lambda i: metrics.avg_over_min(i.truth, i.samples, i.hidden),
    "sinuosity": lambda i: path_metrics.sinuosity(i.paths, i.true_paths),
    "step_change": lambda i: path_metrics.step_change(i.paths),
    "step_deviation": lambda i: path_metrics.step_deviation(i.paths),
    "average_length": lambda i: path_metrics.average_length(i.paths),
    "reflection": lambda i: path_metrics.reflection_to_wall(i.paths, i.true_paths, WALL),
}

AVERAGES = {"l2", "mse", "mae"}
"""Metrics that are averages over rows or cells, and so have a standard error."""


def score(imputation: Imputation, names: Sequence[str]) -> dict[str, float]:
    """Computes these metrics; of the first also the standard error, as `<name>_se`.

    A metric that is undefined for this imputation, such as the sinuosity of a path that does not
    move, is NaN.
    """
    if not np.isfinite(imputation.samples[:, imputation.hidden]).all():
        raise InputError("values that are not finite")
    found = {names[0]: SCORES[names[0]](imputation)}
    for name in names[1:]:
        try:
            found[name] = SCORES[name](imputation)
        except InputError:
            found[name] = float("nan")
    if names[0] in AVERAGES:
        found[f"{names[0]}_se"] = standard_error(imputation, names[0])
    return found


def standard_error(imputation: Imputation, name: str) -> float:
    """The standard error of a metric over the distinct test series.

    Errors in a series and its copies are correlated, so series are the sampling unit.
    """
    error = np.where(imputation.hidden, imputation.mean - imputation.truth, 0.0)
    cells = imputation.hidden.any(axis=2) if name == "l2" else imputation.hidden
    loss = np.abs(error) if name == "mae" else error**2
    shape = (imputation.copies, len(error) // imputation.copies, -1)
    total, count = (each.reshape(shape).sum(axis=(0, 2)) for each in (loss, cells))
    if total.size < 2:
        return float("nan")
    residual = total - count * total.sum() / count.sum()
    return float(np.sqrt(np.sum(residual**2) * total.size / (total.size - 1)) / count.sum())
