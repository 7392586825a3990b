"""How a row goes on to the next, learnt: it carries known rows into gaps from both sides."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nrtsi.core.interpolation import Known, interpolate
from nrtsi.core.series import SeriesSet
from nrtsi.network.perceptron import FARTHEST, Perceptron

__all__ = ["REACH", "Rollout", "TransitionModel", "next_rows"]

# Steps that a row is carried, at most.
REACH = 64

# What carried rows may be beyond all that has been seen of a channel, in parts of its range.
MARGIN = 0.1

# A channel that deviates less has never changed.
CONSTANT = 1e-6

# Rows that are carried at once.
ROWS = 2**14

# A step of the grid is one unit; times that were rounded may be a little off.
OFF_GRID = 1e-3


@dataclass(frozen=True)
class Rollout:
    """What known rows say of the missing ones, carried to them step by step."""

    value: Float[np.ndarray, "row dim"]
    """Both sides put together, the surer counting more; interpolation where nothing is carried."""

    there: Bool[np.ndarray, " row"]
    """True where one side at least has come that far."""

    apart: Float[np.ndarray, "row dim"]
    """What came from before minus what came from behind; 0 where one of them did not."""


class TransitionModel(nn.Module):
    """One network that takes a row a step on, and one that takes it a step back.

    Args:
        dims: Channels of a row.
        width: Numbers that a row is turned into.
        blocks: Layers.
    """

    middle: Tensor
    """Mean of each channel."""

    deviation: Tensor
    """And how far values usually are from it."""

    unit: Tensor
    """Usual change in a step, by channel."""

    lowest: Tensor
    """Rollout values are not below it."""

    highest: Tensor
    """Nor above it."""

    error: Tensor
    """Mean squared error after so many steps, on and back, by channel; infinite where unknown."""

    def __init__(self, dims: int, width: int = 128, blocks: int = 2) -> None:
        super().__init__()
        self.sizes = {"dims": dims, "width": width, "blocks": blocks}
        self.ways = nn.ModuleList(Perceptron(dims, width, blocks, dims) for _ in range(2))
        self.register_buffer("middle", torch.zeros(dims))
        self.register_buffer("deviation", torch.ones(dims))
        self.register_buffer("unit", torch.ones(dims))
        self.register_buffer("lowest", torch.full((dims,), -torch.inf))
        self.register_buffer("highest", torch.full((dims,), torch.inf))
        self.register_buffer("error", torch.full((2, REACH, dims), torch.inf))

    def settle(self, rows: Float[Tensor, "row dim"], change: Float[Tensor, "row dim"]) -> None:
        """Takes the units from some `rows` and their usual `change` in a step."""
        low, high = rows.amin(dim=0), rows.amax(dim=0)
        margin = MARGIN * (high - low)
        self.lowest.copy_(low - margin)
        self.highest.copy_(high + margin)
        self.middle.copy_(rows.mean(dim=0))
        deviation = rows.std(dim=0)
        self.deviation.copy_(torch.where(deviation > CONSTANT, deviation, 1.0))
        self.unit.copy_(change.square().mean(dim=0).sqrt().clamp(min=1e-9))

    def step(self, row: Float[Tensor, "batch dim"], back: bool) -> Float[Tensor, "batch dim"]:
        """The row that follows, or the one that went before."""
        seen = ((row - self.middle) / self.deviation).clamp(-FARTHEST, FARTHEST)
        change = self.ways[int(back)](seen)
        return row + self.unit * change

    def inside(self, row: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch dim"]:
        """The row, no farther out than rows are."""
        return row.clamp(self.lowest, self.highest)

    def carry(self, series: SeriesSet) -> Rollout:
        """What the complete rows of `series` say of the others, on the grid of one unit."""
        sides = [self._side(series, back) for back in (False, True)]
        (on, on_error), (back, back_error) = sides
        # Each side by how sure it is; where one has not come this far, the other alone.
        on_sure, back_sure = 1 / on_error, 1 / back_error
        sure = on_sure + back_sure
        there = np.logical_and.reduce(sure > 0, axis=1)
        both = np.logical_and.reduce((on_sure > 0) & (back_sure > 0), axis=1)
        blend = (on_sure * on + back_sure * back) / np.where(sure > 0, sure, 1.0)
        known = np.logical_and.reduce(series.observed, axis=1)
        value = np.where((there & ~known)[:, None], blend, interpolate(series))
        return Rollout(value, there | known, np.where(both[:, None], on - back, 0.0))

    def _side(
        self, series: SeriesSet, back: bool
    ) -> tuple[Float[np.ndarray, "row dim"], Float[np.ndarray, "row dim"]]:
        """Every missing row from one side, and the squared error that this usually has."""
        value, error = np.zeros(series.value.shape), np.full(series.value.shape, np.inf)
        usual = self.error[int(back)].double().cpu().numpy()
        reach = int(np.isfinite(usual[:, 0]).sum())
        asked, source, steps = _distances(series, self._familiar(series), back, reach)
        # Rows that lie on the way of one source are asked of one source's journey.
        starts, journey = np.unique(source, return_inverse=True)
        for first in range(0, starts.size, ROWS):
            own = slice(*np.searchsorted(journey, [first, first + ROWS]))
            told = self._journeys(
                series.value[starts[first : first + ROWS]], journey[own] - first, steps[own], back
            )
            value[asked[own]], error[asked[own]] = told, usual[steps[own] - 1]
        return value, error

    def _familiar(self, series: SeriesSet) -> Bool[np.ndarray, " row"]:
        """Complete rows like those that have been: of others it is not known how they go on."""
        low, high = (each.double().cpu().numpy() for each in (self.lowest, self.highest))
        inside = (series.value >= low) & (series.value <= high) & series.observed
        return np.logical_and.reduce(inside, axis=1)

    def _journeys(
        self,
        start: Float[np.ndarray, "journey dim"],
        journey: Int[np.ndarray, " asked"],
        steps: Int[np.ndarray, " asked"],
        back: bool,
    ) -> Float[np.ndarray, "asked dim"]:
        """Where each journey is after so many steps."""
        told = np.zeros((journey.size, start.shape[1]))
        last = np.zeros(start.shape[0], dtype=np.int64)
        np.maximum.at(last, journey, steps)
        going = np.argsort(-last, kind="stable")  # the longest first, so that the others fall off
        place = np.empty_like(going)
        place[going] = np.arange(going.size)
        device = self.unit.device
        row = torch.from_numpy(start[going].astype(np.float32)).to(device)
        by_step = np.argsort(steps, kind="stable")
        ends = np.searchsorted(steps[by_step], np.arange(1, last.max(initial=0) + 2))
        with torch.inference_mode():
            for step in range(1, last.max(initial=0) + 1):
                row = row[: int((last >= step).sum())]
                row = self.inside(self.step(row, back))
                here = by_step[ends[step - 1] : ends[step]]
                told[here] = row.cpu().numpy()[place[journey[here]]]
        return told

    def __str__(self) -> str:
        """What it is, in a few words."""
        return f"rows carried up to {int(self.error.isfinite().any(dim=(0, 2)).sum())} steps"

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain values that `unpack` makes the same of."""
        return dict(self.state_dict()), dict(self.sizes)

    @classmethod
    def unpack(cls, tensors: dict[str, Tensor], record: dict[str, Any]) -> "TransitionModel":
        """What `pack` took apart."""
        flow = cls(**record)
        flow.load_state_dict(tensors)
        return flow.eval()


