"""A network for partially observed rows: one token per cell, attention over time and channels."""

from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Complex, Float, Int
from torch import Tensor, nn

from nrtsi.config import ModelConfig
from nrtsi.network.attention import SetAttention, SummaryAttention, additive_mask, angles_of
from nrtsi.network.base import Network, row_floats, token_floats
from nrtsi.network.heads import CellDistribution
from nrtsi.network.layers import feed_forward, norm
from nrtsi.network.tokens import TokenLayout, Tokens
from nrtsi.schedule.plan import Step

__all__ = ["CellNetwork"]

CellTokens: TypeAlias = Float[Tensor, "window dim row width"]
ChannelBias: TypeAlias = Float[Tensor, "channel 1 1 row"]
ChannelAngles: TypeAlias = Complex[Tensor, "channel row 1 pairs"]


class CellNetwork(Network):
    """Blocks of attention along each channel (over time) and along each row (over channels).

    Every cell of a window is a token, known or missing. Its embedding is the sum of those of its
    own features, of the features of its row, and of its channel.
    """

    windows_per_core = 2

    # Scaling the inputs made no difference here (docs/research-log.md).
    scales_features = False

    def __init__(self, config: ModelConfig, layout: TokenLayout) -> None:
        super().__init__(config, layout)
        assert layout.partial, "the network 'cells' needs the mask of every channel"
        self.dims = layout.dims
        # The features of a row precede and follow those of its cells.
        self.n_first = config.time_channels + 2 * len(layout.periods)
        self.n_last = 2 * config.relative
        of_row = self.n_first + self.n_last
        of_cell, rest = divmod(layout.channels(config) - of_row, layout.dims)
        assert not rest, "features of cells must exist for every channel"
        self.embed = nn.Linear(of_cell, config.width)
        self.embed_row = nn.Linear(of_row, config.width, bias=False)
        self.channel_embedding = nn.Parameter(torch.randn(layout.dims, config.width) / 2)
        self.blocks = nn.ModuleList(CellBlock(config, layout.dims) for _ in range(config.blocks))
        self._add_head(layout, None)

    @classmethod
    def known_rows(cls, step: Step) -> tuple[Bool[np.ndarray, " row"], Int[np.ndarray, " target"]]:
        """Returns all rows with known cells, targets too; these are of the finest level."""
        return step.known, np.where(step.known[step.rows], 0, step.level)

    @classmethod
    def window_bytes(
        cls, size: Int[np.ndarray, " window"], config: ModelConfig, layout: TokenLayout
    ) -> Int[np.ndarray, " window"]:
        """Estimates the memory of a window of `size` rows, its inputs and activations."""
        dims = layout.dims
        pairs = config.heads * dims * size * (size + min(dims, config.max_attended_channels))
        floats = dims * token_floats(config) + row_floats(config, layout)
        return size * 4 * floats + 4 * pairs

    def forward(self, tokens: Tokens) -> CellDistribution:
        """Predicts the targets of every window."""
        rows, index = _without_padding(tokens)
        window = torch.arange(rows.shape[0], device=rows.device).unsqueeze(1)
        valid, encoded = tokens.valid[window, rows], self._embed(tokens.feature[window, rows])
        bias = angles = None
        if not valid.all():
            mask = additive_mask(valid, encoded.dtype)
            bias = mask.repeat_interleave(self.dims, dim=0)[:, None, None]
        if (by_row := angles_of(tokens.time[window, rows], self.config)) is not None:
            angles = by_row.repeat_interleave(self.dims, dim=0)
        for block in self.blocks:
            encoded = block(encoded, bias, angles)
        targets = encoded.transpose(1, 2)[window, index[:, tokens.n_known :]]
        return self._predict(targets, tokens)

    def attention_mask(self, tokens: Tokens) -> Bool[Tensor, "window target set"]:
        """Returns True for all rows of the window, targets too."""
        targets = tokens.interpolation.shape[1]
        return tokens.valid.unsqueeze(1).expand(-1, targets, -1)

    def attention_weights(self, tokens: Tokens) -> list[Float[Tensor, "window head target set"]]:
        """Returns the weights of the attention over time, averaged over the cells of a target."""
        layers = nn.ModuleList(
            block.time_attention for block in self.blocks if isinstance(block, CellBlock)
        )
        _, index = _without_padding(tokens)
        window = torch.arange(index.shape[0], device=index.device)[:, None, None]
        pairs = window, index[:, tokens.n_known :, None], index[:, None]
        recorded = self._recorded_weights(layers, tokens)
        means = (each.reshape(-1, self.dims, *each.shape[1:]).mean(dim=1) for each in recorded)
        return [mean.permute(0, 2, 3, 1)[pairs].permute(0, 3, 1, 2) for mean in means]

    def _embed(self, feature: Float[Tensor, "window row channel"]) -> CellTokens:
        end = feature.shape[-1] - self.n_last
        of_cells = feature[..., self.n_first : end].reshape(*feature.shape[:2], -1, self.dims)
        of_row = torch.cat([feature[..., : self.n_first], feature[..., end:]], dim=-1)
        cells = self.embed(of_cells.permute(0, 3, 1, 2)) + self.embed_row(of_row).unsqueeze(1)
        return cells + self.channel_embedding[:, None]


class CellBlock(nn.Module):
    """Attention over time, attention over channels and a feed-forward layer, each residual."""

    def __init__(self, config: ModelConfig, dims: int) -> None:
        super().__init__()
        sizes = config.width, config.heads, config.head_size
        self.time_attention = SetAttention(*sizes)
        self.channel_attention = (
            SetAttention(*sizes)
            if dims <= config.max_attended_channels
            else SummaryAttention(*sizes, config.channel_summaries)
        )
        self.feed_forward = feed_forward(config)
        self.time_norm, self.channel_norm = norm(config), norm(config)
        self.feed_forward_norm = norm(config)

    def forward(
        self, cells: CellTokens, bias: ChannelBias | None, angles: ChannelAngles | None
    ) -> CellTokens:
        """Encodes the cells of windows."""
        windows, dims = cells.shape[:2]
        channels = self.time_norm(cells).flatten(0, 1)
        attended = self.time_attention(channels, 0, bias, angles)
        cells = cells + attended.unflatten(0, (windows, dims))
        # Padded rows attend only to themselves, and no other row attends to them.
        rows = self.channel_norm(cells).transpose(1, 2).flatten(0, 1)
        attended = self.channel_attention(rows, 0, None, None).unflatten(0, (windows, -1))
        cells = cells + attended.transpose(1, 2)
        return cells + self.feed_forward(self.feed_forward_norm(cells))


def _without_padding(
    tokens: Tokens,
) -> tuple[Int[Tensor, "window row"], Int[Tensor, "window set"]]:
    """Returns the tokens without the padding that all windows share, and each token's index there.

    Some windows have many known rows and few targets, others few and many: padded for both, they
    would be twice as long. The index of padding is the last.
    """
    order = torch.argsort(~tokens.valid, dim=1, stable=True)
    size = int(tokens.valid.sum(dim=1).max())
    return order[:, :size], torch.argsort(order, dim=1).clamp(max=size - 1)
