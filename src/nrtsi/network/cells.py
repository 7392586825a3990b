"""The network for partly observed rows: one token a cell, which is a row and a channel of it."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Complex, Float, Int
from torch import Tensor, nn

from nrtsi.config import ModelConfig
from nrtsi.network.attention import SetAttention, SummaryAttention, turns
from nrtsi.network.base import Network, feed_forward, norm
from nrtsi.network.heads import CellDistribution
from nrtsi.network.tokens import TokenLayout, Tokens

__all__ = ["MANY", "CellNetwork"]

# Channels that read each other one by one; more of them read summaries, so many.
MANY, SUMMARIES = 64, 16


class CellNetwork(Network):
    """Cells read along their channel, then along their row, block after block.

    Every cell of a window is a token, known or not. It carries what is its own, what is its row's,
    and a learnt identity of its channel.

    Args:
        config: Sizes and inputs.
        layout: What the tokens carry; every mark of a row must be there channel by channel.
    """

    windows_per_core = 2

    # Every channel is scaled by itself: one size made no difference (docs/research-log.md).
    scales_features = False

    def __init__(self, config: ModelConfig, layout: TokenLayout) -> None:
        super().__init__(config)
        assert layout.partial, "cells need to know of each channel what is known"
        self.dims = layout.dims
        # What is the row's stands before and behind what is the cells'.
        self.before = config.time_channels + 2 * len(layout.periods)
        self.behind = 2 * config.relative
        of_row = self.before + self.behind
        of_cell, odd = divmod(layout.channels(config) - of_row, layout.dims)
        assert not odd, "what is not the row's must be there for every channel"
        self.embed = nn.Linear(of_cell, config.width)
        self.enter_row = nn.Linear(of_row, config.width, bias=False)
        self.identity = nn.Parameter(torch.randn(layout.dims, config.width) / 2)
        self.blocks = nn.ModuleList(CellBlock(config, layout.dims) for _ in range(config.blocks))
        self._add_head(layout, None)

    def forward(self, tokens: Tokens) -> CellDistribution:
        """Predicts the targets of every window."""
        packed = _Packed.of(tokens)
        encoded = self._enter(packed.feature)
        bias = packed.bias(self.dims, encoded.dtype)
        turn = self._turn(packed.time)
        for block in self.blocks:
            encoded = block(encoded, bias, turn)
        return self._answer(packed.targets(encoded.transpose(1, 2)), tokens)

    def attention_mask(self, tokens: Tokens) -> Bool[Tensor, "window target set"]:
        """True for all rows of the window: cells of targets read each other as well."""
        targets = tokens.interpolation.shape[1]
        return tokens.valid.unsqueeze(1).expand(-1, targets, -1)

    def attention_weights(self, tokens: Tokens) -> list[Float[Tensor, "window head target set"]]:
        """How much the cells of a target read of each row, over time and on the average.

        What they read of the other channels of their own row is not in it.
        """
        packed = _Packed.of(tokens)
        readers = nn.ModuleList(
            block.over_time for block in self.blocks if isinstance(block, CellBlock)
        )
        return [packed.unpacked(each, self.dims) for each in self._weights(readers, tokens)]

    def _enter(
        self, feature: Float[Tensor, "window row channel"]
    ) -> Float[Tensor, "window dim row width"]:
        end = feature.shape[-1] - self.behind
        own = feature[..., self.before : end]
        own = own.reshape(*feature.shape[:2], -1, self.dims)
        of_row = torch.cat([feature[..., : self.before], feature[..., end:]], dim=-1)
        cells = self.embed(own.permute(0, 3, 1, 2)) + self.enter_row(of_row).unsqueeze(1)
        return cells + self.identity[:, None]

    def _turn(
        self, time: Float[Tensor, "window row"]
    ) -> Complex[Tensor, "sequence row 1 pairs"] | None:
        if not self.config.relative:
            return None
        return turns(time, self.config.head_size // 2).repeat_interleave(self.dims, dim=0)


class CellBlock(nn.Module):
    """Attention over time, attention over channels and a feed-forward layer, each added."""

    def __init__(self, config: ModelConfig, dims: int) -> None:
        super().__init__()
        sizes = config.width, config.heads, config.head_size
        self.over_time = SetAttention(*sizes)
        self.over_channels = (
            SetAttention(*sizes) if dims <= MANY else SummaryAttention(*sizes, SUMMARIES)
        )
        self.feed_forward = feed_forward(config)
        self.before_time, self.before_channels = norm(config), norm(config)
        self.before_feed_forward = norm(config)

    def forward(
        self,
        cells: Float[Tensor, "window dim row width"],
        bias: Float[Tensor, "sequence 1 1 row"] | None,
        turn: Complex[Tensor, "sequence row 1 pairs"] | None,
    ) -> Float[Tensor, "window dim row width"]:
        """Lets the cells of each channel, and then those of each row, read each other."""
        windows, dims = cells.shape[:2]
        channel = self.before_time(cells).flatten(0, 1)
        cells = cells + self.over_time(channel, 0, bias, turn).unflatten(0, (windows, dims))
        # A padded row reads itself, and nobody reads it.
        row = self.before_channels(cells).transpose(1, 2).flatten(0, 1)
        read = self.over_channels(row, 0, None, None).unflatten(0, (windows, -1))
        cells = cells + read.transpose(1, 2)
        return cells + self.feed_forward(self.before_feed_forward(cells))


@dataclass(frozen=True)
class _Packed:
    """The rows of windows without the padding between known rows and targets.

    Where rows are partly observed, a window has many of the one and few of the other or the other
    way round: padded for both, it would be twice as long.
    """

    feature: Float[Tensor, "window row channel"]
    time: Float[Tensor, "window row"]
    valid: Bool[Tensor, "window row"]

    place: Int[Tensor, "window set"]
    """Where each token of the set is among the rows; the last, where it is padding."""

    n_known: int

    @classmethod
    def of(cls, tokens: Tokens) -> "_Packed":
        order = torch.argsort(~tokens.valid, dim=1, stable=True)
        size = int(tokens.valid.sum(dim=1).max())
        window = torch.arange(order.shape[0], device=order.device).unsqueeze(1)
        place = torch.argsort(order, dim=1).clamp(max=size - 1)
        chosen = window, order[:, :size]
        return cls(
            tokens.feature[chosen],
            tokens.time[chosen],
            tokens.valid[chosen],
            place,
            tokens.n_known,
        )

    def bias(self, dims: int, dtype: torch.dtype) -> Float[Tensor, "sequence 1 1 row"] | None:
        """What hides the padding, for the rows of every channel; None where there is none."""
        if self.valid.all():
            return None
        never = torch.zeros((), dtype=dtype, device=self.valid.device), -torch.inf
        return torch.where(self.valid, *never).repeat_interleave(dims, dim=0)[:, None, None]

    def targets(
        self, rows: Float[Tensor, "window row dim width"]
    ) -> Float[Tensor, "window target dim width"]:
        """The rows that are targets, where the set has them."""
        window = torch.arange(rows.shape[0], device=rows.device).unsqueeze(1)
        return rows[window, self.place[:, self.n_known :]]

    def unpacked(
        self, weights: Float[Tensor, "sequence head row row"], dims: int
    ) -> Float[Tensor, "window head target set"]:
        """Weights between rows as weights between targets and tokens of the set."""
        mean = weights.reshape(-1, dims, *weights.shape[1:]).mean(dim=1)
        window = torch.arange(mean.shape[0], device=mean.device)[:, None, None]
        target = self.place[:, self.n_known :, None]
        return mean.permute(0, 2, 3, 1)[window, target, self.place[:, None]].permute(0, 3, 1, 2)
