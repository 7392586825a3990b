"""`WindowSampler`: teacher-forced windows, which know the truth of all earlier steps."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nrtsi.core.masking import Masking
from nrtsi.core.prediction import BasePrediction
from nrtsi.core.segments import SEGMENT_ROWS
from nrtsi.core.series import SeriesSet
from nrtsi.network.registry import NETWORKS
from nrtsi.network.tokens import StepContext, Tokens, tokens
from nrtsi.predictors.base import Sample
from nrtsi.predictors.registry import BasePredictors
from nrtsi.schedule.plan import Step
from nrtsi.schedule.plan import plan as plan_steps
from nrtsi.schedule.windows import Windows
from nrtsi.training.settings import TrainingPlan

__all__ = ["Batch", "WindowSampler"]


@dataclass(frozen=True)
class Batch:
    """Windows with the true values of their targets."""

    tokens: Tokens
    truth: Float[Tensor, "window target dim"]
    counts: Bool[Tensor, "window target dim"]
    """True for cells that were hidden; cells that are missing in the data have no truth."""

    @property
    def size(self) -> int:
        """Number of windows."""
        return self.truth.shape[0]

    def pick(self, index: Int[np.ndarray, " picked"]) -> "Batch":
        """Some of the windows, with as little padding as they need."""
        at = torch.from_numpy(index)
        picked = self.tokens.map(lambda tensor: tensor[at])
        # Padding follows the known rows, and the targets.
        parts = picked.valid.any(dim=0).tensor_split([picked.n_known])
        known, targets = (int(part.sum()) for part in parts)
        kept = torch.cat([torch.arange(known), picked.n_known + torch.arange(targets)])
        tokens = picked.resized(known, lambda t: t[:, kept], lambda t: t[:, :targets])
        return Batch(tokens, self.truth[at][:, :targets], self.counts[at][:, :targets])

    def to(self, device: torch.device) -> "Batch":
        """The batch on `device`."""
        moved = self.tokens.map(lambda t: t.to(device))
        return Batch(moved, self.truth.to(device), self.counts.to(device))


@dataclass(frozen=True)
class WindowSampler:
    """Batches of windows; each is a function of the seed and its number."""

    sample: Sample
    masking: Masking
    plan: TrainingPlan
    seed: tuple[int, ...]
    segment_rows: int = SEGMENT_ROWS
    predictors: BasePredictors = field(default_factory=BasePredictors)
    level_weights: Float[np.ndarray, " level"] | None = None  # all equal by default
    _last: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The masked segments of the last call, and their key."""

    def draw(self, number: int, count: int, level: int | None = None) -> Batch | None:
        """About `count` windows of one level, or of all levels; None if there is none."""
        mask_number = number // self._uses
        for attempt in range(self.plan.train.sampler.attempts):
            seed = [*self.seed, mask_number, attempt]
            if steps := self._masked_steps(seed, count, level):
                parts = _share_out(steps, count, np.random.default_rng([*seed, number]))
                known = max(part.tokens.n_known for part in parts)
                targets = max(part.truth.shape[1] for part in parts)
                return _join([_pad(part, known, targets) for part in parts])
        return None

    @property
    def _uses(self) -> int:
        """Draws that share masked segments, each with other windows.

        Slow base predictors make masked segments expensive. The network `cells` predicts all
        hidden cells of the rows of a window, so that there are no other windows.
        """
        slow = any(predictor.slow for predictor in self.predictors.values())
        return self.plan.train.sampler.uses if slow and not self.plan.model.cell_tokens else 1

    def _masked_steps(self, seed: list[int], count: int, level: int | None) -> list["_MaskedStep"]:
        """The steps of the plan for some segments with hidden cells."""
        key = (*seed, count, level)
        if self._last.get("key") != key:
            rng = np.random.default_rng(seed)
            series, segments = self.sample.series, self.sample.segments
            chosen = segments.sample(self._segment_count(count), rng, self.segment_rows)
            truth = series.slices(chosen.begin, chosen.end)
            hidden = self.masking.draw(truth, rng)
            numbers = self.sample.numbers(chosen)
            predictions = self.predictors.predict(truth.hide(hidden), numbers)
            masked = _Masked(truth, hidden, predictions, np.zeros(truth.rows, dtype=np.int64))
            self._last.update(key=key, steps=list(self._steps(masked, level)))
        found: list[_MaskedStep] = self._last["steps"]
        return found

    def _segment_count(self, count: int) -> int:
        """Segments that give about `count` windows, and not too many cells to plan."""
        # The mean of lengths that are uniform on a logarithmic scale.
        ratio = self.segment_rows / SEGMENT_ROWS
        size = SEGMENT_ROWS * (ratio - 1) / np.log(ratio) if ratio > 1 else SEGMENT_ROWS
        segments, dims = self.sample.segments, self.sample.series.dims
        rows = np.minimum(segments.end - segments.begin, size).mean()
        most = max(4.0, self.plan.train.sampler.max_cells / (rows * dims))
        # A window of `cells` predicts every row it holds.
        own = self.plan.model.window if self.plan.model.cell_tokens else None
        return int(np.clip((own or 16) * count / rows / min(2, self._uses), 4, most))

    def _steps(self, segments: "_Masked", level: int | None) -> Iterator["_MaskedStep"]:
        """The steps of the plan that have windows of the level."""
        targets = np.logical_or.reduce(segments.hidden, axis=1)
        masked, start = segments.truth.hide(segments.hidden), segments.truth.start
        model, levels = self.plan.model, self.plan.layout.levels
        for number, step in enumerate(plan_steps(masked, self.plan.schedule, targets)):
            segments.known_from[step.rows] = number
            own = np.minimum(step.level, levels - 1)
            chosen = own >= 0 if level is None else own == level
            if chosen.any():
                windows = NETWORKS[model.network].windows(step, start, model, chosen)
                yield _MaskedStep(self, segments, number, step, windows)


