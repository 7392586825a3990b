"""Competitors from PyPOTS, with the inputs of PyPOTS as the oracle of ours."""

import logging
import subprocess
import sys
import time
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from nrtsi.bench import competitor_inputs as inputs
from nrtsi.bench import competitors
from nrtsi.bench.competitors import COMPETITORS, KINDS, QUICK_SIZES, TRAINING, Competitor
from nrtsi.bench.datasets.dataset import Part
from nrtsi.core.scaling import Scaler
from nrtsi.errors import InputError, TrainingError
from nrtsi.training.settings import Budget

if find_spec("pypots") is None:
    pytest.skip("PyPOTS is not installed", allow_module_level=True)

with competitors.quiet():
    from pypots import imputation
    from pypots.imputation.brits.data import DatasetForBRITS
    from pypots.imputation.csdi.data import DatasetForCSDI
    from pypots.imputation.grud.data import DatasetForGRUD
    from pypots.imputation.locf import locf_torch
    from pypots.imputation.mrnn.data import DatasetForMRNN
    from pypots.imputation.saits.data import DatasetForSAITS

seeds = st.integers(0, 2**32 - 1)
every = pytest.mark.parametrize("name", COMPETITORS)


SMALL = {
    "brits": {"rnn_hidden_size": 32},
    "saits": {"d_model": 64, "n_heads": 4, "d_k": 16, "d_v": 16, "d_ffn": 64},
    "helix": {"d_model": 32},
}
"""Large enough to learn something."""


def waves(series, seed, steps=7, dims=2, *, even=True):
    """Sines about 50, with a few cells that the original does not have."""
    rng = np.random.default_rng(seed)
    moment = np.tile(np.arange(float(steps)), (series, 1))
    if not even:
        moment = np.sort(rng.uniform(0, steps, size=(series, steps)), axis=1)
    phase = rng.uniform(0, 6, size=(series, 1, dims))
    value = 50 + 3 * np.sin(moment[:, :, None] + phase)
    value[rng.random(value.shape) < 0.1] = np.nan
    return Part(moment, value)


def half(part, rng):
    return rng.random(part.value.shape) < 0.5


def gappy(part, seed=5):
    hidden = half(part, np.random.default_rng(seed))
    return Part(part.time, np.where(hidden, np.nan, part.value))


def tiny(name, seed=0, training=TRAINING):
    return Competitor(name, seed=seed, training=training, **QUICK_SIZES[name])


def fitted(name, *, seed=0, steps=2, even=True, hide=half, training=TRAINING):
    competitor = tiny(name, seed, training)
    train, validation = waves(40, 1, even=even), waves(10, 2, even=even)
    competitor.fit(train, validation, hide, Budget(steps=steps))
    return competitor


@every
@pytest.mark.parametrize("even", [True, False])
def test_every_cell_gets_a_finite_value_and_observed_ones_keep_theirs(name, even):
    competitor = fitted(name, even=even)
    asked = gappy(waves(35, 3, even=even))
    asked.value[0] = np.nan  # a series with nothing observed
    before = asked.value.copy()
    filled = competitor.impute(asked)
    observed = np.isfinite(before)
    assert filled.shape == before.shape
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[observed], before[observed])
    np.testing.assert_array_equal(asked.value, before)


@every
def test_the_same_seed_gives_the_same_bytes_whatever_ran_before(name):
    asked = gappy(waves(5, 3))
    torch.manual_seed(1)
    first = fitted(name, seed=7)
    one = first.impute(asked)
    torch.manual_seed(2)
    torch.rand(3)
    again = fitted(name, seed=7)
    assert again.impute(asked).tobytes() == one.tobytes()
    assert first.impute(asked).tobytes() == one.tobytes()
    assert fitted(name, seed=8).impute(asked).tobytes() != one.tobytes()


