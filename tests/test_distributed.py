"""Several processes train the model that one process trains with all their windows."""

import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from nrtsi import NRTSI, InputError, load
from nrtsi.cli.main import app
from nrtsi.core.launch import NAMES, Launch, launch
from nrtsi.network.attention import rotary_angles, rotate
from nrtsi.training import distributed, trainer
from nrtsi.training.distributed import ProcessGroup
from nrtsi.training.trainer import autocast, compiled, fast_at_bfloat16

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def table(tmp_path):
    """A CSV of a noisy wave with gaps."""
    rng = np.random.default_rng(0)
    value = np.sin(np.arange(500) / 4) + 0.1 * rng.normal(size=500)
    value[rng.random(500) < 0.2] = np.nan
    path = tmp_path / "data.csv"
    pd.DataFrame({"t": np.arange(500), "x": value}).to_csv(path, index=False)
    return path


def torchrun(*command, **options):
    """Two processes of `command`, started."""
    run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    # A port that is free now, for tests that run at the same time.
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return subprocess.Popen(
        [*run, "--master-port", str(port), *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        **options,
    )


def fit(table, out, steps, *more):
    return torchrun(
        *("-m", "nrtsi", "fit", table, "--out", out, "--preset", "tiny", "--steps", steps), *more
    )


def same_weights(one, two):
    tensors = [model.fitted_.engine.networks[0].state_dict() for model in (one, two)]
    assert tensors[0].keys() == tensors[1].keys()
    for name, tensor in tensors[0].items():
        torch.testing.assert_close(tensors[1][name], tensor, rtol=1e-4, atol=1e-5)


def same_history(one, two):
    records = [
        pd.DataFrame(model.history_)[["step", "loss", "valid_loss"]] for model in (one, two)
    ]
    np.testing.assert_allclose(*records, rtol=1e-5, atol=1e-7)


def alone(table, steps, **settings):
    """One process with the windows of two."""
    batch = {"train": {"batch": 64} | settings.pop("train", {})}
    return NRTSI(preset="tiny", steps=steps, **batch, **settings).fit(pd.read_csv(table))


def test_two_processes_train_what_one_trains_with_twice_the_windows(table, tmp_path):
    out = tmp_path / "model.nrtsi"
    # More steps than one drawing serves.
    run = fit(table, out, 24)
    model = alone(table, 24)
    said, errors = run.communicate(timeout=120)
    assert run.returncode == 0, errors
    assert said.startswith(f"wrote {out}: 1 column, 1 series, 24 steps")
    assert said.count("\n") == 1
    assert errors.count("values: column 'x' (detected)") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "model.nrtsi"]
    together = load(out)
    assert [record["step"] for record in together.history_] == [10, 20, 24]
    same_history(together, model)
    same_weights(together, model)


FROM_PYTHON = """
import sys
import pandas as pd
from nrtsi import NRTSI
from torch import distributed

if sys.argv[3] == "group":
    distributed.init_process_group("gloo")
table, events = pd.read_csv(sys.argv[1]), []
for kind in ({"model": {"per_level": True}, "max_level": 1}, {}):
    model = NRTSI(preset="tiny", steps=12, **kind).fit(table, listener=events.append)
if distributed.get_rank() == 0:
    assert len(events) == 24
    model.save(sys.argv[2])
else:
    assert not events
"""


@pytest.mark.slow
@pytest.mark.parametrize("group", ["group", "none"])
def test_python_processes_fit_several_models_in_an_existing_group_or_not(table, tmp_path, group):
    script, out = tmp_path / "script.py", tmp_path / "model.nrtsi"
    script.write_text(FROM_PYTHON)
    run = torchrun(script, table, out, group)
    _, errors = run.communicate(timeout=120)
    assert run.returncode == 0, errors
    same_weights(load(out), alone(table, 12))


