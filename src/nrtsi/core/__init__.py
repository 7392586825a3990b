"""Data structures and helpers that every other package uses; nothing here imports torch."""