@every
def test_the_random_state_of_the_caller_stays(name):
    theirs = torch.random.get_rng_state()
    numpys = repr(np.random.get_state())  # noqa: NPY002 - the state that must not change
    fitted(name).impute(gappy(waves(3, 3)))
    assert torch.equal(torch.random.get_rng_state(), theirs)
    assert repr(np.random.get_state()) == numpys  # noqa: NPY002


@every
def test_a_batch_gives_what_its_series_give_alone(name):
    if name == "csdi":
        pytest.skip("its noise depends on the place in the batch")
    competitor = fitted(name)
    asked = gappy(waves(6, 3))
    together = competitor.impute(asked)
    alone = competitor.impute(Part(asked.time[4:5], asked.value[4:5]))
    np.testing.assert_allclose(alone[0], together[4], rtol=1e-5)


@every
@pytest.mark.parametrize("unit", [1e-3, 1e4])
def test_the_units_of_the_data_do_not_matter(name, unit):
    train, validation, asked = waves(20, 1), waves(8, 2), gappy(waves(5, 3))
    fills = []
    for scale in (1.0, unit):
        competitor = tiny(name)
        parts = [Part(p.time, scale * p.value) for p in (train, validation, asked)]
        competitor.fit(parts[0], parts[1], half, Budget(steps=2))
        fills.append(competitor.impute(parts[2]) / scale)
    np.testing.assert_allclose(fills[1], fills[0], rtol=1e-3)


@every
def test_where_a_channel_never_changes_or_is_never_seen_the_values_stay_finite(name):
    train, validation = waves(20, 1, dims=3), waves(8, 2, dims=3)
    train.value[:, :, 1] = 4.0
    validation.value[:, :, 1] = 4.0
    train.value[:, :, 2] = np.nan
    competitor = tiny(name)
    competitor.fit(train, validation, half, Budget(steps=2))
    assert np.isfinite(competitor.impute(gappy(waves(4, 3, dims=3)))).all()


@every
@pytest.mark.parametrize("steps", [0, 1, 3, 23])
def test_the_budget_sets_the_number_of_steps(name, steps):
    competitor = fitted(name, steps=steps)
    assert competitor.steps == steps
    assert competitor.parameters == sum(p.numel() for p in competitor.network.parameters())


def test_training_ends_with_its_seconds():
    competitor, train, validation = tiny("grud"), waves(40, 1), waves(10, 2)
    begun = time.monotonic()
    competitor.fit(train, validation, half, Budget(seconds=0.5))
    assert 0.5 <= time.monotonic() - begun < 3.0
    assert competitor.steps > 3


@every
def test_one_step_is_made_even_where_there_is_no_time_for_it(name):
    competitor = tiny(name)
    competitor.fit(waves(10, 1), waves(4, 2), half, Budget(seconds=1e-9))
    assert competitor.steps == 1
    assert np.isfinite(competitor.impute(gappy(waves(2, 3)))).all()


@pytest.mark.parametrize("steps", [0, 1, 4, 10, 37])
def test_the_weights_are_those_of_the_best_of_ten_validations(monkeypatch, steps):
    """Counted, and the last one that was the best so far is the one that fills."""
    validate = competitors.CompetitorRun.validate
    seen = []

    def watched(run, seed):
        before = run.validated
        validate(run, seed)
        if run.validated != before:
            weights = {k: v.clone() for k, v in run.network.state_dict().items()}
            seen.append((run.lowest, weights))

    monkeypatch.setattr(competitors.CompetitorRun, "validate", watched)
    competitor = fitted("saits", steps=steps)
    assert len(seen) == min(max(steps, 1), 10)
    least = min(error for error, _ in seen)
    best = next(weights for error, weights in seen if error == least)
    for key, value in competitor.network.state_dict().items():
        assert torch.equal(value, best[key])


