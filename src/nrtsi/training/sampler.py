"""Teacher-forced questions: what is known before a step, and the truth of the step."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nrtsi.config import ModelConfig, ScheduleConfig
from nrtsi.core.interpolation import Known
from nrtsi.core.masking import Masking
from nrtsi.core.prediction import BasePrediction
from nrtsi.core.series import SeriesSet
from nrtsi.network.registry import windows_of
from nrtsi.network.tokens import StepContext, TokenLayout, Tokens, tokens
from nrtsi.predictors.base import BasePredictors
from nrtsi.schedule.plan import Step, plan
from nrtsi.schedule.windows import Windows

__all__ = [
    "SEGMENT",
    "Batch",
    "WindowSampler",
    "Segments",
    "longest_gap",
    "split",
    "segment_length_for",
]

# Rows of a longer series that are hidden and planned together: several windows at every level.
SEGMENT = 256

# The same where the data have gaps that would not fit.
LONGEST = 2**14

# Cells hidden and planned together, at most: what bounds memory for wide tables.
CELLS = 2**19

# Drawings that share what is hidden, where remembering takes the time.
REUSED = 4

# Drawings of a level that occurs rarely before it is taken not to occur at all.
TRIES = 8


@dataclass(frozen=True)
class Batch:
    """Windows with their answers."""

    tokens: Tokens
    truth: Float[Tensor, "window target dim"]
    counts: Bool[Tensor, "window target dim"]
    """True for cells that were hidden; what is missing in the data itself is never asked."""

    @property
    def size(self) -> int:
        """Number of windows."""
        return self.truth.shape[0]

    def pick(self, index: Int[np.ndarray, " picked"]) -> "Batch":
        """Some of the windows, as wide as the widest of them."""
        at = torch.from_numpy(index)
        picked = Batch(self.tokens.map(lambda t: t[at]), self.truth[at], self.counts[at])
        return picked._trim()

    def _trim(self) -> "Batch":
        t = self.tokens
        valid = t.valid.any(dim=0)
        # Padding stands behind the known rows and behind the targets.
        obs, targets = int(valid[: t.n_known].sum()), int(valid[t.n_known :].sum())
        kept = torch.cat([torch.arange(obs), t.n_known + torch.arange(targets)])

        def first(tensor: Tensor) -> Tensor:
            return tensor[:, :targets]

        trimmed = t.resized(obs, lambda tensor: tensor[:, kept], first)
        return Batch(trimmed, first(self.truth), first(self.counts))

    def to(self, device: torch.device) -> "Batch":
        """The same on `device`."""
        moved = self.tokens.map(lambda t: t.to(device))
        return Batch(moved, self.truth.to(device), self.counts.to(device))


@dataclass(frozen=True)
class Segments:
    """Stretches of rows, each inside one series."""

    begin: Int[np.ndarray, " span"]
    end: Int[np.ndarray, " span"]

    @classmethod
    def whole(cls, series: SeriesSet) -> "Segments":
        """Every series from its first row to its last."""
        full = series.length > 0
        return cls(series.start[:-1][full], series.start[1:][full])

    def draw(self, count: int, rng: np.random.Generator, longest: int = SEGMENT) -> "Segments":
        """Random stretches of at most `longest` rows, every row as likely as any other.

        Short stretches are as many as long ones, on a scale of ratios.
        """
        length = self.end - self.begin
        span = rng.choice(length.size, size=count, p=length / length.sum())
        size = SEGMENT * (longest / SEGMENT) ** rng.random(count) if longest > SEGMENT else SEGMENT
        size = np.minimum(length[span], size).astype(np.int64)
        offset = np.floor(rng.random(count) * (length[span] - size + 1)).astype(np.int64)
        begin = self.begin[span] + offset
        return Segments(begin, begin + size)


def longest_gap(series: SeriesSet) -> float:
    """Time over which a channel is unknown, at most, from an observation to the next."""
    longest = 0.0
    for cells in Known.of(series.observed, series.start).cells:
        rows = cells[1:-1]
        here = np.diff(series.owner[rows]) == 0
        longest = max(longest, float(np.diff(series.time[rows])[here].max(initial=0.0)))
    return longest


def segment_length_for(gap: float) -> int:
    """Rows of a stretch in which a gap of that time could be hidden, at one row a unit.

    >>> segment_length_for(10.0), segment_length_for(1000.0), segment_length_for(1e9)
    (256, 4000, 16384)
    """
    return int(np.clip(4 * gap, SEGMENT, LONGEST))


def split(
    series: SeriesSet, share: float, rng: np.random.Generator, longest: int = SEGMENT
) -> tuple[Segments, Segments]:
    """Divides the rows into those to learn from and those to validate on.

    The validation part is made of whole pieces of at most `longest` rows; data of less than twenty
    pieces is cut finer, and data too small to be divided is both, with other cells hidden.
    """
    length = series.length
    size = int(np.clip(series.rows // 20, 24, longest))
    size = min(size, max(4, series.rows // 4))
    pieces = -(-length // size)
    piece = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    first = np.repeat(series.start[:-1], pieces)
    # Pieces of a series are of equal length, give or take a row.
    begin = first + piece * np.repeat(length, pieces) // np.repeat(pieces, pieces)
    end = first + (piece + 1) * np.repeat(length, pieces) // np.repeat(pieces, pieces)
    full = end > begin
    begin, end, piece = begin[full], end[full], piece[full]
    if begin.size < 4:
        return Segments(begin, end), Segments(begin, end)
    held = np.zeros(begin.size, dtype=bool)
    held[rng.permutation(begin.size)[: max(1, round(share * begin.size))]] = True
    # Neighbouring pieces that both stay are one stretch again.
    stays = np.flatnonzero(~held)
    joined = (np.diff(stays) == 1) & (piece[stays[1:]] > 0)
    opens = np.concatenate([[True], ~joined])
    closes = np.concatenate([~joined, [True]])
    return Segments(begin[stays[opens]], end[stays[closes]]), Segments(begin[held], end[held])


@dataclass(frozen=True)
class WindowSampler:
    """A stream of batches that is a pure function of the seed and of the number of the draw."""

    series: SeriesSet
    spans: Segments
    hiding: Masking
    schedule: ScheduleConfig
    model: ModelConfig
    layout: TokenLayout
    seed: tuple[int, ...]
    stretch: int = SEGMENT

    level_weights: Float[np.ndarray, " level"] | None = None
    """How often each level is asked for; all alike without."""

    predictors: BasePredictors = field(default_factory=BasePredictors)

    own: Int[np.ndarray, " series"] | None = None
    """The number of each series among those remembered, where there are some; -1 for none."""

    _last: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was asked last, and under which key."""

    def draw(self, number: int, count: int, level: int | None = None) -> Batch | None:
        """About `count` windows of one level, or of all levels alike; None where there is none."""
        hidings, _ = divmod(number, self._reused)
        tries = ([*self.seed, hidings, turn] for turn in range(TRIES))
        for seed in tries:
            if asked := self._asked(seed, count, level):
                return self._pick(asked, count, np.random.default_rng([*seed, number]))
        return None

    @property
    def _reused(self) -> int:
        """Drawings that ask about the same hidden cells, each for windows of its own.

        To remember takes longer than anything else, and so does kriging, and there are windows to
        spare; but not of cells, where a window asks for all that is hidden of its rows.
        """
        slow = self.predictors.memory is not None or self.predictors.field is not None
        spare = slow and self.model.network != "cells"
        return REUSED if spare else 1

    def _asked(self, seed: list[int], count: int, level: int | None) -> list["_Asked"]:
        """What is to be answered of some stretches of which cells are hidden."""
        key = (*seed, count, level)
        if self._last.get("key") != key:
            rng = np.random.default_rng(seed)
            chosen = self.spans.draw(self._stretches(count), rng, self.stretch)
            truth = self.series.slices(chosen.begin, chosen.end)
            hidden = self.hiding.draw(truth, rng)
            base_predictions = self._hinted(truth, hidden, chosen)
            asked = list(self._windows(truth, hidden, base_predictions, level))
            self._last.update(key=key, asked=asked)
        found: list[_Asked] = self._last["asked"]
        return found

    def _pick(self, asked: list["_Asked"], count: int, rng: np.random.Generator) -> Batch:
        parts = _share_out(asked, count, rng)
        obs = max(part.tokens.n_known for part in parts)
        targets = max(part.truth.shape[1] for part in parts)
        return _join([_widen(part, obs, targets) for part in parts])

    def _stretches(self, count: int) -> int:
        """Stretches that give about `count` windows, and not too many cells to plan."""
        # Lengths are spread evenly on a scale of ratios, so that most are shorter than the mean.
        ratio = self.stretch / SEGMENT
        size = SEGMENT * (ratio - 1) / np.log(ratio) if ratio > 1 else SEGMENT
        rows = np.minimum(self.spans.end - self.spans.begin, size).mean()
        most = max(4.0, CELLS / (rows * self.series.dims))
        # Where every row of a window is one to be asked, it takes as many rows as it holds.
        own = self.model.window if self.model.network == "cells" else None
        return int(np.clip((own or 16) * count / rows / min(2, self._reused), 4, most))

    def _hinted(
        self, truth: SeriesSet, hidden: Bool[np.ndarray, "row dim"], chosen: Segments
    ) -> tuple[BasePrediction, ...]:
        """What is said of stretches of which cells are hidden."""
        series = np.searchsorted(self.series.start, chosen.begin, side="right") - 1
        own = None if self.own is None else self.own[series]
        return self.predictors.predict(truth.hide(hidden), own)

    def _windows(
        self,
        truth: SeriesSet,
        hidden: Bool[np.ndarray, "row dim"],
        base_predictions: tuple[BasePrediction, ...],
        level: int | None,
    ) -> Iterator["_Asked"]:
        known_from = np.zeros(truth.rows, dtype=np.int64)
        wanted = np.logical_or.reduce(hidden, axis=1)
        for number, step in enumerate(plan(truth.hide(hidden), self.schedule, wanted)):
            known_from[step.rows] = number
            learnt = np.minimum(step.level, self.layout.levels - 1)
            asked = learnt >= 0 if level is None else learnt == level
            if asked.any():
                parts = windows_of(step, truth.start, self.model, asked)
                yield _Asked(
                    self, truth, hidden, base_predictions, known_from, number, step, parts
                )