DIFFERENT = """
import sys
import pandas as pd
from nrtsi import NRTSI, InputError

table = pd.read_csv(sys.argv[1])
import os
try:
    NRTSI(preset="tiny", steps=4, seed=int(os.environ["RANK"])).fit(table)
except InputError as error:
    print(error)
"""


@pytest.mark.slow
def test_processes_with_different_settings_are_refused(table, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(DIFFERENT)
    said, _ = torchrun(script, table).communicate(timeout=120)
    assert said.count("must have the same data and settings, got different ones; give all of") == 2


STOPPED = """
import sys
import pandas as pd
from nrtsi import NRTSI

def stop(event):
    if event.step == int(sys.argv[4]):
        raise RuntimeError("stopped")

model = NRTSI(preset="tiny", steps=24)
model.fit(pd.read_csv(sys.argv[1]), checkpoint=sys.argv[3], resume=True, listener=stop)
model.save(sys.argv[2])
"""


@pytest.mark.slow
def test_a_run_in_which_one_process_failed_ends_and_resumes(table, tmp_path):
    script, out, state = tmp_path / "script.py", tmp_path / "model.nrtsi", tmp_path / "state"
    script.write_text(STOPPED)
    stopped = torchrun(script, table, out, state, 14)
    _, errors = stopped.communicate(timeout=60)
    assert stopped.returncode
    assert "RuntimeError: stopped" in errors
    one = NRTSI(preset="tiny", steps=24)
    with pytest.raises(
        InputError, match=r"run of 64 windows a step.* this one has 32; use as many"
    ):
        one.fit(pd.read_csv(table), checkpoint=state, resume=True)
    _, errors = torchrun(script, table, out, state, -1).communicate(timeout=60)
    assert out.exists(), errors
    same_weights(load(out), alone(table, 24))


@pytest.mark.slow
def test_ctrl_c_stops_all_processes_at_the_same_step_and_the_model_is_written(table, tmp_path):
    out, state = tmp_path / "model.nrtsi", tmp_path / "model.nrtsi.checkpoint"
    run = fit(table, out, 100_000)
    _wait_for(state, run)
    run.send_signal(signal.SIGINT)
    said, errors = run.communicate(timeout=60)
    assert said.startswith(f"wrote {out}"), errors
    assert errors.count("the best weights so far are kept") == 1
    assert errors.count("add --resume to continue from") == 1
    assert load(out).steps_ > 0


def _wait_for(path, run):
    limit = time.monotonic() + 100
    while not path.exists():
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < limit
        time.sleep(0.05)


# The place of a process -------------------------------------------------------------------------


def test_without_a_launcher_a_process_is_alone(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    assert launch() == Launch(0, 1, 0)
    assert distributed.join(CPU) == (ProcessGroup(), CPU)


def test_a_launcher_gives_the_rank(monkeypatch):
    said = {"RANK": "5", "WORLD_SIZE": "8", "MASTER_ADDR": "here", "MASTER_PORT": "1"}
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert launch() == Launch(5, 8, 1)
    assert not launch().is_first


@pytest.mark.parametrize(
    ("rank", "message"), [(0, "several processes must run nrtsi fit"), (1, "")]
)
def test_other_commands_than_fit_are_refused_to_several_processes(monkeypatch, rank, message):
    monkeypatch.setattr("nrtsi.cli.main.launch", lambda: Launch(rank, 2))
    result = CliRunner().invoke(app, ["info", "model.nrtsi"])
    assert result.exit_code == 2
    assert message in result.stderr
    assert bool(result.stderr) == bool(message)


def test_a_single_process_communicates_with_itself():
    one = ProcessGroup()
    assert one.is_first
    assert one.total(1.5, 2.0) == [1.5, 2.0]
    assert one.clock(3.0) == 3.0
    one.check_equal("anything", "the same")
    with pytest.raises(KeyboardInterrupt):
        one.interrupt()


def test_a_single_process_decides_and_broadcasts_its_own():
    one, tensors = ProcessGroup(), {"weight": torch.ones(2)}
    assert one.decide(True)
    assert not one.decide(False)
    assert one.broadcast(tensors) is tensors


def test_an_interruption_of_any_process_stops_all(monkeypatch):
    two = ProcessGroup(rank=0, size=2)
    monkeypatch.setattr(ProcessGroup, "all", lambda self, *own: torch.tensor([own, (9.0, 0.0)]))
    assert two.clock(3.0) == 3.0
    two.interrupt()
    with pytest.raises(KeyboardInterrupt):
        two.clock(3.0)


@pytest.mark.parametrize("launched", [Launch(5, 8, 1), Launch()])
def test_every_process_of_a_machine_has_a_gpu_of_its_own(monkeypatch, launched):
    monkeypatch.setattr(distributed, "launch", lambda: launched)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 5)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    assert distributed.own_device(GPU) == torch.device("cuda:1")
    assert distributed.own_device(torch.device("cuda:3")) == torch.device("cuda:3")
    assert distributed.own_device(CPU) == CPU


# Faster steps -----------------------------------------------------------------------------------


def test_only_gpus_that_are_fast_at_bfloat16_compute_in_it(monkeypatch):
    for supported in (True, False):
        monkeypatch.setattr(
            torch.cuda, "is_bf16_supported", lambda *, including_emulation, s=supported: s
        )
        assert fast_at_bfloat16(GPU) == supported
        assert not fast_at_bfloat16(CPU)
    with autocast(CPU):
        assert not torch.is_autocast_enabled("cpu")


def test_rotations_take_channels_of_lower_precision():
    turn = rotary_angles(torch.ones(1, 3), 2, (2.5, 400.0))
    channels = torch.linspace(-1, 1, 12).reshape(1, 3, 1, 4)
    low = rotate(channels.to(torch.bfloat16), turn)
    torch.testing.assert_close(low.float(), rotate(channels, turn), rtol=0.02, atol=0.02)


@pytest.mark.slow
def test_training_in_bfloat16_has_nearly_the_same_losses(monkeypatch, table):
    plain = alone(table, 10)
    monkeypatch.setattr(trainer, "fast_at_bfloat16", lambda device: True)
    low = alone(table, 10)
    difference = abs(low.history_[-1]["valid_loss"] - plain.history_[-1]["valid_loss"])
    assert 0 < difference < 0.02


def test_a_network_that_cannot_be_compiled_is_trained_without(monkeypatch, caplog, table):
    class Broken(torch.nn.Sequential):
        def forward(self, tokens):
            raise RuntimeError("no C++ compiler\nfound")

    plain = alone(table, 2)
    monkeypatch.setattr(trainer.torch, "compile", Broken)
    model = alone(table, 2, train={"compile": True})
    assert "cannot be compiled here (no C++ compiler); training goes on without" in caplog.text
    same_weights(model, plain)


COMPILED = """
import sys
import pandas as pd
from nrtsi import NRTSI

settings = {"batch": 64, "compile": True, "validate_every": 1}
NRTSI(preset="tiny", steps=6, train=settings).fit(pd.read_csv(sys.argv[1])).save(sys.argv[2])
"""


@pytest.mark.slow
def test_a_compiled_network_has_the_same_losses_and_names(table, tmp_path):
    out = tmp_path / "model.nrtsi"
    # In a process of its own: checks of shapes, which the tests have, are not what is compiled.
    command = [sys.executable, "-c", COMPILED, table, out]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert run.stderr == ""  # or it would say that it could not be compiled
    plain, fast = alone(table, 6, train={"validate_every": 1}), load(out)
    same_history(fast, plain)
    same_weights(fast, plain)


def test_weights_are_shared_with_the_compiled_network(monkeypatch):
    monkeypatch.setattr(trainer.torch, "compile", torch.nn.Sequential)
    network = torch.nn.Linear(2, 1)
    fast = compiled(network, lambda each: each(torch.ones(1, 2)).sum())
    assert fast is not network
    assert next(fast.parameters()) is network.weight
    assert network.weight.grad is None
