"""How cells go with each other by channel and by the time between them: what known ones say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nrtsi.core.interpolation import Known, interpolate
from nrtsi.core.series import SeriesSet
from nrtsi.network.threads import Threads

__all__ = [
    "FAR",
    "FARTHEST",
    "CovarianceTable",
    "CellIndex",
    "MultiOutputGP",
    "GPPrediction",
    "on_grid",
    "jittered_cholesky",
]

# Times over which what is alike fades, in units; learning moves them.
FADES = (2.0, 8.0, 32.0, 128.0, 512.0)

# Waves of each cycle of the calendar, and the time over which they change.
WAVES, CHANGES = (1, 2, 3), 512.0

# Independent sources of each kind that channels share.
SOURCES = 3

# Known cells that are read at once, about: a third of them among the rows that are asked about, a
# third before and a third behind them. And those of a channel, at least and at most.
READ, LEAST, MOST = 384, 8, 64

# Logarithms of the deviations that learning begins with: of what a channel has for itself of each
# kind, and of noise.
ALONE, NOISE = -2.0, -3.0

# Added to the variance of each cell, so that equal ones do not make a matrix singular.
JITTER = 1e-6

# Units of time beyond which cells say nothing of each other.
FAR = 1024.0

# A step of the grid is one unit, where times may be a little off.
OFF_GRID = 1e-3

# What is farther from the mean counts as if it were so far, in standard deviations: a single burst
# of rain would else be read as a flood in all columns.
FARTHEST = 3.0


@dataclass(frozen=True)
class GPPrediction:
    """What known cells say of the missing ones."""

    value: Float[np.ndarray, "row dim"]
    """The mean of what could be there; the value itself where it is known."""

    scale: Float[np.ndarray, "row dim"]
    """How far off that usually is; 0 where the value is known."""


@dataclass(frozen=True)
class CellIndex:
    """Some cells of one series."""

    time: Float[np.ndarray, " cell"]
    channel: Int[np.ndarray, " cell"]

    @classmethod
    def of(
        cls, series: SeriesSet, rows: Int[np.ndarray, " cell"], channel: Int[np.ndarray, " cell"]
    ) -> "CellIndex":
        """CellIndex of `series`, by row and channel."""
        return cls(series.time[rows], channel)


def on_grid(series: SeriesSet) -> bool:
    """Whether all times are whole units, so that few of the times between them are distinct."""
    return bool(np.abs(series.time - np.rint(series.time)).max(initial=0.0) < OFF_GRID)


class MultiOutputGP(nn.Module):
    """A Gaussian field over time and channels, the same at all times.

    It is a sum of sources that channels share, rough ones and smooth ones that fade at their own
    pace, and waves of the calendar's cycles that change slowly, in every channel at a time of its
    own; and of noise.

    Args:
        dims: Channels of a row.
        periods: Cycles of the calendar, in units.
    """

    pace: Tensor
    """How fast each wave turns."""

    def __init__(self, dims: int, periods: Sequence[float] = ()) -> None:
        super().__init__()
        self.dims, self.periods = dims, tuple(periods)
        self.register_buffer(
            "pace", torch.tensor([2 * np.pi * n / p for p in periods for n in WAVES]).double()
        )
        kinds, waves, sources = 2 * len(FADES), len(self.pace), min(SOURCES, dims)

        def parameter(start: Tensor) -> nn.Parameter:
            return nn.Parameter(start.double())

        def chance(*shape: int) -> nn.Parameter:
            return parameter(0.1 * torch.randn(*shape))

        self.fades = parameter(torch.tensor([FADES, FADES]).log())
        self.fading = chance(kinds, dims, sources)
        self.fading_alone = parameter(torch.full((kinds, dims), ALONE))
        self.changes = parameter(torch.full((waves,), CHANGES).log())
        self.waving = chance(waves, dims, sources)
        self.later = chance(waves, dims, sources)
        self.waving_alone = parameter(torch.full((waves, dims), ALONE))
        self.noise = parameter(torch.full((dims,), NOISE))

    def covariance(self, lag: Float[Tensor, " lag"]) -> Float[Tensor, "lag dim dim"]:
        """Of the channels at a time with the channels so much earlier, without the noise."""
        alike, shared = self._kinds(lag)
        return torch.einsum("kl,kij->lij", alike, shared)

    def _kinds(
        self, lag: Float[Tensor, " lag"]
    ) -> tuple[Float[Tensor, "kind lag"], Float[Tensor, "kind dim dim"]]:
        """How alike each kind of source is after a time, and what channels have of it."""
        apart = lag.abs()
        rough, smooth = (apart / fade.exp()[:, None] for fade in self.fades)
        smooth = 5**0.5 * smooth
        lasts = (-apart / self.changes.exp()[:, None]).exp()
        turn = lag * self.pace[:, None]
        alike = (
            (-rough).exp(),
            (1 + smooth + smooth.square() / 3) * (-smooth).exp(),
            lasts * turn.cos(),
            lasts * turn.sin(),
        )
        # A wave that comes later in one channel than in another is cosine and sine of the time
        # between them.
        level = self.waving @ self.waving.mT + self.later @ self.later.mT
        askew = self.waving @ self.later.mT - self.later @ self.waving.mT
        shared = (
            self.fading @ self.fading.mT + _alone(self.fading_alone),
            level + _alone(self.waving_alone),
            askew,
        )
        return torch.cat(alike), torch.cat(shared)

    def between(
        self, some: CellIndex, others: CellIndex, by_lag: "CovarianceTable | None" = None
    ) -> Float[Tensor, "cell other"]:
        """The covariance of some cells with others; looked up where it is given by lag."""
        if by_lag is not None:
            return by_lag.between(some, others)
        # CellIndex of one row have one time.
        (here, first), (there, second) = (
            np.unique(each.time, return_inverse=True) for each in (some, others)
        )
        alike, shared = self._kinds(torch.from_numpy(np.subtract.outer(here, there).ravel()))
        times = torch.from_numpy(first)[:, None], torch.from_numpy(second)
        channels = torch.from_numpy(some.channel)[:, None], torch.from_numpy(others.channel)
        # Kind by kind: of all at once there would be gigabytes.
        total = torch.zeros(first.size, second.size, dtype=torch.float64)
        for each, have in zip(alike, shared, strict=True):
            total = total + each.view(here.size, there.size)[times] * have[channels]
        return total

    def noise_of(self, cells: CellIndex) -> Float[Tensor, "cell cell"]:
        """The covariance of what is seen of cells beyond the field itself."""
        return torch.diag((2 * self.noise).exp()[torch.from_numpy(cells.channel)] + JITTER)

    @torch.inference_mode()
    def krige(self, series: SeriesSet, threads: Threads | None = None) -> GPPrediction:
        """What the known cells of `series` say of the others."""
        value = interpolate(series)
        usual = self.covariance(torch.zeros(1).double())[0].diagonal() + (2 * self.noise).exp()
        scale = np.where(series.observed, 0.0, usual.sqrt().numpy())
        known = Known.of(series.observed, series.start)
        by_lag = CovarianceTable(self, min(_longest(series), 3 * FAR)) if on_grid(series) else None

        def ask(block: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
            return self._asked(series, known, block, by_lag)

        threads = Threads(1) if threads is None else threads
        for rows, channel, mean, explained in threads.map(ask, _blocks(series, self._near)):
            value[rows, channel] = mean
            left = usual.numpy()[channel] - explained
            scale[rows, channel] = np.sqrt(np.maximum(left, JITTER))
        return GPPrediction(value, scale)

    @property
    def _near(self) -> int:
        """Rows that are asked about together, and known cells of a channel on either side."""
        return int(np.clip(READ // (3 * self.dims), LEAST, MOST))

    def _asked(
        self, series: SeriesSet, known: Known, block: slice, by_lag: "CovarianceTable | None"
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rows and channels of a block's missing cells, their mean, the variance it explains."""
        rows, channel = np.nonzero(~series.observed[block])
        rows = rows + block.start
        read = [_around(cells, series, block, self._near) for cells in known.cells]
        by = np.concatenate(read)
        of = np.repeat(np.arange(len(read)), [each.size for each in read])
        if not by.size:
            return rows[:0], channel[:0], np.zeros(0), np.zeros(0)
        seen = CellIndex.of(series, by, of)
        both = CellIndex.of(series, np.concatenate([by, rows]), np.concatenate([of, channel]))
        with torch.inference_mode():  # which holds for a thread alone
            covariance = self.between(both, seen, by_lag)
            among, across = covariance[: by.size], covariance[by.size :]
            told = torch.from_numpy(series.value[by, of].clip(-FARTHEST, FARTHEST))
            wanted = torch.cat([told[:, None], across.mT], dim=1)
            lower = jittered_cholesky(among + self.noise_of(seen))
            solved = torch.linalg.solve_triangular(lower, wanted, upper=False)
            mean = solved[:, 1:].mT @ solved[:, 0]
            return rows, channel, mean.numpy(), solved[:, 1:].square().sum(dim=0).numpy()

    def __str__(self) -> str:
        """What it is, in a few words."""
        return f"cells by the {self._near} known next to them on either side, in every column"

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain values that `unpack` makes the same of."""
        sizes = {"dims": self.dims, "periods": list(self.periods)}
        return dict(self.state_dict()), sizes

    @classmethod
    def unpack(cls, tensors: dict[str, Tensor], record: dict[str, Any]) -> "MultiOutputGP":
        """What `pack` took apart."""
        field = cls(**record)
        field.load_state_dict(tensors)
        return field.eval()


def jittered_cholesky(matrix: Float[Tensor, "cell cell"]) -> Float[Tensor, "cell cell"]:
    """The lower triangle whose square is a covariance; with more noise, where rounding asks it."""
    lower, failed = torch.linalg.cholesky_ex(matrix)
    noise = JITTER * matrix.diagonal().mean()
    while failed and noise.isfinite():
        lower, failed = torch.linalg.cholesky_ex(matrix + noise * torch.eye(len(matrix)))
        noise = 10 * noise
    return lower


def _alone(logs: Float[Tensor, "kind dim"]) -> Float[Tensor, "kind dim dim"]:
    """Variances of what each channel has for itself."""
    return torch.diag_embed((2 * logs).exp())


class CovarianceTable:
    """Covariances of a grid, worked out once for every lag up to one."""

    def __init__(self, field: MultiOutputGP, reach: float) -> None:
        self.dims, self.reach = field.dims, int(np.rint(reach))
        lags = torch.arange(-self.reach, self.reach + 1, dtype=torch.float64)
        self.covariance = field.covariance(lags).flatten()

    def between(self, some: CellIndex, others: CellIndex) -> Float[Tensor, "cell other"]:
        """The covariance of some cells with others, no farther apart than that."""
        origin = others.time[0]
        here, there = (np.rint(each.time - origin).astype(np.int64) for each in (some, others))
        first = self.dims**2 * (here + self.reach) + self.dims * some.channel
        place = first[:, None] + (others.channel - self.dims**2 * there)
        found = self.covariance.index_select(0, torch.from_numpy(place.ravel()))
        return found.view(place.shape)


def _longest(series: SeriesSet) -> float:
    """Time from the first to the last row of a series, at most."""
    full = series.length > 0
    first, last = series.start[:-1][full], series.start[1:][full] - 1
    return float((series.time[last] - series.time[first]).max(initial=0.0))


def _blocks(series: SeriesSet, size: int) -> list[slice]:
    """Rows next to each other, of one series, where something is missing."""
    first = series.start[series.owner]
    turn = (np.arange(series.rows) - first) // size
    far = (series.time - series.time[first]) // FAR
    new = np.ones(series.rows, dtype=bool)
    new[1:] = (np.diff(series.owner) != 0) | (np.diff(turn) != 0) | (np.diff(far) != 0)
    begin = np.flatnonzero(new)
    gappy = ~np.logical_and.reduce(series.observed, axis=1)
    asked = np.logical_or.reduceat(gappy, begin) if begin.size else begin.astype(bool)
    end = np.append(begin[1:], series.rows)
    return [slice(*each) for each in zip(begin[asked].tolist(), end[asked].tolist(), strict=True)]


def _around(
    cells: Int[np.ndarray, " _"], series: SeriesSet, block: slice, near: int
) -> Int[np.ndarray, " read"]:
    """Known rows of a channel in a block, and the nearest before and behind, of its series."""
    owner = int(np.searchsorted(series.start, block.start, side="right")) - 1
    ends = series.start[owner], block.start, block.stop, series.start[owner + 1]
    least, first, last, most = np.searchsorted(cells, ends)
    # Known.cells has one more at either end, which is no row.
    rows = cells[max(least, 1, first - near) : min(most, cells.size - 1, last + near)]
    begin, end = series.time[block.start] - FAR, series.time[block.stop - 1] + FAR
    return rows[(series.time[rows] >= begin) & (series.time[rows] <= end)]
