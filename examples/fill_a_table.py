"""Fill the gaps of a table, and check the filling against values that were hidden on purpose.

python examples/fill_a_table.py            # about a minute
python examples/fill_a_table.py --steps 20 # a glance
"""

import argparse

import numpy as np
import pandas as pd

import nrtsi
from nrtsi.bench.datasets.weather import weather

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, help="training steps, in place of a minute")
args = parser.parse_args()

# Two months of hourly weather with gaps, and what would have stood in them.
gappy, truth = (pd.DataFrame(columns) for columns in weather(seed=1))

filled = nrtsi.impute(gappy, time="time", budget="60s", steps=args.steps, seed=0)

linear = gappy.set_index("time").interpolate("time", limit_direction="both").reset_index()
for name in ("temperature", "humidity", "pressure"):
    missing = gappy[name].isna()
    error, simple = (
        np.sqrt(np.mean((table[name] - truth[name])[missing] ** 2)) for table in (filled, linear)
    )
    print(f"{name:12} {missing.sum():4} missing   RMSE {error:6.2f}   linear {simple:6.2f}")
