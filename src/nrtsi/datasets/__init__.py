"""Data sets: simulators, and readers of original files; `registry` has them all by name."""
