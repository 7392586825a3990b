"""Speed: series a second, planning, training, long series and start-up.

Both sides of a ratio are measured in turns, so that other work on the machine matters little.
`OMP_NUM_THREADS` sets the number of threads of all of them.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from nrtsi.bench.experiments.base import Experiment, RunOptions
from nrtsi.bench.experiments.speed.config import FULL, GOALS, QUICK, Sizes
from nrtsi.bench.experiments.speed.imputing import planning, throughput
from nrtsi.bench.experiments.speed.long_series import growth
from nrtsi.bench.experiments.speed.markdown import markdown
from nrtsi.bench.experiments.speed.models import data_digest
from nrtsi.bench.experiments.speed.startup import startup
from nrtsi.bench.experiments.speed.training import training
from nrtsi.bench.results import code_revision, code_versions
from nrtsi.bench.runner import Notify
from nrtsi.core.atomic import atomic, check_writable
from nrtsi.core.events import Listener
from nrtsi.errors import InputError

__all__ = ["EXPERIMENT", "measure"]

MEASUREMENTS: tuple[Callable[[Sizes], dict[str, Any]], ...] = (
    throughput,
    planning,
    training,
    growth,
    startup,
)


def measure(sizes: Sizes, notify: Notify = lambda line: None) -> dict[str, Any]:
    """Measures everything: the figures first, then the circumstances, then the details.

    A ratio to a competitor is None if PyPOTS is not installed.
    """
    about = {
        "quick": sizes.quick,
        "threads": torch.get_num_threads(),
        "versions": code_versions(data_digest(sizes.series), "quick" if sizes.quick else ""),
        "revision": code_revision(),
    }
    found: dict[str, Any] = {}
    for measurement in MEASUREMENTS:
        notify(f"measuring {measurement.__name__}")
        found |= measurement(sizes)
    return {key: found.pop(key, None) for key in GOALS} | about | found


def _run(options: RunOptions, notify: Notify, listener: Listener | None) -> None:
    check_writable(options.out, overwrite=True)
    record = measure(QUICK if options.quick else FULL, notify)
    with atomic(options.out) as temporary:
        temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _markdown(path: Path) -> str:
    if not path.exists():
        return ""
    try:
        return markdown(json.loads(path.read_text("utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} must be a file of nrtsi bench run speed, got another; choose another file"
        ) from error


EXPERIMENT = Experiment({"quick"}, _run, _markdown, suffix=".json")
