"""Whether intervals, back-tests and draws keep their promises, on cells hidden from everything.

    python benchmarks/trust.py                          # all tables, two minutes of training each
    python benchmarks/trust.py station --seeds 3 --budget 1m

fits a model on tables whose missing cells are known to this script alone, and compares: the share
of 90 % intervals that hold the truth, by channel and length of gap; the error that the back-test
promised with the error that came; `method="auto"` with the best single method; and 90 % intervals
of daily totals, pooled over draws, with the totals. Rows go to `benchmarks/results/trust.csv`.
"""

import argparse
import csv
from dataclasses import asdict, fields
from pathlib import Path

from trusting.data import BOUNDS, DATA
from trusting.measure import Figure, figures

from nrtsi import NRTSI
from nrtsi.core.atomic import atomic

OUT = Path(__file__).parent / "results" / "trust.csv"


def main() -> None:
    options = _options()
    rows = _read(options.out)
    for name in options.data:
        for seed in range(options.seeds):
            gappy, truth = DATA[name](seed)
            words = {"steps": options.steps} if options.steps else {"budget": options.budget}
            model = NRTSI(seed=seed, bounds=BOUNDS.get(name), **words).fit(gappy)
            fresh = list(figures(name, seed, gappy, truth, model))
            for row in fresh:
                print(_line(row), flush=True)
            rows = [row for row in rows if (row["data"], row["seed"]) != (name, str(seed))]
            rows += [{**asdict(row), "within": row.within()} for row in fresh]
            _write(options.out, rows)


def _line(row: Figure) -> str:
    kept = "" if row.within() else "  <-- not kept"
    promise = f"promised {row.promised:.4g}, found {row.found:.4g} ({row.cells:,} cells)"
    return f"{row.data} {row.seed} {row.about}: {row.where}: {promise}{kept}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", default=list(DATA), choices=[*DATA, []])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--budget", default="2m")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args()


COLUMNS = [*(field.name for field in fields(Figure)), "within"]


def _read(path: Path) -> list[dict]:
    if not path.exists():
        return []
    with path.open() as file:
        return list(csv.DictReader(file))


def _write(path: Path, rows: list[dict]) -> None:
    with atomic(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
