"""What `benchmarks/speed.py` measures, a file for each question."""
