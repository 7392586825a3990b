"""Dynamics model: learns the transition from a row to the next and rolls it out into gaps."""

from nrtsi.predictors.dynamics.model import TransitionModel
from nrtsi.predictors.dynamics.trainer import TransitionTrainer
from nrtsi.predictors.dynamics.transition import Transition

__all__ = ["Transition", "TransitionModel", "TransitionTrainer"]
