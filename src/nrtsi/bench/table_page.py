"""A table of results in Markdown, with the figures of the paper beside ours."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from nrtsi.bench.markdown import NONE, bold, grid, number
from nrtsi.bench.results import Row
from nrtsi.bench.tables import EXPERT, PaperRow, Setting, Table

__all__ = ["LABELS", "TablePage", "summary"]

LABELS = {
    "l2": "L2 (squared error summed over channels)",
    "mse": "MSE",
    "mae": "MAE",
    "crps": "CRPS",
    "min_l2": "minMSE (best draw of each series, summed over channels)",
    "avg_over_min": "avgMSE / minMSE",
    "sinuosity": "sinuosity",
    "step_change": "step change",
    "step_deviation": "step deviation",
    "average_length": "average length",
    "reflection": "reflection to wall",
}

ERRORS = ("l2", "mse", "mae", "crps", "min_l2")
"""Metrics of which less is better; of the others the expert's value is best."""

DIGITS = {"sinuosity": 4}
"""Significant digits, if they are not three."""


@dataclass(frozen=True)
class TablePage:
    """A table and its rows, which may be among those of other tables."""

    table: Table
    rows: Sequence[Row]

    def __post_init__(self) -> None:
        own = [row for row in self.rows if row.table == self.table.name]
        object.__setattr__(self, "rows", own)

    def markdown(self) -> str:
        """The whole page: a grid for each metric, remarks and costs."""
        parts = [f"## {self.table.title}", self.table.about]
        if not self.rows:
            return "\n\n".join([*parts, "No results yet."]) + "\n"
        parts += [self._metric(metric) for metric in self.table.metrics]
        parts += [self._remarks(), self._costs()]
        return "\n\n".join(filter(None, parts)) + "\n"

    def summary_line(self, index: int) -> list[str] | None:
        """One setting in the summary; None if nrtsi or all other methods were not measured."""
        metric, setting = self.table.metrics[0], self.table.settings[index]
        scores, scale = self._scores(setting, metric), self._scale(metric)
        others = {name: s for name, s in scores.items() if not name.startswith("nrtsi")}
        if "nrtsi" not in scores or not others:
            return None
        best = min(others, key=lambda name: others[name])
        paper = next((row for row in self.table.paper if row.method == "nrtsi"), None)
        return [
            f"{self.table.title}, {setting.name}{_unit(scale)}",
            bold(number(scores["nrtsi"] / scale), scores["nrtsi"] <= others[best]),
            number(scores["linear"] / scale) if "linear" in scores else NONE,
            f"{best} {number(others[best] / scale)}",
            _paper_cell(paper, metric, index),
        ]

    @property
    def efforts(self) -> set[str]:
        """The budgets of the trained methods."""
        return {row.effort for row in self.rows} - {""}

    def _scale(self, metric: str) -> float:
        return self.table.scale.get(metric, 1.0)

    def _scores(self, setting: Setting, metric: str) -> dict[str, float]:
        """The mean figure of every comparable method.

        Not comparable are the expert, methods with their own budget and methods that were scored
        on some of the test series only.
        """
        excluded = {EXPERT, *self._partly_scored()}
        return {
            method: fmean(figures)
            for method in self.table.default_methods
            if method not in excluded and (figures := self._figures(setting, method, metric))
        }

    def _partly_scored(self) -> list[str]:
        """Methods that were scored on some of the test series only."""
        counts = [row for row in self.rows if row.metric == "series"]
        full: dict[str, float] = {}
        for row in counts:
            full[row.setting] = max(row.number, full.get(row.setting, 0.0))
        few = {row.method for row in counts if row.number < full[row.setting]}
        return [method for method in self.table.methods if method in few]

    def _metric(self, metric: str) -> str:
        """The grid of one metric: a row a method and one for its figures in the paper."""
        table, scale = self.table, self._scale(metric)
        paper = {row.method: row for row in table.paper if metric in row.values}
        best = [self._best(setting, metric) for setting in table.settings]
        lines: list[list[str]] = []
        for method in dict.fromkeys([*table.methods, *paper]):
            row = paper.get(method)
            source = "paper" if row is None or row.source == "NRTSI" else row.source
            own = [
                bold(self._cell(setting, method, metric), method == first)
                for setting, first in zip(table.settings, best, strict=True)
            ]
            printed = [_paper_cell(row, metric, i) for i in range(len(table.settings))]
            lines += [[method, *own], [f"{method}, {source}", *printed]]
        header = ["method", *(setting.name for setting in table.settings)]
        measured = [line for line in lines if any(cell != NONE for cell in line[1:])]
        return f"### {LABELS[metric]}{_unit(scale)}\n\n{grid(header, measured)}"

    def _best(self, setting: Setting, metric: str) -> str | None:
        """The method with the lowest error; None for metrics that are not errors."""
        scores = self._scores(setting, metric) if metric in ERRORS else {}
        return min(scores, key=lambda name: scores[name]) if len(scores) > 1 else None

    def _figures(self, setting: Setting, method: str, metric: str) -> list[float]:
        """The figures of all seeds."""
        key = (setting.name, method, metric)
        found = [row.number for row in self.rows if (row.setting, row.method, row.metric) == key]
        return [figure for figure in found if not math.isnan(figure)]

    def _cell(self, setting: Setting, method: str, metric: str) -> str:
        """The mean and standard deviation over seeds; of one seed the figure ± standard error."""
        figures, scale = self._figures(setting, method, metric), self._scale(metric)
        if not figures:
            failures = {(row.setting, row.method) for row in self.rows if row.failed}
            return "failed" if (setting.name, method) in failures else NONE
        mean = number(fmean(figures) / scale, DIGITS.get(metric, 3))
        if len(figures) > 1:
            return f"{mean} ± {number(stdev(figures) / scale, 2)}"
        error = self._figures(setting, method, f"{metric}_se")
        return f"{mean} ± {number(error[0] / scale, 2)}" if error and error[0] > 0 else mean

    def _remarks(self) -> str:
        """What a reader must know before comparing figures."""
        rows, table = self.rows, self.table
        lines = ["- **A quick run: its figures mean nothing.**"] if "quick" in self.efforts else []
        lines += [f"- {r.method} failed in {r.setting}: {r.value}" for r in rows if r.failed]
        for method in self._partly_scored():
            series = max(int(r.number) for r in rows if (r.method, r.metric) == (method, "series"))
            lines.append(
                f"- {method} was scored on {series:,} test series only and is not compared."
            )
        measured, settings = {row.method for row in rows}, {row.setting for row in rows}
        absent = [method for method in table.methods if method not in measured]
        if absent:
            lines.append(f"- Not measured: {', '.join(absent)}.")
        lines += [f"- No results in: {s.name}." for s in table.settings if s.name not in settings]
        return "\n".join(["Remarks:", "", *lines]) if lines else ""

    def _costs(self) -> str:
        """The cost of each method, over all settings."""
        lines = []
        for method in self.table.methods:
            own = [row for row in self.rows if row.method == method and not row.failed]
            if own and method != EXPERT:
                columns = (
                    ([row.train_s for row in own], 0),
                    ([row.impute_s for row in own], 1),
                    ([row.value for row in own if row.metric == "series"], 0),
                    ([row.peak_mib for row in own], 0),
                    ([row.parameters for row in own], 0),
                )
                efforts = ", ".join(dict.fromkeys(row.effort for row in own)) or NONE
                lines.append([method, *(_range(*column) for column in columns), efforts])
        header = ["method", "train s", "impute s", "series", "peak MiB", "parameters", "effort"]
        return f"### Cost\n\n{grid(header, lines)}" if lines else ""


