"""One table with gaps, as most people have it: nrtsi beside what else fills it.

    python benchmarks/single.py
    python benchmarks/single.py "8 road sensors, 60 days" --budget 3m --out three-minutes.csv

fits each method on a table whose missing cells are known to this script alone, fills it, and
writes the squared error of these, in standard deviations of the column, to
`benchmarks/results/single.csv`. `OMP_NUM_THREADS` says how many threads are used, `--clock core`
counts the seconds that threads worked instead of those that passed.
"""

import argparse
from pathlib import Path

import numpy as np
from singles.data import DATA, Single
from singles.page import COLUMNS

from nrtsi import NRTSI
from nrtsi.baselines import BASELINES
from nrtsi.baselines.base import Imputer
from nrtsi.bench.results import read_lines, write_lines
from nrtsi.bench.runner import code_revision, code_versions
from nrtsi.core.budget_clock import CLOCKS, TOLD, going_by, now

OUT = Path(__file__).parent / "results" / "single.csv"
METHODS = ("nrtsi", "nrtsi without field", "linear", "spline", "seasonal", "kalman", "knn", "mice")


def main() -> None:
    options = _options()
    revision = code_revision()
    for name in options.tables:
        single = DATA[name]()
        for method in options.methods:
            with going_by(CLOCKS[options.clock]):
                began, imputer = now(), _imputer(method, options.budget, options.seed)
                imputer.fit(single.gappy, time="time")
                fitted = now()
                error = _error(imputer, single)
                took = f"{fitted - began:.1f}", f"{now() - fitted:.2f}"
            told = f"budget {options.budget}{TOLD[options.clock]}, seed {options.seed}"
            versions = code_versions(single.digest, told if "nrtsi" in method else "")
            cells = int(single.asked.sum())
            line = [name, method, f"{error:.6g}", cells, *took, versions, revision]
            kept = [each for each in read_lines(options.out, COLUMNS) if each[:2] != line[:2]]
            write_lines(options.out, COLUMNS, [*kept, line])
            print(f"{name}: {method} {error:.4g}, {took[0]} s", flush=True)


def _imputer(method: str, budget: str, seed: int) -> Imputer:
    if method in BASELINES:
        return BASELINES[method]()
    without = {"model": {"field": False}} if method == "nrtsi without field" else {}
    return NRTSI(budget=budget, seed=seed, **without)


def _error(imputer: Imputer, single: Single) -> float:
    filled = imputer.impute(single.gappy)
    known = single.gappy.drop(columns="time")
    off = (filled[known.columns].to_numpy() - single.truth) / known.std().to_numpy()
    return float(np.square(off[single.asked]).mean())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=list(DATA), choices=[*DATA, []])
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="what a second is")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args()


if __name__ == "__main__":
    main()
