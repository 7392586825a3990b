"""`pool`: combines a statistic of several draws by Rubin's rules."""

from collections.abc import Callable
from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from nrtsi.config import validated
from nrtsi.errors import InputError
from nrtsi.evaluation.draws import StatisticValues, each_draw

__all__ = ["Pooled", "pool"]

SHOWN = 12  # estimates that `repr` shows


@dataclass(frozen=True, repr=False)
class Pooled:
    """A statistic combined over draws by Rubin's rules.

    Except for `level` and `draws`, each field has the type that the statistic returns: a number,
    an array, a Series or a dict. An entry that is NaN in one draw is NaN here.
    """

    estimate: Any  # mean of the statistic over the draws
    standard_error: Any  # square root of `within + (1 + 1/draws) * between`
    lower: Any  # lower end of the interval
    upper: Any  # upper end of the interval
    df: Any  # degrees of freedom of the t distribution of the interval
    within: Any  # mean sampling variance within a draw; 0 if the statistic returns no variance
    between: Any  # variance of the statistic between draws
    missing_information: Any  # Rubin's γ; 1 without sampling variances, 0 if all draws are equal
    level: float  # probability that the interval contains the true value
    draws: int  # number of draws

    def __repr__(self) -> str:
        found = [StatisticValues.of(each) for each in (self.estimate, self.lower, self.upper)]
        shown = [
            _rounded(*ends)
            for ends in zip(*(each.values.ravel().tolist() for each in found), strict=True)
        ]
        level = f"{100 * self.level:g} %"
        if found[0].kind == "number":
            estimate, lower, upper = shown[0]
            return f"{estimate} ({level}: {lower} to {upper}) from {self.draws} draws"
        lines = [f"{len(shown)} estimates ({level} intervals) from {self.draws} draws"]
        for name, (estimate, lower, upper) in zip(found[0].names(SHOWN), shown, strict=False):
            lines.append(f"  {name}: {estimate} ({lower} to {upper})")
        more = [f"  and {len(shown) - SHOWN} more"] if len(shown) > SHOWN else []
        return "\n".join([*lines, *more])


class _Settings(BaseModel):
    model_config = ConfigDict(strict=True)

    level: Annotated[float, Field(gt=0, lt=1)]
    complete_df: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None


