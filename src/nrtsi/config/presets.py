"""The named presets, and the order of imputation of each setting."""

from typing import Any

from nrtsi.config.base import Config, validated
from nrtsi.config.model import ModelConfig, ScheduleConfig
from nrtsi.config.training import TrainConfig
from nrtsi.errors import InputError

__all__ = ["PRESETS", "SETTINGS", "Preset", "preset_for", "schedule_for"]

SETTINGS = ("auto", "regular", "irregular", "stochastic", "partial", "all", "smallest")


class Preset(Config):
    """A model with the training that suits it."""

    model: ModelConfig = ModelConfig()

    cells: ModelConfig | None = None
    """The model for partially observed rows; None: the same."""

    train: TrainConfig = TrainConfig()

    predictors: tuple[str, ...] = ("analogs", "gp", "dynamics")
    """Names of the base predictors."""


def _cells(width: int, blocks: int, heads: int, window: int) -> ModelConfig:
    return ModelConfig(
        network="cells",
        width=width,
        blocks=blocks,
        heads=heads,
        head_size=width // heads,
        feed_forward=2 * width,
        window=window,
    )


PRESETS: dict[str, Preset] = {
    "tiny": Preset(
        model=ModelConfig(width=16, blocks=1, heads=1, head_size=16, feed_forward=32, window=8),
        cells=_cells(width=16, blocks=1, heads=1, window=16),
        train=TrainConfig(batch=32, validate_every=10),
    ),
    "small": Preset(
        model=ModelConfig(width=48, blocks=3, heads=2, head_size=24, feed_forward=96),
        cells=_cells(width=32, blocks=2, heads=1, window=32),
    ),
    "base": Preset(cells=_cells(width=64, blocks=3, heads=2, window=48)),
    "large": Preset(
        model=ModelConfig(width=96, blocks=6, heads=3, head_size=32, feed_forward=192, window=24),
        cells=_cells(width=96, blocks=4, heads=3, window=64),
    ),
    "paper": Preset(
        model=ModelConfig(
            width=1024,
            blocks=8,
            heads=12,
            head_size=128,
            feed_forward=2048,
            window=None,
            head="point",
            per_level=True,
            relative=False,
            normalise=False,
            neighbours=False,
            slopes=False,
            residual=False,
        ),
        predictors=(),
        train=TrainConfig(
            optimizer="adam",
            learning_rate=1e-4,
            decay="plateau",
            patient_for=0.0,
            plateau_factor=0.1,
            plateaus=2,
            batch=16,
        ),
    ),
}


# Seconds up to which the smaller of two sizes is used. On one core `small` was ahead of `base`
# after 60, and `base` level with `large` after 600 (docs/benchmarks.md, error against budget);
# the exact thresholds are a guess.
SHORT, LONG = 180.0, 1800.0


def preset_for(name: str | None, budget: float | None, *, partial: bool = False) -> str:
    """Returns the name of the preset to use: the caller's, or one for `budget` seconds.

    If rows are partially observed, no network larger than the base has improved results.

    >>> [preset_for(None, seconds) for seconds in (60.0, 600.0, 3600.0)]
    ['small', 'base', 'large']
    >>> preset_for("paper", 60.0), preset_for(None, None), preset_for(None, 3600.0, partial=True)
    ('paper', 'base', 'base')
    """
    if name is None:
        if budget is None:  # the budget is a number of steps
            return "base"
        return "small" if budget <= SHORT else "base" if budget <= LONG or partial else "large"
    if name not in PRESETS:
        raise InputError(
            f"preset must be one of {', '.join(PRESETS)}, got {name!r}; "
            f"leave it out for the one that suits the budget"
        )
    return name


def schedule_for(setting: str, *, regular: bool, max_level: int = 4) -> ScheduleConfig:
    """Returns the order of imputation of a setting, on a regular grid or off it."""
    if setting not in SETTINGS:
        raise InputError(f"setting must be one of {', '.join(SETTINGS)}, got {setting!r}")
    on_grid = setting == "regular" or (setting != "irregular" and regular)
    fields: dict[str, Any] = {"max_level": max_level, "band": 0.0 if on_grid else 1.0}
    if setting in ("all", "smallest"):
        return validated(ScheduleConfig, fields | {"order": setting})
    # Points of one gap that are imputed in the same step are predicted independently.
    return validated(
        ScheduleConfig,
        fields
        | {
            "order": "local",
            "one_by_one_above": min(4.0, 2.0**max_level),
            "one_by_one_in": "series" if setting == "stochastic" else "gap",
        },
    )
