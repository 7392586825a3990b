"""Training: windows, losses, budgets, checkpoints and interruptions."""

import math
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nrtsi import NRTSI, InputError, TrainingError
from nrtsi.config import PRESETS, ScheduleConfig, TrainConfig
from nrtsi.core.events import TrainStep
from nrtsi.core.masking import Masking
from nrtsi.core.prediction import BasePrediction
from nrtsi.core.segments import SEGMENT_ROWS, Segments, split
from nrtsi.core.series import SeriesSet
from nrtsi.network.optimiser import Muon, orthogonal
from nrtsi.network.tokens import TokenLayout
from nrtsi.predictors.base import BasePredictor, Sample
from nrtsi.predictors.registry import BasePredictors
from nrtsi.training.sampler import WindowSampler
from nrtsi.training.settings import Budget, TrainingPlan
from tests.resuming import check_resuming
from tests.strategies import seeds, some_series


def waves(series=6, steps=60, dims=2, missing=0.2, seed=0):
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 6, (series, 1, dims))
    value = np.sin(np.arange(steps)[None, :, None] / 4 + phase)
    value[rng.random(value.shape) < missing] = np.nan
    return value


def tiny(**settings):
    return NRTSI(**{"preset": "tiny", "steps": 30, "seed": 3} | settings)


def tiny_plan(layout):
    return TrainingPlan(PRESETS["tiny"].model, layout, ScheduleConfig(), TrainConfig())


def sampler(seed, *, partial=True):
    series = some_series(seed, whole=not partial, some_data=True)
    masking = Masking.choose("points", series, whole_rows=not partial)
    spans, _ = split(series, 0.1, np.random.default_rng(seed))
    plan = tiny_plan(TokenLayout(series.dims, partial))
    return WindowSampler(Sample(series, spans), masking, plan, (seed,))


@given(seeds, st.booleans())
@settings(max_examples=25)
def test_targets_are_observed_cells_and_their_truth_is_the_data(seed, partial):
    windows = sampler(seed, partial=partial)
    batch = windows.draw(0, 64)
    assume(batch is not None)
    assert batch.counts.any(dim=-1)[batch.tokens.valid[:, batch.tokens.n_known :]].all()
    truth = batch.truth[batch.counts]
    data = windows.sample.series.value[windows.sample.series.observed].astype(np.float32)
    assert np.isin(truth.numpy(), data).all()


@given(seeds)
@settings(max_examples=15)
def test_a_draw_depends_on_the_seed_and_its_number_only(seed):
    first, again = (sampler(seed).draw(5, 32) for _ in range(2))
    assert (first is None) == (again is None)
    assume(first is not None)
    assert torch.equal(first.tokens.feature, again.tokens.feature)
    assert torch.equal(first.counts, again.counts)


@given(seeds, st.integers(1, 3000))
@settings(max_examples=40)
def test_training_and_validation_parts_do_not_overlap(seed, rows):
    rng = np.random.default_rng(seed)
    cuts = np.unique(np.concatenate([[0, rows], rng.integers(0, rows, 4)]))
    values = np.zeros((rows, 1))
    series = SeriesSet(np.arange(rows, dtype=float), values, values == 0, cuts)
    learn, hold = split(series, 0.1, rng)
    used = np.zeros((2, rows), dtype=int)
    for which, spans in enumerate((learn, hold)):
        for begin, end in zip(spans.begin, spans.end, strict=True):
            used[which, begin:end] += 1
            owner = series.owner[begin:end]
            assert owner[0] == owner[-1]
    if np.array_equal(learn.begin, hold.begin):
        assert learn.begin.size < 4
    else:
        assert (used.sum(axis=0) == 1).all()
    drawn = learn.sample(20, rng)
    assert ((drawn.end - drawn.begin) <= SEGMENT_ROWS).all()


def test_newton_schulz_brings_singular_values_near_one():
    matrix = torch.randn(3, 24, 40, generator=torch.Generator().manual_seed(0))
    for each in (matrix, matrix.mT):
        values = torch.linalg.svdvals(orthogonal(each))
        assert ((values > 0.5) & (values < 1.5)).all()