def pool(
    statistic: Callable[[Any], Any],
    draws: Any,
    *,
    level: float = 0.9,
    complete_df: float | None = None,
) -> Pooled:
    """Combines a statistic of each draw into one estimate with an interval, by Rubin's rules.

    A statistic that is NaN in one draw is NaN in the result, because leaving out that draw would
    bias the estimate.

    Args:
        statistic: A function of one draw. It returns a number, an array, a Series or a mapping of
            numbers; the interval is then that of the statistic of the complete data. Or it
            returns a pair (estimate, variance) of these, with the sampling variance of the
            estimate; the interval is then that of the estimated quantity.
        draws: The result of `sample`, or an iterable of tables or arrays, one for each draw.
        level: Probability that the interval contains the true value.
        complete_df: Degrees of freedom of the statistic in complete data, for small samples
            (Barnard and Rubin 1999); only with sampling variances.

    Raises:
        InputError: There are fewer than two draws, or the statistics cannot be combined.

    >>> draws = np.array([[[1.0], [4.0]], [[1.0], [6.0]], [[1.0], [5.0]]])
    >>> pool(np.mean, draws)
    3.0 (90 %: 1.3 to 4.7) from 3 draws
    """
    if not callable(statistic):
        raise InputError(
            f"statistic must be a function of one draw, got {type(statistic).__name__}; "
            f"write pool(lambda table: ..., draws)"
        )
    validated(_Settings, {"level": level, "complete_df": complete_df})
    first: StatisticValues | None = None
    estimates: list[np.ndarray] = []
    variances: list[np.ndarray] = []
    for draw in each_draw(draws):
        result = statistic(draw)
        paired = type(result) is tuple and len(result) == 2  # a named tuple is not a pair
        estimate, variance = result if paired else (result, None)
        found = StatisticValues.of(estimate, first)
        first = found if first is None else first
        if not found.matches(first):
            raise InputError(
                f"statistic must return the same entries for every draw, got {first} from the "
                f"first draw and {found} from draw {len(estimates) + 1}; add or sort entries"
            )
        estimates.append(found.values)
        if paired:
            spread = StatisticValues.of(variance, first)
            _check_variance(spread, first)
            variances.append(spread.values)
        if len(variances) not in (0, len(estimates)):
            raise InputError(
                "statistic must return a pair (estimate, variance) for every draw or for none, "
                "got both; always return the variance"
            )
    if first is None or len(estimates) < 2:
        raise InputError(
            f"draws must be at least 2 to measure their variance, got {len(estimates)}; "
            f"draw more, as in sample(table, draws=20)"
        )
    if complete_df is not None and not variances:
        raise InputError(
            "complete_df must come with sampling variances, got none; return a pair "
            "(estimate, variance) from the statistic, or omit complete_df"
        )
    with np.errstate(invalid="ignore"):  # an infinite statistic has no variance
        # Relative to the first draw, equal draws have a variance of exactly 0.
        shifted = np.stack(estimates) - estimates[0]
        mean, between = estimates[0] + shifted.mean(axis=0), shifted.var(axis=0, ddof=1)
    within = np.mean(variances, axis=0) if variances else np.zeros_like(mean)
    numbers = _rubin(len(estimates), mean, within, between, level, complete_df)
    fields = {name: first.like(values) for name, values in numbers.items()}
    return Pooled(**fields, level=float(level), draws=len(estimates))


def _check_variance(variance: StatisticValues, first: StatisticValues) -> None:
    if not variance.matches(first):
        problem, found = f"have the form of the estimate, {first}", str(variance)
    elif (variance.values < 0).any():
        problem, found = "not be negative", f"{np.nanmin(variance.values):g}"
    else:
        return
    raise InputError(
        f"the variance of a pair (estimate, variance) must {problem}, got {found}; "
        f"return an array or a dict for several estimates"
    )


def _rubin(
    draws: int,
    estimate: np.ndarray,
    within: np.ndarray,
    between: np.ndarray,
    level: float,
    complete_df: float | None,
) -> dict[str, np.ndarray]:
    """The fields of a `Pooled` (Rubin 1987, chapter 3; Barnard and Rubin 1999)."""
    from scipy.special import stdtrit  # takes half a second to import

    added = (1 + 1 / draws) * between
    total = within + added
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total == 0, 0.0, added / total)
        if complete_df is None:
            df = (draws - 1) / share**2
        else:
            observed = (complete_df + 1) / (complete_df + 3) * complete_df * (1 - share)
            df = (draws - 1) / (share**2 + (draws - 1) / observed)
    quantile = np.where(df == 0, np.inf, stdtrit(df, 0.5 + level / 2))
    error = np.sqrt(total)
    return {
        "estimate": estimate,
        "standard_error": error,
        "lower": estimate - quantile * error,
        "upper": estimate + quantile * error,
        "df": df,
        "within": within,
        "between": between,
        "missing_information": share + (1 - share) * 2 / (df + 3),
    }


def _rounded(estimate: float, lower: float, upper: float) -> tuple[str, ...]:
    """The estimate and its interval, with two significant digits of the interval's half width.

    >>> _rounded(12.345, 11.02, 13.67)
    ('12.3', '11.0', '13.7')
    """
    half = (upper - lower) / 2
    if not (isfinite(half) and 1e-9 < half < 1e15):
        return tuple(f"{each:.6g}" for each in (estimate, lower, upper))
    digits = max(0, 1 - floor(log10(half)))
    # Adding 0 turns −0.0 into 0.0.
    return tuple(f"{round(each, digits) + 0.0:.{digits}f}" for each in (estimate, lower, upper))
