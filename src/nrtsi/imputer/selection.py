"""Back-tests a model against the baselines and selects the method of each cell."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from nrtsi.baselines import BASELINES
from nrtsi.core.events import Listener
from nrtsi.core.prediction import Prediction
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.evaluation.backtest import BASELINE_FAILURES, MODEL_FAILURES, Backtest, run_backtest
from nrtsi.evaluation.conformal import Calibration
from nrtsi.evaluation.holdout import HoldOut
from nrtsi.evaluation.method_selection import MethodSelection
from nrtsi.imputer.fitting import holdout_spec
from nrtsi.tables import Clock, Panel

if TYPE_CHECKING:
    from nrtsi.imputer.nrtsi import NRTSI

__all__ = ["backtest_panel", "baseline_values", "select_method"]


def select_method(
    model: "NRTSI",
    panel: Panel,
    method: str,
    listener: Listener | None,
    *,
    calibrated: bool = True,
) -> tuple[MethodSelection, Calibration]:
    """Returns the method of each channel and gap length, and the distribution of its errors."""
    if method == "auto":
        if model.fitted_.auto is None:
            backtest_panel(model, panel, tuple(BASELINES), listener)
        assert model.fitted_.auto is not None
        return model.fitted_.auto
    dims = panel.series.dims
    always = MethodSelection.always(method, dims)
    if method == "nrtsi":
        return always, model.fitted_.calibration
    if not calibrated:
        return always, Calibration.none(dims)
    backtest = backtest_panel(model, panel, (method,), listener)
    if method in backtest.failed:
        raise InputError(f"{method} cannot impute these data: {backtest.failed[method]}")
    return always, backtest.calibrate(method)


def backtest_panel(
    model: "NRTSI",
    panel: Panel,
    baselines: Sequence[str] = tuple(BASELINES),
    listener: Listener | None = None,
) -> Backtest:
    """Does what `NRTSI.backtest` describes, for data that were read already."""
    series, failure, scored = panel.series, None, model
    fitted = model.fitted_ if model.__sklearn_is_fitted__() else None
    holdout = None if fitted is None else fitted.held_out(series)
    if fitted is None or (holdout is None and fitted.has_seen(series)):
        scored = type(model)(**model.get_params(deep=False))
        try:
            holdout = scored.fit_panel(panel, listener=listener).fitted_.held_out(series)
        except MODEL_FAILURES as error:
            failure, holdout = error, None
    spec = holdout_spec(scored.get_params(deep=False), series, panel.clock)
    holdout = holdout or HoldOut.of(series, **spec)
    if holdout is None:
        raise InputError(
            f"the data must have enough observed cells to hide some, got "
            f"{series.observed.sum()} observed cells in {series.series} series; give more rows"
        )

    def predict(known: SeriesSet) -> Prediction:
        if failure is not None:
            raise failure
        return scored.limited.predict(known, listener=listener)

    backtest = run_backtest(
        holdout,
        predict,
        baselines,
        clock=panel.clock,
        names=tuple(str(name) for name in panel.columns.values or ()),
        cells=int(series.observed.sum()),
        bounds=scored.channel_bounds if failure is None else None,
    )
    if fitted is not None and set(baselines) == set(BASELINES):
        model.fitted_ = replace(fitted, auto=(backtest.selection, backtest.calibrate("auto")))
    return replace(backtest, backend=panel.writer.backend, remarks=panel.notes)


def baseline_values(
    name: str, series: SeriesSet, query: Panel, clock: Clock
) -> Float[np.ndarray, "row dim"]:
    """Returns the values of a baseline that is fitted on the data."""
    baseline = BASELINES[name](on_empty="skip")
    baseline.clock_ = clock
    try:
        baseline.fit_series(series)
        return baseline.values(series, query)
    except BASELINE_FAILURES as error:
        message = f"{name} cannot impute these data: {error}; use another method"
        raise InputError(message) from error