@pytest.fixture(params=[1, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_several_threads_have_the_losses_of_one(threads):
    model = tiny(steps=6, train={"batch": 128, "validate_every": 1}).fit(waves())
    losses = [(record["loss"], record["valid_loss"]) for record in model.history_]
    torch.set_num_threads(1)
    alone = tiny(steps=6, train={"batch": 128, "validate_every": 1}).fit(waves())
    expected = [(record["loss"], record["valid_loss"]) for record in alone.history_]
    np.testing.assert_allclose(losses, expected, rtol=1e-4)


def test_the_same_number_of_threads_gives_the_same_bytes_and_leaves_none_behind(threads, tmp_path):
    before = threading.active_count()
    for name in ("a", "b"):
        tiny(steps=6, train={"batch": 128}).fit(waves()).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert threading.active_count() == before


def test_muon_goes_downhill():
    weight = torch.nn.Parameter(torch.randn(8, 5, generator=torch.Generator().manual_seed(0)))
    optimizer = Muon([weight], lr=0.02)
    before = weight.square().sum().item()
    for _ in range(50):
        optimizer.zero_grad()
        weight.square().sum().backward()
        optimizer.step()
    assert weight.square().sum().item() < 0.8 * before


def test_the_same_seed_gives_the_same_bytes_and_leaves_the_global_state_alone(tmp_path):
    data = waves()
    state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    for name in ("a", "b"):
        tiny().fit(data).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    tiny(seed=4).fit(data).save(tmp_path / "c")
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()
    assert torch.equal(state[0], torch.get_rng_state())
    assert np.array_equal(state[1], np.random.get_state()[1])  # noqa: NPY002


def test_training_beats_interpolation_on_waves():
    truth = waves(40, missing=0.0, dims=1)
    gappy = truth.copy()
    hidden = np.random.default_rng(1).random(truth.shape) < 0.7
    gappy[hidden] = np.nan
    filled = tiny(steps=250).fit(gappy).impute(gappy)
    untrained = tiny(steps=0).fit(gappy).impute(gappy)
    error, linear = (np.mean((f - truth)[hidden] ** 2) for f in (filled, untrained))
    assert error < 0.5 * linear


@pytest.mark.parametrize("per_level", [False, True])
def test_a_run_stopped_anywhere_and_resumed_ends_with_the_same_bytes(tmp_path, per_level):
    settings = {"model": {"per_level": per_level}, "steps": 60, "max_level": 2}
    check_resuming(lambda: tiny(**settings), waves(), tmp_path, stops=(25, 48))


@pytest.mark.slow
def test_a_run_killed_by_the_system_and_resumed_ends_with_the_same_bytes(tmp_path):
    rows = waves(1, 400, 1)[0, :, 0]
    table = tmp_path / "data.csv"
    table.write_text(
        "t,x\n" + "".join(f"{t},{'' if np.isnan(x) else x}\n" for t, x in enumerate(rows))
    )
    command = [sys.executable, "-m", "nrtsi", "fit", str(table), "--steps", "120"]
    command += ["--preset", "tiny", "--quiet"]
    subprocess.run([*command, "--out", str(tmp_path / "whole")], check=True)
    out = tmp_path / "parts"
    for _ in range(3):
        run = subprocess.Popen([*command, "--out", str(out), "--resume"])
        state = out.with_name(out.name + ".checkpoint")
        limit = time.monotonic() + 60
        before = state.stat().st_mtime_ns if state.exists() else 0
        while run.poll() is None and time.monotonic() < limit:
            if state.exists() and state.stat().st_mtime_ns != before:
                break
            time.sleep(0.01)
        if run.poll() is None:
            os.kill(run.pid, signal.SIGKILL)
        run.wait()
    if not out.exists():
        subprocess.run([*command, "--out", str(out), "--resume"], check=True)
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()
    assert not state.exists()


def test_a_checkpoint_of_other_data_or_settings_is_refused(tmp_path):
    kept = tmp_path / "state"
    tiny().fit(waves(), checkpoint=kept)
    with pytest.raises(InputError, match="belongs to a run with other data or settings"):
        tiny(seed=9).fit(waves(), checkpoint=kept, resume=True)
    with pytest.raises(InputError, match="belongs to a run with other data or settings"):
        tiny().fit(waves(seed=1), checkpoint=kept, resume=True)


def test_an_infinite_loss_stops_training_and_keeps_the_best_weights():
    model = tiny(steps=200, train={"learning_rate": 1e30, "validate_every": 1})
    with pytest.raises(TrainingError, match=r"the loss is not finite at step \d+.*learning_rate"):
        model.fit(waves())
    assert np.isfinite(model.impute(waves())).all()


def test_ctrl_c_ends_training_early_and_keeps_what_was_learnt(caplog):
    def press(event):
        if event.step == 12:
            raise KeyboardInterrupt

    model = tiny(steps=1000).fit(waves(), listener=press)
    assert model.steps_ == 12
    assert "interrupted" in caplog.text
    assert np.isfinite(model.impute(waves())).all()


def test_ctrl_c_before_the_first_step_is_ctrl_c(monkeypatch):
    def press(self, fraction):
        raise KeyboardInterrupt

    monkeypatch.setattr("nrtsi.training.trainer.Trainer.advance", press)
    with pytest.raises(KeyboardInterrupt):
        tiny().fit(waves())


def test_steps_count_over_all_levels():
    model = tiny(steps=33, model={"per_level": True}, max_level=2).fit(waves())
    assert model.steps_ == 33
    assert {record["level"] for record in model.history_} == {0, 1, 2}


def test_a_wall_clock_budget_is_kept():
    begun = time.monotonic()
    model = tiny(steps=None, budget="2s").fit(waves())
    assert 1.5 < time.monotonic() - begun < 6
    assert model.steps_ > 0


def test_plateaus_of_the_validation_loss_stop_training():
    train = {"patience": 1, "plateaus": 2, "validate_every": 1, "learning_rate": 1e-12}
    model = tiny(steps=5000, train=train | {"patient_for": 0.0}).fit(waves())
    assert model.steps_ < 1000


def test_a_plateau_takes_a_share_of_the_budget():
    train = {"patience": 1, "plateaus": 2, "validate_every": 1, "learning_rate": 1e-12}
    model = tiny(steps=50, train=train | {"patient_for": 0.2}).fit(waves())
    assert 20 <= model.steps_ <= 40


def test_coarser_levels_start_from_finer_ones():
    model = tiny(steps=0, model={"per_level": True}, max_level=2).fit(waves())
    first, *others = (dict(n.named_parameters()) for n in model.fitted_.engine.networks)
    for other in others:
        assert all(torch.equal(first[name], other[name]) for name in first)


def test_events_have_step_loss_and_fraction():
    events = []
    tiny(steps=20).fit(waves(), listener=events.append)
    assert all(isinstance(event, TrainStep) for event in events)
    assert [event.step for event in events] == list(range(1, 21))
    assert math.isclose(events[-1].fraction, 1.0)
    assert events[-1].valid_loss is not None


def test_too_little_data_to_hide_any_is_refused():
    data = np.full((1, 3, 1), np.nan)
    data[0, :2] = 1.0
    with pytest.raises(InputError, match=r"too little data|at least"):
        tiny().fit(data[:, :1])


def test_an_empty_budget_is_used():
    assert Budget(seconds=0.0).fraction(0, 0.0) == 1.0
    assert Budget(steps=0).fraction(0, 0.0) == 1.0


def test_with_validation_data_the_whole_frame_is_trained_on(
    monkeypatch,
):
    train, other = waves(12, 30, seed=1, missing=0), waves(12, 30, seed=2, missing=0)
    used = []
    init = WindowSampler.__init__

    def noted(self, *values, **named):
        init(self, *values, **named)
        used.append((self.sample.series, self.sample.segments))

    monkeypatch.setattr(WindowSampler, "__init__", noted)
    model = tiny(steps=2, mask="points", unit=1.0, predictors=()).fit(train, validation=other)
    # Without base predictors the first sampler is that of the validation part.
    (validated, held), *learning = used
    scale = model.fitted_.scaler.scale
    # Some cells are held out for the intervals.
    whole = {tuple(row) for row in scale(SeriesSet.stack(other)).value}
    assert {tuple(row) for row in validated.value[validated.observed.all(axis=1)]} <= whole
    np.testing.assert_array_equal(held.begin, validated.start[:-1])
    np.testing.assert_array_equal(held.end, validated.start[1:])
    for learnt, spans in learning:
        np.testing.assert_array_equal(learnt.value, scale(SeriesSet.stack(train)).value)
        np.testing.assert_array_equal(spans.begin, np.arange(12) * 30)
        np.testing.assert_array_equal(spans.end, np.arange(1, 13) * 30)


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        (np.full((2, 30, 2), np.nan), "validation must have observed values, got none; lea"),
        (
            waves(2, 30),
            "validation must have rows observed in all columns or in none, .* 'partial'",
        ),
    ],
)
def test_unsuitable_validation_data_are_refused(validation, message):
    frame = waves(6, 30, missing=0)
    with pytest.raises(InputError, match=message.replace("'partial'", "setting='partial'")):
        tiny(setting="regular", steps=1).fit(frame, validation=validation)


