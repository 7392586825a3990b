"""How well each method finds cells again that it never saw, and which to use where."""

from nrtsi.backtest.choice import Choice
from nrtsi.backtest.result import Backtest, ChannelScore, Score
from nrtsi.backtest.trial import FAILURES, OUR_FAILURES, Trial, check_baselines

__all__ = [
    "FAILURES",
    "OUR_FAILURES",
    "Backtest",
    "ChannelScore",
    "Choice",
    "Score",
    "Trial",
    "check_baselines",
]
