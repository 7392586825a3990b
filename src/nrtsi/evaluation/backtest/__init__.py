"""How well each method finds cells again that it never saw, and which to use where."""

from nrtsi.evaluation.backtest.held_out import FAILURES, OUR_FAILURES, BacktestRun, check_baselines
from nrtsi.evaluation.backtest.method_selection import MethodSelection
from nrtsi.evaluation.backtest.result import Backtest, ChannelScore, Score

__all__ = [
    "FAILURES",
    "OUR_FAILURES",
    "Backtest",
    "ChannelScore",
    "MethodSelection",
    "Score",
    "BacktestRun",
    "check_baselines",
]
