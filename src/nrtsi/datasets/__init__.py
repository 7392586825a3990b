"""Data sets the project makes itself: each a pure function of sizes and a seed, one file each."""
