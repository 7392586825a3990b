"""Decides which rows are imputed at which step, and from which known rows."""
