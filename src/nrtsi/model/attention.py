"""Attention over the union of a known set and a target set."""

import torch
from jaxtyping import Bool, Complex, Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

__all__ = ["SetAttention", "may_attend", "rotate", "turns"]

# Periods of the rotary angles, in gaps: from neighbours in time to the reach of a wide window.
SHORTEST, LONGEST = 2.5, 400.0


def may_attend(valid: Bool[Tensor, "window set"], obs: int) -> Bool[Tensor, "window set set"]:
    """True where the row may read the column, in sets of `obs` known tokens and then targets.

    Every token reads the known tokens and itself; known tokens also read the targets, so that they
    know what is asked. A target never reads another target directly, unless nothing is known.
    """
    size = valid.shape[1]
    attend = valid.unsqueeze(1).repeat(1, size, 1)
    alone = ~valid[:, :obs].any(dim=1)
    attend[:, obs:, obs:] &= alone[:, None, None]
    return attend | torch.eye(size, dtype=torch.bool, device=valid.device)


def turns(time: Float[Tensor, "window set"], pairs: int) -> Complex[Tensor, "window 1 set pairs"]:
    """The turns that `rotate` gives pairs of channels at each time, as complex numbers."""
    step = (LONGEST / SHORTEST) ** (1 / max(1, pairs - 1))
    period = SHORTEST * step ** torch.arange(pairs, device=time.device, dtype=time.dtype)
    angle = 2 * torch.pi * time[:, None, :, None] / period
    return torch.polar(torch.ones_like(angle), angle)


def rotate(
    channels: Float[Tensor, "window head set size"], turn: Complex[Tensor, "window 1 set pairs"]
) -> Float[Tensor, "window head set size"]:
    """Turns pairs of channels by angles proportional to time.

    The product of a query and a key turned so depends on the difference of their times only.
    """
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
        asking: Float[Tensor, "window asking width"],
        asked: Float[Tensor, "window asked width"],
        attend: Bool[Tensor, "window asking asked"],
        turn: Complex[Tensor, "window 1 asking pairs"] | None,
        asked_turn: Complex[Tensor, "window 1 asked pairs"] | None,
    ) -> Float[Tensor, "window asking width"]:
        """Mixes each asking token with the asked ones that `attend` lets it read.

        With the `turns` of their times, attention reads differences of time as well.
        """
        query, key = self._compared(asking, asked, turn, asked_turn)
        value = self._by_head(self.value, asked)
        mixed = scaled_dot_product_attention(query, key, value, attend.unsqueeze(1))
        return self.out(mixed.transpose(1, 2).flatten(-2))

    def weights(
        self,
        asking: Float[Tensor, "window asking width"],
        asked: Float[Tensor, "window asked width"],
        attend: Bool[Tensor, "window asking asked"],
        turn: Complex[Tensor, "window 1 asking pairs"] | None,
        asked_turn: Complex[Tensor, "window 1 asked pairs"] | None,
    ) -> Float[Tensor, "window head asking asked"]:
        """How much `forward` takes of each asked token, which sums to 1 over them."""
        query, key = self._compared(asking, asked, turn, asked_turn)
        likeness = query @ key.mT / query.shape[-1] ** 0.5
        return likeness.masked_fill(~attend.unsqueeze(1), -torch.inf).softmax(-1)

    def _compared(
        self,
        asking: Float[Tensor, "window asking width"],
        asked: Float[Tensor, "window asked width"],
        turn: Complex[Tensor, "window 1 asking pairs"] | None,
        asked_turn: Complex[Tensor, "window 1 asked pairs"] | None,
    ) -> tuple[
        Float[Tensor, "window head asking head_size"], Float[Tensor, "window head asked head_size"]
    ]:
        query, key = self._by_head(self.query, asking), self._by_head(self.key, asked)
        if turn is not None and asked_turn is not None:
            query, key = rotate(query, turn), rotate(key, asked_turn)
        return query, key

    def _by_head(
        self, project: nn.Linear, tokens: Float[Tensor, "window set width"]
    ) -> Float[Tensor, "window head set head_size"]:
        return project(tokens).unflatten(-1, (self.heads, -1)).transpose(1, 2)
