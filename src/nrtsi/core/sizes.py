"""`bytes_of`: a memory limit as a number of bytes."""

from pydantic import ByteSize, TypeAdapter, ValidationError

from nrtsi.errors import InputError

__all__ = ["bytes_of"]

_SIZE = TypeAdapter(ByteSize)


def bytes_of(size: str | float) -> int:
    """The number of bytes of a size such as "512MB" or "2GiB", or of a plain number.

    Raises:
        InputError: It is not a size, or less than one byte.

    >>> bytes_of("2GiB"), bytes_of("512 MB"), bytes_of("1.5k"), bytes_of(4096)
    (2147483648, 512000000, 1500, 4096)
    """
    try:
        exact = 0 if isinstance(size, bool) else int(_SIZE.validate_python(size))
    except (ValidationError, OverflowError):
        exact = 0
    if exact < 1:
        raise InputError(
            f"memory_limit must be a positive number of bytes or a text such as '512MB' or "
            f"'2GiB', got {size!r}; write it in one of these ways"
        )
    return exact
