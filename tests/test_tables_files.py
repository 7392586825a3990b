"""CSV and Parquet files, and atomic writing."""

import csv
import errno
import gzip
import io
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.core.atomic import atomic, check_writable
from nrtsi.errors import InputError
from nrtsi.tables.files import (
    MISSING,
    SUFFIXES,
    FileTable,
    check_output,
    missing_cells,
    read_table,
    write_table,
)

numbers = st.one_of(
    st.decimals(-1000, 1000, places=2).map(str),  # keeps its zeros: "1.50"
    st.integers(-10_000, 10_000).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
number_cells = st.one_of(numbers, st.sampled_from(MISSING))
notes = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\r\x00\ufeff"),
    max_size=8,
)


@st.composite
def csv_tables(draw):
    """Cells as text: one column of text, a few of numbers with gaps."""
    rows = draw(st.integers(1, 12))
    width = draw(st.integers(1, 4))
    columns = {"note": draw(st.lists(notes, min_size=rows, max_size=rows))}
    for i in range(width):
        cells = draw(st.lists(number_cells, min_size=rows, max_size=rows))
        columns[f"x{i}"] = [*cells[:-1], draw(numbers)]  # at least one number
    return columns


def to_csv(columns, delimiter=","):
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return buffer.getvalue()


def from_csv(text, delimiter=","):
    header, *rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return {name: [row[i] for row in rows] for i, name in enumerate(header)}


def fill(table, value):
    def filled(name):
        column = table[name]
        if name == "note" or not column.null_count:
            return column
        return pc.if_else(missing_cells(column), pa.scalar(value).cast(column.type), column)

    return pa.table([filled(name) for name in table.column_names], table.column_names)


def write(folder, name, text):
    path = Path(folder) / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# Properties


@settings(max_examples=50, deadline=None)
@given(csv_tables(), st.sampled_from(",;\t|"))
def test_imputing_a_csv_changes_the_text_of_missing_cells_only(columns, delimiter):
    with TemporaryDirectory() as folder:
        path = write(folder, "in.csv", to_csv(columns, delimiter))
        table = read_table(path)
        out = Path(folder) / "out.csv"
        write_table(out, table.fill(fill(table.typed, 7)))
        written = from_csv(out.read_bytes().decode(), delimiter)
    assert list(written) == list(columns)
    assert written["note"] == columns["note"]
    for name in columns.keys() - {"note"}:
        expected = ["7" if cell in MISSING else cell for cell in columns[name]]
        assert written[name] == expected


@settings(max_examples=50, deadline=None)
@given(csv_tables(), st.integers(1, 3))
def test_stacking_a_csv_repeats_its_text_and_imputes_each_repetition(columns, draws):
    rows = len(columns["note"])
    with TemporaryDirectory() as folder:
        table = read_table(write(folder, "in.csv", to_csv(columns)))
        drawn = pa.concat_tables([fill(table.typed, 5 + draw) for draw in range(draws)])
        labels = np.repeat(np.arange(draws), rows)
        stacked = table.stack(drawn.add_column(0, "draw", pa.array(labels)))
        write_table(Path(folder) / "out.csv", stacked)
        written = from_csv((Path(folder) / "out.csv").read_bytes().decode())
    assert list(written) == ["draw", *columns]
    assert written["draw"] == [str(label) for label in labels]
    assert written["note"] == columns["note"] * draws
    for name in columns.keys() - {"note"}:
        cells = zip(columns[name] * draws, labels, strict=True)
        assert written[name] == [str(5 + i) if cell in MISSING else cell for cell, i in cells]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.decimals(-1000, 1000, places=2), min_size=1), st.booleans())
