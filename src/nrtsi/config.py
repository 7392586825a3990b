"""Settings of the network, the order of imputation and training, and the named presets."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)

from nrtsi.errors import InputError

__all__ = [
    "PRESETS",
    "SETTINGS",
    "CalibrationConfig",
    "CovarianceConfig",
    "DynamicsConfig",
    "EvaluationConfig",
    "GPConfig",
    "ModelConfig",
    "Preset",
    "ScheduleConfig",
    "TrainConfig",
    "TransitionConfig",
    "preset_for",
    "schedule_for",
    "validated",
]

SETTINGS = ("auto", "regular", "irregular", "stochastic", "partial", "all", "smallest")


Share = Annotated[float, Field(gt=0, lt=1)]

INPUT_CLIP = 16.0
"""Bound of the inputs of networks, whose root mean square is 1; shared by the dynamics model."""


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ModelConfig(_Config):
    """Kind, size, inputs and output of the set transformer."""

    network: Literal["rows", "cells", "pointwise"] = "rows"
    """One token per row, as in the paper; one per cell, for partially observed rows; or no
    attention, for rows that their nearest known rows determine."""

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
    """Smallest log std of the Gaussian head, in units of the error of the blend; a cell that fits
    exactly must not dominate the likelihood of a batch."""

    max_log_std: float = 1.8
    """Largest log std of the Gaussian head. Draws are inputs of later draws: without a bound, a
    std that is much too large would grow from step to step."""

    encode_targets: bool = True
    """Encode known and target points together (S ∪ G); False: known points alone, targets
    cross-attend."""

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
    """Tokens have the slopes of the known values around them, and the steepest slope of their
    window, as inputs."""

    input_clip: PositiveFloat = INPUT_CLIP
    """Bound of the inputs, whose root mean square is 1."""

    residual: bool = True
    """Predict the difference to the blend of linear interpolation and base predictions rather
    than the value."""

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


class ScheduleConfig(_Config):
    """Order of imputation."""

    max_level: Annotated[int, Field(ge=0, le=60, strict=True)] = 4
    """Coarsest level (L), for distances up to `2**max_level` units; points farther away wait
    until imputed ones come near."""

    order: Literal["widest", "local", "midpoints", "smallest", "all"] = "widest"
    """What a step imputes: the points at the largest distance of their series, as in the paper;
    at the largest distance of their neighbourhood ("local"), which takes fewer steps if many
    points are known; or the middle of every gap, which takes the fewest. "smallest" and "all" are
    the paper's ablations."""

    neighbourhood: PositiveInt = 16
    """Known rows of a neighbourhood in the order "local"."""

    band: NonNegativeFloat = 0.0
    """Distances this close to the largest, and of its level, are imputed together (Δ); 0 on a
    regular grid."""

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


class GateConfig(_Config):
    """The held-out test that decides which base predictors are kept."""

    segments: tuple[PositiveInt, PositiveInt] = (2, 64)
    """Smallest and largest number of segments with hidden cells."""

    rows: PositiveInt = 2**12
    """Rows of these segments, about."""

    cells: PositiveInt = 2**16
    """Cells of these segments, about."""

    solved: NonNegativeFloat = 0.01
    """Share of the error of interpolation below which no further predictor is fitted."""

    max_ratio: PositiveFloat = 0.9
    """A predictor is kept if the blend with it has less than this share of the error without."""

    early_ratio: PositiveFloat = 0.95
    """The same for a Gaussian process that has just begun to train."""


