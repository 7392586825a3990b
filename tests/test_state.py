"""Dataclasses survive serialisation exactly."""

import json
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float
from torch import Tensor

from nrtsi.config import ScheduleConfig
from nrtsi.core.state import digest, from_state, to_state


class Method:
    """A base class, as of a protocol with several implementations."""


@dataclass(frozen=True)
class Nearest(Method):
    k: int


@dataclass(frozen=True)
class Weighted(Method):
    weight: Float[np.ndarray, " dim"]


@dataclass(frozen=True)
class Model:
    name: str
    method: Method
    table: Float[np.ndarray, "row dim"]
    tensor: Tensor
    schedule: ScheduleConfig
    parts: tuple[Nearest, ...]
    by_name: dict[str, Nearest]
    limits: tuple[float, float] | None = None
    extra: Float[np.ndarray, " dim"] | None = None
    cache: list = field(default_factory=list, init=False, compare=False)


numbers = st.floats(allow_nan=False)
methods = st.one_of(
    st.builds(Nearest, st.integers()),
    st.builds(Weighted, st.lists(numbers, max_size=4).map(np.array)),
)
models = st.builds(
    Model,
    name=st.text(),
    method=methods,
    table=st.integers(0, 3).map(lambda rows: np.arange(2.0 * rows).reshape(rows, 2)),
    tensor=st.lists(numbers, max_size=4).map(lambda row: torch.tensor(row, dtype=torch.float64)),
    schedule=st.builds(ScheduleConfig, max_level=st.integers(0, 9)),
    parts=st.lists(st.builds(Nearest, st.integers())).map(tuple),
    by_name=st.dictionaries(st.text(), st.builds(Nearest, st.integers())),
    limits=st.none() | st.tuples(numbers, numbers),
    extra=st.none() | st.just(np.ones(3)),
)


@given(models, st.booleans())
def test_a_dataclass_survives_arrays_and_json(model, as_tensors):
    arrays, record = to_state(model)
    if as_tensors:
        arrays = {name: torch.as_tensor(array) for name, array in arrays.items()}
    back = from_state(Model, arrays, json.loads(json.dumps(record)))
    assert isinstance(back.table, np.ndarray)
    assert isinstance(back.tensor, Tensor)
    assert type(back.method) is type(model.method)
    assert to_state(back)[1] == record
    again = to_state(back)[0]
    assert list(again) == list(arrays)
    assert all(np.array_equal(again[name], to_state(model)[0][name]) for name in again)
    assert (back.parts, back.by_name, back.limits) == (model.parts, model.by_name, model.limits)


def test_unsupported_types_are_rejected():
    with pytest.raises(TypeError, match="cannot save a set at k"):
        to_state(Nearest({1}))
    with pytest.raises(TypeError, match="cannot read a Unknown where"):
        from_state(Method, {}, {"type": "Unknown"})


@given(st.lists(numbers, min_size=1, max_size=5), st.text())
def test_a_digest_depends_on_every_byte(row, text):
    array = np.array(row)
    assert digest(array, text) == digest(array.copy(), text)
    assert digest(array, text) != digest(array[:, None], text)
    assert digest(array, text) != digest(array, text + "x")
    assert digest(array) == digest(torch.tensor(row, dtype=torch.float64))
