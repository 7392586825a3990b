"""`WindowSampler`: teacher-forced windows, which know the truth of all earlier steps."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nrtsi.config import ModelConfig, SamplerConfig, ScheduleConfig
from nrtsi.core.masking import Masking
from nrtsi.core.prediction import BasePrediction
from nrtsi.core.segments import SEGMENT_ROWS
from nrtsi.core.series import SeriesSet
from nrtsi.network.registry import NETWORKS
from nrtsi.network.tokens import StepContext, TokenLayout, Tokens, tokens
from nrtsi.predictors.base import Sample
from nrtsi.predictors.registry import BasePredictors
from nrtsi.schedule.plan import Step, plan
from nrtsi.schedule.windows import Windows

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
        picked = Batch(self.tokens.map(lambda t: t[at]), self.truth[at], self.counts[at])
        return picked._trim()

    def _trim(self) -> "Batch":
        t = self.tokens
        valid = t.valid.any(dim=0)
        # Padding follows the known rows, and the targets.
        known, targets = int(valid[: t.n_known].sum()), int(valid[t.n_known :].sum())
        kept = torch.cat([torch.arange(known), t.n_known + torch.arange(targets)])

        def first(tensor: Tensor) -> Tensor:
            return tensor[:, :targets]

        trimmed = t.resized(known, lambda tensor: tensor[:, kept], first)
        return Batch(trimmed, first(self.truth), first(self.counts))

    def to(self, device: torch.device) -> "Batch":
        """The batch on `device`."""
        moved = self.tokens.map(lambda t: t.to(device))
        return Batch(moved, self.truth.to(device), self.counts.to(device))


@dataclass(frozen=True)
class WindowSampler:
    """Batches of windows; each is a function of the seed and its number."""

    sample: Sample
    masking: Masking
    schedule: ScheduleConfig
    model: ModelConfig
    layout: TokenLayout
    seed: tuple[int, ...]
    segment_rows: int = SEGMENT_ROWS
    level_weights: Float[np.ndarray, " level"] | None = None  # all equal by default
    predictors: BasePredictors = field(default_factory=BasePredictors)
    config: SamplerConfig = field(default_factory=SamplerConfig)
    _last: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The masked segments of the last call, and their key."""

    def draw(self, number: int, count: int, level: int | None = None) -> Batch | None:
        """About `count` windows of one level, or of all levels; None if there is none."""
        mask_number = number // self._uses
        for attempt in range(self.config.attempts):
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
        reuse = self.predictors.slow and not self.model.cell_tokens
        return self.config.uses if reuse else 1

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
            steps = list(self._steps(truth, hidden, predictions, level))
            self._last.update(key=key, steps=steps)
        found: list[_MaskedStep] = self._last["steps"]
        return found

    def _segment_count(self, count: int) -> int:
        """Segments that give about `count` windows, and not too many cells to plan."""
        # The mean of lengths that are uniform on a logarithmic scale.
        ratio = self.segment_rows / SEGMENT_ROWS
        size = SEGMENT_ROWS * (ratio - 1) / np.log(ratio) if ratio > 1 else SEGMENT_ROWS
        segments, dims = self.sample.segments, self.sample.series.dims
        rows = np.minimum(segments.end - segments.begin, size).mean()
        most = max(4.0, self.config.max_cells / (rows * dims))
        # A window of `cells` predicts every row it holds.
        own = self.model.window if self.model.cell_tokens else None
        return int(np.clip((own or 16) * count / rows / min(2, self._uses), 4, most))

    def _steps(
        self,
        truth: SeriesSet,
        hidden: Bool[np.ndarray, "row dim"],
        predictions: tuple[BasePrediction, ...],
        level: int | None,
    ) -> Iterator["_MaskedStep"]:
        known_from = np.zeros(truth.rows, dtype=np.int64)
        targets = np.logical_or.reduce(hidden, axis=1)
        for number, step in enumerate(plan(truth.hide(hidden), self.schedule, targets)):
            known_from[step.rows] = number
            own = np.minimum(step.level, self.layout.levels - 1)
            chosen = own >= 0 if level is None else own == level
            if chosen.any():
                network = NETWORKS[self.model.network]
                windows = network.windows(step, truth.start, self.model, chosen)
                yield _MaskedStep(
                    self, truth, hidden, predictions, known_from, number, step, windows
                )


@dataclass(frozen=True)
class _MaskedStep:
    """The windows of one step, before they are turned into tensors."""

    sampler: WindowSampler
    truth: SeriesSet
    hidden: Bool[np.ndarray, "row dim"]
    predictions: tuple[BasePrediction, ...]

    known_from: Int[np.ndarray, " row"]
    """The step after which a hidden row is known; complete once all steps are planned."""

    number: int  # the number of the step

    step: Step
    windows: Windows

    def batch(self, chosen: Int[np.ndarray, " window"]) -> Batch:
        padded = self.windows.pad(chosen)
        sampler, step = self.sampler, self.step
        # Built here: a copy of the state for every step would take most of the memory.
        state = self.truth.hide(self.hidden & (self.known_from >= self.number)[:, None])
        context = StepContext.of(state, step.rows, step.distance, sampler.layout, self.predictions)
        rows, valid = padded.target, padded.target_valid[..., None]
        return Batch(
            tokens(context, padded, sampler.layout, sampler.model),
            torch.from_numpy(self.truth.value[rows].astype(np.float32)),
            torch.from_numpy(self.hidden[rows] & valid),
        )


def _share_out(steps: list[_MaskedStep], count: int, rng: np.random.Generator) -> list[Batch]:
    """Picks about `count` windows, by the weights of the levels."""
    sampler = steps[0].sampler
    level = np.concatenate(
        [np.minimum(each.windows.level, sampler.layout.levels - 1) for each in steps]
    )
    source = np.repeat(np.arange(len(steps)), [each.windows.count for each in steps])
    inside = np.concatenate([np.arange(each.windows.count) for each in steps])
    found, available = np.unique(level, return_counts=True)
    weights = sampler.level_weights
    quota = _quotas(available, count, np.ones(found.size) if weights is None else weights[found])
    picked = np.concatenate(
        [
            rng.permutation(np.flatnonzero(level == own))[:most]
            for own, most in zip(found, quota, strict=True)
        ]
    )
    return [
        steps[index].batch(np.sort(inside[picked[source[picked] == index]]))
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
    t = batch.tokens
    size = t.n_known + batch.truth.shape[1]

    def pad_set(tensor: Tensor) -> Tensor:
        out = tensor.new_zeros((tensor.shape[0], known + targets, *tensor.shape[2:]))
        out[:, : t.n_known] = tensor[:, : t.n_known]
        out[:, known : known + size - t.n_known] = tensor[:, t.n_known :]
        return out

    def pad_targets(tensor: Tensor) -> Tensor:
        out = tensor.new_zeros((tensor.shape[0], targets, *tensor.shape[2:]))
        out[:, : tensor.shape[1]] = tensor
        return out

    padded = t.resized(known, pad_set, pad_targets)
    return Batch(padded, pad_targets(batch.truth), pad_targets(batch.counts))


def _join(parts: list[Batch]) -> Batch:
    joined = {
        name: torch.cat([getattr(part.tokens, name) for part in parts]) for name in Tokens.names()
    }
    return Batch(
        Tokens(n_known=parts[0].tokens.n_known, **joined),
        torch.cat([part.truth for part in parts]),
        torch.cat([part.counts for part in parts]),
    )
