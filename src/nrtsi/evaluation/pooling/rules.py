"""Rubin's rules for estimates from several imputations of the same data."""

import numpy as np

__all__ = ["combined"]


def combined(
    draws: int,
    estimate: np.ndarray,
    within: np.ndarray,
    between: np.ndarray,
    level: float,
    complete_df: float | None,
) -> dict[str, np.ndarray]:
    """The numbers of a `Pooled` by its fields (Rubin 1987, chapter 3)."""
    # Imported here, not above: it takes half a second, which is long for `import nrtsi`.
    from scipy.special import stdtrit

    missing = (1 + 1 / draws) * between
    total = within + missing
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total == 0, 0.0, missing / total)
        df = _degrees(draws, share, complete_df)
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


def _degrees(draws: int, share: np.ndarray, complete_df: float | None) -> np.ndarray:
    """Degrees of freedom; never more than those of complete data (Barnard and Rubin 1999).

    `share` is that of the total variance which is due to the missing values.
    """
    if complete_df is None:
        return (draws - 1) / share**2
    observed = (complete_df + 1) / (complete_df + 3) * complete_df * (1 - share)
    return (draws - 1) / (share**2 + (draws - 1) / observed)