@dataclass(frozen=True)
class _Asked:
    """One step's windows, not yet turned into tensors."""

    questions: WindowSampler
    truth: SeriesSet
    hidden: Bool[np.ndarray, "row dim"]
    base_predictions: tuple[BasePrediction, ...]

    known_from: Int[np.ndarray, " row"]
    """The step after which a hidden row is known; complete once all steps are planned."""

    number: int
    """Which step this is."""

    step: Step
    parts: Windows

    def batch(self, chosen: Int[np.ndarray, " window"]) -> Batch:
        padded = self.parts.pad(chosen)
        ask, step = self.questions, self.step
        context = StepContext.of(
            self._state(), step.rows, step.distance, ask.layout, self.base_predictions
        )
        rows, valid = padded.target, padded.target_valid[..., None]
        return Batch(
            tokens(context, padded, ask.layout, ask.model),
            torch.from_numpy(self.truth.value[rows].astype(np.float32)),
            torch.from_numpy(self.hidden[rows] & valid),
        )

    def _state(self) -> SeriesSet:
        """What is known before the step: the truth but for what is hidden and not yet answered.

        Made anew when it is needed: a copy for every step would be most of the memory.
        """
        return self.truth.hide(self.hidden & (self.known_from >= self.number)[:, None])


def _share_out(asked: list[_Asked], count: int, rng: np.random.Generator) -> list[Batch]:
    """Picks about `count` windows, of each level its share, as far as there are so many."""
    coarsest = asked[0].questions.layout.levels - 1
    level = np.concatenate([np.minimum(a.parts.level, coarsest) for a in asked])
    source = np.repeat(np.arange(len(asked)), [a.parts.count for a in asked])
    inside = np.concatenate([np.arange(a.parts.count) for a in asked])
    found, there = np.unique(level, return_counts=True)
    shares = asked[0].questions.level_weights
    quota = _quotas(there, count, np.ones(found.size) if shares is None else shares[found])
    picked = np.concatenate(
        [
            rng.permutation(np.flatnonzero(level == own))[:most]
            for own, most in zip(found, quota, strict=True)
        ]
    )
    return [
        asked[index].batch(np.sort(inside[picked[source[picked] == index]]))
        for index in np.unique(source[picked])
    ]