def test_validations_take_a_tenth_of_the_seconds_but_for_the_first_and_the_last():
    nothing = inputs.InputBatch(torch.zeros(1, 1), *[torch.zeros(1, 1, 1)] * 3)
    run = competitors.CompetitorRun(
        torch.nn.Linear(1, 1), inputs.INPUTS["masked"], nothing, Budget(seconds=100.0)
    )
    run.started -= 50.0
    run.validating = 6.0
    assert run.due(last=False)  # there are no weights yet
    run.best = run.network.state_dict()
    assert not run.due(last=False)
    assert run.due(last=True)
    run.validating = 4.0
    assert run.due(last=False)
    run.steps, run.cost = 1, 20.0
    assert run.continues(0.8)
    assert not run.continues(0.6)  # 50 seconds are gone, and 20 are kept for the validation


@every
def test_what_is_hidden_is_drawn_anew_for_training_and_once_for_validation(name):
    drawn = []

    def hide(part, rng):
        drawn.append(half(part, rng))
        return drawn[-1]

    fitted(name, steps=4, hide=hide)
    validation, *training = drawn
    assert validation.shape[0] == min(10, KINDS[name].validation_series)
    assert [len(d) for d in training] == [32, 8, 32, 8]  # 40 series in rounds of two batches
    assert not np.array_equal(training[0], training[2])


@pytest.mark.parametrize("name", COMPETITORS)
def test_the_truth_of_hidden_cells_teaches_those_whose_loss_has_a_place_for_it(monkeypatch, name):
    """Two training parts that differ only where every batch is hidden, scaled alike."""
    hidden = np.zeros((7, 2), dtype=bool)
    hidden[::2] = True
    fixed = Scaler(np.full(2, 40.0), np.full(2, 20.0))

    def hide(part, rng):
        return np.broadcast_to(hidden, part.value.shape)

    fills = []
    for moved in (False, True):
        train = waves(20, 1)
        # Far below, as their losses are absolute errors: only the side they are on counts.
        turned = np.where(hidden & moved, train.value - 100, train.value)
        competitor = tiny(name)
        monkeypatch.setattr(Scaler, "fit", lambda series: fixed)
        monkeypatch.setattr(competitors, "_unit_range", lambda part: fixed)
        competitor.fit(Part(train.time, turned), waves(8, 2), hide, Budget(steps=3))
        fills.append(competitor.impute(gappy(waves(4, 3))))
    assert np.array_equal(*fills) == (name in {"brits", "mrnn", "grud"})


def theirs(name, form, network):
    """The same method as PyPOTS itself would run it."""
    steps, channels = form.shape
    with competitors.quiet():
        model = getattr(imputation, KINDS[name].model)
        sizes = {**KINDS[name].sizes, **QUICK_SIZES[name]}
        built = model(n_steps=steps, n_features=channels, device="cpu", **sizes)
    built.model.load_state_dict(network.state_dict())
    return built


def scaled(form, value):
    return ((value - form.scaler.offset) / form.scaler.spread).astype(np.float32)


