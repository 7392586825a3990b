"""Multi-head attention over S ∪ G, the known tokens (S) and the target tokens (G) of windows."""

from typing import TypeAlias

import torch
from jaxtyping import Bool, Complex, Float
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from nrtsi.config import ModelConfig
from nrtsi.network.layers import feed_forward, norm

__all__ = [
    "Block",
    "SetAttention",
    "SummaryAttention",
    "TokenSet",
    "additive_mask",
    "angles_of",
    "attention_mask",
    "rotary_angles",
    "rotate",
]

TokenSet: TypeAlias = Float[Tensor, "window set width"]
Attended: TypeAlias = Float[Tensor, "window query width"]
Bias: TypeAlias = Float[Tensor, "#window 1 #query set"]
"""Additive mask of the attention scores."""

Angles: TypeAlias = Complex[Tensor, "window set 1 pairs"]
"""The `rotary_angles` of the tokens' times, for relative time."""


def attention_mask(
    valid: Bool[Tensor, "window set"], n_known: int
) -> Bool[Tensor, "window set set"]:
    """Returns True if the token of the row attends to the token of the column.

    Every token attends to the known tokens and to itself; known tokens also attend to the targets.
    Targets do not attend to each other, unless nothing is known (the paper's appendix).
    """
    size = valid.shape[1]
    mask = valid.unsqueeze(1).repeat(1, size, 1)
    nothing_known = ~valid[:, :n_known].any(dim=1)
    mask[:, n_known:, n_known:] &= nothing_known[:, None, None]
    return mask | torch.eye(size, dtype=torch.bool, device=valid.device)


def additive_mask(mask: Bool[Tensor, "*shape"], dtype: torch.dtype) -> Float[Tensor, "*shape"]:
    """Converts a mask to a bias on attention scores: 0 for True, -∞ for False."""
    return torch.where(mask, torch.zeros((), dtype=dtype, device=mask.device), -torch.inf)


def rotary_angles(
    time: Float[Tensor, "window set"], pairs: int, periods: tuple[float, float]
) -> Angles:
    """Returns exp(i·2πt/p) for geometrically spaced periods p, from the first to the second."""
    shortest, longest = periods
    step = (longest / shortest) ** (1 / max(1, pairs - 1))
    period = shortest * step ** torch.arange(pairs, device=time.device, dtype=time.dtype)
    angle = 2 * torch.pi * time[:, :, None, None] / period
    return torch.complex(angle.cos(), angle.sin())  # torch.polar is slower


def angles_of(time: Float[Tensor, "window set"], config: ModelConfig) -> Angles | None:
    """Returns the rotary angles of a network; None if its attention ignores relative time."""
    if not config.relative:
        return None
    return rotary_angles(time, config.head_size // 2, config.rotary_periods)


def rotate(
    channels: Float[Tensor, "window set head size"], angles: Angles
) -> Float[Tensor, "window set head size"]:
    """Rotates pairs of channels (rotary position embedding).

    The product of a rotated query and a rotated key depends only on the difference of their times.
    """
    channels = channels.to(angles.real.dtype)  # autocast may have lowered the precision
    pairs = angles.shape[-1]  # explicit, because a set may be empty
    paired = torch.view_as_complex(channels.reshape(*channels.shape[:-1], pairs, 2))
    return torch.view_as_real(paired * angles).flatten(-2)


class SetAttention(nn.Module):
    """Multi-head attention that is equivariant to permutations of the set."""

    def __init__(self, width: int, heads: int, head_size: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, heads * head_size, bias=False)
        self.key = nn.Linear(width, heads * head_size, bias=False)
        self.value = nn.Linear(width, heads * head_size, bias=False)
        self.out = nn.Linear(heads * head_size, width, bias=False)

    def forward(
        self, tokens: TokenSet, first: int, bias: Bias | None, angles: Angles | None
    ) -> Attended:
        """Returns the attention output of the tokens from index `first` on."""
        query, key, value = self._project(tokens, first, angles)
        return self._merge(scaled_dot_product_attention(query, key, value, bias))

    def weights(
        self, tokens: TokenSet, first: int, bias: Bias | None, angles: Angles | None
    ) -> Float[Tensor, "window head query set"]:
        """Returns the softmax weights that `forward` uses; they sum to 1 over the set."""
        query, key, _ = self._project(tokens, first, angles)
        scores = query @ key.mT / query.shape[-1] ** 0.5
        return (scores if bias is None else scores + bias).softmax(-1)

    def _project(
        self, tokens: TokenSet, first: int, angles: Angles | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns queries, keys and values, (window, head, set, head_size)."""
        keys = [self.key.weight, self.value.weight]
        if first == 0:  # one large product is faster than two
            query, key, value = self._by_head(tokens, [self.query.weight, *keys])
        else:
            (query,) = self._by_head(tokens[:, first:], [self.query.weight])
            key, value = self._by_head(tokens, keys)
        if angles is not None:
            query, key = rotate(query, angles[:, first:]), rotate(key, angles)
        return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)

    def _by_head(self, tokens: TokenSet, weights: list[Tensor]) -> list[Tensor]:
        joined = linear(tokens, torch.cat(weights))
        size = joined.shape[-1] // (len(weights) * self.heads)
        by_head = joined.reshape(*joined.shape[:2], len(weights) * self.heads, size)
        return list(torch.split(by_head, self.heads, dim=2))

    def _merge(self, by_head: Float[Tensor, "window head query size"]) -> Attended:
        return self.out(by_head.transpose(1, 2).flatten(-2))


class SummaryAttention(SetAttention):
    """Attention through a fixed number of summaries: linear, not quadratic, in the set's size.

    Learnt queries summarise the set, and the tokens attend to the summaries (Set Transformer).
    """

    def __init__(self, width: int, heads: int, head_size: int, summaries: int) -> None:
        super().__init__(width, heads, head_size)
        self.summary_query = nn.Parameter(torch.randn(1, heads, summaries, head_size))

    def forward(
        self, tokens: TokenSet, first: int, bias: Bias | None, angles: Angles | None
    ) -> Attended:
        """Returns the attention output of the tokens from index `first` on."""
        query, key, value = self._project(tokens, first, angles)
        learnt = self.summary_query.to(key.dtype).expand(key.shape[0], -1, -1, -1)
        keys, values = (scaled_dot_product_attention(learnt, key, x, bias) for x in (key, value))
        return self._merge(scaled_dot_product_attention(query, keys, values))


class Block(nn.Module):
    """Self-attention and a feed-forward layer, each with a residual connection."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = SetAttention(config.width, config.heads, config.head_size)
        self.feed_forward = feed_forward(config)
        self.attention_norm = norm(config)
        self.feed_forward_norm = norm(config)

    def forward(self, tokens: TokenSet, first: int, bias: Bias, angles: Angles | None) -> Attended:
        """Encodes the tokens from index `first` on, which attend to all tokens."""
        attended = self.attention(self.attention_norm(tokens), first, bias, angles)
        encoded = tokens[:, first:] + attended
        return encoded + self.feed_forward(self.feed_forward_norm(encoded))
