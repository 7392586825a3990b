"""Impute series of different lengths at irregular times, and predict at any time.

python examples/irregular_series.py
"""

import argparse

import numpy as np
import pandas as pd

from nrtsi import NRTSI

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=300, help="training steps")
args = parser.parse_args()

rng = np.random.default_rng(0)
parts = []
for number in range(100):
    time = np.sort(rng.uniform(0, 60, rng.integers(20, 60)))
    value = np.sin(rng.uniform(0.15, 0.3) * time)
    parts.append(pd.DataFrame({"id": f"wave-{number}", "time": time, "value": value}))
table = pd.concat(parts, ignore_index=True)
table.loc[rng.random(len(table)) < 0.3, "value"] = np.nan

model = NRTSI(id="id", time="time", steps=args.steps, seed=0).fit(table)
print(model.impute(table).head())
print(model.impute(table, at=[0.0, 12.5, 33.3]).head())