class AnalogConfig(_Config):
    """Analogs: predictions from similar training series."""

    min_series: PositiveInt = 64
    """Series that share a time span, below which analogs do not apply."""

    max_series: PositiveInt = 2**13
    """Series that are stored, at most; a random sample of more."""

    max_points: PositiveInt = 1024
    """Points of the common time grid above which analogs do not apply."""

    max_channels: PositiveInt = 64
    """Channels above which analogs do not apply."""

    max_cells: PositiveInt = 2**24
    """Cells of all stored series, at most."""

    span_tolerance: Share = 0.05
    """Share of the median time span that a stored series may lack at each end."""

    min_observed: Share = 0.5
    """Share of its rows in which a stored series must observe each channel."""

    outlier_ranges: PositiveFloat = 10.0
    """Interquartile ranges from the median beyond which stored values are clipped."""

    completion_missing: Share = 0.05
    """Share of missing cells from which gaps of stored series are predicted from the others."""

    completion_rounds: Annotated[int, Field(ge=0)] = 6
    """Rounds of this prediction; each uses the gaps as the round before filled them."""

    trial_series: tuple[PositiveInt, PositiveInt] = (16, 32)
    """Smallest and largest number of series on which methods are compared."""

    trial_cells: PositiveInt = 2**21
    """Stored cells above which methods are compared on fewer series."""

    local_k: Annotated[tuple[Annotated[int, Field(ge=2)], ...], Field(min_length=1)] = (8, 32)
    """Candidates for the number of neighbours of local linear analogs; half of the best is
    compared, too."""

    local_ridges: Annotated[tuple[PositiveFloat, ...], Field(min_length=1)] = (1e-1, 1e-2, 1e-3)
    """Candidates for the ridge penalty of local linear analogs; the middle one comes first."""

    symmetries: tuple[Literal["pooled", "negated", "reversed"], ...] = (
        "pooled",
        "negated",
        "reversed",
    )
    """Symmetries that local linear analogs may use: channels are alike, values mirrored, time
    reversed."""

    max_image_cells: PositiveInt = 2**25
    """Cells that are compared with one series, at most, if symmetries are used."""

    knn_k: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (10, 30)
    """Candidates for the number of neighbours in all channels together."""

    gaussian_ridges: Annotated[tuple[PositiveFloat, ...], Field(min_length=1)] = (
        1e-1,
        1e-2,
        1e-3,
        1e-4,
        1e-5,
    )
    """Candidates for the noise of the conditional Gaussian."""

    max_covariance_cells: PositiveInt = 2048
    """Cells of a series above which no conditional Gaussian is fitted."""

    max_ratio: PositiveFloat = 0.9
    """A symmetry, local linear analogs, or analogs at all are used if their error is below this
    share of that of the simpler choice."""

    max_blend_ratio: PositiveFloat = 0.95
    """Two methods are blended if the error is below this share of that of the better one."""

    give_up_ratio: PositiveFloat = 2.0
    """A method whose error exceeds that of another this many times is not tuned further."""

    @model_validator(mode="after")
    def _enough_series(self) -> "AnalogConfig":
        most = max(*self.local_k, *self.knn_k)
        if self.min_series <= most:
            raise ValueError(
                f"min_series must exceed local_k and knn_k, got {self.min_series} and {most}"
            )
        return self


class CovarianceConfig(_Config):
    """Covariance function and prediction of the Gaussian process; saved with the model."""

    lengthscales: tuple[PositiveFloat, ...] = (2.0, 8.0, 32.0, 128.0, 512.0)
    """Initial lengthscales, in units, of the exponential and of the Matérn-5/2 kernels."""

    harmonics: tuple[PositiveInt, ...] = (1, 2, 3)
    """Harmonics of each cycle of the calendar that have a quasi-periodic kernel."""

    decay_time: PositiveFloat = 512.0
    """Initial decay time, in units, of the quasi-periodic kernels."""

    sources: PositiveInt = 3
    """Latent sources per kernel that the channels share (rank of the coregionalisation)."""

    context_cells: PositiveInt = 384
    """Observed cells that a block of rows is predicted from, about: a third in the block, a third
    before and a third after it."""

    neighbours: tuple[PositiveInt, PositiveInt] = (8, 64)
    """Fewest and most observed cells of a channel that are read on each side of a block."""

    max_distance: PositiveFloat = 1024.0
    """Distance, in units, beyond which observed cells are not read."""

    max_deviation: PositiveFloat = 3.0
    """Observed values are clipped at this many standard deviations when they are read, so that an
    outlier in one channel does not dominate the others."""

    jitter: PositiveFloat = 1e-6
    """Variance added to every observed cell, so that no covariance matrix is singular."""