def test_times_of_no_validation_data_are_refused():
    with pytest.raises(InputError, match="validation_times must come with validation; give both"):
        tiny(steps=1).fit(waves(), validation_times=np.arange(60.0))


def test_validation_data_must_be_like_the_frame():
    frame = np.zeros((4, 30, 2))
    with pytest.raises(InputError, match=r"2 channels|2 columns"):
        NRTSI(preset="tiny", steps=1).fit(frame, validation=np.zeros((4, 30, 3)))


@pytest.mark.parametrize("hidden", [(0.5, 0.4), (0.0, 0.5), (0.5, 1.0)])
def test_a_range_of_hidden_shares_that_makes_no_sense_is_refused(hidden):
    with pytest.raises(InputError, match="hidden"):
        NRTSI(preset="tiny", steps=1, train={"hidden": hidden}).fit(np.zeros((4, 30, 2)))


def test_training_hides_the_requested_share_of_cells(monkeypatch):
    rates = []
    draw = Masking.draw

    def noting(masking, series, rng):
        hidden = draw(masking, series, rng)
        return hidden if masking.scoring else _noted(rates, hidden)

    monkeypatch.setattr(Masking, "draw", noting)
    frame = np.random.default_rng(0).normal(size=(20, 50, 1))
    NRTSI(preset="tiny", steps=2, mask="points", train={"hidden": (0.7, 0.7)}).fit(frame)
    assert rates == pytest.approx([0.7] * len(rates), abs=0.02)


