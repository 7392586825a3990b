"""A progress bar on the terminal, driven by the events of training and imputation."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from nrtsi.core.events import Event, TrainStep

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

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
        self.phase = ""
        self.phase_began = self.began
        self.phase_from = 0.0
        self.reached = 0.0
        self.bar: RichProgress | None = None

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, event: Event) -> None:
        """Shows `event`."""
        if not self.shown:
            return
        now = self.clock()
        self._follow(event, now)
        if self.bar is None and now - self.began >= DELAY:
            self.bar = _bar()
            self.bar.add_task("", total=1.0, details="", left="")
            self.bar.start()
        if self.bar is not None:
            self.bar.update(
                self.bar.task_ids[0],
                description=self.phase,
                completed=event.fraction,
                details=_details(event),
                left=self._left(event.fraction, now),
            )

    def _follow(self, event: Event, now: float) -> None:
        """Restarts the clock when training or an imputation begins."""
        phase = "training" if isinstance(event, TrainStep) else "imputing"
        if phase != self.phase or event.fraction < self.reached:
            self.phase, self.phase_began, self.phase_from = phase, now, event.fraction
        self.reached = event.fraction

    def _left(self, fraction: float, now: float) -> str:
        """Remaining time of this phase at the average speed so far."""
        done = fraction - self.phase_from
        if done <= 0.0:
            return ""
        seconds = (now - self.phase_began) * max(0.0, 1.0 - fraction) / done
        return f"{_clock_time(round(seconds))} left"


def _bar() -> "RichProgress":
    # Imported here: `nrtsi --help` should not wait for it.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TextColumn("{task.fields[details]}"),
        TextColumn("{task.fields[left]}"),
        console=Console(stderr=True),
        transient=True,
    )


def _details(event: Event) -> str:
    parts = [] if event.level is None else [f"level {event.level}"]
    if isinstance(event, TrainStep):
        parts.append(f"loss {event.loss:.4f}")
    return "  ".join(parts)


def _clock_time(seconds: int) -> str:
    """Hours, minutes and seconds.

    >>> _clock_time(90), _clock_time(3661)
    ('1:30', '1:01:01')
    """
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
