"""Settings of the evaluation: hold-out split, back-test, calibration and report."""

from typing import Annotated

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from nrtsi.config.base import Config, Share

__all__ = ["CalibrationConfig", "EvaluationConfig", "ReportConfig"]


class CalibrationConfig(Config):
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
    """Gaps for a length scale of its own, and rows that halve the shrinkage of a correlation."""


class EvaluationConfig(Config):
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


class ReportConfig(Config):
    """How much data the HTML report shows."""

    max_series: PositiveInt = 12
    """Series that the charts show."""

    max_cells: PositiveInt = 2_000_000
    """Cells above which no further series is shown, so that the page opens quickly."""

    max_page_cells: PositiveInt = 20_000_000
    """Cells above which no page is written, because browsers fail to open it."""


class StreamConfig(Config):
    """Context of a shard of files larger than memory."""

    context_rows: PositiveInt = 256
    """Observed rows of a series that a shard gets from each neighbour."""

    channel_rows: PositiveInt = 16
    """Known rows of every channel that it gets in addition, for channels with longer gaps."""

    max_series: PositiveInt = 2**17
    """Series that are tracked at once to find long gaps, or the rows of a shard if more."""