def summary(pages: Sequence[TablePage]) -> str:
    """Up to three settings of every table: nrtsi, linear, the best other method, the paper."""
    lines: list[list[str]] = []
    efforts = set[str]()
    for page in pages:
        table = page.table
        found = [
            line
            for index in sorted({0, len(table.settings) // 2, len(table.settings) - 1})
            if table.summarised and (line := page.summary_line(index))
        ]
        lines += found
        if found:
            default = [row for row in page.rows if row.method in table.default_methods]
            efforts |= TablePage(table, default).efforts
    header = ["squared error", "nrtsi", "linear", "best other", "paper's NRTSI"]
    return f"{grid(header, lines)}\n\nEffort: {', '.join(sorted(efforts))} for each method.\n"


def _paper_cell(row: PaperRow | None, metric: str, index: int) -> str:
    if row is None or metric not in row.values or math.isnan(row.values[metric][index]):
        return NONE
    return f"{row.values[metric][index]:g}"


def _range(values: Sequence[str], digits: int) -> str:
    """The minimum and the maximum of some numbers."""
    numbers = [float(value) for value in values if value]
    if not numbers:
        return NONE
    return "–".join(dict.fromkeys(f"{x:,.{digits}f}" for x in (min(numbers), max(numbers))))


def _unit(scale: float) -> str:
    """The power of ten that printed figures are multiples of.

    >>> _unit(1e-3), _unit(1.0)
    (', ×10⁻³', '')
    """
    power = round(math.log10(scale))
    raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f", ×10{raised}" if power else ""