def test_decimal_commas_are_read_if_semicolons_separate_cells(values, gaps):
    cells = [str(value).replace(".", ",") for value in values] + ["NA"] * gaps
    with TemporaryDirectory() as folder:
        text = to_csv({"i": ["1"] * len(cells), "x": cells}, ";")
        table = read_table(write(folder, "in.csv", text))
    assert table.decimal == ","
    assert table.typed["x"].to_pylist() == [*map(float, values)] + [None] * gaps
    assert table.text["x"].to_pylist() == cells


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.decimals(-1000, 1000, places=3), min_size=1),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_a_new_cell_is_rounded_to_two_decimals_more_than_its_column(values, new):
    with TemporaryDirectory() as folder:
        text = to_csv({"x": [*map(str, values), "NA"], "i": ["1"] * (len(values) + 1)})
        table = read_table(write(folder, "in.csv", text))
    written = table.fill(fill(table.typed, new)).text["x"].to_pylist()
    assert written[:-1] == [*map(str, values)]
    assert float(written[-1]) == pytest.approx(new, rel=1e-15, abs=0.501e-5)
    if 1e-4 <= abs(new) < 1e9:
        assert len(written[-1].partition(".")[2]) <= 5


@settings(max_examples=100, deadline=None)
@given(csv_tables())
def test_numbers_are_read_as_python_reads_them(columns):
    with TemporaryDirectory() as folder:
        table = read_table(write(folder, "in.csv", to_csv(columns))).typed
    for name in columns.keys() - {"note"}:
        expected = [None if cell in MISSING else float(cell) for cell in columns[name]]
        assert table[name].to_pylist() == expected


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(allow_infinity=False), min_size=1), st.sampled_from(SUFFIXES))
def test_every_format_reads_back_the_floats_that_were_written(values, suffix):
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        write_table(path, FileTable(pa.table({"i": range(len(values)), "x": [*values]})))
        back = read_table(path).typed["x"].cast(pa.float64())
    expected = np.array(values)
    np.testing.assert_array_equal(back.to_numpy(zero_copy_only=False), expected)


# Reading


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1,NA,3", pa.int64()),
        ("1,2.5,?", pa.float64()),
        (" 1 , 2", pa.int64()),
        ("-,NaN", pa.float64()),
        ("true,false", pa.bool_()),
        ("2020-01-01,2020-01-02", pa.timestamp("s")),
        ("2020-01-01T00:00,2020-01-01 00:00:00.5", pa.timestamp("us")),
        ("2020-01-01T00:00:00Z,2020-01-01T00:00:00+02:00", pa.timestamp("us", "UTC")),
        ("1,x", pa.string()),
        ("NA,Berlin", pa.string()),
    ],
)
def test_a_column_gets_the_first_type_that_fits_all_its_cells(tmp_path, text, kind):
    cells = text.split(",")
    path = write(tmp_path, "a.tsv", "n\tx\n" + "".join(f"0\t{cell}\n" for cell in cells))
    table = read_table(path)
    assert table.typed["x"].type == kind
    assert table.text["x"].to_pylist() == cells


def test_a_type_that_appears_late_in_the_file_is_found(tmp_path):
    rows = "1\n" * 800_000 + "2.5\n"  # longer than the blocks in which the file is parsed
    assert read_table(write(tmp_path, "a.csv", "x\n" + rows)).typed["x"].type == pa.float64()


def test_an_empty_line_of_a_table_of_one_column_is_a_missing_value(tmp_path):
    table = read_table(write(tmp_path, "a.csv", "x\n1\n\n3\n"))
    assert table.typed["x"].to_pylist() == [1, None, 3]
    write_table(tmp_path / "b.csv", table)
    assert read_table(tmp_path / "b.csv").typed["x"].to_pylist() == [1, None, 3]


def test_a_header_alone_is_a_table_without_rows(tmp_path):
    for text in ("a,b", "a,b\n", "a,b\r\n\r\n"):
        table = read_table(write(tmp_path, "a.csv", text)).typed
        assert (table.num_rows, table.column_names) == (0, ["a", "b"])


