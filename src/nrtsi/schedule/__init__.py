"""Which points are imputed when."""
