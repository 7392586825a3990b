"""How cells go with each other by channel and by the time between them: what known ones say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nrtsi.interpolation import Known, interpolate
from nrtsi.series import SeriesSet
from nrtsi.threads import Cores

__all__ = ["FAR", "Cells", "Field", "Kriged", "root"]

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

# A step of the grid is one unit, where times may be a little off; other times are taken to so many
# parts of a unit, so that few of the times between them are distinct.
OFF_GRID, FINE = 1e-3, 16


@dataclass(frozen=True)
class Kriged:
    """What known cells say of the missing ones."""

    value: Float[np.ndarray, "row dim"]
    """The mean of what could be there; the value itself where it is known."""

    scale: Float[np.ndarray, "row dim"]
    """How far off that usually is; 0 where the value is known."""


@dataclass(frozen=True)
class Cells:
    """Some cells of one series."""

    slot: Int[np.ndarray, " cell"]
    """Their times, in parts of a unit."""

    channel: Int[np.ndarray, " cell"]

    parts: int
    """Of a unit."""

    @classmethod
    def of(
        cls,
        series: SeriesSet,
        rows: Int[np.ndarray, " cell"],
        channel: Int[np.ndarray, " cell"],
        parts: int,
    ) -> "Cells":
        """Cells of `series`, where `parts_of` says how fine times are."""
        return cls(np.rint(parts * series.time[rows]).astype(np.int64), channel, parts)

    @staticmethod
    def parts_of(series: SeriesSet) -> int:
        """Parts of a unit that times are told in: one where all are on the grid."""
        off = np.abs(series.time - np.rint(series.time)).max(initial=0.0)
        return 1 if off < OFF_GRID else FINE


class Field(nn.Module):
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
        apart = lag.abs()
        rough, smooth = (apart / fade.exp()[:, None] for fade in self.fades)
        smooth = 5**0.5 * smooth
        fades = torch.cat([(-rough).exp(), (1 + smooth + smooth.square() / 3) * (-smooth).exp()])
        lasts = (-apart / self.changes.exp()[:, None]).exp()
        turn = lag * self.pace[:, None]
        shared = self.fading @ self.fading.mT + _alone(self.fading_alone)
        # A wave that comes later in one channel than in another is cosine and sine of the time
        # between them.
        level = self.waving @ self.waving.mT + self.later @ self.later.mT
        askew = self.waving @ self.later.mT - self.later @ self.waving.mT
        return (
            torch.einsum("kl,kij->lij", fades, shared)
            + torch.einsum("kl,kij->lij", lasts * turn.cos(), level + _alone(self.waving_alone))
            + torch.einsum("kl,kij->lij", lasts * turn.sin(), askew)
        )

    def between(
        self, some: Cells, others: Cells, table: "_Table | None" = None
    ) -> Float[Tensor, "cell other"]:
        """The covariance of some cells with others; a table spares working out the same again."""
        least = int(some.slot.min() - others.slot.max())
        most = int(some.slot.max() - others.slot.min())
        by_lag = (_Table(self, some.parts) if table is None else table).of(least, most)
        first = self.dims**2 * (some.slot - least) + self.dims * some.channel
        place = first[:, None] + (others.channel - self.dims**2 * others.slot)
        return by_lag.flatten().index_select(0, torch.from_numpy(place.ravel())).view(place.shape)

    def seen(self, cells: Cells) -> Float[Tensor, "cell cell"]:
        """The covariance of cells that are seen, noise and all."""
        return self.between(cells, cells) + self._noise(cells)

    def _noise(self, cells: Cells) -> Float[Tensor, "cell cell"]:
        return torch.diag((2 * self.noise).exp()[torch.from_numpy(cells.channel)] + JITTER)

    @torch.inference_mode()
    def krige(self, series: SeriesSet, cores: Cores | None = None) -> Kriged:
        """What the known cells of `series` say of the others."""
        value = interpolate(series)
        usual = self.covariance(torch.zeros(1).double())[0].diagonal() + (2 * self.noise).exp()
        scale = np.where(series.observed, 0.0, usual.sqrt().numpy())
        known = Known.of(series.observed, series.start)
        parts = Cells.parts_of(series)
        table = _Table(self, parts, ahead=True)

        def ask(block: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
            return self._asked(series, known, block, table)

        cores = Cores(1) if cores is None else cores
        for rows, channel, mean, explained in cores.each(ask, _blocks(series, self._near)):
            value[rows, channel] = mean
            left = usual.numpy()[channel] - explained
            scale[rows, channel] = np.sqrt(np.maximum(left, JITTER))
        return Kriged(value, scale)

    @property
    def _near(self) -> int:
        """Rows that are asked about together, and known cells of a channel on either side."""
        return int(np.clip(READ // (3 * self.dims), LEAST, MOST))

    def _asked(
        self, series: SeriesSet, known: Known, block: slice, table: "_Table"
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rows and channels of a block's missing cells, their mean, the variance it explains."""
        rows, channel = np.nonzero(~series.observed[block])
        rows = rows + block.start
        read = [_around(cells, series, block, self._near) for cells in known.cells]
        by = np.concatenate(read)
        of = np.repeat(np.arange(len(read)), [each.size for each in read])
        if not by.size:
            return rows[:0], channel[:0], np.zeros(0), np.zeros(0)
        seen = Cells.of(series, by, of, table.parts)
        all_rows, all_channels = np.concatenate([by, rows]), np.concatenate([of, channel])
        both = Cells.of(series, all_rows, all_channels, table.parts)
        with torch.inference_mode():  # which holds for a thread alone
            covariance = self.between(both, seen, table)
            among, across = covariance[: by.size], covariance[by.size :]
            told = torch.from_numpy(series.value[by, of])
            wanted = torch.cat([told[:, None], across.mT], dim=1)
            lower = root(among + self._noise(seen))
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
    def unpack(cls, tensors: dict[str, Tensor], record: dict[str, Any]) -> "Field":
        """What `pack` took apart."""
        field = cls(**record)
        field.load_state_dict(tensors)
        return field.eval()


def root(matrix: Float[Tensor, "cell cell"]) -> Float[Tensor, "cell cell"]:
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


class _Table:
    """Covariances by lag, worked out once; those that will be asked for next as well, if told."""

    def __init__(self, field: Field, parts: int, *, ahead: bool = False) -> None:
        self.field, self.parts, self.ahead = field, parts, ahead
        self.known: tuple[int, int, Tensor] | None = None

    def of(self, least: int, most: int) -> Float[Tensor, "lag dim dim"]:
        """Those from one lag to another, in parts of a unit."""
        known = self.known
        if known is None or least < known[0] or most > known[1]:
            reach = 2 * max(-least, most, 1) if self.ahead else 0
            first, last = min(least, -reach), max(most, reach)
            lags = torch.arange(first, last + 1).double() / self.parts
            known = self.known = first, last, self.field.covariance(lags)
        first, _, by_lag = known
        return by_lag[least - first : most - first + 1]


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
    owner = series.owner[block.start]
    ends = series.start[owner], block.start, block.stop, series.start[owner + 1]
    least, first, last, most = np.searchsorted(cells, ends)
    # Known.cells has one more at either end, which is no row.
    rows = cells[max(least, 1, first - near) : min(most, cells.size - 1, last + near)]
    begin, end = series.time[block.start] - FAR, series.time[block.stop - 1] + FAR
    return rows[(series.time[rows] >= begin) & (series.time[rows] <= end)]
