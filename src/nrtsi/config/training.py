"""Settings of training: the base predictors, the blend, the shrinkage and the optimizer."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from nrtsi.config.base import Config, Share

__all__ = [
    "AnalogConfig",
    "BlendConfig",
    "CovarianceConfig",
    "DynamicsConfig",
    "GPConfig",
    "GateConfig",
    "SamplerConfig",
    "ShrinkageConfig",
    "TrainConfig",
    "TransitionConfig",
]


Symmetry = Literal["pooled", "negated", "reversed"]
Ridges = Annotated[tuple[PositiveFloat, ...], Field(min_length=1)]


class GateConfig(Config):
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


class AnalogConfig(Config):
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
    """Numbers of neighbours of local linear analogs to compare; also half of the best."""

    local_ridges: Ridges = (1e-1, 1e-2, 1e-3)
    """Candidates for the ridge penalty of local linear analogs; the middle one comes first."""

    symmetries: tuple[Symmetry, ...] = ("pooled", "negated", "reversed")
    """Symmetries that local linear analogs may use: of channels, of values, of time."""

    max_image_cells: PositiveInt = 2**25
    """Cells that are compared with one series, at most, if symmetries are used."""

    knn_k: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (10, 30)
    """Candidates for the number of neighbours in all channels together."""

    gaussian_ridges: Ridges = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
    """Candidates for the noise of the conditional Gaussian."""

    max_covariance_cells: PositiveInt = 2048
    """Cells of a series above which no conditional Gaussian is fitted."""

    max_ratio: PositiveFloat = 0.9
    """A method or symmetry is used if its error is below this share of the simpler choice's."""

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


class CovarianceConfig(Config):
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
    """Observed cells that predict a block, about: a third in, before and after it, each."""

    neighbours: tuple[PositiveInt, PositiveInt] = (8, 64)
    """Fewest and most observed cells of a channel that are read on each side of a block."""

    max_distance: PositiveFloat = 1024.0
    """Distance, in units, beyond which observed cells are not read."""

    max_deviation: PositiveFloat = 3.0
    """Standard deviations at which observed values are clipped, because of outliers."""

    jitter: PositiveFloat = 1e-6
    """Variance added to every observed cell, so that no covariance matrix is singular."""


class GPConfig(Config):
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


class TransitionConfig(Config):
    """Networks and prediction of the dynamics model; saved with the model."""

    width: PositiveInt = 128
    """Channels inside the network."""

    blocks: PositiveInt = 2
    """Residual blocks."""

    max_steps: PositiveInt = 64
    """Steps of a rollout, at most."""

    margin: NonNegativeFloat = 0.1
    """How far predicted values may leave the range of a channel, as a share of that range."""


class DynamicsConfig(Config):
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


class SamplerConfig(Config):
    """Sampling of training windows."""

    max_cells: PositiveInt = 2**19
    """Cells that are masked and planned together; bounds the memory of wide tables."""

    uses: PositiveInt = 4
    """Draws that share masked segments if base predictors are slow."""

    attempts: PositiveInt = 8
    """Draws after which a level is taken not to occur."""


class BlendConfig(Config):
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


class ShrinkageConfig(Config):
    """Shrinkage of the network's corrections."""

    prior_cells: NonNegativeFloat = 30.0
    """Weight, in cells, of all distances (channels) in the shrinkage of one distance (channel)."""

    max_scale_factor: Annotated[float, Field(ge=1)] = 4.0
    """Largest factor by which a standard deviation is scaled up or down."""


class TrainConfig(Config):
    """Training of the base predictors and the network."""

    gate: GateConfig = GateConfig()
    analogs: AnalogConfig = AnalogConfig()
    gp: GPConfig = GPConfig()
    dynamics: DynamicsConfig = DynamicsConfig()
    sampler: SamplerConfig = SamplerConfig()
    blend: BlendConfig = BlendConfig()
    shrinkage: ShrinkageConfig = ShrinkageConfig()

    min_base_steps: PositiveInt = 100
    """Smallest budget of steps that trains base predictors, and steps before their first test."""

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
    """Share of the budget without a better loss that is required as well as `patience`."""

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
    """Smallest and largest share of cells that training masks, if it masks points or blocks."""

    @model_validator(mode="after")
    def _range_ascends(self) -> "TrainConfig":
        if self.hidden[0] > self.hidden[1]:
            raise ValueError(f"hidden must be (least, most), got {self.hidden}")
        return self
