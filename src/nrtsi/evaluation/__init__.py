"""Measures accuracy on held-out cells: hold-out, back-test, calibration, metrics, pooling."""
