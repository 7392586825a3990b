"""`Table`: a table of the paper as data, from the folder `tables`, and the cells it hides."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from jaxtyping import Bool
from pydantic import BaseModel, ConfigDict, Field, model_validator

from nrtsi.bench.datasets.dataset import Part
from nrtsi.config import Share, validated
from nrtsi.errors import InputError

__all__ = ["EXPERT", "Masks", "PaperRow", "Quick", "Setting", "Table", "open_table", "table_names"]

EXPERT = "expert"
"""The row of the truth, for metrics that are not errors."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Masks(_Data):
    """How much of each series is hidden: a number of rows, or a share of the cells.

    Each series has its own number or share, uniform between the two that are given.
    """

    rows: tuple[int, int] | None = None
    """Minimum and maximum number of rows, hidden in all channels."""

    cells: tuple[Share, Share] | None = None
    """Minimum and maximum share of cells, hidden independently."""

    @model_validator(mode="after")
    def _check(self) -> "Masks":
        if (self.rows is None) == (self.cells is None):
            raise ValueError("masks must have either rows or cells")
        ends: tuple[float, float] = self.rows or self.cells or (0, 0)
        if not 0 < ends[0] <= ends[1]:
            raise ValueError(f"masks must be (minimum, maximum) and positive, got {ends}")
        return self

    def draw(self, part: Part, rng: np.random.Generator) -> Bool[np.ndarray, "series step dim"]:
        """Draws the observed cells to hide; at least one row of every series stays.

        Cells that the original does not have are never hidden, so they are never scored.
        """
        observed = ~np.isnan(part.value)
        series, steps, dims = part.value.shape
        if self.rows is not None:
            least, most = (min(end, steps - 1) for end in self.rows)
            count = rng.integers(least, most + 1, size=series)
            rank = rng.permuted(np.tile(np.arange(steps), (series, 1)), axis=1)
            hidden = np.repeat((rank < count[:, None])[:, :, None], dims, axis=2)
        else:
            assert self.cells is not None
            share = rng.uniform(*self.cells, size=(series, 1, 1))
            hidden = rng.random(part.value.shape) < share
        hidden &= observed
        for index in np.flatnonzero(~(observed & ~hidden).any(axis=(1, 2))):
            rows = np.flatnonzero(observed[index].any(axis=1))
            if rows.size:
                hidden[index, rng.choice(rows)] = False
        return hidden

    def shares(self, steps: int) -> tuple[float, float]:
        """Minimum and maximum hidden share of series of `steps` rows."""
        if self.cells is not None:
            return self.cells
        assert self.rows is not None
        return self.rows[0] / steps, self.rows[1] / steps


class Setting(_Data):
    """A column of the table: a data set and what is hidden of it."""

    name: str
    masks: Masks

    data: str = ""
    """Data set, if it is not the table's."""

    training: Masks | None = None
    """What is hidden in training, if it differs from the table's."""

    repeats: int = 1
    """Copies of the test series, each with other masks."""


class PaperRow(_Data):
    """A row that the paper prints."""

    method: str
    """The name of our row if there is one; else the name in the paper."""

    source: str = "NRTSI"
    """The paper that printed it."""

    values: Mapping[str, tuple[float, ...]]
    """For each metric a figure a setting, in the scale the table is printed in; nan: none."""


class Quick(_Data):
    """The size of the data and of the training of `--quick`."""

    train: int = 64
    test: int = 16
    steps: int = 4


class Table(_Data):
    """The methods, data and metrics that a table compares, and the figures of the paper."""

    name: str
    title: str
    about: str

    data: str
    """Data set of the settings that name no other."""

    training: Masks
    """What is hidden of the training and the validation series."""

    settings: tuple[Setting, ...]

    metrics: tuple[str, ...]
    """Metrics, the most important first."""

    scale: Mapping[str, float] = {}
    """Unit that the figures of a metric are printed in; 1 by default."""

    draws: int = 0
    """Draws of methods that can draw; path metrics use them."""

    methods: tuple[str, ...]
    """Rows, in order."""

    method: Mapping[str, dict[str, Any]] = Field(default_factory=dict)
    """Settings of methods. `kind`: the kind of method, if it is not the name of the row; `series`:
    the number of test series that a slow method is scored on; `budget`: the budget of a long
    training, which runs only on request; everything else is passed to the method."""

    paper: tuple[PaperRow, ...] = ()

    summarised: bool = True
    """Whether the table is part of the summary; a comparison of variants of nrtsi is not."""

    quick: Quick = Quick()

    @model_validator(mode="after")
    def _check(self) -> "Table":
        for row in self.paper:
            for metric, values in row.values.items():
                if metric not in self.metrics or len(values) != len(self.settings):
                    raise ValueError(
                        f"paper figures of {row.method}: {metric} must be one of the metrics and "
                        f"have a figure for each of the {len(self.settings)} settings"
                    )
        if unknown := ", ".join(sorted(set(self.method) - set(self.methods))):
            raise ValueError(f"methods must include {unknown}, which have settings")
        return self

    @property
    def partial(self) -> bool:
        """Whether rows are partially observed."""
        return self.training.rows is None

    def data_of(self, setting: Setting) -> str:
        """The data set of a setting."""
        return setting.data or self.data

    def training_of(self, setting: Setting) -> Masks:
        """The masks of the training for a setting."""
        return setting.training or self.training

    def kind_of(self, method: str) -> str:
        """The kind of a method."""
        return str(self.method.get(method, {}).get("kind", method))

    def budget_of(self, method: str) -> str | None:
        """The method's own training budget, if it has one."""
        return self.method.get(method, {}).get("budget")

    @property
    def data_names(self) -> tuple[str, ...]:
        """The data sets of all settings."""
        return tuple(dict.fromkeys(map(self.data_of, self.settings)))

    @property
    def default_methods(self) -> tuple[str, ...]:
        """The methods without a budget of their own."""
        return tuple(method for method in self.methods if self.budget_of(method) is None)


@cache
def table_names() -> tuple[str, ...]:
    """The names of all tables."""
    found = (each.name for each in files("nrtsi.bench").joinpath("tables").iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml")))


def open_table(name: str) -> Table:
    """Opens the table of that name."""
    if name not in table_names():
        raise InputError(f"table must be one of {', '.join(table_names())}, got {name!r}")
    text = files("nrtsi.bench").joinpath("tables", f"{name}.toml").read_text("utf-8")
    return validated(Table, {"name": name, **tomllib.loads(text)})
