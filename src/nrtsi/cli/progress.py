"""A progress bar on the terminal, driven by the events of training and imputation."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from nrtsi.core.events import Event, TrainStep

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["ProgressBar"]

DELAY = 2.0
"""Seconds before the bar appears."""


class ProgressBar:
    """Listener that shows level, loss and remaining time while a `with` block runs.

    Shows nothing if standard error is not a terminal, if `quiet`, or in the first two seconds.
    """

    def __init__(
        self, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.shown = not quiet and sys.stderr.isatty()
        self.clock = clock
        self.began = clock()
        self.bar: Progress | None = None

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None and self.bar.live.is_started:
            self.bar.stop()

    def __call__(self, event: Event) -> None:
        """Shows `event`."""
        if not self.shown:
            return
        if self.bar is None:
            self.bar = _bar(self.clock)
        phase = "training" if isinstance(event, TrainStep) else "imputing"
        loss = f"loss {event.loss:.4f}" if isinstance(event, TrainStep) else ""
        level = "" if event.level is None else f"level {event.level}"
        for task in self.bar.tasks:
            # The remaining time is that of one training or one imputation.
            if task.description != phase or event.fraction < task.completed:
                self.bar.remove_task(task.id)
        if not self.bar.tasks:
            self.bar.add_task(phase, total=1.0, details="")
        details = f"{level}  {loss}".strip()
        self.bar.update(self.bar.task_ids[0], completed=event.fraction, details=details)
        if not self.bar.live.is_started and self.clock() - self.began >= DELAY:
            self.bar.start()


def _bar(clock: Callable[[], float]) -> "Progress":
    # Imported here: `nrtsi --help` should not wait for it.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TextColumn("{task.fields[details]}"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
        console=Console(stderr=True),
        get_time=clock,
        transient=True,
    )
