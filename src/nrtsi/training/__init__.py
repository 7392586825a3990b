"""Trains a model: settings, window sampler, trainer, curriculum, shrinkage and checkpoints."""
