"""Measures accuracy on held-out cells: back-tests, conformal calibration, metrics, pooling."""
