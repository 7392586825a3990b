"""The measures of the tables by name: what an answer is worth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from nrtsi.bench.datasets.billiards import WALL
from nrtsi.errors import InputError
from nrtsi.evaluation import metrics, path_metrics

__all__ = ["SCORES", "Answer", "score"]


@dataclass(frozen=True)
class Answer:
    """What a method said, and what was true."""

    truth: Float[np.ndarray, "series step dim"]
    hidden: Bool[np.ndarray, "series step dim"]
    """The cells that count."""

    filled: Float[np.ndarray, "series step dim"]
    """A single value for every cell."""

    draws: Float[np.ndarray, "draw series step dim"] | None = None
    """Several, where the method can draw and the table asks for it."""

    copies: int = 1
    """Times the test series were asked, with other cells hidden: one copy after the other."""

    @property
    def several(self) -> Float[np.ndarray, "draw series step dim"]:
        """The draws; of a method that has none, its one answer."""
        return self.filled[None] if self.draws is None else self.draws

    @property
    def paths(self) -> Float[np.ndarray, "path step dim"]:
        """Whole series as the method would have them: draws, where it has them.

        A mean over draws is a path that nobody would run.
        """
        return self.several.reshape(-1, *self.filled.shape[1:])

    @property
    def truths(self) -> Float[np.ndarray, "path step dim"]:
        """What each of the paths should have been."""
        return np.tile(self.truth, (len(self.several), 1, 1))


SCORES: dict[str, Callable[[Answer], float]] = {
    "l2": lambda a: metrics.l2(a.truth, a.filled, a.hidden),
    "mse": lambda a: metrics.mse(a.truth, a.filled, a.hidden),
    "mae": lambda a: metrics.mae(a.truth, a.filled, a.hidden),
    "crps": lambda a: metrics.crps(a.truth, a.several, a.hidden),
    "min_l2": lambda a: metrics.min_l2(a.truth, a.several, a.hidden),
    "avg_over_min": lambda a: metrics.avg_over_min(a.truth, a.several, a.hidden),
    "sinuosity": lambda a: path_metrics.sinuosity(a.paths, a.truths),
    "step_change": lambda a: path_metrics.step_change(a.paths),
    "step_deviation": lambda a: path_metrics.step_deviation(a.paths),
    "average_length": lambda a: path_metrics.average_length(a.paths),
    "reflection": lambda a: path_metrics.reflection_to_wall(a.paths, a.truths, WALL),
}

SPREAD = {"l2", "mse", "mae"}
"""Measures that are averages over rows or cells, whose standard error can be told."""


def score(answer: Answer, names: Sequence[str]) -> dict[str, float]:
    """The measures of these names; the first also with its standard error, as `<name>_se`.

    A measure that has no meaning for this answer, such as the bends of a path that stands still,
    is not a number.

    Raises:
        InputError: The answer is not finite in a cell that counts.
    """
    if not np.isfinite(answer.several[:, answer.hidden]).all():
        raise InputError("values that are not finite")
    found = {names[0]: SCORES[names[0]](answer)}
    for name in names[1:]:
        try:
            found[name] = SCORES[name](answer)
        except InputError:
            found[name] = float("nan")
    if names[0] in SPREAD:
        found[f"{names[0]}_se"] = standard_error(answer, names[0])
    return found


def standard_error(answer: Answer, name: str) -> float:
    """How far the measure may be off because only so many series were tested.

    Errors inside a series go together, and so do those of its copies, so the distinct series are
    what is counted.
    """
    error = np.where(answer.hidden, answer.filled - answer.truth, 0.0)
    cells = answer.hidden.any(axis=2) if name == "l2" else answer.hidden
    lost = np.abs(error) if name == "mae" else error**2
    shape = (answer.copies, len(error) // answer.copies, -1)
    total, count = (each.reshape(shape).sum(axis=(0, 2)) for each in (lost, cells))
    if total.size < 2:
        return float("nan")
    off = total - count * total.sum() / count.sum()
    return float(np.sqrt(np.sum(off**2) * total.size / (total.size - 1)) / count.sum())
