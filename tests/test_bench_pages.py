"""Pages of results: tables beside the paper's figures, and whether the pages are up to date."""

import shutil
from pathlib import Path

import pytest

from nrtsi.bench.pages import outdated_pages, write_pages
from nrtsi.bench.results import Row
from nrtsi.bench.table_page import TablePage, summary
from nrtsi.bench.tables import Table, open_table
from nrtsi.config import validated
from nrtsi.errors import InputError

GOLDEN = Path(__file__).parent / "data" / "table.md"

TABLE = validated(
    Table,
    {
        "name": "small",
        "title": "Small",
        "about": "Two settings.",
        "data": "billiards",
        "training": {"rows": [5, 5]},
        "settings": [
            {"name": "easy", "masks": {"rows": [5, 5]}},
            {"name": "hard", "masks": {"rows": [9, 9]}},
        ],
        "metrics": ["l2", "sinuosity"],
        "scale": {"l2": 1e-2},
        "methods": ["expert", "linear", "nrtsi", "brits", "saits", "csdi"],
        "paper": [
            {"method": "linear", "values": {"l2": [19.0, float("nan")]}},
            {"method": "NAOMI", "values": {"l2": [0.067, 1.5]}},
            {"method": "saits", "source": "SAITS paper", "values": {"l2": [0.5, 0.6]}},
        ],
    },
)


def row(setting, method, metric, value, seed=0, **more):
    cost = {"train_s": "", "impute_s": "0.25", "peak_mib": "3", "parameters": "", "revision": "r"}
    return Row("small", setting, method, seed, metric, value,
               versions="nrtsi 1; budget 60 s", **cost | more)  # fmt: skip


ROWS = [
    row("easy", "expert", "l2", "0"),
    row("easy", "expert", "sinuosity", "1.00012"),
    row("easy", "linear", "l2", "0.2207"),
    row("easy", "linear", "l2_se", "0.0021"),
    row("easy", "linear", "series", "2000"),
    row("hard", "linear", "l2", "0.5"),
    row("hard", "linear", "sinuosity", "nan"),
    *[row("easy", "nrtsi", "l2", v, seed=s, train_s="60", parameters="1000")
      for s, v in enumerate(("0.01", "0.02"))],
    row("hard", "nrtsi", "l2", "0.6", impute_s="12.5"),
    row("easy", "nrtsi", "series", "2000"),
    row("easy", "csdi", "l2", "0.001"),
    row("easy", "csdi", "series", "16"),
    row("easy", "brits", "error", "out of memory"),
    row("hard", "saits", "l2", "0.55"),
    Row("other", "easy", "linear", 0, "l2", "9", "", "", "", "", "", ""),
]  # fmt: skip


def test_the_page_is_the_one_that_was_looked_at():
    assert TablePage(TABLE, ROWS).markdown() == GOLDEN.read_text("utf-8")


def test_a_table_without_results_says_so():
    assert "No results yet." in TablePage(open_table("air"), []).markdown()


def test_long_trainings_are_not_compared_with_those_of_the_common_budget():
    words = {
        f"{kind}-{time}": {"kind": kind, "budget": time}
        for kind, time in (("nrtsi", "30m"), ("saits", "30m"), ("nrtsi", "2h"))
    }
    methods = ["linear", "nrtsi", "saits", *words]
    table = TABLE.model_copy(update={"methods": methods, "method": words})
    figures = {"linear": 9.0, "nrtsi": 5.0, "saits": 4.0}
    figures |= {"nrtsi-30m": 2.0, "saits-30m": 3.0, "nrtsi-2h": 1.0}
    seconds = {"nrtsi-30m": "1800", "nrtsi-2h": "7200"}
    rows = [
        row("easy", name, "l2", str(figure / 100), train_s=seconds.get(name, "60"))
        for name, figure in figures.items()
    ]
    rows[0] = Row(**rows[0].__dict__ | {"versions": "nrtsi 1"})  # it needs no time

    def cells(rows):
        (line,) = [
            line for line in summary([TablePage(table, rows)]).splitlines() if "easy" in line
        ]
        return [cell.strip() for cell in line.split("|")][2:6]

    assert cells(rows) == cells(rows[:3]) == ["5.00", "9.00", "saits 4.00", "–"]


ROOT = Path(__file__).parents[1]


def test_the_pages_show_the_results():
    assert outdated_pages(ROOT) == {}


def copy_of_the_pages(folder):
    for name in ("benchmarks/introductions", "benchmarks/results"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "docs").mkdir()
    for name in ("README.md", "docs/trust.md"):
        shutil.copy(ROOT / name, folder / name)


def test_an_outdated_page_is_found_and_written(tmp_path):
    copy_of_the_pages(tmp_path)
    path = tmp_path / "docs" / "trust.md"
    right = path.read_text("utf-8")
    path.write_text(right.replace("| rain, seed 0 |", "| rain, seed 9 |"), "utf-8")
    assert path in outdated_pages(tmp_path)
    assert path in write_pages(tmp_path)
    assert path.read_text("utf-8") == right
    assert outdated_pages(tmp_path) == {}


def test_a_page_without_its_section_and_another_folder_are_refused(tmp_path):
    with pytest.raises(InputError, match="must be a clone of the repository, got another folder"):
        outdated_pages(tmp_path)
    copy_of_the_pages(tmp_path)
    (tmp_path / "README.md").write_text("# nrtsi\n", "utf-8")
    with pytest.raises(
        InputError, match=r"README.md must have one section from <!-- nrtsi bench page"
    ):
        outdated_pages(tmp_path)
