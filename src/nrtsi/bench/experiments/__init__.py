"""Experiments of `nrtsi bench run`: the tables of the paper and those of the modules here."""

from nrtsi.bench.experiments.base import (
    EXPERIMENTS,
    Experiment,
    RunOptions,
    experiment_names,
    open_experiment,
)

__all__ = ["EXPERIMENTS", "Experiment", "RunOptions", "experiment_names", "open_experiment"]
