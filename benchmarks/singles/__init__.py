"""One table: what `benchmarks/single.py` fills, and how the result is shown."""
