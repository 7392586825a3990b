"""Settings of the network and of the order of imputation."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from nrtsi.config.base import Config

__all__ = ["INPUT_CLIP", "ModelConfig", "ScheduleConfig"]

INPUT_CLIP = 16.0
"""Bound of the inputs of networks, whose root mean square is 1; shared by the dynamics model."""


class ModelConfig(Config):
    """Kind, size, inputs and output of the set transformer."""

    network: Literal["rows", "cells", "pointwise"] = "rows"
    """One token per row (the paper), one per cell (partially observed rows), or no attention."""

    width: PositiveInt = 64
    """Channels of every token inside the encoder."""

    blocks: PositiveInt = 4
    """Self-attention blocks."""

    heads: PositiveInt = 2
    """Attention heads."""

    head_size: PositiveInt = 32
    """Channels of a head's keys, queries and values; heads × head_size need not equal width."""

    feed_forward: PositiveInt = 128
    """Channels inside a feed-forward layer."""

    time_channels: PositiveInt = 8
    """Channels of the time encoding (τ)."""

    time_scale: PositiveFloat = 100.0
    """Slowest scale of the time encoding, in units (ν)."""

    window: PositiveInt | None = 16
    """Known rows that a target attends to, half of them on each side; None: `max_window`."""

    max_window: PositiveInt = 2048
    """Known rows of a window if `window` is None; memory grows with its square."""

    head: Literal["point", "gaussian"] = "gaussian"
    """A point prediction, or a normal distribution, for every cell."""

    min_log_std: float = -9.0
    """Smallest log std of the Gaussian head; bounds the weight of a cell that fits exactly."""

    max_log_std: float = 1.8
    """Largest log std of the Gaussian head; keeps draws, which later ones read, from diverging."""

    encode_targets: bool = True
    """Encode known and target points together (S ∪ G); False: targets cross-attend."""

    per_level: bool = False
    """One network for each level, the finest trained first; False: one network for all."""

    relative: bool = True
    """Attention also depends on differences of time, in units of the distance (rotary)."""

    rotary_min_period: PositiveFloat = 2.5
    """Shortest period of the rotary angles, in units of the distance."""

    rotary_max_period: PositiveFloat = 400.0
    """Longest period of the rotary angles, in units of the distance."""

    normalise: bool = True
    """Layer norm before every layer."""

    neighbours: bool = True
    """Tokens have the differences and distances to the nearest known values as inputs."""

    max_neighbour_distance: PositiveFloat = 64.0
    """Distance to a neighbour, in units of the distance, beyond which it counts as this far."""

    slopes: bool = True
    """Tokens have the slopes around them, and the steepest of their window, as inputs."""

    input_clip: PositiveFloat = INPUT_CLIP
    """Bound of the inputs, whose root mean square is 1."""

    residual: bool = True
    """Predict the difference to the blend of interpolation and base predictions, not the value."""

    pointwise_factor: PositiveInt = 3
    """Width of the network 'pointwise' as a multiple of `width`."""

    max_attended_channels: PositiveInt = 64
    """Channels up to which the cells of a row attend to each other; more use summaries."""

    channel_summaries: PositiveInt = 16
    """Summaries of the channels of a row, if there are more than `max_attended_channels`."""

    @property
    def cell_tokens(self) -> bool:
        """True if a token is a cell, not a row."""
        return self.network == "cells"

    @property
    def window_rows(self) -> int:
        """Known rows of a window."""
        return self.window or self.max_window

    @property
    def rotary_periods(self) -> tuple[float, float]:
        """Shortest and longest period of the rotary angles."""
        return self.rotary_min_period, self.rotary_max_period

    @model_validator(mode="after")
    def _pairs(self) -> "ModelConfig":
        for name in ("time_channels", "head_size"):
            if getattr(self, name) % 2:
                raise ValueError(f"{name} must be even, got {getattr(self, name)}")
        if self.time_channels < 4:
            raise ValueError(f"time_channels must be at least 4, got {self.time_channels}")
        if self.cell_tokens and not self.encode_targets:
            raise ValueError("encode_targets must be True for the network 'cells', got False")
        if self.cell_tokens and self.per_level:
            raise ValueError("per_level must be False for the network 'cells', got True")
        return self


class ScheduleConfig(Config):
    """Order of imputation."""

    max_level: Annotated[int, Field(ge=0, le=60, strict=True)] = 4
    """Coarsest level (L), up to distance `2**max_level`; points farther away are imputed later."""

    order: Literal["widest", "local", "midpoints", "smallest", "all"] = "widest"
    """What a step imputes: the points at the largest distance of their series, as in the paper;
    at the largest distance of their neighbourhood ("local"), which takes fewer steps if many
    points are known; or the middle of every gap, which takes the fewest. "smallest" and "all" are
    the paper's ablations."""

    neighbourhood: PositiveInt = 16
    """Known rows of a neighbourhood in the order "local"."""

    band: NonNegativeFloat = 0.0
    """Distances this close to the largest are imputed with it (Δ); 0 on a regular grid."""

    one_by_one_above: PositiveFloat | None = None
    """Points at larger distances than this are imputed one at a time."""

    one_by_one_in: Literal["series", "gap"] = "series"
    """One point per series, as in the paper, or one per gap (rows between two known ones)."""

    together: NonNegativeFloat | None = None
    """The last step imputes all rows that are partially observed or no farther than this from
    data; None: rows with the most missing channels come first."""

    @property
    def reach(self) -> float:
        """The largest distance that does not wait."""
        return 2.0**self.max_level

    @model_validator(mode="after")
    def _threshold_within_reach(self) -> "ScheduleConfig":
        if self.one_by_one_above is not None and self.one_by_one_above > self.reach:
            raise ValueError(
                f"one_by_one_above must not exceed 2**max_level, "
                f"got {self.one_by_one_above:g} and max_level={self.max_level}"
            )
        return self
