"""How sure a filled table is: a back-test, intervals, a refusal, and a total over draws."""

import argparse

import pandas as pd

import nrtsi
from nrtsi.bench.datasets.weather import weather


def main() -> None:
    """Fills a simulated weather station's hours, and asks how good that is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="steps to train")
    gappy, _ = weather(seed=1)
    table = pd.DataFrame(gappy)
    model = nrtsi.NRTSI(steps=parser.parse_args().steps, bounds={"humidity": (0, 100)})
    model.fit(table)

    trial = model.backtest(table)
    print(f"the best method was {trial.best}; by column and length of gap:")
    print(trial.to_frame().query("method in ['nrtsi', 'kalman', 'linear']").round(3).to_string())

    filled = model.impute(table, method="auto", interval=0.9, max_gap="12h", provenance=True)
    print(filled["humidity_source"].value_counts().to_string())

    draws = model.sample(table, draws=50, method="auto")
    days = draws["time"].dt.floor("D").unique()[:5]

    def mean_by_day(one: pd.DataFrame) -> pd.Series:
        return one.groupby(one["time"].dt.floor("D"))["temperature"].mean().loc[days]

    pooled = nrtsi.pool(mean_by_day, draws)
    print(pd.DataFrame({"lower": pooled.lower, "mean": pooled.estimate, "upper": pooled.upper}))


if __name__ == "__main__":
    main()
