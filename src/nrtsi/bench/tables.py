"""`Table`: one table of the paper, as data; the tables themselves are the TOML files beside."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from nrtsi.bench.masks import Masks
from nrtsi.config import validated
from nrtsi.errors import InputError

__all__ = ["EXPERT", "Figures", "Quick", "Setting", "Table", "open_table", "table_names"]


EXPERT = "expert"
"""The row of the truth itself, for measures that are not errors."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Setting(_Data):
    """A column of the table: data, and what is hidden of them."""

    name: str
    masks: Masks

    data: str = ""
    """Data set, where it is not the table's."""

    training: Masks | None = None
    """What is hidden in training, where it is not as in the table."""

    repeats: int = 1
    """Times the test series are used, with other masks each time."""


class Figures(_Data):
    """A row that the paper prints."""

    method: str
    """As in our rows, where we have the method; else its own name."""

    source: str = "NRTSI"
    """The paper the figures are from."""

    values: Mapping[str, tuple[float, ...]]
    """Metric, then a figure for each setting, in the scale the table is printed in; nan: none."""


class Quick(_Data):
    """How small the data and the training of `--quick` are."""

    train: int = 64
    test: int = 16
    steps: int = 4


class Table(_Data):
    """What is compared on which data by which measures, and what the paper printed."""

    name: str
    title: str
    about: str

    data: str
    """Data set of the settings that name no other."""

    training: Masks
    """What is hidden of the training and the validation series."""

    settings: tuple[Setting, ...]

    metrics: tuple[str, ...]
    """Measures, the most important first."""

    scale: Mapping[str, float] = {}
    """What a printed figure is multiplied by to get the measure; 1 where it is not said."""

    draws: int = 0
    """Draws of methods that can draw; paths are measured on them."""

    methods: tuple[str, ...]
    """Rows, in order."""

    method: Mapping[str, dict[str, Any]] = Field(default_factory=dict)
    """Settings of methods: `kind`, where the name is not that of a kind of method; `series`, the
    number of test series a slow one is scored on; `budget`, of a long training, which is run where
    it is asked for by name, whatever time the others have; the rest goes to the method."""

    paper: tuple[Figures, ...] = ()

    summarised: bool = True
    """Stands in a summary of all tables; one that compares variants of nrtsi does not."""

    quick: Quick = Quick()

    @model_validator(mode="after")
    def _fits_together(self) -> "Table":
        for row in self.paper:
            for metric, values in row.values.items():
                if metric not in self.metrics or len(values) != len(self.settings):
                    raise ValueError(
                        f"paper figures of {row.method}: {metric} must be one of the metrics and "
                        f"have a figure for each of the {len(self.settings)} settings"
                    )
        strange = set(self.method) - set(self.methods)
        if strange:
            raise ValueError(f"methods must name {', '.join(sorted(strange))}, whose settings are")
        return self

    @property
    def partial(self) -> bool:
        """Whether rows are partly observed."""
        return self.training.rows is None

    def data_of(self, setting: Setting) -> str:
        """The data set of a setting."""
        return setting.data or self.data

    def training_of(self, setting: Setting) -> Masks:
        """What is hidden in training for a setting."""
        return setting.training or self.training

    def kind_of(self, method: str) -> str:
        """The kind of a method of the table."""
        return str(self.method.get(method, {}).get("kind", method))

    def budget_of(self, method: str) -> str | None:
        """The time a method is trained for, where it has one of its own."""
        return self.method.get(method, {}).get("budget")

    @property
    def usual(self) -> tuple[str, ...]:
        """The methods that all have the same time."""
        return tuple(method for method in self.methods if self.budget_of(method) is None)


@cache
def table_names() -> tuple[str, ...]:
    """Every table there is."""
    found = (each.name for each in files("nrtsi.bench").joinpath("tables").iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml")))


def open_table(name: str) -> Table:
    """The table of that name.

    Raises:
        InputError: There is none.
    """
    if name not in table_names():
        raise InputError(f"table must be one of {', '.join(table_names())}, got {name!r}")
    text = files("nrtsi.bench").joinpath("tables", f"{name}.toml").read_text("utf-8")
    return validated(Table, {"name": name, **tomllib.loads(text)})
