"""`nrtsi bench` and `nrtsi data`, typed as a person types them."""

import csv
import re
import shutil

import numpy as np
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from nrtsi.bench import tables
from nrtsi.bench.datasets.registry import DATASETS, make
from nrtsi.bench.methods import KINDS
from nrtsi.bench.results import COLUMNS, ERROR
from nrtsi.bench.tables import open_table, table_names
from nrtsi.bench.tasks import task_of
from nrtsi.cli.main import app
from nrtsi.tables.files import read_table

SIMPLE = "linear,mean,knn-sequences"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NRTSI_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def refused(result, message):
    """A mistake of the user: one line, status 2, no traceback."""
    assert result.exit_code == 2, result.output
    lines = result.stderr.strip().splitlines()
    assert re.search(f"^nrtsi: .*{message}", lines[-1]), lines[-1]
    return True


def test_the_tables_and_the_data_sets_are_listed():
    tables, data = run("bench", "list"), run("data", "list")
    assert all(name in tables.stdout for name in table_names())
    assert all(f"{name}\n" in data.stdout for name in DATASETS)
    assert "needs a path: the downloaded zip" in data.stdout


@pytest.mark.parametrize("name", ["sinusoids", "billiards"])
def test_a_quick_table_has_a_row_for_every_method(name, folder):
    result = run("bench", "run", name, "--quick", "--out", "r.csv")
    assert result.exit_code == 0, result.stderr
    with (folder / "r.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert tuple(header) == COLUMNS
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    assert {row["method"] for row in rows} == set(open_table(name).default_methods)
    assert {row["versions"].partition("; ")[2] for row in rows} == {"quick"}
    # Competitors need the extra; without it their rows say so.
    assert all("bench" in row["value"] for row in rows if row["metric"] == ERROR)
    shown = run("bench", "show", name, "--results", "r.csv")
    assert shown.stdout == result.stdout
    assert "| nrtsi " in shown.stdout
    assert "paper" in shown.stdout


def test_a_second_run_measures_nothing_and_shows_the_same():
    first = run("bench", "run", "sinusoids", "--quick", "--methods", SIMPLE)
    second = run("bench", "run", "sinusoids", "--quick", "--methods", SIMPLE)
    assert first.stdout == second.stdout
    assert "linear: mse" in first.stderr
    assert "linear: mse" not in second.stderr
    assert "results are in bench-sinusoids.csv" in second.stderr


def test_quiet_prints_the_table_only():
    result = run("-q", "bench", "run", "sinusoids", "--quick", "--methods", "linear")
    assert result.stderr == ""
    assert result.stdout.startswith("## Sinusoids")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "moon"], "the experiment must be one of ablation, air, .*speed, got 'moon'"),
        (["show", "moon"], "the experiment must be one of"),
        (
            ["show", "air"],
            "there is no file of results bench-air.csv; make it with nrtsi bench run air",
        ),
        (["run", "sinusoids", "--clock", "sun"], "--clock must be one of wall, core, got 'sun'"),
        (["run", "air", "--quick"], r"nrtsi data make air --path FILE \(the downloaded zip"),
        (["run", "sinusoids", "--methods", "magic"], "--methods must be among linear, .*'magic'"),
        (["run", "sinusoids", "--budget", "soon"], "soon"),
        (["run", "sinusoids", "--methods", ","], "--methods must name some of linear, mean"),
        (["run", "sinusoids", "--quick", "--steps", "5"], "--quick and --steps must not be given"),
        (
            ["run", "sinusoids", "--models", "/dev/null/x"],
            "--models must be a folder, got /dev/nu",
        ),
        (["run", "sinusoids", "--out", "none/r.csv"], "there is no folder none; create it first"),
    ],
)
def test_a_mistake_is_one_line(words, message):
    assert refused(run("bench", *words), message)


def test_results_of_another_table_are_not_shown_as_none():
    run("bench", "run", "sinusoids", "--quick", "--methods", "linear", "--out", "r.csv")
    result = run("bench", "show", "air", "--results", "r.csv")
    assert refused(result, r"r\.csv has no rows of air, only of sinusoids")


