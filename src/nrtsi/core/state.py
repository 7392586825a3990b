"""Converts frozen dataclasses to arrays and JSON, and back: the one (de)serialiser."""

import dataclasses
import hashlib
import json
import types
from collections.abc import Mapping
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import BaseModel

__all__ = ["digest", "from_state", "to_state", "with_prefix"]

StateT = TypeVar("StateT")
Value = TypeVar("Value")


def to_state(value: Any) -> tuple[dict[str, Any], Any]:
    """Splits a dataclass into its arrays, by path, and a record that JSON can hold.

    Fields may be scalars, text, None, numpy arrays, torch tensors, pydantic models, other
    dataclasses, and lists, tuples or dicts of these. Fields with `init=False` are not saved.

    >>> from nrtsi.core.scaling import Scaler
    >>> arrays, record = to_state(Scaler(np.zeros(2), np.ones(2)))
    >>> sorted(arrays), record
    (['offset', 'spread'], {'type': 'Scaler'})
    """
    arrays: dict[str, Any] = {}
    return arrays, _encode(value, "", arrays)


def from_state(kind: type[StateT], arrays: Mapping[str, Any], record: Any) -> StateT:
    """Builds the `kind` that `to_state` split; `kind` may be a base class of what was saved."""
    decoded: StateT = _decode(kind, record, "", arrays)
    return decoded


def with_prefix(arrays: Mapping[str, Value], prefix: str) -> dict[str, Value]:
    """Returns the arrays whose names begin with `prefix`, without it.

    >>> with_prefix({"network.0": 1, "gp.0": 2}, "gp.")
    {'0': 2}
    """
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def digest(*parts: Any) -> str:
    """SHA-256 of arrays and of values that JSON can hold, in order.

    >>> digest(1, "a") == digest(1, "a"), digest(1, "a") == digest("a", 1)
    (True, False)
    """
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, bytes):
            found.update(part)
        elif _is_array(part):
            array = _numpy(part)
            found.update(f"{array.dtype.str}{array.shape}".encode())
            found.update(np.ascontiguousarray(array).tobytes())
        else:
            found.update(json.dumps(part, sort_keys=True).encode())
    return found.hexdigest()


def _is_array(value: Any) -> bool:
    return (
        hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.generic)
    )


def _numpy(array: Any) -> np.ndarray:
    return array if isinstance(array, np.ndarray) else array.detach().cpu().numpy()


def _encode(value: Any, path: str, arrays: dict[str, Any]) -> Any:
    if _is_array(value):
        arrays[path] = value
        return None
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value):
        kept = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        inner = {name: _encode(one, _join(path, name), arrays) for name, one in kept.items()}
        saved = {name: one for name, one in inner.items() if one is not None}
        return {"type": type(value).__name__, **saved}
    if isinstance(value, Mapping):
        return {key: _encode(one, _join(path, key), arrays) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(one, _join(path, i), arrays) for i, one in enumerate(value)]
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None or isinstance(plain, bool | int | float | str):
        return plain
    raise TypeError(f"cannot save a {type(value).__name__} at {path or 'the top'}")


def _decode(kind: Any, record: Any, path: str, arrays: Mapping[str, Any]) -> Any:
    if path in arrays:
        expected = [getattr(one, "array_type", one) for one in get_args(kind) or (kind,)]
        return _numpy(arrays[path]) if np.ndarray in expected else arrays[path]
    if isinstance(record, Mapping) and "type" in record:
        return _dataclass(_named(kind, record["type"]), record, path, arrays)
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(option for option in get_args(kind) if option is not type(None))
    if isinstance(kind, type) and issubclass(kind, BaseModel) and record is not None:
        return kind.model_validate(record)
    if isinstance(record, Mapping):
        value = get_args(kind)[1] if get_args(kind) else Any
        return {key: _decode(value, one, _join(path, key), arrays) for key, one in record.items()}
    if isinstance(record, list):
        return _sequence(kind, record, path, arrays)
    return record


def _sequence(kind: Any, record: list[Any], path: str, arrays: Mapping[str, Any]) -> Any:
    inner = [one for one in get_args(kind) if one is not Ellipsis] or [Any]
    kinds = inner * len(record) if len(inner) == 1 else inner
    values = [
        _decode(one, entry, _join(path, i), arrays)
        for i, (one, entry) in enumerate(zip(kinds, record, strict=False))
    ]
    return tuple(values) if tuple in (kind, get_origin(kind)) else values


def _dataclass(kind: Any, record: Mapping[str, Any], path: str, arrays: Mapping[str, Any]) -> Any:
    hints = get_type_hints(kind)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        where = _join(path, field.name)
        if field.init and (field.name in record or where in arrays):
            fields[field.name] = _decode(hints[field.name], record.get(field.name), where, arrays)
        elif field.init and field.default is field.default_factory is dataclasses.MISSING:
            fields[field.name] = None
    return kind(**fields)


def _named(kind: Any, name: str) -> Any:
    """The class `name` among those that the annotation `kind` allows."""
    waiting = [option for option in get_args(kind) or (kind,) if isinstance(option, type)]
    while waiting:
        option = waiting.pop()
        if option.__name__ == name and dataclasses.is_dataclass(option):
            return option
        waiting.extend(option.__subclasses__())
    raise TypeError(f"cannot read a {name} where a {kind} is expected")


def _join(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)
