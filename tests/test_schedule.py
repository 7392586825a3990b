"""Properties of the plan that hold for any times and any pattern of missing cells."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nrtsi.config import ScheduleConfig, schedule_for
from nrtsi.core.series import SeriesSet
from nrtsi.errors import InputError
from nrtsi.schedule.distances import TIME_TOLERANCE, distances, level_of
from nrtsi.schedule.plan import plan
from tests.strategies import seeds, some_series

configs = st.builds(
    ScheduleConfig,
    max_level=st.sampled_from([2, 3, 5, 60]),
    order=st.sampled_from(["widest", "local", "midpoints", "smallest", "all"]),
    neighbourhood=st.sampled_from([2, 16]),
    band=st.sampled_from([0.0, 1.0, 3.5]),
    one_by_one_above=st.sampled_from([None, 1.0, 4.0]),
    one_by_one_in=st.sampled_from(["series", "gap"]),
    together=st.sampled_from([None, 0.0, 4.0]),
)


def plain_plan(time, missing, dims, config):
    """The plan of one series by plain loops."""
    missing = missing.copy()
    while missing.any():
        left = np.flatnonzero(missing).tolist()
        most = missing.max()
        chosen = left if config.order == "all" else [i for i in left if missing[i] == most]
        sources = [i for i, m in enumerate(missing) if m < dims and i not in chosen]
        distance = {
            i: min((abs(time[i] - time[j]) for j in sources), default=np.inf) for i in chosen
        }
        if config.together is not None:
            far = most == dims and config.order != "all"
            chosen = [i for i in chosen if far and distance[i] > config.together + TIME_TOLERANCE]
            if not chosen:
                yield left, [0] * len(left)
                return
        if config.order != "all" and most == dims:
            near = {i: sum(j < i for j in sources) // config.neighbourhood for i in chosen}
            chosen = plain_take(chosen, distance, near, config)
        missing[chosen] = 0
        yield chosen, [plain_level(distance[i], config) for i in chosen]


def plain_take(chosen, distance, near, config):
    nearest = min(distance[i] for i in chosen)
    if config.order == "smallest":
        level = plain_level(nearest, config)
        same = [i for i in chosen if plain_level(distance[i], config) == level]
        return [i for i in same if distance[i] <= nearest + config.band + TIME_TOLERANCE]
    gap = {i: number for number, run in enumerate(runs(chosen)) for i in run}
    beside = {
        "widest": lambda i, j: True,
        "local": lambda i, j: abs(near[i] - near[j]) <= 1,
        "midpoints": lambda i, j: gap[i] == gap[j],
    }[config.order]
    within = [j for j in chosen if distance[j] <= config.reach + TIME_TOLERANCE]
    taken, alone = [], set()
    for i in chosen:
        best = max((distance[j] for j in within if beside(i, j)), default=-np.inf)
        best = best if within else nearest
        if config.one_by_one_above is not None and best > config.one_by_one_above:
            part = 0 if config.one_by_one_in == "series" else gap[i]
            if best - TIME_TOLERANCE <= distance[i] <= best + TIME_TOLERANCE and part not in alone:
                alone.add(part)
                taken.append(i)
            continue
        near_enough = distance[i] > best - config.band or distance[i] >= best - TIME_TOLERANCE
        same_level = plain_level(distance[i], config) == plain_level(best, config)
        if near_enough and same_level and distance[i] <= best + TIME_TOLERANCE:
            taken.append(i)
    return taken


def plain_level(distance, config):
    return next(
        (k for k in range(config.max_level) if distance - TIME_TOLERANCE <= 2.0**k),
        config.max_level,
    )


def runs(rows):
    """Rows that follow each other without a break."""
    parts = []
    for row in rows:
        if parts and parts[-1][-1] == row - 1:
            parts[-1].append(row)
        else:
            parts.append([row])
    return parts


@given(seeds, configs)
def test_every_missing_row_is_imputed_exactly_once(seed, config):
    series = some_series(seed)
    done = [row for step in plan(series, config) for row in step.rows]
    assert sorted(done) == np.flatnonzero(~series.observed.all(axis=1)).tolist()


@given(seeds, configs)
def test_planning_many_series_equals_planning_each(seed, config):
    series = some_series(seed)
    together = {i: [] for i in range(series.series)}
    for step in plan(series, config):
        owner = series.owner[step.rows]
        for i in np.unique(owner):
            here = owner == i
            rows = (step.rows[here] - series.start[i]).tolist()
            together[i].append((rows, step.level[here].tolist()))
    for i in range(series.series):
        alone = plan(series.select(np.array([i])), config)
        assert together[i] == [(s.rows.tolist(), s.level.tolist()) for s in alone]


@given(seeds, configs)
def test_the_plan_equals_plain_loops(seed, config):
    series = some_series(seed)
    for i in range(series.series):
        alone = series.select(np.array([i]))
        expected = list(plain_plan(alone.time, (~alone.observed).sum(axis=1), alone.dims, config))
        got = [(s.rows.tolist(), s.level.tolist()) for s in plan(alone, config)]
        assert got == expected


@given(seeds)
def test_midpoints_take_log2_of_the_longest_gap_steps(seed):
    rng = np.random.default_rng(seed)
    missing = rng.random(rng.integers(3, 200)) < rng.random()
    missing[[0, -1]] = False
    value = np.where(missing, np.nan, 0.0)[None, :, None]
    gaps = [len(run) for run in "".join("x" if m else " " for m in missing).split()]
    config = ScheduleConfig(order="midpoints", max_level=60)
    steps = list(plan(SeriesSet.stack(value), config))
    assert len(steps) == max([int(np.log2(gap + 1)) for gap in gaps], default=0)


@given(seeds)
def test_with_at_most_two_neighbourhoods_the_local_order_is_the_paper_s(seed):
    series = some_series(seed, whole=True)
    config = ScheduleConfig(order="local", neighbourhood=series.rows // 2 + 1)
    widest, local = (
        [step.rows.tolist() for step in plan(series, each)] for each in (ScheduleConfig(), config)
    )
    assert local == widest


def test_local_orders_take_fewer_steps_than_the_widest_first():
    value = np.zeros((1, 2000, 1))
    for gap in range(40):
        value[0, 50 * gap + 5 : 50 * gap + 6 + gap % 30] = np.nan
    passes = {
        order: sum(1 for _ in plan(SeriesSet.stack(value), ScheduleConfig(order=order)))
        for order in ("widest", "local", "midpoints")
    }
    assert passes["midpoints"] <= passes["local"] < passes["widest"] / 2


@given(seeds)
def test_a_step_of_midpoints_takes_the_middle_of_every_gap(seed):
    series = some_series(seed, regular=True, whole=True, some_data=True)
    known = series.observed[:, 0].copy()
    for step in plan(series, ScheduleConfig(order="midpoints", max_level=60)):
        left = np.flatnonzero(~known)
        gap = np.cumsum(known)
        assert set(gap[left]) == set(gap[step.rows])
        distance = distances(series.time, known, series.start, left)
        for each in np.unique(gap[left]):
            widest = distance[gap[left] == each].max()
            assert (step.distance[gap[step.rows] == each] == widest).all()
        known[step.rows] = True


@given(seeds, st.integers(0, 5))
def test_on_a_regular_grid_with_data_levels_never_rise(seed, max_level):
    series = some_series(seed, regular=True, whole=True, some_data=True)
    levels = {i: [] for i in range(series.series)}
    for step in plan(series, ScheduleConfig(max_level=max_level)):
        for row, level in zip(step.rows, step.level, strict=True):
            levels[series.owner[row]].append(level)
    assert all(own == sorted(own, reverse=True) for own in levels.values())


@given(seeds, configs)
def test_sources_are_no_targets_and_have_known_cells(seed, config):
    series = some_series(seed)
    known = series.observed.copy()
    for step in plan(series, config):
        assert not step.sources[step.rows].any()
        assert known[step.sources].any(axis=1).all()
        known[step.rows] = True


@given(seeds)
def test_distances_equal_brute_force(seed):
    series = some_series(seed)
    known = series.observed.any(axis=1)
    got = distances(series.time, known, series.start, np.arange(series.rows))
    for i in range(series.series):
        own = slice(series.start[i], series.start[i + 1])
        time = series.time[own]
        brute = np.abs(time[:, None] - time[known[own]]).min(axis=1, initial=np.inf)
        np.testing.assert_allclose(got[own], brute)


@given(st.floats(0.001, 1000), st.integers(0, 8))
def test_a_level_covers_its_distances_and_no_smaller_level_does(distance, max_level):
    level = int(level_of(np.array([distance]), max_level=max_level)[0])
    assert level == max_level or distance <= 2.0**level
    assert level == 0 or distance > 2.0 ** (level - 1)


@given(seeds, st.sampled_from([1.0, 2.0, 4.0]))
def test_points_far_from_data_are_imputed_one_by_one_in_stochastic_series(seed, threshold):
    series = some_series(seed, regular=True, whole=True, some_data=True)
    for step in plan(series, ScheduleConfig(one_by_one_above=threshold)):
        wide = series.owner[step.rows[step.distance > threshold]]
        assert np.unique(wide).size == wide.size


@given(seeds)
def test_a_step_takes_at_most_one_far_point_of_a_gap(seed):
    series = some_series(seed, regular=True, whole=True, some_data=True)
    config = ScheduleConfig(one_by_one_above=4.0, one_by_one_in="gap")
    for step in plan(series, config):
        gap = np.cumsum(step.sources)[step.rows[step.distance > 4]]
        assert np.unique(gap).size == gap.size


@given(seeds, st.floats(0.1, 5))
@settings(max_examples=50)
def test_a_band_holds_distances_of_one_level_near_the_largest(seed, band):
    series = some_series(seed, whole=True, some_data=True)
    for step in plan(series, ScheduleConfig(band=band)):
        for i in np.unique(series.owner[step.rows]):
            here = series.owner[step.rows] == i
            assert np.unique(step.level[here]).size == 1
            assert np.ptp(step.distance[here]) <= band + 1e-5


@given(seeds)
def test_rows_that_miss_the_most_channels_come_first(seed):
    series = some_series(seed)
    missing = (~series.observed).sum(axis=1)
    last = np.full(series.series, series.dims)
    for step in plan(series, ScheduleConfig()):
        for row in step.rows:
            assert missing[row] <= last[series.owner[row]]
            last[series.owner[row]] = missing[row]


@given(seeds)
def test_rows_that_are_not_eligible_are_never_targets(seed):
    series = some_series(seed)
    eligible = np.random.default_rng(seed).random(series.rows) < 0.5
    done = [row for step in plan(series, ScheduleConfig(), eligible) for row in step.rows]
    missing = ~series.observed.all(axis=1)
    assert sorted(done) == np.flatnonzero(eligible & missing).tolist()


def test_the_paper_s_figure_of_two_observed_and_32_missing():
    value = np.full((1, 34, 1), np.nan)
    value[0, [0, 33]] = 0.0
    steps = list(plan(SeriesSet.stack(value), ScheduleConfig()))
    assert [(int(s.level[0]), s.rows.tolist()) for s in steps[:3]] == [
        (4, [16, 17]),
        (3, [8, 25]),
        (2, [4, 12, 21, 29]),
    ]
    assert len(steps) == 5


def test_all_is_one_step_and_smallest_starts_beside_the_data():
    value = np.full((1, 9, 1), np.nan)
    value[0, 0] = 0.0
    series = SeriesSet.stack(value)
    assert [s.rows.size for s in plan(series, ScheduleConfig(order="all"))] == [8]
    smallest = [s.rows.tolist() for s in plan(series, ScheduleConfig(order="smallest"))]
    assert smallest == [[row] for row in range(1, 9)]


def test_no_row_waits_within_the_reach():
    value = np.full((1, 102, 1), np.nan)
    value[0, [0, 101]] = 0.0
    first = next(plan(SeriesSet.stack(value), ScheduleConfig(max_level=60)))
    assert (first.rows.tolist(), first.level.tolist()) == ([50, 51], [6, 6])


def test_beyond_the_reach_the_nearest_come_first():
    value = np.full((1, 100, 1), np.nan)
    value[0, 0] = 0.0
    series = SeriesSet.stack(value, np.arange(100.0)[None] * 50)
    first = next(plan(series, ScheduleConfig(max_level=4)))
    assert first.rows.tolist() == [1]


def test_a_long_gap_is_imputed_coarse_to_fine_beside_a_partially_observed_row():
    value = np.zeros((1, 40, 2))
    value[0, 5:35] = np.nan
    value[0, 2, 0] = np.nan
    steps = list(plan(SeriesSet.stack(value), ScheduleConfig()))
    assert len(steps) > 4
    assert steps[-1].rows.tolist() == [2]


def test_complete_series_need_no_step():
    assert not list(plan(SeriesSet.stack(np.zeros((2, 5, 1))), ScheduleConfig()))


@pytest.mark.parametrize(
    ("setting", "regular", "fields"),
    [
        ("regular", False, {"band": 0.0, "order": "local", "one_by_one_in": "gap"}),
        ("irregular", True, {"band": 1.0}),
        ("stochastic", True, {"band": 0.0, "one_by_one_in": "series"}),
        ("partial", False, {"band": 1.0}),
        ("all", True, {"order": "all", "one_by_one_above": None}),
        ("smallest", True, {"order": "smallest"}),
    ],
)
def test_each_setting_has_its_schedule(setting, regular, fields):
    schedule = schedule_for(setting, regular=regular).model_dump()
    assert {name: schedule[name] for name in fields} == fields


def test_an_unknown_setting_lists_the_known_ones():
    with pytest.raises(InputError, match=r"setting must be one of auto, regular, .* got 'weekly'"):
        schedule_for("weekly", regular=True)
