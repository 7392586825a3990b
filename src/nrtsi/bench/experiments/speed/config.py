"""Sizes of the measurements of speed, and the bounds that figures must meet."""

import tomllib
from importlib.resources import files

from pydantic import BaseModel, ConfigDict

__all__ = ["BATCHES", "FULL", "GOALS", "QUICK", "Goal", "Sizes"]


class Sizes(BaseModel):
    """How much is measured; `speed.toml` says what each field is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    quick: bool = False
    steps: int
    repeats: int
    series: int
    alone: int
    shared: int
    competitors: dict[str, int]
    draws: int
    planned: int
    timings: int
    trainings: int
    points: tuple[int, ...]
    kinds: tuple[str, ...]
    starts: int


class Goal(BaseModel):
    """What a figure means, and the bound it must meet."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: str
    unit: str = "×"
    minimum: float | None = None
    maximum: float | None = None

    @property
    def bound(self) -> str:
        """The bound in words; a dash if there is none."""
        if self.minimum is not None:
            return f"at least {self.format(self.minimum)}"
        return "–" if self.maximum is None else f"at most {self.format(self.maximum)}"

    def format(self, figure: float | None) -> str:
        """A figure with three digits and its unit; a dash if nothing was measured."""
        if figure is None:
            return "–"
        if self.unit == "%":
            return f"{100 * figure:.3g} %"
        return f"{figure:.3g}{'' if self.unit == '×' else ' '}{self.unit}"

    def met(self, figure: float | None) -> str:
        """Yes, no, or a dash if there is no figure or no bound."""
        if figure is None or (self.minimum is None and self.maximum is None):
            return "–"
        low = self.minimum is None or figure >= self.minimum
        return "yes" if low and (self.maximum is None or figure <= self.maximum) else "**no**"


_SPEC = tomllib.loads(files(__package__ or "").joinpath("speed.toml").read_text("utf-8"))
FULL, QUICK = Sizes(**_SPEC["full"]), Sizes(**_SPEC["quick"])
GOALS = {name: Goal(**goal) for name, goal in _SPEC["goals"].items()}
BATCHES: dict[str, list[int]] = _SPEC["batches"]
