"""`nrtsi plot`: a picture for every command, and one line for every mistake."""

import re
import sys

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from nrtsi.cli.plot import app
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.tables.files import FileTable, read_table, write_table

ROWS = 24
HEAD = "id,time,x,y\n"


def line(series, step):
    known = step % 6 in (0, 1)
    values = f"{(step * (series + 1)) % 7}.5,{step % 5}.25" if known else ","
    return f"{series},{step},{values}\n"


GAPPY = HEAD + "".join(line(series, step) for series in range(2) for step in range(ROWS))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with data, a model, a model with a point head, and the filled data."""
    folder = tmp_path_factory.mktemp("plot")
    (folder / "data.csv").write_text(GAPPY)
    frame = read_table(folder / "data.csv").typed
    fixed = {"preset": "tiny", "steps": 2, "setting": "regular", "unit": 1.0}
    model = NRTSI(**fixed).fit(frame)
    model.save(folder / "model.nrtsi")
    NRTSI(**fixed, model={"head": "point"}).fit(frame).save(folder / "point.nrtsi")
    write_table(folder / "filled.csv", FileTable(model.impute(frame)))
    return folder


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def refused(result, message):
    """A mistake of the user: one line, status 2, no traceback."""
    assert result.exit_code == 2, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert re.search(f"^nrtsi: .*{message}", lines[0]), lines[0]
    return True


WITH_MODEL = {
    "series": ["series", "--series", 1, "--interval", 0.5],
    "series without a band": ["series", "--column", "y", "--interval", 0],
    "procedure": ["procedure", "--plane", "--panels", 3],
    "procedure over time": ["procedure", "--column", "y"],
    "draws": ["draws", "--draws", 2, "--plane", "--column", "y", "--column", "x"],
    "draws over time": ["draws", "--seed", 3],
    "attention": ["attention", "--step", 2],
    "one head": ["attention", "--plane", "--block", 1, "--head", 1, "--row", 3],
    "gaps": ["gaps", "--seed", 1, "--mask", "points", "--device", "cpu"],
}


@pytest.mark.parametrize("name", WITH_MODEL)
def test_every_command_writes_a_picture_and_says_so(made, tmp_path, name):
    command, *options = WITH_MODEL[name]
    out = tmp_path / "a.png"
    result = run(
        command, made / "data.csv", "--model", made / "model.nrtsi", "--out", out, *options
    )
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"wrote {out}")
    assert out.read_bytes().startswith(b"\x89PNG")


def test_a_series_is_plotted_from_an_imputed_file(made, tmp_path):
    out = tmp_path / "a.svg"
    result = run("series", made / "data.csv", "--filled", made / "filled.csv", "--out", out)
    assert result.exit_code == 0, result.output
    assert "time: column 'time'" in result.stderr
    assert out.read_text().startswith("<?xml")


def test_gaps_can_train_a_model_of_its_own(made, tmp_path):
    out = tmp_path / "a.png"
    small = ["--preset", "tiny", "--steps", 2]
    result = run("gaps", made / "data.csv", "--out", out, *small)
    assert result.exit_code == 0, result.output
    assert re.search(r"wrote .*a\.png: \d+ hidden cells", result.stdout)


def test_gaps_scores_a_model_on_its_held_out_cells(made, tmp_path):
    out = tmp_path / "a.png"
    result = run("gaps", made / "data.csv", "--model", made / "model.nrtsi", "--out", out)
    assert re.search(r"wrote .*a\.png: \d+ hidden cells", result.stdout), result.output


def test_quiet_is_quiet(made, tmp_path):
    out = tmp_path / "a.png"
    model = ["--model", made / "model.nrtsi"]
    result = run("procedure", made / "data.csv", *model, "--out", out, "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_without_a_command_the_pictures_are_listed():
    result = run()
    assert result.exit_code == 0
    for name in ("series", "procedure", "draws", "attention", "gaps"):
        assert re.search(rf"^  {name} ", result.stdout, re.MULTILINE)


MISTAKES = {
    "no such series": (["procedure", "--series", 2], "series must be at least 0 and below 2"),
    "no such column": (["draws", "--column", "z"], "column must be one of x, y, got 'z'; choose"),
    "one column": (["draws", "--plane", "--column", "x"], "plane must have 2 columns, got 1: x"),
    "no such block": (["attention", "--block", 99], "block must be at least 1 and at most"),
    "no such head": (["attention", "--head", 99], "head must be at least 1 and at most"),
    "no such step": (["attention", "--step", 99], "step must be at least 1 and at most"),
    "no such row": (["attention", "--row", 99], "row must be at least 0 and below 24, got 99"),
    "a setting": (["gaps", "--budget", "9s"], "--budget must not be given with --model"),
    "both": (["series", "--filled", "b.csv"], "either --filled or --model must be given; give"),
    "time": (["series", "--time", "t"], "--time and --id must not be given with --model, which"),
    "a number": (["draws", "--draws", 0], "Invalid value for '--draws': .*--help"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_in_one_line(made, tmp_path, name):
    (command, *options), message = MISTAKES[name]
    out = ["--out", tmp_path / "a.png", "--quiet"]
    model = ["--model", made / "model.nrtsi"]
    assert refused(run(command, made / "data.csv", *model, *out, *options), message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["series", "draws"])
def test_a_point_head_is_drawn_with_the_errors_it_made(made, tmp_path, command):
    out = ["--out", tmp_path / "a.png", "--quiet"]
    result = run(command, made / "data.csv", "--model", made / "point.nrtsi", *out)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("command", ["procedure", "attention"])
def test_data_without_gaps_are_refused(made, tmp_path, command):
    out = ["--out", tmp_path / "a.png"]
    result = run(command, made / "filled.csv", "--model", made / "model.nrtsi", *out)
    assert refused(result, "id 0 must have missing values to show .*, got none; choose another")


def test_neither_a_model_nor_filled_data_is_refused(made, tmp_path):
    result = run("series", made / "data.csv", "--out", tmp_path / "a.png")
    assert refused(result, "either --filled or --model must be given; give one of them")


def test_a_model_is_needed(made, tmp_path):
    result = run("procedure", made / "data.csv", "--out", tmp_path / "a.png")
    assert refused(result, "Missing option '--model'")


def test_an_existing_picture_needs_overwrite(made, tmp_path):
    out = tmp_path / "a.png"
    out.write_text("mine")
    asked = ["procedure", made / "data.csv", "--model", made / "model.nrtsi", "--out", out]
    assert refused(run(*asked), "exists already; add --overwrite to replace it")
    assert out.read_text() == "mine"
    assert run(*asked, "--overwrite").exit_code == 0
    assert out.read_bytes().startswith(b"\x89PNG")


def test_a_picture_needs_the_name_of_one(made, tmp_path):
    out = tmp_path / "a.csv"
    result = run("gaps", made / "data.csv", "--out", out)
    assert refused(result, "a picture must end in one of .png, .svg, .pdf, got 'a.csv'; write")


@pytest.mark.parametrize("command", ["series", "procedure", "draws", "attention", "gaps"])
def test_without_matplotlib_the_remedy_is_named(made, tmp_path, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    out = ["--out", tmp_path / "a.png"]
    result = run(command, made / "data.csv", "--model", made / "model.nrtsi", *out)
    assert refused(result, r'matplotlib, which is not installed; pip install "nrtsi\[plot\]"')


def test_filled_data_must_be_those_data(made, tmp_path):
    short = tmp_path / "short.csv"
    write_table(short, FileTable(pa.Table.slice(read_table(made / "filled.csv").typed, 0, 30)))
    out = ["--out", tmp_path / "a.png", "--quiet"]
    result = run("series", made / "data.csv", "--filled", short, *out)
    assert refused(result, "the filled data must have the rows of the data, 48 in 2 series")