@dataclass(frozen=True)
class _Masked:
    """Segments with hidden cells, and what the base predictors predict for them."""

    truth: SeriesSet
    hidden: Bool[np.ndarray, "row dim"]
    predictions: tuple[BasePrediction, ...]
    known_from: Int[np.ndarray, " row"]
    """The step after which a hidden row is known; complete once all steps are planned."""


@dataclass(frozen=True)
class _MaskedStep:
    """The windows of one step, before they are turned into tensors."""

    sampler: WindowSampler
    segments: _Masked
    number: int  # of the step
    step: Step
    windows: Windows

    def batch(self, chosen: Int[np.ndarray, " window"]) -> Batch:
        padded = self.windows.pad(chosen)
        layout, step, segments = self.sampler.plan.layout, self.step, self.segments
        truth, hidden = segments.truth, segments.hidden
        # Built here: a copy of the state for every step would take most of the memory.
        state = truth.hide(hidden & (segments.known_from >= self.number)[:, None])
        context = StepContext.of(state, step.rows, step.distance, layout, segments.predictions)
        rows, valid = padded.target, padded.target_valid[..., None]
        return Batch(
            tokens(context, padded, layout, self.sampler.plan.model),
            torch.from_numpy(truth.value[rows].astype(np.float32)),
            torch.from_numpy(hidden[rows] & valid),
        )


def _share_out(steps: list[_MaskedStep], count: int, rng: np.random.Generator) -> list[Batch]:
    """Picks about `count` windows, by the weights of the levels."""
    coarsest = steps[0].sampler.plan.layout.levels - 1
    level = np.minimum(np.concatenate([each.windows.level for each in steps]), coarsest)
    source = np.repeat(np.arange(len(steps)), [each.windows.count for each in steps])
    inside = np.concatenate([np.arange(each.windows.count) for each in steps])
    found, available = np.unique(level, return_counts=True)
    weights = steps[0].sampler.level_weights
    quota = _quotas(available, count, np.ones(found.size) if weights is None else weights[found])
    by_level = zip(found, quota, strict=True)
    chosen = [rng.permutation(np.flatnonzero(level == own))[:most] for own, most in by_level]
    picked = np.sort(np.concatenate(chosen))
    return [
        steps[index].batch(inside[picked[source[picked] == index]])
        for index in np.unique(source[picked])
    ]


def _quotas(
    available: Int[np.ndarray, " level"], count: int, weight: Float[np.ndarray, " level"]
) -> Int[np.ndarray, " level"]:
    """Divides `count` among levels by weight; what a level lacks goes to the others.

    >>> _quotas(np.array([90, 5, 30]), 60, np.ones(3))
    array([28,  5, 27])
    >>> _quotas(np.array([90, 90, 30]), 60, np.array([1.0, 2.0, 9.0]))
    array([10, 20, 30])
    """
    quota = np.zeros_like(available)
    # The scarcest level first, so that its remainder is known to the others.
    order = np.argsort(available / weight)
    for turn, level in enumerate(order):
        own = weight[level] / weight[order[turn:]].sum()
        quota[level] = min(available[level], int((count - quota.sum()) * own + 1e-9))
    return quota


def _pad(batch: Batch, known: int, targets: int) -> Batch:
    """Pads the known rows to `known` and the targets to `targets`."""

    def extend(tensor: Tensor, size: int = targets) -> Tensor:
        out = tensor.new_zeros((tensor.shape[0], size, *tensor.shape[2:]))
        out[:, : tensor.shape[1]] = tensor
        return out

    def extend_both(tensor: Tensor) -> Tensor:
        first, last = tensor.tensor_split([batch.tokens.n_known], dim=1)
        return torch.cat([extend(first, known), extend(last)], dim=1)

    padded = batch.tokens.resized(known, extend_both, extend)
    return Batch(padded, extend(batch.truth), extend(batch.counts))


def _join(parts: list[Batch]) -> Batch:
    joined = {
        name: torch.cat([getattr(part.tokens, name) for part in parts]) for name in Tokens.names()
    }
    return Batch(
        Tokens(n_known=parts[0].tokens.n_known, **joined),
        torch.cat([part.truth for part in parts]),
        torch.cat([part.counts for part in parts]),
    )
