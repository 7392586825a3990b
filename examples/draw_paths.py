"""Draw several paths through the gaps and compute an interval of a daily mean.

python examples/draw_paths.py
"""

import argparse

import numpy as np
import polars as pl

from nrtsi import NRTSI
from nrtsi.bench.datasets.weather import weather

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, help="training steps, instead of a minute")
args = parser.parse_args()

gappy, truth = weather(seed=2)
table = pl.DataFrame(gappy)
model = NRTSI(time="time", budget="60s", steps=args.steps).fit(table)
draws = model.sample(table, draws=20)

# A daily mean is a statistic of the whole path: one value per draw, then quantiles over draws.
day = pl.col("time").dt.date()
missing = table.group_by(day.alias("day")).agg(
    pl.col("temperature").is_nan().sum().alias("missing")
)
worst = missing.sort("missing", "day")["day"][-1]
means = draws.filter(day == worst).group_by("draw").agg(pl.col("temperature").mean())
low, high = np.quantile(means["temperature"], [0.05, 0.95])
actual = pl.DataFrame(truth).filter(day == worst)["temperature"].mean()
print(f"{worst}: mean temperature {low:.2f} to {high:.2f} (90 % of the draws), truth {actual:.2f}")