def _noted(rates, hidden):
    rates.append(hidden.mean())
    return hidden


class Recorder(BasePredictor):
    """A base predictor that records the series it predicts, and which of them to exclude."""

    slow = True
    fit = state = from_state = None
    __str__ = object.__repr__

    def __init__(self):
        self.calls = []

    def predict(self, series, exclude=None, threads=None):
        self.calls += zip(series.value[series.start[:-1], 0], exclude, strict=True)
        return BasePrediction(
            np.zeros_like(series.value), np.ones_like(series.value), np.ones_like(series.observed)
        )


@pytest.mark.parametrize("separate", [False, True])
def test_a_predictor_that_stores_series_is_told_which_to_exclude(separate):
    """Series of 40, 3, no and 600 rows, the last in slices: each value is the series' number."""
    length = np.array([40, 3, 0, 600, 40])
    number = np.repeat(np.arange(5.0), length)
    series = SeriesSet(
        np.concatenate([np.arange(float(size)) for size in length]),
        number[:, None] + 1,
        np.ones((number.size, 1), dtype=bool),
        np.concatenate([[0], np.cumsum(length)]),
    )
    masking = Masking.choose("points", series, whole_rows=True, rates=(0.1, 0.2))
    recorder = Recorder()
    windows = WindowSampler(
        Sample(series, Segments.whole(series), separate),
        masking,
        tiny_plan(TokenLayout(1, False, base_predictors=1)),
        (0,),
        predictors=BasePredictors({"recorder": recorder}),
    )
    assert windows.draw(0, 64) is not None
    # A hidden cell has the value 0.
    pairs = {(int(value) - 1, int(own)) for value, own in recorder.calls if value > 0}
    expected = {(own, -1 if separate else own) for own in range(5)}
    assert pairs <= expected
    assert {own for own, _ in pairs} >= {0, 3}


@pytest.mark.parametrize("data", [np.zeros((200, 2)), np.full((300, 1), 3.0)])
def test_constant_data_are_imputed_by_their_value(data):
    model = tiny(steps=3).fit(data)
    gaps = data.copy()
    gaps[10:20] = np.nan
    np.testing.assert_allclose(model.impute(gaps), data, atol=1e-6)
