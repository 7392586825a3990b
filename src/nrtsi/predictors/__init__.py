"""Base predictors: each proposes a value and an uncertainty for every missing cell."""
