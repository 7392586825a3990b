"""The CSV file of results."""

import pytest

from nrtsi.bench.results import COLUMNS, Row, add, read
from nrtsi.errors import InputError


def row(method="linear", metric="l2", value="1.5", seed=0):
    return Row("t", "s, with a comma", method, seed, metric, value, "", "0.1", "", "", "v", "r")


def test_the_columns_are_the_ones_that_were_agreed_on():
    agreed = "table, setting, method, seed, metric, value, train_s, impute_s, peak_mib, parameters, versions, revision"  # noqa: E501
    assert list(COLUMNS) == agreed.split(", ")


def test_what_is_added_is_read_again_and_takes_the_place_of_its_own_job_only(tmp_path):
    path = tmp_path / "r.csv"
    assert read(path) == []
    add(path, [row(), row(metric="mse")])
    add(path, [row("nrtsi"), row("nrtsi", seed=1)])
    add(path, [row(value="it\nchanged")])
    assert read(path) == [row("nrtsi"), row("nrtsi", seed=1), row(value="it\nchanged")]
    assert path.read_text().splitlines()[0] == ",".join(COLUMNS)


def test_a_failure_replaces_a_failure_and_no_figure(tmp_path):
    path = tmp_path / "r.csv"
    add(path, [row()])
    for reason in ("once", "twice"):
        add(path, [row(metric="error", value=reason)])
    assert read(path) == [row(), row(metric="error", value="twice")]
    add(path, [row(value="2.5")])
    assert read(path) == [row(value="2.5")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"a,b\n1,2\n",
            r"r\.csv must be a file of results with the columns .*, got a, b; choose",
        ),
        (b"", "got an empty file; choose another file"),
        (b"\xff\xfe", r"r\.csv cannot be read: .*; choose another file"),
        (
            ",".join(COLUMNS).encode() + b"\n1,2\n",
            r"r\.csv, line 2 is not a result; correct it or",
        ),
    ],
)
def test_another_file_is_refused_and_left_alone(tmp_path, content, message):
    path = tmp_path / "r.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        add(path, [row()])
    assert path.read_bytes() == content


def test_columns_that_no_row_needs_are_not_written(tmp_path):
    path = tmp_path / "r.csv"
    compared = Row("t", "s", "nrtsi", 0, "l2", "1", reference="2")
    add(path, [compared])
    assert path.read_text().splitlines()[0] == ",".join([*COLUMNS, "reference"])
    add(path, [row()])
    assert read(path) == [compared, row()]
