"""`Table`: a table of the paper as data; the tables are the TOML files in the folder `tables`."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from nrtsi.bench.masks import Masks
from nrtsi.config import validated
from nrtsi.errors import InputError

__all__ = ["EXPERT", "PaperRow", "Quick", "Setting", "Table", "open_table", "table_names"]

EXPERT = "expert"
"""The row of the truth, for metrics that are not errors."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


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
