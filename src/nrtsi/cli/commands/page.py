"""The page that `nrtsi report`, and `nrtsi impute --report`, writes."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nrtsi.cli.messages import absent_rows

if TYPE_CHECKING:
    from nrtsi.core.events import Listener
    from nrtsi.imputer.nrtsi import NRTSI
    from nrtsi.imputer.options import ImputeOptions
    from nrtsi.imputer.result import ImputationResult
    from nrtsi.tables import Panel

__all__ = ["Page"]


class Page:
    """A page still to be written.

    Args:
        path: The file to write.
        data: The file that it speaks of.
        overwrite: Replace an existing one.

    Raises:
        InputError: It cannot, or should not, be written there.
    """

    def __init__(self, path: Path, data: Path, *, overwrite: bool) -> None:
        from nrtsi.report import check_report

        check_report(path, overwrite=overwrite)
        self.path = path
        self.data = data
        self.overwrite = overwrite

    def write(
        self,
        model: "NRTSI",
        result: "ImputationResult | None",
        panel: "Panel",
        options: "ImputeOptions",
        listener: "Listener | None",
    ) -> None:
        """Back-tests the fitted model and the baselines on `panel`, and reports on the result."""
        from nrtsi.imputer.options import ImputeTask
        from nrtsi.imputer.selection import backtest_panel
        from nrtsi.report import write_report
        from nrtsi.report.build import report_of

        trial = backtest_panel(model, panel, listener=listener)
        result = result or model.run(ImputeTask.of(panel, options), listener, intervals=True)
        report = report_of(
            panel,
            result,
            trial,
            options,
            source=self.data.name,
            command=shlex.join(["nrtsi", *sys.argv[1:]]),
            settings=model.info(),
            remarks=[remark] if (remark := absent_rows(panel)) is not None else [],
        )
        write_report(self.path, report, overwrite=self.overwrite)
