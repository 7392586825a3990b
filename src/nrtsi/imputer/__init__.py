"""The public estimator `NRTSI` and the functions `impute` and `load`."""
