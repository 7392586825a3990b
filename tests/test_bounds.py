"""Soft clipping stays between the bounds, is monotone, and can be inverted."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nrtsi.core.bounds import Bounds
from nrtsi.errors import InputError
from tests.strategies import seeds

every_float = st.floats(allow_nan=False, width=64)
NAMES = ["rain", "heat"]
SPREAD = np.array([5.0, 9.0])


@st.composite
def bounds(draw):
    """One channel with up to two bounds and any softness."""
    ends = st.floats(-1e6, 1e6)
    lower, upper = draw(ends), np.inf
    sides = draw(st.sampled_from(["lower", "upper", "both", "neither"]))
    if sides in ("upper", "neither"):
        lower, upper = -np.inf, lower if sides == "upper" else np.inf
    elif sides == "both":
        upper = lower + draw(st.floats(1e-3, 1e6))
    return Bounds(np.array([lower]), np.array([upper]), np.array([draw(st.floats(1e-3, 1e3))]))


def column(*numbers):
    return np.array(numbers, dtype=np.float64).reshape(-1, 1)


def size(limits):
    """The largest number in the computation, which determines the rounding error."""
    ends = np.concatenate([limits.lower, limits.upper])
    return np.abs(ends[np.isfinite(ends)]).max(initial=0.0) + limits.softness.max()


def textbook(x, limits):
    """The formula with softplus functions, for numbers of moderate size."""
    low, high, s = limits.lower[0], limits.upper[0], limits.softness[0]

    def soft(z):
        return s * np.logaddexp(0.0, z / s)

    if np.isinf(low) and np.isinf(high):
        return x
    if np.isinf(high):
        return low + soft(x - low)
    if np.isinf(low):
        return high - soft(high - x)
    return low + soft(x - low) - soft(x - high)


@given(limits=bounds(), x=st.floats(-1e6, 1e6))
def test_soft_clip_is_a_difference_of_softplus_functions(limits, x):
    tolerance = 1e-12 * (size(limits) + abs(x))
    assert limits.soft_clip(column(x))[0, 0] == pytest.approx(textbook(x, limits), abs=tolerance)


@given(limits=bounds(), x=st.lists(every_float, min_size=1, max_size=20))
def test_soft_clip_of_any_float_is_inside_without_warning(limits, x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clipped = limits.soft_clip(column(*x))
    assert ((clipped >= limits.lower) & (clipped <= limits.upper)).all()  # so none is NaN


@given(limits=bounds(), y=st.lists(every_float, min_size=1, max_size=20))
def test_unclip_of_any_float_is_a_number_without_warning(limits, y):
    y = column(*y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        back = limits.unclip(y)
    assert not np.isnan(back).any()
    assert (back[y <= limits.lower] == -np.inf).all()
    assert (back[y >= limits.upper] == np.inf).all()


@given(limits=bounds(), share=st.floats(0, 1), far=st.floats(0, 1e6))
def test_soft_clip_inverts_unclip(limits, share, far):
    low, high = limits.lower[0], limits.upper[0]
    if np.isfinite(high - low):
        y = low + share * (high - low)
    else:
        y = low + far if np.isfinite(low) else min(high, 1e6) - far
    tolerance = 1e-12 * (size(limits) + abs(y))
    assert limits.soft_clip(limits.unclip(column(y)))[0, 0] == pytest.approx(y, abs=tolerance)


@given(limits=bounds(), steps=st.floats(-15, 15))
def test_unclip_inverts_soft_clip(limits, steps):
    softness = limits.softness[0]
    low, high = limits.lower[0], limits.upper[0]
    x = (low if np.isfinite(low) else min(high, 1e6)) + steps * softness
    clipped = limits.soft_clip(column(x))
    # Near a bound, digits are lost in proportion to the inverse of the slope.
    lost = 1e-15 * (size(limits) + abs(x)) * np.exp(abs(x - np.clip(x, low, high)) / softness)
    thin = 1 / -np.expm1(-(high - low) / softness)
    assume(lost * thin < 1e-3 * softness)
    back = limits.unclip(clipped)[0, 0]
    assert back == pytest.approx(x, abs=20 * lost * thin + 1e-12 * softness)


@given(limits=bounds(), x=st.lists(every_float, min_size=2, max_size=20))
def test_soft_clip_is_monotone(limits, x):
    clipped = limits.soft_clip(column(*sorted(x)))
    with np.errstate(invalid="ignore"):  # inf − inf without bounds
        assert not (np.diff(clipped, axis=0) < -1e-14 * size(limits)).any()


@given(limits=bounds(), seed=seeds, level=st.sampled_from([0.05, 0.25, 0.5, 0.9]))
def test_quantiles_of_clipped_values_are_clipped_quantiles(limits, seed, level):
    rng = np.random.default_rng(seed)
    middle = limits.lower if np.isfinite(limits.lower[0]) else np.minimum(limits.upper, 0.0)
    x = middle + limits.softness * rng.normal(scale=5, size=(41, 1))
    clipped = np.quantile(limits.soft_clip(x), level, axis=0, method="nearest")
    expected = limits.soft_clip(np.quantile(x, level, axis=0, method="nearest"))
    np.testing.assert_allclose(clipped, expected, rtol=0, atol=1e-13 * size(limits))


@given(limits=bounds(), steps=st.floats(10, 1e9))
def test_values_far_from_the_bounds_barely_change(limits, steps):
    low, high, softness = limits.lower[0], limits.upper[0], limits.softness[0]
    x = low + steps * softness if np.isfinite(low) else min(high, 1e6) - steps * softness
    assume(x - low >= 10 * softness and high - x >= 10 * softness)
    rounding = 1e-15 * abs(x)
    assert abs(limits.soft_clip(column(x))[0, 0] - x) < 1e-3 * softness + rounding


def test_values_far_from_the_bounds_keep_every_digit():
    limits = Bounds.of({"rain": (0, None)}, NAMES, SPREAD)
    x = np.array([[12.3456789, -7.7], [1e300, 1e300]])
    assert np.array_equal(limits.soft_clip(x), x)


def test_infinite_values_move_to_their_bounds():
    limits = Bounds.of({"rain": (0, 100)}, NAMES, SPREAD)
    x = np.array([[-np.inf, -np.inf], [np.inf, np.inf]])
    assert limits.soft_clip(x).tolist() == [[0, -np.inf], [100, np.inf]]
    assert limits.unclip(np.array([[0.0, -np.inf], [100.0, np.inf]])).tolist() == x.tolist()


def test_nan_stays_nan():
    limits = Bounds.of({"rain": (0, 100)}, NAMES, SPREAD)
    unknown = np.full((1, 2), np.nan)
    assert np.isnan(limits.soft_clip(unknown)).all()
    assert np.isnan(limits.unclip(unknown)).all()


@pytest.mark.parametrize("close", [1e-9, 1e-30, 1e-300])
def test_unclip_is_exact_close_to_a_bound(close):
    limits = Bounds(np.array([0.0]), np.array([np.inf]), np.array([1.0]))
    expected = np.log(np.expm1(close))
    assert limits.unclip(column(close))[0, 0] == pytest.approx(expected, rel=1e-12)


def test_leading_axes_are_arbitrary():
    limits = Bounds.of({"rain": (0, None)}, NAMES, SPREAD)
    x = np.random.default_rng(0).normal(size=(3, 4, 2))
    assert np.array_equal(limits.soft_clip(x)[1, 2], limits.soft_clip(x[1, 2]))
    assert np.array_equal(limits.soft_clip(x)[..., 1], x[..., 1])


def test_softness_is_a_share_of_the_spread():
    limits = Bounds.of({"rain": (0, None)}, NAMES, SPREAD, share=0.1)
    assert limits.softness.tolist() == pytest.approx([0.5, 0.9])


def test_two_close_bounds_are_less_soft():
    limits = Bounds.of({"rain": (0, 0.2)}, NAMES, SPREAD, share=1.0)
    assert limits.softness.tolist() == pytest.approx([0.01, 9.0])
    assert limits.soft_clip(np.array([[0.1, 0.1]]))[0] == pytest.approx(0.1, abs=1e-5)


@pytest.mark.parametrize("ends", [(0.0, 5e-324), (1.0, np.nextafter(1, 2)), (-1.7e308, 1.7e308)])
def test_extreme_bounds(ends):
    limits = Bounds.of({"rain": ends}, NAMES, SPREAD)
    x = column(-np.inf, -1e308, 0.0, 1.0, 1e308, np.inf).repeat(2, axis=1)
    clipped = limits.soft_clip(x)
    assert ((clipped >= limits.lower) & (clipped <= limits.upper)).all()
    assert (limits.softness > 0).all()


def test_bounds_much_closer_than_the_softness():
    limits = Bounds(np.array([0.0]), np.array([5.5e-8]), np.array([4.7e8]))
    clipped = limits.soft_clip(np.linspace(-1e10, 1e10, 1001)[:, None])
    assert ((clipped >= 0) & (clipped <= 5.5e-8)).all()


@pytest.mark.parametrize("none", [None, {}, {"rain": (None, None)}, {"heat": (-np.inf, None)}])
def test_no_bounded_channel_gives_none(none):
    assert Bounds.of(none, NAMES, SPREAD) is None


def test_observed_cells_beyond_the_bounds_are_counted_by_channel():
    limits = Bounds.of({"rain": (0, 10), "heat": (None, 40)}, NAMES, SPREAD)
    value = np.array([[-1.0, 50.0], [0.0, 41.0], [11.0, -99.0], [-5.0, 40.0]])
    observed = np.array([[True, True], [True, False], [True, True], [False, True]])
    assert limits.count_outside(value, observed).tolist() == [2, 1]


@pytest.mark.parametrize(
    ("given_bounds", "message"),
    [
        ((0, None), r"a mapping from columns to \(lower, upper\), got \(0, None\); write bounds="),
        ({"rian": (0, 1)}, r"imputed, got 'rian'; there are \['rain', 'heat'\]; rename or leave"),
        ({"rain": 0}, r"column 'rain' must be a pair \(lower, upper\), got 0; write \(0, None\)"),
        ({"rain": (0, 1, 2)}, r"must be a pair \(lower, upper\), got \(0, 1, 2\)"),
        ({"rain": "01"}, r"must be a pair \(lower, upper\), got '01'"),
        ({"rain": (2, 1)}, r"in order, the lower below the upper, got 2 and 1; exchange or widen"),
        ({"rain": (1, 1)}, r"in order, the lower below the upper, got 1 and 1"),
        ({"rain": (np.inf, None)}, r"the lower below the upper, got inf and inf"),
        ({"rain": ("0", None)}, r"must be numbers or None, got '0'; write None for no bound"),
        ({"rain": (True, None)}, r"must be numbers or None, got True"),
        ({"rain": (0, np.nan)}, r"must be numbers or None, got nan"),
    ],
)
def test_invalid_bounds_are_rejected(given_bounds, message):
    with pytest.raises(InputError, match=message):
        Bounds.of(given_bounds, NAMES, SPREAD)


def test_values_on_a_bound_stay_there():
    limits = Bounds.of({"rain": (0, 10)}, NAMES, SPREAD)
    x = np.array([[0.0, 1.0], [10.0, 1.0], [-1.0, 1.0], [4.0, 1.0]])
    clipped = limits.clip(x)
    assert clipped[:2, 0].tolist() == [0.0, 10.0]
    np.testing.assert_array_equal(clipped[2:], limits.soft_clip(x[2:]))


def test_cells_have_the_bounds_of_their_channels():
    limits = Bounds.of({"rain": (0, 10)}, NAMES, SPREAD)
    x, channel = np.array([-3.0, -3.0, 12.0]), np.array([0, 1, 0])
    whole = limits.soft_clip(np.stack([x, x], axis=1))
    np.testing.assert_array_equal(limits.take(channel).soft_clip(x), whole[np.arange(3), channel])
