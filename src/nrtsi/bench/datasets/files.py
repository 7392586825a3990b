"""Reads the original files of a data set: a single file, a folder or a zip."""

import io
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

import numpy as np
from jaxtyping import Float

from nrtsi.errors import InputError

__all__ = ["matching_files", "one_file", "read_columns"]


def matching_files(path: Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    """Yields name and content of each file that matches the pattern, by name.

    Searches folders and zips at any depth; any other `path` is taken as the file.
    """
    found = 0
    try:
        for name, content in _search(path, pattern):
            found += 1
            yield name, content
    # RuntimeError: a password, or a compression Python does not know.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise InputError(f"{path} must be a whole zip, got: {error}; download it again") from error
    except OSError as error:
        raise InputError(
            f"{path} must be readable, got: {error.strerror}; check the path"
        ) from error
    if not found:
        raise InputError(
            f"{path} must hold files named {pattern}, got none; give the download unchanged, or "
            f"the folder it was unpacked to"
        )


def one_file(path: Path, pattern: str) -> tuple[str, bytes]:
    """Returns name and content of the one file that matches the pattern."""
    found = list(matching_files(path, pattern))
    if len(found) > 1:
        raise InputError(
            f"{path} must hold one file named {pattern}, got {len(found)}; give the file itself"
        )
    return found[0]


def _search(path: Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    if path.is_dir():
        for file in sorted(file for file in path.rglob(pattern) if file.is_file()):
            yield file.name, file.read_bytes()
    elif path.suffix.lower() == ".zip":
        yield from _unzip(path, pattern)
    else:
        yield path.name, path.read_bytes()


def _unzip(file: Path | io.BytesIO, pattern: str) -> Iterator[tuple[str, bytes]]:
    """Matching files of a zip; of the zips inside, if it has none (some sources zip twice)."""
    with zipfile.ZipFile(file) as archive:
        names = sorted(name for name in archive.namelist() if not name.endswith("/"))
        matching = [name for name in names if fnmatch(PurePosixPath(name).name, pattern)]
        for name in matching:
            yield PurePosixPath(name).name, archive.read(name)
        if not matching:
            for name in names:
                if name.lower().endswith(".zip"):
                    yield from _unzip(io.BytesIO(archive.read(name)), pattern)


def read_columns(
    name: str, content: bytes, names: Sequence[str]
) -> Float[np.ndarray, "row column"]:
    """Reads these columns of a CSV file; NaN where a cell is empty or NA."""
    import pyarrow as pa  # takes a while to import
    from pyarrow import csv

    convert = csv.ConvertOptions(
        include_columns=list(names),
        column_types=dict.fromkeys(names, pa.float64()),
        null_values=["", "NA", "NaN", "nan"],
    )
    try:
        table = csv.read_csv(io.BytesIO(content), convert_options=convert)
    except pa.ArrowKeyError as error:
        raise InputError(
            f"{name} must have the columns {', '.join(names)}, got others; give the original file"
        ) from error
    except pa.ArrowInvalid as error:
        raise InputError(
            f"{name} must be a table of numbers, got: {error}; give the original file"
        ) from error
    return np.column_stack([column.to_numpy() for column in table.columns]).astype(np.float64)