def test_quick_rows_are_not_taken_for_whole_ones():
    run("bench", "run", "sinusoids", "--quick", "--methods", "linear")
    result = run("bench", "run", "sinusoids", "--methods", "linear")
    assert refused(result, "has rows of linear made with quick, not with all data; give the same")


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    """A folder with a file of results of a quick run, its model and its data."""
    folder = tmp_path_factory.mktemp("quick")
    words = ["--quick", "--methods", "linear,nrtsi", "--models", folder, "--out", folder / "r.csv"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NRTSI_CACHE", str(folder / "cache"))
        result = run("bench", "run", "sinusoids", *words)
    assert result.exit_code == 0, result.stderr
    return folder


@pytest.fixture
def kept(quick_run, folder):
    """The model of a quick run, beside a copy of its results."""
    shutil.copytree(quick_run, folder, dirs_exist_ok=True)
    return "sinusoids-sinusoids-nrtsi-0-quick.nrtsi"


def cells(result):
    """The grid that was printed, line by line."""
    lines = [line.strip("|").split("|") for line in result.stdout.splitlines()[2:]]
    return [[cell.strip() for cell in line] for line in lines]


def test_a_model_that_was_kept_has_the_figures_that_were_written_down(kept, folder):
    result = run("bench", "check", "sinusoids", kept, "--quick", "--results", "r.csv")
    assert result.exit_code == 0, result.stderr
    table = open_table("sinusoids")
    told = cells(result)
    names = [(setting.name, m) for setting in table.settings for m in (*table.metrics, "series")]
    assert [(setting, metric) for setting, metric, *_ in told] == names
    assert {verdict for *_, verdict in told} == {"same"}
    assert all(found == written for _, _, found, written, _ in told)
    assert " ± " in told[0][2]
    alone = run("-q", "bench", "check", "sinusoids", kept, "--quick")
    assert {tuple(line[3:]) for line in cells(alone)} == {("–", "–")}
    assert alone.stderr == ""


def test_a_figure_that_is_not_the_models_is_found_out(kept, folder):
    path = folder / "r.csv"
    lines = path.read_text("utf-8").splitlines()
    wrong = [re.sub(r",nrtsi,0,mse,[^,]+", ",nrtsi,0,mse,0.5", line) for line in lines]
    path.write_text("\n".join(wrong) + "\n", "utf-8")
    result = run("bench", "check", "sinusoids", kept, "--quick", "--results", "r.csv")
    assert result.exit_code == 1
    settings = len(open_table("sinusoids").settings)
    assert [line[4] for line in cells(result) if line[1] == "mse"] == settings * ["differs"]
    assert f"{settings} of " in result.stderr
    assert "figures differ from those in r.csv" in result.stderr


def test_figures_of_another_size_are_not_beside_the_models(kept, folder):
    path = folder / "r.csv"
    path.write_text(path.read_text("utf-8").replace("; quick", "; budget 60 s"), "utf-8")
    result = run("bench", "check", "sinusoids", kept, "--quick", "--results", "r.csv")
    assert result.exit_code == 0
    assert "r.csv has no figures of nrtsi with the seed, data and size" in result.stderr


def test_a_model_of_other_channels_cannot_be_checked(kept):
    result = run("bench", "check", "billiards", kept, "--quick")
    message = (
        r"nrtsi-0-quick\.nrtsi must be a model of the channels of billiards \(x, y\) for the "
        r"table billiards, got value; name the table it was trained for"
    )
    assert refused(result, message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["moon", "m.nrtsi"], "table must be one of ablation, air, .*, got 'moon'"),
        (["air", "absent.nrtsi"], "absent.nrtsi does not exist; give the path of"),
        (["air", "text.nrtsi"], "text.nrtsi is not a readable nrtsi model file"),
        (["air", "text.nrtsi", "--results", "r.csv"], "there is no file of results r.csv"),
        (
            ["air", "text.nrtsi", "--method", "saits"],
            "--method must be one of nrtsi, nrtsi-all, nrtsi-30m for the table air, got 'saits'",
        ),
        (["air"], "Missing argument 'MODEL'"),
    ],
)
def test_a_mistake_in_what_to_check_is_one_line(words, message, folder):
    (folder / "text.nrtsi").write_text("not a model")
    assert refused(run("bench", "check", *words), message)


def test_ctrl_c_says_how_to_go_on(monkeypatch):
    def stop(seed):
        raise KeyboardInterrupt

    monkeypatch.setitem(KINDS, "mean", stop)
    result = run("bench", "run", "sinusoids", "--quick", "--methods", "linear,mean")
    assert result.exit_code == 130
    assert (
        "stopped; results so far are in bench-sinusoids.csv; the same command resumes"
        in result.stderr
    )
    monkeypatch.undo()


def test_a_data_set_is_made_and_written_as_a_table(folder):
    result = run("data", "make", "sinusoids", "--out", "s.csv", "--part", "test", "--series", 3)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "wrote s.csv: 300 rows\n"
    table = read_table(folder / "s.csv").typed
    assert table.column_names == ["part", "series", "time", "value"]
    assert set(table["part"].to_pylist()) == {"test"}
    assert set(table["series"].to_pylist()) == {1000, 1001, 1002}
    again = run("data", "make", "sinusoids", "--out", "s.csv")
    assert refused(again, r"s\.csv exists already; add --overwrite")


def test_gaps_are_those_of_the_benchmark(folder):
    words = ["--part", "test", "--series", 4, "--gaps"]
    result = run("data", "make", "billiards", "--out", "b.csv", *words)
    assert "hid the cells of the benchmark: table billiards, 5–20 of 200 observed" in result.stderr
    missing = pc.is_null(read_table(folder / "b.csv").typed["x"]).to_numpy(False)
    table = open_table("billiards")
    hidden = task_of(table, table.settings[0], make("billiards")).hidden[:4, :, 0]
    np.testing.assert_array_equal(missing.reshape(4, 200), hidden)


def test_a_data_set_of_no_benchmark_has_no_gaps(monkeypatch):
    monkeypatch.setattr(tables, "table_names", lambda: ("air",))
    words = ["--out", "s.csv", "--gaps"]
    assert refused(run("data", "make", "sinusoids", *words), "no benchmark uses sinusoids")


def test_made_without_a_table_it_says_where_it_is_kept(folder):
    result = run("data", "make", "sinusoids")
    sizes = "900 train, 100 validation, 1,000 test series of 100 steps and 1 channels"
    assert f"made sinusoids: {sizes}, cached in {folder / 'cache'}" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["moon"], "name must be one of billiards, .*, got 'moon'; choose one"),
        (
            ["sinusoids", "--gaps"],
            "--part, --series and --gaps select what is written; add --out FILE",
        ),
        (
            ["sinusoids", "--path", "x"],
            "sinusoids is simulated and needs no path, got x; leave",
        ),
        (
            ["air"],
            r"air must be read from the original files, got no path; get them from https://",
        ),
        (["air", "--path", "absent.zip"], "absent.zip"),
        (["sinusoids", "--out", "s.txt"], "s.txt"),
    ],
)
def test_a_mistake_about_data_is_one_line(words, message):
    assert refused(run("data", "make", *words), message)
