"""Evaluates methods on held-out cells: hold-out split, back-test, calibration, metrics, pooling."""
