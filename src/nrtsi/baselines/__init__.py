"""Simple methods to stand beside."""