class GPConfig(_Config):
    """Training of the multi-output Gaussian process."""

    covariance: CovarianceConfig = CovarianceConfig()

    share: Share = 1 / 4
    """Share of the training budget."""

    min_seconds: NonNegativeFloat = 10.0
    """Training budget below which no Gaussian process is fitted."""

    max_channels: PositiveInt = 16
    """Channels above which no Gaussian process is fitted."""

    min_cells: PositiveInt = 256
    """Observed cells below which no Gaussian process is fitted."""

    cells: PositiveInt = 320
    """Cells per step, at most; the time of a step grows with their cube."""

    channels: PositiveInt = 3
    """Channels in every other step, so that its cells span more time."""

    strides: tuple[PositiveInt, ...] = (1, 1, 2, 4, 8)
    """Rows between the rows of a step, one of these at random; wide strides show slow changes."""

    learning_rate: PositiveFloat = 0.05
    """Initial learning rate of Adam."""

    max_steps: PositiveInt = 1000
    """Steps after which training ends, whatever the budget."""


class TransitionConfig(_Config):
    """Networks and prediction of the dynamics model; saved with the model."""

    width: PositiveInt = 128
    """Channels inside the network."""

    blocks: PositiveInt = 2
    """Residual blocks."""

    max_steps: PositiveInt = 64
    """Steps of a rollout, at most."""

    margin: NonNegativeFloat = 0.1
    """How far predicted values may leave the range of a channel, as a share of that range."""


class DynamicsConfig(_Config):
    """Training of the dynamics model."""

    transition: TransitionConfig = TransitionConfig()

    share: Share = 1 / 3
    """Share of the training budget."""

    min_seconds: NonNegativeFloat = 30.0
    """Training budget below which no dynamics model is fitted."""

    early_share: Share = 0.15
    """Share of its budget after which the model must beat persistence."""

    max_channels: PositiveInt = 64
    """Channels above which no dynamics model is fitted."""

    min_pairs: PositiveInt = 2048
    """Pairs of successive complete rows below which no dynamics model is fitted."""

    rows: PositiveInt = 3072
    """Rows per step, about."""

    rollout: PositiveInt = 16
    """Steps of a training rollout, at most."""

    growth: tuple[Share, Share] = (0.3, 0.6)
    """Shares of the budget between which training rollouts grow from one step to `rollout`."""

    min_starts: PositiveInt = 256
    """Rows from which a rollout of some length must be possible before it is trained."""

    warm_up: PositiveInt = 50
    """Steps over which the learning rate rises."""

    validation_rollouts: PositiveInt = 1024
    """Validation rollouts from which errors are measured, at most."""

    min_rollouts: PositiveInt = 32
    """Validation rollouts below which an error is not measured."""

    persistence_steps: PositiveInt = 8
    """Length, in steps, of the rollouts that are compared with persistence."""

    persistence_ratio: PositiveFloat = 0.9
    """The model beats persistence if its error is below this share of that of persistence."""


class SamplerConfig(_Config):
    """Sampling of training windows."""

    max_cells: PositiveInt = 2**19
    """Cells that are masked and planned together; bounds the memory of wide tables."""

    uses: PositiveInt = 4
    """Draws that share masked segments if base predictors are slow."""

    attempts: PositiveInt = 8
    """Draws after which a level is taken not to occur."""


class BlendConfig(_Config):
    """The blend of the base predictors."""

    windows: PositiveInt = 1024
    """Windows that the blend is fitted on."""

    iterations: PositiveInt = 50
    """Rounds of coordinate descent."""

    min_cells: PositiveInt = 8
    """Cells from which a distance and channel has its own mean error."""

    prior_cells: NonNegativeFloat = 30.0
    """Weight, in cells, of all distances in the blend weights of one distance."""

    uniform: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Share of the windows that are sampled uniformly over the levels, not by error."""


class ShrinkageConfig(_Config):
    """Shrinkage of the network's corrections."""

    prior_cells: NonNegativeFloat = 30.0
    """Weight, in cells, of all distances in the shrinkage of one distance; also of all channels
    in that of one channel, and of no correction in that of all."""

    max_scale_factor: Annotated[float, Field(ge=1)] = 4.0
    """Largest factor by which a standard deviation is scaled up or down."""


