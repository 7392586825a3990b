"""How fast nrtsi is: beside the paper's arrangement, other methods and the machine itself.

    python benchmarks/speed.py --out benchmarks/results/speed.json   # a quarter of an hour
    python benchmarks/speed.py --quick --json                        # less than a minute

prints the tables of `docs/speed.md`, or one JSON object. Every figure that is held to a goal is a
ratio whose two sides were measured in turns, so that what else the machine does matters little;
it matters all the same. `OMP_NUM_THREADS` says how many threads all of them use.
"""

import argparse
import json
import sys
from pathlib import Path

from speeds.page import tables
from speeds.sizes import FULL, QUICK

from nrtsi.core.atomic import atomic, check_writable
from nrtsi.errors import InputError

QUESTIONS = ("contest", "planning", "training", "growth", "startup")


def main() -> None:
    options = _options()
    try:
        text = _measured(options)
    except InputError as error:
        print(f"speed: {error}", file=sys.stderr)
        sys.exit(2)
    print(text, end="")


def _measured(options: argparse.Namespace) -> str:
    """What to print; the record is written where it is asked for."""
    if options.out is not None:
        check_writable(options.out, overwrite=True)
    # Imported here, not above: PyTorch takes seconds, and a mistake in the options should not.
    from speeds.record import measured

    record = measured(QUICK if options.quick else FULL, options.only)
    text = json.dumps(record, indent=2) + "\n"
    if options.out is not None:
        with atomic(options.out) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return text if options.json else tables(record)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run?")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--out", type=Path, help="file to keep it in, which may exist")
    parser.add_argument(
        "--only", nargs="+", choices=QUESTIONS, default=QUESTIONS, help="some of the questions"
    )
    options = parser.parse_args()
    if options.out is not None and options.only != QUESTIONS:
        parser.error("--out must have all questions answered; leave out --only")
    return options


if __name__ == "__main__":
    main()