@pytest.mark.parametrize("name", ["brits", "mrnn", "saits", "imputeformer", "helix"])
def test_pypots_itself_fills_alike(name):
    competitor = fitted(name)
    form, network = competitor.preparation, competitor.network
    asked = gappy(waves(40, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        filled = theirs(name, form, network).impute({"X": scaled(form, asked.value)})
    np.testing.assert_allclose(competitor.impute(asked), form.unscale(filled, asked), rtol=1e-5)


def same(ours, pypots, path=""):
    for key, value in pypots.items():
        if isinstance(value, dict):
            same(ours[key], value, key)
        elif key != "indices":
            np.testing.assert_allclose(ours[key], value, atol=1e-6, err_msg=path + key)


@every
def test_pypots_itself_would_validate_with_the_same_inputs(name):
    competitor = fitted(name)
    form, network = competitor.preparation, competitor.network
    part = waves(9, 4)
    hidden = half(part, np.random.default_rng(0))
    batch = form.batch(part, hidden)
    data = {
        "X": scaled(form, np.where(hidden, np.nan, part.value)),
        "X_ori": scaled(form, part.value),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = {
            "brits": lambda: DatasetForBRITS(data, return_X_ori=True, return_y=False),
            "mrnn": lambda: DatasetForMRNN(data, return_X_ori=True, return_y=False),
            "grud": lambda: DatasetForGRUD(data, return_X_ori=True),
            "csdi": lambda: DatasetForCSDI(data, "random", return_X_ori=True),
        }.get(name, lambda: DatasetForSAITS(data, return_X_ori=True, return_y=False))()
        collated = next(iter(DataLoader(dataset, batch_size=9)))
        pypots = theirs(name, form, network)._assemble_input_for_validating(collated)
        if name == "grud":  # ours are the paper's: see the docstring of its inputs
            pypots["X_filledLOCF"] = locf_torch(torch.from_numpy(data["X"]))
            pypots["empirical_mean"] = np.zeros(2)
    same(competitor.inputs(batch), pypots)


def test_times_between_observations_by_hand():
    moment = torch.tensor([[0.0, 1.0, 3.0, 7.0]])
    known = torch.tensor([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]])
    shown = torch.tensor([[[0.0, 5.0], [6.0, 0.0], [0.0, 0.0], [8.0, 9.0]]])
    since = [[0.0, 0.0], [1.0, 1.0], [2.0, 3.0], [6.0, 7.0]]
    assert inputs.time_since_observed(moment, known)[0].tolist() == since
    assert inputs.carry_forward(shown, known)[0].tolist() == [[6, 5], [6, 5], [6, 5], [8, 9]]


@settings(max_examples=30)
@given(seed=seeds)
def test_times_between_observations_are_what_their_recursion_says(seed):
    rng = np.random.default_rng(seed)
    moment = torch.from_numpy(np.sort(rng.uniform(0, 9, size=(3, 8))))
    known = torch.from_numpy((rng.random((3, 8, 2)) < 0.4).astype(float))
    since = torch.zeros(3, 8, 2, dtype=torch.float64)
    for step in range(1, 8):
        gap = (moment[:, step] - moment[:, step - 1])[:, None]
        since[:, step] = gap + (1 - known[:, step - 1]) * since[:, step - 1]
    torch.testing.assert_close(inputs.time_since_observed(moment, known), since)


@every
def test_uneven_times_are_one_more_channel_that_is_shown_and_never_asked(name):
    competitor = fitted(name, even=False)
    form = competitor.preparation
    part = waves(30, 4, even=False)
    batch = form.batch(part, np.ones(part.value.shape, dtype=bool))
    assert batch.value.shape == (30, 7, 3)
    assert (batch.known[:, :, 2] == 1).all()
    assert (batch.known[:, :, :2] == 0).all()
    assert (batch.target[:, :, 2] == 0).all()
    backward = batch.value[:, :, 2].double() * form.scaler.spread[2] + form.scaler.offset[2]
    np.testing.assert_allclose(backward, part.time, atol=1e-5)
    np.testing.assert_allclose(batch.time * form.unit + form.origin, part.time, atol=1e-5)
    later = Part(part.time + 1.5, gappy(part).value)
    assert not np.array_equal(competitor.impute(later), competitor.impute(gappy(part)))


@every
def test_even_times_are_no_channel_and_their_unit_does_not_matter(name):
    competitor = fitted(name)
    asked = gappy(waves(4, 3))
    shifted = Part(0.1 * asked.time + 1000, asked.value)
    assert competitor.preparation.batch(asked, np.isnan(asked.value)).value.shape == (4, 7, 2)
    np.testing.assert_array_equal(competitor.impute(shifted), competitor.impute(asked))


def test_mrnn_stays_in_the_range_of_what_it_learnt_from():
    competitor = fitted("mrnn")
    filled = competitor.impute(gappy(waves(10, 3)))
    train = waves(40, 1).value
    assert (filled >= np.nanmin(train, axis=(0, 1)) - 0.1).all()
    assert (filled <= np.nanmax(train, axis=(0, 1)) + 0.1).all()


def test_draws_differ_where_cells_are_missing_and_their_mean_fills():
    competitor = fitted("csdi")
    assert competitor.draws
    asked = gappy(waves(4, 3))
    drawn = competitor.sample(asked, 10)
    missing = np.isnan(asked.value)
    assert drawn.shape == (10, 4, 7, 2)
    assert (drawn.std(axis=0)[missing] > 0).all()
    assert (drawn == np.where(missing, drawn, asked.value)).all()
    np.testing.assert_allclose(competitor.impute(asked), drawn.mean(axis=0))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["brits", "saits", "helix"])
def test_it_learns(name):
    """A sine of one frequency is told better than by its mean, which is wrong by 4.5."""
    competitor = Competitor(name, **(QUICK_SIZES[name] | SMALL.get(name, {})))
    competitor.fit(waves(200, 1, 16), waves(40, 2, 16), half, Budget(steps=300))
    truth = waves(40, 3, 16)
    asked = gappy(truth)
    wrong = (competitor.impute(asked) - truth.value)[
        np.isnan(asked.value) & np.isfinite(truth.value)
    ]
    assert np.mean(wrong**2) < 2.0


@pytest.mark.slow
def test_nothing_is_printed_or_written(tmp_path):
    program = (
        "import numpy as np\n"
        "from nrtsi.bench.competitors import Competitor\n"
        "from nrtsi.bench.datasets.dataset import Part\n"
        "from nrtsi.training.settings import Budget\n"
        "value = np.random.default_rng(0).random((4, 5, 2))\n"
        "part = Part(np.tile(np.arange(5.0), (4, 1)), value)\n"
        "competitor = Competitor('csdi', n_diffusion_steps=2)\n"
        "hide = lambda part, rng: rng.random(part.value.shape) < 0.5\n"
        "competitor.fit(part, part, hide, Budget(steps=1))\n"
        "print(competitor.impute(part).shape)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "(4, 5, 2)\n"
    assert ran.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_the_log_of_pypots_is_left_as_it_was(capfd):
    log = logging.getLogger("PyPOTS running log")
    level = log.level
    fitted("saits")
    assert not log.disabled
    assert log.level == level
    assert capfd.readouterr() == ("", "")


def test_an_unknown_size_is_refused():
    with pytest.raises(InputError, match="grud has no size 'd_model'; it has rnn_hidden_size"):
        Competitor("grud", d_model=3)


def test_without_pypots_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pypots", None)
    message = r'brits needs PyPOTS, which is not installed; pip install "nrtsi\[bench\]"'
    with pytest.raises(InputError, match=message):
        Competitor("brits")


def test_sizes_that_pypots_would_change_are_refused():
    competitor = Competitor("saits", d_model=100)
    message = "saits cannot have d_model 100 with its other sizes; give 256"
    with pytest.raises(InputError, match=message):
        competitor.fit(waves(4, 1), waves(4, 2), half, Budget(steps=1))


def test_hiding_nothing_is_refused():
    message = "hide must hide some observed cell of the validation part, got none; hide more"
    with pytest.raises(InputError, match=message):
        fitted("grud", hide=lambda part, rng: np.isnan(part.value))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("saits", "saits cannot be trained: .* mustn't contain NaN"),
        ("csdi", "csdi has no finite error at any validation"),
    ],
)
def test_divergence_is_an_error(name, message):
    diverging = TRAINING.model_copy(update={"learning_rate": 1e30})
    with pytest.raises(TrainingError, match=message):
        fitted(name, training=diverging)


def test_divergence_after_a_validation_keeps_the_weights_it_had(monkeypatch):
    advance = competitors.CompetitorRun.advance

    def broken(run, batch):
        if run.steps == 3:
            run.optimizer.param_groups[0]["lr"] = 1e30
        advance(run, batch)

    monkeypatch.setattr(competitors.CompetitorRun, "advance", broken)
    competitor = fitted("saits", steps=10)
    assert competitor.steps == 4
    assert np.isfinite(competitor.impute(gappy(waves(4, 3)))).all()