class TrainConfig(_Config):
    """Training of the base predictors and the network."""

    gate: GateConfig = GateConfig()
    analogs: AnalogConfig = AnalogConfig()
    gp: GPConfig = GPConfig()
    dynamics: DynamicsConfig = DynamicsConfig()
    sampler: SamplerConfig = SamplerConfig()
    blend: BlendConfig = BlendConfig()
    shrinkage: ShrinkageConfig = ShrinkageConfig()

    min_base_steps: PositiveInt = 100
    """Steps from which a budget of steps is long enough to train base predictors, and that one
    makes before its first test."""

    warm_up: PositiveInt = 20
    """Steps over which the learning rate rises."""

    betas: tuple[Share, Share] = (0.9, 0.99)
    """Decay rates of Adam's averages."""

    steps_per_draw: PositiveInt = 16
    """Steps that share one draw of windows, which is planned once."""

    tokens_per_step: PositiveInt = 2**12
    """Tokens in a step of the network `cells`, about."""

    min_windows: PositiveInt = 4
    """Smallest number of windows in a step of the network `cells`."""

    validation_batches: PositiveInt = 8
    """Batches of the validation windows."""

    min_validation_windows: PositiveInt = 128
    """Smallest number of validation windows."""

    optimizer: Literal["muon", "adam"] = "muon"
    """Muon for the matrices inside the encoder and Adam for the rest, or Adam for all."""

    learning_rate: PositiveFloat = 4e-3
    """Peak learning rate."""

    decay: Literal["budget", "plateau"] = "budget"
    """Lower the rate as the budget is used up, or only when the validation loss stands still."""

    plateau_factor: PositiveFloat = 0.3
    """What the rate is multiplied by after `patience` validations without a better loss."""

    patience: PositiveInt = 20
    """Validations without a better loss before the rate is lowered."""

    patient_for: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Share of the budget that has to pass without a better loss, too: at a high rate a good
    training gets no better for long."""

    plateaus: PositiveInt = 3
    """Training stops early at this plateau."""

    batch: PositiveInt = 128
    """Windows in a step of the optimizer, for each process that trains."""

    compile: bool = False
    """Compile the network, which takes minutes and can make steps on a GPU faster."""

    validate_every: PositiveInt = 50
    """Steps from one validation, and one checkpoint, to the next."""

    validation: Annotated[float, Field(gt=0, le=0.5)] = 0.1
    """Share of the data held out for validation."""

    hidden: tuple[Share, Share] = (0.05, 0.95)
    """Range of the share of cells hidden to learn from, where points or blocks are hidden."""

    @model_validator(mode="after")
    def _range_ascends(self) -> "TrainConfig":
        if self.hidden[0] > self.hidden[1]:
            raise ValueError(f"hidden must be (least, most), got {self.hidden}")
        return self


class Preset(_Config):
    """A model with the training that suits it."""

    model: ModelConfig = ModelConfig()

    cells: ModelConfig | None = None
    """The model for partly observed rows; None: the same."""

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


# Seconds up to which the smaller of two sizes is taken. On a core `small` was ahead of `base`
# after 60, and `base` level with `large` after 600 (docs/benchmarks.md, error against budget):
# where in between, or beyond, they change places is a guess.
SHORT, LONG = 180.0, 1800.0


def preset_for(name: str | None, budget: float | None, *, partial: bool = False) -> str:
    """The name of the preset to use: the caller's, or one that suits `budget` seconds.

    Where rows are partly observed a larger network than the base has not been seen to help.

    >>> [preset_for(None, seconds) for seconds in (60.0, 600.0, 3600.0)]
    ['small', 'base', 'large']
    >>> preset_for("paper", 60.0), preset_for(None, None), preset_for(None, 3600.0, partial=True)
    ('paper', 'base', 'base')
    """
    if name is None:
        if budget is None:  # so many steps, which no size makes fewer
            return "base"
        return "small" if budget <= SHORT else "base" if budget <= LONG or partial else "large"
    if name not in PRESETS:
        raise InputError(
            f"preset must be one of {', '.join(PRESETS)}, got {name!r}; "
            f"leave it out for the one that suits the budget"
        )
    return name


def schedule_for(setting: str, *, regular: bool, max_level: int = 4) -> ScheduleConfig:
    """The order of imputation that a setting means, on a regular grid or off it."""
    if setting not in SETTINGS:
        raise InputError(f"setting must be one of {', '.join(SETTINGS)}, got {setting!r}")
    on_grid = setting == "regular" or (setting != "irregular" and regular)
    fields: dict[str, Any] = {"max_level": max_level, "band": 0.0 if on_grid else 1.0}
    if setting in ("all", "smallest"):
        return validated(ScheduleConfig, fields | {"order": setting})
    # Points of one gap that are filled in the same step do not know of each other.
    return validated(
        ScheduleConfig,
        fields
        | {
            "order": "local",
            "one_by_one_above": min(4.0, 2.0**max_level),
            "one_by_one_in": "series" if setting == "stochastic" else "gap",
        },
    )


ConfigT = TypeVar("ConfigT", bound=BaseModel)


def validated(kind: type[ConfigT], fields: dict[str, Any]) -> ConfigT:
    """Builds a config, turning pydantic's report into one line.

    Raises:
        InputError: A field is unknown, or its value is out of range.
    """
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or kind.__name__
        raise InputError(f"{name}: {first['msg']}, got {first['input']!r}") from error


class CalibrationConfig(_Config):
    """Conformal calibration and error correlation."""

    level: Share = 0.9
    """Probability of an interval if the user gives none."""

    min_cells: PositiveInt = 100
    """Cells from which a gap bin has its own distribution; with fewer, adjacent bins are added."""

    min_gaps: PositiveInt = 20
    """Gaps from which a gap bin has its own distribution; with fewer, adjacent bins are added."""

    channel_prior_gaps: PositiveFloat = 8.0
    """Weight, in gaps, of all channels in the mean error size of one channel."""

    bin_prior_gaps: PositiveFloat = 60.0
    """Weight, in gaps, of a channel in the mean error size of one gap bin."""

    gap_correlation: Annotated[float, Field(ge=0, le=1)] = 0.65
    """Correlation of the sizes of two errors in the same gap; sets the effective sample size."""

    max_score: PositiveFloat = 20.0
    """Larger errors, in predicted standard deviations, count as this large in a mean size."""

    folds: Annotated[int, Field(ge=2)] = 5
    """Folds of the cross-validated coverage."""

    pairs: PositiveInt = 200_000
    """Pairs of cells from which the correlation over time is estimated."""

    correlation_prior: PositiveFloat = 30.0
    """Gaps from which a channel has its own length scale, and rows at which the correlation of
    two channels is shrunk by half."""


class EvaluationConfig(_Config):
    """Hold-out split, back-test and method selection."""

    held_out: Share = 0.15
    """Share of the observed cells that is held out."""

    max_cells: PositiveInt = 2**17
    """Cells of the segments that held-out cells are drawn from; bounds the run time."""

    segment_rows: PositiveInt = 2**12
    """Rows of a segment of a large data set; much longer than a gap."""

    min_cells: PositiveInt = 5
    """Held-out cells below which nothing is held out."""

    min_held_out: Share = 0.07
    """Share of held-out cells below which gaps no longer keep their time of day."""

    match_gaps_above: PositiveInt = 200
    """Held-out cells above which their gap lengths are matched to those of the data."""

    selection_errors: NonNegativeFloat = 1.5
    """Standard errors by which a method must be better to be selected for some of the cells."""

    calibration: CalibrationConfig = CalibrationConfig()


class ReportConfig(_Config):
    """How much data the HTML report shows."""

    max_series: PositiveInt = 12
    """Series that the charts show."""

    max_cells: PositiveInt = 2_000_000
    """Cells above which no further series is shown, so that the page opens quickly."""

    max_page_cells: PositiveInt = 20_000_000
    """Cells above which no page is written, because browsers fail to open it."""


class StreamConfig(_Config):
    """Context of a shard of files larger than memory."""

    context_rows: PositiveInt = 256
    """Observed rows of a series that a shard gets from each neighbour, with the missing rows among
    them."""

    channel_rows: PositiveInt = 16
    """Known rows of every channel that it gets in addition: a channel can be missing where others
    are not, and for longer than a shard."""

    max_series: PositiveInt = 2**17
    """Series that are tracked at once to find long gaps, or the rows of a shard if more."""
