"""Impute the gaps of a table and compare the result with the truth.

python examples/impute_a_table.py             # about a minute
python examples/impute_a_table.py --steps 20  # a quick look
"""

import argparse

import numpy as np
import pandas as pd

import nrtsi
from nrtsi.bench.datasets.weather import weather

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, help="training steps, instead of a minute")
args = parser.parse_args()

# Two months of hourly weather with gaps, and the same without gaps.
gappy, truth = (pd.DataFrame(columns) for columns in weather(seed=1))

imputed = nrtsi.impute(gappy, time="time", budget="60s", steps=args.steps, seed=0)

linear = gappy.set_index("time").interpolate("time", limit_direction="both").reset_index()
for name in ("temperature", "humidity", "pressure"):
    missing = gappy[name].isna()
    error, baseline = (
        np.sqrt(np.mean((table[name] - truth[name])[missing] ** 2)) for table in (imputed, linear)
    )
    print(f"{name:12} {missing.sum():4} missing   RMSE {error:6.2f}   linear {baseline:6.2f}")
