"""Reads and writes tables in CSV, TSV and Parquet files, chosen by suffix."""

import csv
import gzip
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.abc import MetaPathFinder
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from nrtsi.core.atomic import atomic, check_writable
from nrtsi.errors import InputError
from nrtsi.tables.clock import format_duration

__all__ = [
    "MISSING",
    "SUFFIXES",
    "FileTable",
    "check_output",
    "missing_cells",
    "prevent_pandas_import",
    "read_table",
    "write_table",
]

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq")  # in any case
# Texts that mean "missing" in a CSV column of numbers, times or booleans.
MISSING = (
    "", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None", "-", "?",
)  # fmt: skip
_DELIMITERS = ",;\t|"

_EXTRA_DECIMALS = 2  # of a new cell, compared with the known cells of its column
_MAX_DECIMALS = 15  # a float has no more

# A column gets the first type that fits all its cells. Times without a zone come before those
# with one; seconds before finer units, because they cover more years.
_TYPES = (
    pa.int64(), pa.float64(), pa.bool_(), pa.timestamp("s"), pa.timestamp("us"),
    pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC"),
)  # fmt: skip


@dataclass(frozen=True)
class FileTable:
    """A table and, if it was read from a CSV file, the text of its cells."""

    typed: Any  # the `pyarrow.Table` to compute with
    text: Any | None = None  # the same cells as written in the file, a `pyarrow.Table` of strings
    delimiter: str = ","  # the delimiter of a CSV file
    decimal: str = "."  # the decimal point of a CSV file

    def fill(self, imputed: Any) -> "FileTable":
        """This table with its missing cells as in `imputed`, a `pyarrow.Table` of the same rows.

        Known cells keep their text ("1.50" stays "1.50"). The text of a new cell has two decimals
        more than the known cells of its column. So have the columns that `imputed` adds and that
        are named after one, such as `x_lower` after `x`.
        """
        if self.text is None:
            return replace(self, typed=imputed)
        columns = {
            name: _fill_text(self.text[name], self.typed[name], imputed[name], self.decimal)
            for name in self.text.column_names
        }
        for name in imputed.column_names[len(columns) :]:
            column, source = imputed[name], name.rpartition("_")[0]
            if source in self.text.column_names and pa.types.is_floating(column.type):
                known = self.text[source].filter(pc.invert(missing_cells(self.typed[source])))
                column = _rounded(column, known, self.decimal)
            columns[name] = _as_text(column, self.decimal)
        return replace(self, typed=imputed, text=pa.table(columns))

    def stack(self, imputed: Any) -> "FileTable":
        """This table several times, concatenated, with its missing cells as in `imputed`.

        The first column of `imputed`, a `pyarrow.Table`, is the number of the repetition; its
        other columns are those of this table. Known cells keep their text as in `fill`.
        """
        label, *names = imputed.column_names
        count = imputed.num_rows // self.typed.num_rows
        text = self.text if self.text is None else pa.concat_tables([self.text] * count)
        tall = replace(self, typed=pa.concat_tables([self.typed] * count), text=text)
        stacked = tall.fill(imputed.select(names))
        if stacked.text is not None:
            text = stacked.text.add_column(0, label, _as_text(imputed[label]))
        return replace(stacked, typed=imputed, text=text)

    def without_text(self, typed: Any) -> "FileTable":
        """Another `pyarrow.Table`, to be written with the delimiter and decimal point of this."""
        return replace(self, typed=typed, text=None)


def read_table(path: Path) -> FileTable:
    """Reads a CSV or Parquet file.

    The delimiter of a `.csv` file is detected in its first line (comma, semicolon, tab or bar).
    A CSV column becomes numbers, booleans or times if all its cells except the `MISSING` ones
    can be parsed as such, otherwise it stays text. If semicolons separate the cells, numbers may
    have decimal commas.

    Raises:
        InputError: The file does not exist, cannot be read, is empty, or has an unknown format.
    """
    if path.is_dir():
        raise InputError(
            f"{path} must be a file, got a folder; name the file in it "
            f"(nrtsi impute takes folders of Parquet files)"
        )
    if path.suffix.lower() == ".nrtsi":
        raise InputError(
            f"{path} must be a table and end in one of {', '.join(SUFFIXES)}; "
            f"is it a model? give it with --model"
        )
    suffix = _suffix(path)
    try:
        return _read_parquet(path) if suffix in (".parquet", ".pq") else _read_csv(path)
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist; check the name and the folder") from error
    except (OSError, EOFError) as error:
        raise InputError(f"{path} cannot be read: {_line(error)}; is it damaged?") from error


def write_table(path: Path, table: FileTable, *, overwrite: bool = False) -> None:
    """Writes `table` atomically; a CSV file gets the text of the cells if the table has it.

    Raises:
        InputError: `path` exists and `overwrite` is False, or it cannot be written.
    """
    check_output(path, overwrite=overwrite)
    with atomic(path) as temporary:
        if _suffix(path) in (".parquet", ".pq"):
            pa.parquet.write_table(table.typed, temporary)
        else:
            _write_csv(temporary, _suffix(path), table)