def next_rows(series: SeriesSet) -> Bool[np.ndarray, " row"]:
    """True for complete rows that a complete one follows, a unit later and of the same series."""
    complete = np.logical_and.reduce(series.observed, axis=1)
    follows = np.zeros(series.rows, dtype=bool)
    here = np.flatnonzero(complete[:-1] & complete[1:])
    near = np.abs(series.time[here + 1] - series.time[here] - 1) < OFF_GRID
    follows[here] = near & (series.owner[here] == series.owner[here + 1])
    return follows


def _distances(
    series: SeriesSet, sources: Bool[np.ndarray, " row"], back: bool, reach: int
) -> tuple[Int[np.ndarray, " asked"], Int[np.ndarray, " asked"], Int[np.ndarray, " asked"]]:
    """Rows within reach that are not complete, the source each is next to, and how far."""
    complete = np.logical_and.reduce(series.observed, axis=1)
    asked = np.flatnonzero(~complete)
    source = Known.of(sources[:, None], series.start).around(asked)[int(back)][:, 0]
    asked, source = asked[source >= 0], source[source >= 0]
    apart = np.abs(series.time[asked] - series.time[source])
    steps = np.rint(apart).astype(np.int64)
    near = (np.abs(apart - steps) < OFF_GRID) & (steps >= 1) & (steps <= reach)
    return asked[near], source[near], steps[near]
