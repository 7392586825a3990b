"""Writes the pages that show results, from files of results and introductions only.

`docs/benchmarks.md` has a summary, every table with results, single tables and error against
budget; `docs/speed.md` the experiment of speed. README and `docs/trust.md` have a section between
two comments.
"""

import re
from pathlib import Path

from nrtsi.bench.experiments import open_experiment
from nrtsi.bench.results import read
from nrtsi.bench.table_page import TablePage, summary
from nrtsi.bench.tables import open_table, table_names
from nrtsi.errors import InputError

__all__ = ["outdated_pages", "pages", "write_pages"]

SECTION = re.compile(r"(<!-- [^\n]*nrtsi bench page[^\n]* -->\n).*?(<!-- end -->\n)", re.DOTALL)


def pages(root: Path) -> dict[Path, str]:
    """The pages of a clone and what they should contain."""
    introductions, results = root / "benchmarks" / "introductions", root / "benchmarks" / "results"
    if not introductions.is_dir():
        raise InputError(f"{root} must be a clone of the repository, got another folder; go there")

    def introduction(name: str) -> str:
        return (introductions / f"{name}.md").read_text("utf-8")

    def experiment(name: str) -> str:
        found = open_experiment(name)
        return found.markdown(results / f"{name}{found.suffix}")

    tables = [TablePage(open_table(name), read(results / f"{name}.csv")) for name in table_names()]
    measured = [page for page in tables if page.rows]
    benchmarks = [introduction("benchmarks"), "## Summary\n", summary(measured)]
    benchmarks += [page.markdown() for page in measured]
    for name in ("single", "budgets"):
        if text := experiment(name):
            benchmarks += [introduction(name), text]
    readme, trust = root / "README.md", root / "docs" / "trust.md"
    return {
        root / "docs" / "benchmarks.md": "\n".join(benchmarks),
        root / "docs" / "speed.md": f"{introduction('speed')}\n{experiment('speed')}",
        readme: _with_section(readme, experiment("single")),
        trust: _with_section(trust, experiment("trust")),
    }


def outdated_pages(root: Path) -> dict[Path, str]:
    """The pages that differ from the results, with what they should contain."""
    return {
        path: text
        for path, text in pages(root).items()
        if not path.exists() or path.read_text("utf-8") != text
    }


def write_pages(root: Path) -> dict[Path, str]:
    """Writes the pages that are outdated, and returns them."""
    outdated = outdated_pages(root)
    for path, text in outdated.items():
        path.write_text(text, encoding="utf-8")
    return outdated


def _with_section(path: Path, text: str) -> str:
    """The page with a new section between its two comments."""
    page = path.read_text("utf-8")
    if len(SECTION.findall(page)) != 1:
        raise InputError(
            f"{path} must have one section from <!-- nrtsi bench page --> to <!-- end -->"
        )
    return SECTION.sub(lambda found: f"{found[1]}{text}{found[2]}", page)