def check_output(path: Path, *, overwrite: bool) -> None:
    """Raises InputError, before any long work, if `write_table` cannot write to `path`."""
    _suffix(path)
    check_writable(path, overwrite=overwrite)


def missing_cells(column: Any) -> Any:
    """True where a `pyarrow` column is null or NaN."""
    return pc.is_null(column, nan_is_null=True)


def _suffix(path: Path) -> str:
    name = path.name.lower()
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return suffix
    raise InputError(
        f"{path} must end in one of {', '.join(SUFFIXES)}; rename it, or convert it to one of them"
    )


def _line(error: Exception) -> str:
    """The first line of a library's error message."""
    return (getattr(error, "strerror", None) or str(error)).strip().split("\n")[0].rstrip(".")


def _read_parquet(path: Path) -> FileTable:
    try:
        # pyarrow's read_table would add columns for folder names such as "year=2020".
        with pa.parquet.ParquetFile(path) as file:
            table = file.read()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{path} is not a readable Parquet file: {_line(error)}") from error
    _check_names(path, table.column_names)
    return FileTable(table)


def _read_csv(path: Path) -> FileTable:
    header, delimiter, has_rows = _header(path)
    _check_names(path, header)
    empty = pa.table([pa.array([], pa.string())] * len(header), header)
    text = _read_text(path, header, delimiter) if has_rows else empty
    typed = [_typed(column) for column in text.columns]
    commas = [_comma_numbers(column) if delimiter == ";" else None for column in typed]
    typed = [old if new is None else new for old, new in zip(typed, commas, strict=True)]
    decimal = "." if all(column is None for column in commas) else ","
    return FileTable(pa.table(typed, text.column_names), text, delimiter, decimal)


@contextmanager
def _open_text(path: Path) -> Iterator[io.TextIOBase]:
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError as error:
        raise InputError(f"{path} must be UTF-8 text, and is not; save it as UTF-8") from error


def _header(path: Path) -> tuple[list[str], str, bool]:
    """The column names, the delimiter, and whether the file has rows."""
    with _open_text(path) as file:
        first = file.readline()
        while first and not first.strip():
            first = file.readline()
        if not first:
            raise InputError(f"{path} is empty; it must begin with a line of column names")
        unquoted = "".join(first.split('"')[::2])
        delimiter = max(_DELIMITERS, key=unquoted.count)
        if ".tsv" in path.name.lower():
            delimiter = "\t"
        # Quoted names may contain line ends, so the header may span several lines.
        header = next(csv.reader(chain([first], file), delimiter=delimiter))
        has_rows = any(line.strip("\r\n") for line in file)
    return header, delimiter, has_rows


