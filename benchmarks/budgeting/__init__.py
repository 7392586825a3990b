"""Error against budget: its rows, the trials that make them, a section and a picture of them."""
