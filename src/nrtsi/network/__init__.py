"""Predicts target cells from known ones: `rows` (the paper's network), `cells`, `pointwise`."""