def _check_names(path: Path, names: list[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(
            f"{path} must name every column once, got {repeated[0]!r} {names.count(repeated[0])} "
            f"times; rename all but one"
        )


def _read_text(path: Path, header: list[str], delimiter: str) -> Any:
    parse = pa.csv.ParseOptions(
        delimiter=delimiter,
        newlines_in_values=True,
        # In a table with one column, an empty line is a missing value.
        ignore_empty_lines=len(header) > 1,
    )
    convert = pa.csv.ConvertOptions(column_types=dict.fromkeys(header, pa.string()))
    try:
        return pa.csv.read_csv(path, parse_options=parse, convert_options=convert)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        _explain_ragged(path, header, delimiter)
        if "UTF8" in str(error) or isinstance(error, UnicodeDecodeError):
            raise InputError(f"{path} must be UTF-8 text, and is not; save it as UTF-8") from error
        raise InputError(f"{path} is not a readable CSV file: {_line(error)}") from error


def _explain_ragged(path: Path, header: list[str], delimiter: str) -> None:
    """Raises InputError for the first line with more or fewer cells than the header."""
    with _open_text(path) as file:
        reader = csv.reader(file, delimiter=delimiter)
        for cells in reader:
            if cells and len(cells) != len(header):
                raise InputError(
                    f"{path}, line {reader.line_num}: every line must have {len(header)} cells "
                    f"as the first line has, got {len(cells)}; correct the line or quote its cells"
                )


def _typed(text: Any) -> Any:
    """A text column in the first of `_TYPES` that fits, otherwise unchanged."""
    present = _present(text)
    if present.null_count == len(text):
        return pa.nulls(len(text), pa.float64())
    for kind in _TYPES:
        try:
            return pc.cast(present, kind)
        except pa.ArrowInvalid:
            continue
    return text


def _present(text: Any) -> Any:
    """Cells without surrounding whitespace; missing ones are null."""
    trimmed = pc.utf8_trim_whitespace(text)
    absent = pc.is_in(trimmed, value_set=pa.array(MISSING))
    return pc.if_else(absent, pa.scalar(None, pa.string()), trimmed)


def _comma_numbers(column: Any) -> Any | None:
    """The numbers of a text column with decimal commas; None if it is not such a column."""
    if not pa.types.is_string(column.type) or _any(pc.match_substring(column, ".")):
        return None
    try:
        return pc.cast(pc.replace_substring(_present(column), ",", "."), pa.float64())
    except pa.ArrowInvalid:
        return None


def _any(truths: Any) -> bool:
    return bool(pc.any(truths).as_py())


def _fill_text(text: Any, typed: Any, imputed: Any, decimal: str) -> Any:
    was_missing = missing_cells(typed)
    if not _any(was_missing):
        return text
    is_new = pc.and_(was_missing, pc.invert(missing_cells(imputed)))
    known = text.filter(pc.invert(was_missing))
    if decimal == "," and _any(pc.match_substring(known, ".")):
        decimal = "."  # this column has points although others have commas
    if pa.types.is_floating(imputed.type):
        imputed = _rounded(imputed, known, decimal)
    return pc.if_else(is_new, _as_text(imputed, decimal), text)


def _rounded(numbers: Any, known: Any, decimal: str) -> Any:
    """Numbers with two decimals more than the texts `known`, unless those have exponents."""
    if not len(known) or _any(pc.match_substring_regex(known, "[eE]")):
        return numbers
    whole, trimmed = pa.scalar(0, pa.int32()), pc.utf8_trim_whitespace(known)
    point = pc.find_substring(trimmed, decimal)
    after = pc.subtract(pc.subtract(pc.binary_length(trimmed), point), 1)
    digits = pc.max(pc.if_else(pc.less(point, 0), whole, after)).as_py() + _EXTRA_DECIMALS
    if digits > _MAX_DECIMALS:
        return numbers
    # Floats above 1e15 have no decimals, and rounding them would overflow.
    small = pc.if_else(pc.less(pc.abs(numbers), 1e15), numbers, pa.scalar(None, numbers.type))
    return pc.coalesce(pc.round(small, ndigits=digits), numbers)


def _text_of(typed: Any, decimal: str) -> Any:
    columns = []
    for name in typed.column_names:
        try:
            columns.append(_as_text(typed[name], decimal))
        except pa.ArrowNotImplementedError as error:
            raise InputError(
                f"column {name!r} of type {typed[name].type} cannot be written as CSV; "
                f"choose a name that ends in .parquet"
            ) from error
    return pa.table(columns, typed.column_names)


def _as_text(column: Any, decimal: str = ".") -> Any:
    """Cells as CSV text: the shortest text that parses to the same number, "" for missing."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    elif pa.types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
    if pa.types.is_duration(kind):
        nanoseconds = column.cast(pa.int64()).to_pylist()
        cells = ["" if each is None else format_duration(each) for each in nanoseconds]
        return pa.array(cells, pa.string())
    text = pc.cast(column, pa.string())
    if pa.types.is_floating(kind) and decimal != ".":
        text = pc.replace_substring(text, ".", decimal)
    if pa.types.is_timestamp(kind):
        # Whole seconds are written without fractions, whatever the unit of the type.
        text = pc.replace_substring_regex(text, r"\.0+(Z|[+-]\d+)?$", r"\1")
    return pc.fill_null(text, "")


def _write_csv(temporary: Path, suffix: str, table: FileTable) -> None:
    delimiter = "\t" if suffix.startswith(".tsv") else table.delimiter
    text = _text_of(table.typed, table.decimal) if table.text is None else table.text
    lines = _lines([_quoted(column, delimiter) for column in text.columns], delimiter)
    names = _lines([_quoted(pa.array([name]), delimiter) for name in text.column_names], delimiter)
    compression = "gzip" if suffix.endswith(".gz") else None
    with pa.output_stream(temporary, compression=compression) as stream:
        stream.write(_joined(names))
        for batch in pa.table([lines], ["line"]).to_batches(max_chunksize=65_536):
            stream.write(_joined(batch.column(0)))


def _quoted(text: Any, delimiter: str) -> Any:
    """Cells with quotes around those that need them."""
    needs = pc.match_substring_regex(text, rf'["\r\n{delimiter}]')
    if not _any(needs):
        return text
    doubled = pc.replace_substring(text, '"', '""')
    return pc.if_else(needs, pc.binary_join_element_wise('"', doubled, '"', ""), text)


def _lines(columns: list[Any], delimiter: str) -> Any:
    if len(columns) == 1:
        # Quoted, because most readers skip empty lines.
        return pc.if_else(pc.equal(columns[0], ""), '""', columns[0])
    return pc.binary_join_element_wise(*columns, delimiter)


def _joined(lines: Any) -> bytes:
    return ("\n".join(lines.to_pylist()) + "\n").encode() if len(lines) else b""


class _PandasBlocker(MetaPathFinder):
    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "pandas":
            raise ImportError("pandas is not needed")


def prevent_pandas_import() -> None:
    """Keeps pyarrow from importing pandas with its first scalar, which slows a command down.

    pyarrow looks for pandas once. If it cannot work without, as in `to_pandas`, it imports pandas
    later. If pandas is already imported, nothing changes.
    """
    blocker = _PandasBlocker()
    sys.meta_path.insert(0, blocker)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(blocker)