def test_a_byte_order_mark_windows_line_ends_and_gzip_are_read(tmp_path):
    text = b"\xef\xbb\xbfa;b\r\n1,5;2\r\n"
    for name, data in (("a.csv", text), ("a.csv.gz", gzip.compress(text))):
        table = read_table(write(tmp_path, name, data)).typed
        assert table.to_pylist() == [{"a": 1.5, "b": 2}]


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("a;b\n1,5;x\n", [1.5, "x"]),
        ("a;b\n1,5;2.5\n", [1.5, 2.5]),
        ("a;b\n1,2,3;x,y\n", ["1,2,3", "x,y"]),
        ("a;b\n1.000,5;1\n", ["1.000,5", 1]),
        ("a|b\n1,5|1\n", ["1,5", 1]),
        ('a,b\n"1,5",1\n', ["1,5", 1]),
    ],
)
def test_a_comma_is_decimal_only_between_semicolons_and_in_columns_of_numbers(
    tmp_path, text, cells
):
    table = read_table(write(tmp_path, "a.csv", text))
    assert [*table.typed.to_pylist()[0].values()] == cells
    assert table.decimal == ("," if cells[0] == 1.5 else ".")


def test_names_with_quotes_delimiters_and_line_ends_are_kept(tmp_path):
    columns = {'a "quoted" name': ["1"], "one, two; three": ["2"], "two\nlines": ["3"]}
    path = write(tmp_path, "a.csv", to_csv(columns))
    write_table(tmp_path / "b.csv", read_table(path))
    assert from_csv((tmp_path / "b.csv").read_text()) == columns


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xlsx", b"", r"a\.xlsx must end in one of \.csv, \.tsv, .*\.parquet, \.pq; rename it"),
        ("a.csv", b"", r"a\.csv is empty; it must begin with a line of column names"),
        ("a.csv", b"\n\n", r"a\.csv is empty"),
        ("a.csv", b"a,b\n1,2\n\n1,2,3\n", r"a\.csv, line 4: every line must have 2 cells.*got 3"),
        ("a.csv", b'a,b\n"x\ny",2\n1\n', r"a\.csv, line 4: .* got 1; correct the line or quote"),
        ("a.csv", b"a,a,b\n1,2,3\n", r"must name every column once, got 'a' 2 times; rename"),
        ("a.csv", "a,b\n1,é\n".encode("latin-1"), r"a\.csv must be UTF-8 text, and is not"),
        ("a.csv", "é,b\n1,2\n".encode("latin-1"), r"a\.csv must be UTF-8 text, and is not"),
        ("a.csv.gz", b"a,b\n1,2\n", r"a\.csv\.gz cannot be read: .*; is it damaged\?"),
        (
            "a.csv.gz",
            gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-20],
            r"a\.csv\.gz cannot be read: ",
        ),
        ("a.parquet", b"PAR1 not really", r"a\.parquet is not a readable Parquet file: "),
        ("a.parquet", b"", r"a\.parquet is not a readable Parquet file: "),
    ],
)
def test_an_unreadable_file_is_rejected_in_one_line(tmp_path, name, content, message):
    path = write(tmp_path, name, content)
    with pytest.raises(InputError, match=message) as error:
        read_table(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


def test_an_absent_file_and_a_folder_are_rejected(tmp_path):
    with pytest.raises(InputError, match=r"absent\.csv does not exist; check the name"):
        read_table(tmp_path / "absent.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=r"folder\.csv must be a file, got a folder"):
        read_table(tmp_path / "folder.csv")
    with pytest.raises(InputError, match=r"name the file in it \(nrtsi impute takes folders of"):
        read_table(tmp_path)


def test_a_model_given_as_a_table_is_recognised_by_its_name(tmp_path):
    message = r"m\.nrtsi must be a table and end in one of \.csv.*; is it a model\? .*--model"
    with pytest.raises(InputError, match=message):
        read_table(write(tmp_path, "m.nrtsi", b""))


def test_a_file_without_read_permission_is_rejected(tmp_path, monkeypatch):
    path = write(tmp_path, "a.csv", "a\n1\n")

    def fail(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("builtins.open", fail)
    with pytest.raises(InputError, match=r"a\.csv cannot be read: Permission denied"):
        read_table(path)


def test_a_parquet_file_keeps_its_types_and_folder_names_make_no_columns(tmp_path):
    folder = tmp_path / "year=2020"
    folder.mkdir()
    table = pa.table({"x": pa.array([1, None], pa.uint8()), "s": ["a", "b"]})
    pq.write_table(table, folder / "a.pq")
    assert read_table(folder / "a.pq").typed.equals(table)


# Writing


def test_typed_columns_are_written_as_plain_text(tmp_path):
    table = pa.table(
        {
            "t": pa.array([0, 1_500_000], pa.timestamp("us")),
            "z": pa.array([0, 1_000_000_000], pa.timestamp("ns", "UTC")),
            "f": pa.array([0.1, 2.0], pa.float32()),
            "n": pa.array([float("nan"), None]),
            "c": pa.array(["a", "b, c"]).dictionary_encode(),
        }
    )
    write_table(tmp_path / "a.csv", FileTable(table))
    assert (tmp_path / "a.csv").read_text().splitlines() == [
        "t,z,f,n,c",
        "1970-01-01 00:00:00,1970-01-01 00:00:00Z,0.1,,a",
        '1970-01-01 00:00:01.500000,1970-01-01 00:00:01Z,2,,"b, c"',
    ]


def test_a_column_of_lists_cannot_be_csv(tmp_path):
    with pytest.raises(InputError, match=r"column 'l' of type list.* cannot be written as CSV"):
        write_table(tmp_path / "a.csv", FileTable(pa.table({"l": [[1, 2]]})))
    assert list(tmp_path.iterdir()) == []


def test_a_cell_that_stays_missing_keeps_its_marker(tmp_path):
    table = read_table(write(tmp_path, "a.csv", "x,y\nNA,1\n2,?\n"))
    write_table(tmp_path / "b.csv", table.fill(table.typed))
    assert (tmp_path / "b.csv").read_text() == "x,y\nNA,1\n2,?\n"


def test_new_cells_have_decimal_commas_if_the_file_has_them(tmp_path):
    text = "x;y;z\n9,50;1.5;1\n;;\n"
    table = read_table(write(tmp_path, "a.csv", text))
    new = pa.table({"x": [9.5, 1 / 3], "y": [1.5, 2 / 3], "z": [1, 2]})
    write_table(tmp_path / "b.csv", table.fill(new))
    assert (tmp_path / "b.csv").read_text() == "x;y;z\n9,50;1.5;1\n0,3333;0.667;2\n"
    write_table(tmp_path / "c.csv", table.without_text(pa.table({"x": [0.25], "i": [3]})))
    assert (tmp_path / "c.csv").read_text() == "x;i\n0,25;3\n"


@pytest.mark.parametrize(
    ("known", "written"),
    [
        ("1.5", "0.333"),
        ("2", "0.33"),
        (" 1.50 ", "0.3333"),
        ("1e-7", repr(1 / 3)),
        ("0.12345678901234567", repr(1 / 3)),
        ("?", repr(1 / 3)),
    ],
)
def test_a_new_cell_has_two_decimals_more_than_its_column(tmp_path, known, written):
    table = read_table(write(tmp_path, "a.csv", f"i,x\n1,{known}\n2,NA\n"))
    new = pa.table({"i": [1, 2], "x": [1.0, 1 / 3]})
    assert table.fill(new).text["x"].to_pylist()[1] == written


def test_stacking_keeps_the_text_of_times_with_a_zone(tmp_path):
    text = "time,x\n2023-10-20 00:00:00+02:00,1.50\n2023-10-20 01:00:00+02:00,\n"
    table = read_table(write(tmp_path, "a.csv", text))
    part = fill(table.typed, 0.25)
    drawn = pa.concat_tables([part, part]).add_column(0, "draw", pa.array([0, 0, 1, 1]))
    write_table(tmp_path / "b.csv", table.stack(drawn))
    assert (tmp_path / "b.csv").read_text().splitlines() == [
        "draw,time,x",
        "0,2023-10-20 00:00:00+02:00,1.50",
        "0,2023-10-20 01:00:00+02:00,0.25",
        "1,2023-10-20 00:00:00+02:00,1.50",
        "1,2023-10-20 01:00:00+02:00,0.25",
    ]


def test_a_stacked_table_without_text_is_the_filled_one():
    filled = pa.table({"draw": [0, 1], "x": [1.0, 2.0]})
    stacked = FileTable(pa.table({"x": pa.nulls(1, pa.float64())})).stack(filled)
    assert stacked.text is None
    assert stacked.typed.equals(filled)


def test_an_existing_output_is_replaced_only_with_overwrite(tmp_path):
    path = write(tmp_path, "a.csv", "old")
    table = FileTable(pa.table({"x": [1]}))
    with pytest.raises(InputError, match=r"a\.csv exists already; add --overwrite"):
        write_table(path, table)
    assert path.read_text() == "old"
    write_table(path, table, overwrite=True)
    assert path.read_text() == "x\n1\n"


def test_an_output_is_checked_before_the_work(tmp_path):
    with pytest.raises(InputError, match=r"there is no folder .*nowhere; create it first"):
        check_output(tmp_path / "nowhere" / "a.csv", overwrite=False)
    with pytest.raises(InputError, match=r"a\.doc must end in one of"):
        check_output(tmp_path / "a.doc", overwrite=False)
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(InputError, match=r"d\.csv must be a file to write, got a folder"):
        check_output(tmp_path / "d.csv", overwrite=True)
    check_output(tmp_path / "a.csv", overwrite=False)
    assert [p.name for p in tmp_path.iterdir()] == ["d.csv"]


def test_a_read_only_folder_is_reported_before_the_work(tmp_path, monkeypatch):
    def fail(*args):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(InputError, match=r"a\.csv cannot be written: Read-only file system"):
        check_output(tmp_path / "a.csv", overwrite=False)


# Atomic writing


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".csv.gz"])
def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, suffix):
    path = write(tmp_path, f"a{suffix}", "old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "whatever a library calls it")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot be written: No space left on device; free"):
        write_table(path, FileTable(pa.table({"x": [1]})), overwrite=True)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_incomplete_write_leaves_the_old_file_and_no_other(tmp_path, suffix):
    # A limit on the size of files fails in the middle of a write, as a full disk does.
    path = write(tmp_path, f"a{suffix}", "old")
    code = (
        "import resource, sys, numpy as np, pyarrow as pa\n"
        "from pathlib import Path\n"
        "from nrtsi.tables.files import FileTable, write_table\n"
        "table = FileTable(pa.table({'x': np.random.default_rng(0).random(100_000)}))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "write_table(Path(sys.argv[1]), table, overwrite=True)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert f"InputError: {path} cannot be written: File too large" in run.stderr
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 20_000


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_block_leaves_the_old_file_and_its_error_alone(tmp_path, error):
    path = write(tmp_path, "a.bin", "old")

    def interrupted():
        with atomic(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_temporary_file_is_in_the_folder_of_the_target_with_its_suffix(tmp_path):
    with atomic(tmp_path / ("long" * 50 + ".png")) as temporary:
        assert temporary.parent == tmp_path.resolve()
        assert temporary.suffix == ".png"
        assert temporary.read_bytes() == b""


def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path):
    target = write(tmp_path, "target.bin", "old")
    link = tmp_path / "link.bin"
    link.symlink_to(target)
    with atomic(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_permissions_are_those_of_the_old_file_or_of_any_new_one(tmp_path):
    old = write(tmp_path, "old.bin", "")
    old.chmod(0o640)
    plain = write(tmp_path, "plain.bin", "")
    for path in (old, tmp_path / "new.bin"):
        with atomic(path) as temporary:
            temporary.unlink()  # as a library does that renames a file of its own into place
            temporary.write_text("x")
            temporary.chmod(0o600)
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert (tmp_path / "new.bin").stat().st_mode == plain.stat().st_mode


def test_a_write_protected_file_is_not_replaced(tmp_path, monkeypatch):
    path = write(tmp_path, "a.bin", "old")
    monkeypatch.setattr(os, "access", lambda *args: False)  # the superuser may always write
    with pytest.raises(InputError, match=r"a\.bin is write-protected; allow writing"):
        check_writable(path, overwrite=True)


def test_a_pipe_or_device_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"pipe must be a file to write, got a device"):
        check_writable(tmp_path / "pipe", overwrite=True)


def test_a_link_to_itself_is_rejected(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(InputError, match=r"loop cannot be written: "):
        check_writable(tmp_path / "loop", overwrite=True)
