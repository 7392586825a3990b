"""`ImputeOptions`: what is asked of an imputation beside the values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nrtsi.baselines import BASELINES
from nrtsi.errors import InputError
from nrtsi.imputer.limits import Limits
from nrtsi.tables import Clock, Columns, Panel

__all__ = ["IMPUTE_OPTIONS", "ImputeOptions", "check_interval", "check_method"]

IMPUTE_OPTIONS = ("method", "interval", "max_gap", "max_width", "provenance")

USUAL = 0.9
"""Probability of an interval where none is said."""


@dataclass(frozen=True)
class ImputeOptions:
    """The arguments of `NRTSI.impute` that say what is wanted; see there."""

    method: str = "nrtsi"
    interval: float | None = None
    max_gap: float | str | None = None
    max_width: float | Mapping[str, float] | None = None
    provenance: bool = False

    @property
    def level(self) -> float:
        """Probability of the interval."""
        return USUAL if self.interval is None else float(self.interval)

    @property
    def only_values(self) -> bool:
        """Whether nothing is wanted but the values, all of them, of nrtsi."""
        return self == ImputeOptions()

    @property
    def adds_columns(self) -> bool:
        """Whether there are to be columns beside the values."""
        return self.interval is not None or self.provenance

    @property
    def needs_intervals(self) -> bool:
        """Whether it matters how sure the values are."""
        return self.adds_columns or self.max_width is not None

    def check(self, panel: Panel) -> None:
        """Refuses what cannot be done with this data.

        Raises:
            InputError: The message says what to change.
        """
        check_method(self.method)
        check_interval(self.interval)
        self.refusal(panel.clock, panel.columns)
        if self.adds_columns:
            names = panel.columns.values or ()
            panel.writer.check_new_columns(
                [new for name in names for new in self.columns(str(name))]
            )

    def refusal(self, clock: Clock, columns: Columns) -> Limits:
        """What is too much to be filled."""
        names = [str(name) for name in columns.values or ()]
        return Limits.of(self.max_gap, self.max_width, clock, names)

    def columns(self, name: str) -> list[str]:
        """The columns that are added for the value column `name`.

        >>> ImputeOptions(interval=0.9).columns("no2")
        ['no2_lower', 'no2_upper']
        """
        about = ("source", "method", "gap") if self.provenance else ()
        return [f"{name}_{each}" for each in (*about, "lower", "upper")]


def check_method(method: str) -> None:
    """Refuses the name of a method that there is not."""
    if method not in ("nrtsi", "auto", *BASELINES):
        raise InputError(
            f"method must be nrtsi, auto or one of {', '.join(BASELINES)}, got {method!r}; "
            f"correct it"
        )


def check_interval(interval: Any) -> None:
    """Refuses what is no probability; None asks for none."""
    is_number = isinstance(interval, int | float | np.number) and not isinstance(interval, bool)
    if interval is not None and not (is_number and 0 < interval < 1 - 1e-6):
        raise InputError(
            f"interval must be a probability between 0 and 1, got {interval!r}; write 0.9"
        )
