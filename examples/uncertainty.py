"""Measure the accuracy of an imputation: back-test, intervals, refusal and pooled draws.

python examples/uncertainty.py
"""

import argparse

import pandas as pd

import nrtsi
from nrtsi.bench.datasets.weather import weather

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=200, help="training steps")
args = parser.parse_args()

gappy, _ = weather(seed=1)
table = pd.DataFrame(gappy)
model = nrtsi.NRTSI(steps=args.steps, bounds={"humidity": (0, 100)}).fit(table)

backtest = model.backtest(table)
print(f"best method: {backtest.best}; errors by column and gap length:")
print(backtest.to_frame().query("method in ['nrtsi', 'kalman', 'linear']").round(3).to_string())

imputed = model.impute(table, method="auto", interval=0.9, max_gap="12h", provenance=True)
print(imputed["humidity_source"].value_counts().to_string())

draws = model.sample(table, draws=50, method="auto")
days = draws["time"].dt.floor("D").unique()[:5]


def daily_mean(draw: pd.DataFrame) -> pd.Series:
    """The mean temperature of the first days of one draw."""
    return draw.groupby(draw["time"].dt.floor("D"))["temperature"].mean().loc[days]


pooled = nrtsi.pool(daily_mean, draws)
print(pd.DataFrame({"lower": pooled.lower, "mean": pooled.estimate, "upper": pooled.upper}))
