"""How much better than linear interpolation is a `base` model on sinusoids, for so much training?

    python benchmarks/sinusoids.py --budget 10m --out benchmarks/results/sinusoids.csv

1,000 training series and 1,000 others to test on; of each test series' 100 irregular points, 90
are missing. A run scores the test series once, after training, and chooses nothing by them.
"""

import argparse
import csv
import subprocess
import time
from pathlib import Path

import numpy as np
import torch

import nrtsi
from nrtsi.baselines import Linear
from nrtsi.datasets.sinusoids import sinusoids
from nrtsi.missing import points
from nrtsi.progress import ProgressBar
from nrtsi.series import SeriesSet

FIELDS = ("data", "method", "preset", "seed", "budget", "steps", "mse", "train_s", "impute_s",
          "parameters", "versions", "revision")  # fmt: skip


def gappy(time_, value, seed):
    """The series with 90 of 100 points missing, and where they are."""
    hidden = points(
        SeriesSet.stack(value, time_), np.random.default_rng(seed), rate=0.9, whole_rows=True
    ).reshape(value.shape)
    return np.where(hidden, np.nan, value), hidden


def score(model, test_time, test, seed):
    given, hidden = gappy(test_time, test, seed)
    begun = time.monotonic()
    filled = model.impute(given, times=test_time)
    return float(np.mean((filled - test)[hidden] ** 2)), time.monotonic() - begun


def revision():
    command = ["git", "describe", "--always", "--dirty"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()

    code = revision()  # of the code that runs, which may be edited meanwhile
    train_time, train = sinusoids(args.series, seed=2 * args.seed)
    test_time, test = sinusoids(args.series, seed=2 * args.seed + 1)
    settings = {"unit": 1.0, "setting": "irregular", "hide": "points"}
    begun = time.monotonic()
    model = nrtsi.NRTSI(
        preset=args.preset, budget=args.budget, steps=args.steps, seed=args.seed, **settings
    )
    with ProgressBar() as bar:
        model.fit(train, times=train_time, listener=bar)
    seconds = time.monotonic() - begun
    linear = Linear(unit=1.0).fit(train, times=train_time)

    rows = []
    for name, method in (("linear", linear), ("nrtsi", model)):
        error, impute_s = score(method, test_time, test, args.seed)
        ours = name == "nrtsi"
        rows.append(
            {
                "data": "sinusoids",
                "method": name,
                "preset": args.preset if ours else "",
                "seed": args.seed,
                "budget": args.budget if ours and args.steps is None else "",
                "steps": model.steps_ if ours else "",
                "mse": f"{error:.4g}",
                "train_s": f"{seconds:.0f}" if ours else "",
                "impute_s": f"{impute_s:.1f}",
                "parameters": model.info()["parameters"] if ours else "",
                "versions": f"nrtsi {nrtsi.__version__}, torch {torch.__version__}",
                "revision": code,
            }
        )
        print(f"{name:8} MSE {error:.3g}")
    print(f"{float(rows[0]['mse']) / float(rows[1]['mse']):.1f} times better than linear")
    if args.out:
        with args.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