def _quotas(
    there: Int[np.ndarray, " level"], count: int, share: Float[np.ndarray, " level"]
) -> Int[np.ndarray, " level"]:
    """Divides `count` among levels by their shares; what a level does not have goes to the others.

    >>> _quotas(np.array([90, 5, 30]), 60, np.ones(3))
    array([28,  5, 27])
    >>> _quotas(np.array([90, 90, 30]), 60, np.array([1.0, 2.0, 9.0]))
    array([10, 20, 30])
    """
    quota = np.zeros_like(there)
    # The scarcest first, so that what is left over is known when the others' turn comes.
    order = np.argsort(there / share)
    for turn, level in enumerate(order):
        own = share[level] / share[order[turn:]].sum()
        quota[level] = min(there[level], int((count - quota.sum()) * own + 1e-9))
    return quota


def _widen(batch: Batch, obs: int, targets: int) -> Batch:
    """Pads the known rows to `obs` and the targets to `targets`."""
    t = batch.tokens
    size = t.n_known + batch.truth.shape[1]

    def wide(tensor: Tensor) -> Tensor:
        trailing = tensor.shape[2:]
        out = tensor.new_zeros((tensor.shape[0], obs + targets, *trailing))
        out[:, : t.n_known] = tensor[:, : t.n_known]
        out[:, obs : obs + size - t.n_known] = tensor[:, t.n_known :]
        return out

    def tall(tensor: Tensor) -> Tensor:
        out = tensor.new_zeros((tensor.shape[0], targets, *tensor.shape[2:]))
        out[:, : tensor.shape[1]] = tensor
        return out

    return Batch(t.resized(obs, wide, tall), tall(batch.truth), tall(batch.counts))


def _join(parts: list[Batch]) -> Batch:
    joined = {
        name: torch.cat([getattr(part.tokens, name) for part in parts]) for name in Tokens.names()
    }
    return Batch(
        Tokens(n_known=parts[0].tokens.n_known, **joined),
        torch.cat([part.truth for part in parts]),
        torch.cat([part.counts for part in parts]),
    )
