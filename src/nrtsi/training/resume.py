"""The checkpoint of a run: written while it goes on, taken up by a later one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from nrtsi.errors import InputError
from nrtsi.training import checkpoint
from nrtsi.training.run import TrainingRun
from nrtsi.training.trainer import Trainer

__all__ = ["Saved", "must_fit", "save", "saved"]

Saved = tuple[dict[str, Tensor], dict[str, Any]]
"""Tensors and plain values of a run that was stopped."""


def save(run: TrainingRun, trainer: Trainer, index: int) -> None:
    """Keeps all that is needed to go on from here, `index` stages being done."""
    if run.path is None or not run.ranks.leads:
        return
    tensors, state = trainer.pack()
    # What is remembered is made anew of the data, and need not be kept.
    given, hints = replace(run.predictors, memory=None).pack()
    tensors |= {f"hints.{name}": t for name, t in given.items()}
    for number, network in enumerate(run.networks):
        tensors |= {f"done.{number}.{name}": t for name, t in network.state_dict().items()}
    settings = {
        "identity": run.identity,
        "windows": run.windows,
        "stage": index,
        "steps_before": run.steps_before,
        "seconds": run.seconds,
        "opened": run.opened,
        "hints": hints,
        "history": run.history,
        "trainer": state,
    }
    checkpoint.save(run.path, "training", tensors, settings)


def saved(run: TrainingRun) -> Saved | None:
    """What the checkpoint holds, where there is one."""
    found = None
    if run.path is not None and run.path.exists():
        found = checkpoint.load(run.path, "training")
        _must_be_own(run, run.path, found[1])
    run.ranks.must_match("checkpoint", json.dumps(found and found[1]))
    return found


def _must_be_own(run: TrainingRun, path: Path, settings: dict[str, Any]) -> None:
    if settings["identity"] != run.identity:
        raise InputError(
            f"{path} belongs to a run with other data or settings, or another nrtsi; "
            f"use the same ones to resume, or remove it to start anew"
        )


def must_fit(run: TrainingRun, settings: dict[str, Any]) -> None:
    """Refuses a checkpoint of another number of processes, once the size of batches is settled.

    Raises:
        InputError: A step has another number of windows than this run's.
    """
    if settings["windows"] != run.windows:
        raise InputError(
            f"{run.path} belongs to a run of {settings['windows']} windows a step, which is "
            f"processes times batch, this one has {run.windows}; use as many processes to resume, "
            f"or remove it to start anew"
        )
