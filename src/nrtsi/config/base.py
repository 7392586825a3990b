"""The base class of all settings, and their validation with one-line messages."""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nrtsi.errors import InputError

__all__ = ["Config", "Share", "validated"]

Share = Annotated[float, Field(gt=0, lt=1)]


class Config(BaseModel):
    """Immutable settings; unknown fields are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


ConfigT = TypeVar("ConfigT", bound=BaseModel)


def validated(kind: type[ConfigT], fields: dict[str, Any]) -> ConfigT:
    """Builds a config, turning pydantic's report into one line.

    Raises:
        InputError: A field is unknown, or its value is out of range.
    """
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or kind.__name__
        raise InputError(f"{name}: {first['msg']}, got {first['input']!r}") from error
