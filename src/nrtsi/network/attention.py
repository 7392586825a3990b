"""Attention over the union of a known set and a target set."""

import torch
from jaxtyping import Bool, Complex, Float
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

__all__ = [
    "SetAttention",
    "SummaryAttention",
    "attention_mask",
    "attention_bias",
    "rotate",
    "turns",
]

# Periods of the rotary angles in units of the distance, from neighbours to a wide window.
SHORTEST, LONGEST = 2.5, 400.0


def attention_mask(valid: Bool[Tensor, "window set"], obs: int) -> Bool[Tensor, "window set set"]:
    """True where the row may read the column, in sets of `obs` known tokens and then targets.

    Every token reads the known tokens and itself; known tokens also read the targets, so that they
    know what is asked. A target never reads another target directly, unless nothing is known.
    """
    size = valid.shape[1]
    attend = valid.unsqueeze(1).repeat(1, size, 1)
    alone = ~valid[:, :obs].any(dim=1)
    attend[:, obs:, obs:] &= alone[:, None, None]
    return attend | torch.eye(size, dtype=torch.bool, device=valid.device)


def attention_bias(
    valid: Bool[Tensor, "window set"], obs: int, dtype: torch.dtype
) -> Float[Tensor, "window 1 set set"]:
    """`attention_mask` as an additive bias on the attention scores."""
    never = torch.zeros((), dtype=dtype, device=valid.device), -torch.inf
    return torch.where(attention_mask(valid, obs), *never).unsqueeze(1)


def turns(time: Float[Tensor, "window set"], pairs: int) -> Complex[Tensor, "window set 1 pairs"]:
    """The turns that `rotate` gives pairs of channels at each time, as complex numbers."""
    step = (LONGEST / SHORTEST) ** (1 / max(1, pairs - 1))
    period = SHORTEST * step ** torch.arange(pairs, device=time.device, dtype=time.dtype)
    angle = 2 * torch.pi * time[:, :, None, None] / period
    # Not torch.polar, which is slower than the two it is made of.
    return torch.complex(angle.cos(), angle.sin())


def rotate(
    channels: Float[Tensor, "window set head size"], turn: Complex[Tensor, "window set 1 pairs"]
) -> Float[Tensor, "window set head size"]:
    """Turns pairs of channels by angles proportional to time.

    The product of a query and a key turned so depends on the difference of their times only.
    """
    channels = channels.to(turn.real.dtype)  # which autocast may have lowered
    pairs = turn.shape[-1]  # in words, since a set may be empty
    paired = torch.view_as_complex(channels.reshape(*channels.shape[:-1], pairs, 2))
    return torch.view_as_real(paired * turn).flatten(-2)


class SetAttention(nn.Module):
    """Multi-head attention without positions: equivariant to the order of the set.

    Args:
        width: Channels of a token.
        heads: Attention heads.
        head_size: Channels of each head.
    """

    def __init__(self, width: int, heads: int, head_size: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, heads * head_size, bias=False)
        self.key = nn.Linear(width, heads * head_size, bias=False)
        self.value = nn.Linear(width, heads * head_size, bias=False)
        self.out = nn.Linear(heads * head_size, width, bias=False)

    def forward(
        self,
        tokens: Float[Tensor, "window set width"],
        first: int,
        bias: Float[Tensor, "#window 1 #asking set"] | None,
        turn: Complex[Tensor, "window set 1 pairs"] | None,
    ) -> Float[Tensor, "window asking width"]:
        """Mixes the tokens from `first` on with those that `bias` lets them read.

        With the `turns` of their times, attention reads differences of time as well.
        """
        query, key, value = (x.transpose(1, 2) for x in self._project(tokens, first, turn))
        mixed = scaled_dot_product_attention(query, key, value, bias)
        return self.out(mixed.transpose(1, 2).flatten(-2))

    def weights(
        self,
        tokens: Float[Tensor, "window set width"],
        first: int,
        bias: Float[Tensor, "#window 1 #asking set"] | None,
        turn: Complex[Tensor, "window set 1 pairs"] | None,
    ) -> Float[Tensor, "window head asking set"]:
        """How much `forward` takes of each token, which sums to 1 over them."""
        query, key, _ = (x.transpose(1, 2) for x in self._project(tokens, first, turn))
        alike = query @ key.mT / query.shape[-1] ** 0.5
        return (alike if bias is None else alike + bias).softmax(-1)

    def _project(
        self,
        tokens: Float[Tensor, "window set width"],
        first: int,
        turn: Complex[Tensor, "window set 1 pairs"] | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, (window, set, head, head_size)."""
        keys = [self.key.weight, self.value.weight]
        if first == 0:
            # One large product is faster than three small ones.
            query, key, value = self._by_head(tokens, [self.query.weight, *keys])
        else:
            (query,) = self._by_head(tokens[:, first:], [self.query.weight])
            key, value = self._by_head(tokens, keys)
        if turn is not None:
            query, key = rotate(query, turn[:, first:]), rotate(key, turn)
        return query, key, value

    def _by_head(
        self, tokens: Float[Tensor, "window set width"], weights: list[Tensor]
    ) -> list[Float[Tensor, "window set head head_size"]]:
        joined = linear(tokens, torch.cat(weights))
        size = joined.shape[-1] // (len(weights) * self.heads)
        by_head = joined.reshape(*joined.shape[:2], len(weights) * self.heads, size)
        return list(torch.split(by_head, self.heads, dim=2))


class SummaryAttention(SetAttention):
    """Attention by way of a few summaries: what it costs grows with the set, not with its square.

    Learnt queries take keys and values of their own from the tokens, and the tokens read those.

    Args:
        width: Channels of a token.
        heads: Attention heads.
        head_size: Channels of each head.
        summaries: How many summaries there are.
    """

    def __init__(self, width: int, heads: int, head_size: int, summaries: int) -> None:
        super().__init__(width, heads, head_size)
        self.ask = nn.Parameter(torch.randn(1, heads, summaries, head_size))

    def forward(
        self,
        tokens: Float[Tensor, "window set width"],
        first: int,
        bias: Float[Tensor, "#window 1 #asking set"] | None,
        turn: Complex[Tensor, "window set 1 pairs"] | None,
    ) -> Float[Tensor, "window asking width"]:
        """Mixes the tokens from `first` on with summaries of those that `bias` shows to all."""
        query, key, value = (x.transpose(1, 2) for x in self._project(tokens, first, turn))
        ask = self.ask.to(key.dtype).expand(key.shape[0], -1, -1, -1)
        keys, values = (scaled_dot_product_attention(ask, key, x, bias) for x in (key, value))
        mixed = scaled_dot_product_attention(query, keys, values)
        return self.out(mixed.transpose(1, 2).flatten(-2))
