"""Sizes of memory: numbers of bytes, and texts such as "2GiB"."""

import math
import re
from numbers import Real

from nrtsi.errors import InputError

__all__ = ["bytes_of"]

_UNITS = {
    "": 1, "b": 1,
    "k": 2**10, "kb": 10**3, "kib": 2**10,
    "m": 2**20, "mb": 10**6, "mib": 2**20,
    "g": 2**30, "gb": 10**9, "gib": 2**30,
    "t": 2**40, "tb": 10**12, "tib": 2**40,
}  # fmt: skip
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([A-Za-z]*)\s*")


def bytes_of(size: str | float) -> int:
    """Bytes in a size; a plain number is bytes already, and so is a text without a unit.

    Raises:
        InputError: The text is no size, or there is not a single byte in it.

    >>> bytes_of("2GiB"), bytes_of("512 MB"), bytes_of("1.5k"), bytes_of(4096)
    (2147483648, 512000000, 1536, 4096)
    """
    exact = _read(size) if isinstance(size, str) else _plain(size)
    if not (math.isfinite(exact) and exact >= 1):
        raise InputError(
            f"memory must be a positive number of bytes or a text such as '512MB' or '2GiB', "
            f"got {size!r}; write it in one of these ways"
        )
    return int(exact)


def _read(text: str) -> float:
    match = _SIZE.fullmatch(text)
    if match is None or match[2].lower() not in _UNITS:
        return math.nan
    return float(match[1]) * _UNITS[match[2].lower()]


def _plain(size: object) -> float:
    return float(size) if isinstance(size, Real) and not isinstance(size, bool) else math.nan
