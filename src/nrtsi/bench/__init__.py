"""Benchmarks: data sets, the paper's tables, competitors, experiments, results and their pages."""
