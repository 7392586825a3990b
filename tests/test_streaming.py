import copy
import re
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from nrtsi import NRTSI
from nrtsi.cli.main import app
from nrtsi.cli.progress import ProgressBar
from nrtsi.config import StreamConfig
from nrtsi.core.events import TrainStep
from nrtsi.errors import InputError
from nrtsi.imputer.fitted import FittedModel
from nrtsi.imputer.options import ImputeOptions
from nrtsi.scale import impute_files
from nrtsi.scale.context import find_context, read_context
from nrtsi.scale.journal import work_folder
from nrtsi.scale.shards import BYTES_PER_CELL, input_files, needs_shards, read_shards, shards_of
from nrtsi.scale.training import sample_shards
from tests.strategies import seeds

COLUMNS = 5  # of `table`


def memory(rows):
    """Memory for shards of nearly `rows` rows; the file itself takes a little of it."""
    return (BYTES_PER_CELL * COLUMNS + 600) * rows


def table(rows, series=4, *, seed=0, order="time", whole=False):
    """Waves of several series, a fifth missing; sorted by time or by series."""
    rng = np.random.default_rng(seed)
    step, owner = np.arange(rows) // series, np.arange(rows) % series
    value = np.sin(step[:, None] / 7 + owner[:, None] + [0, 1]) + 0.05 * rng.normal(size=(rows, 2))
    value[rng.random((rows, 1 if whole else 2)).repeat(2 if whole else 1, axis=1) < 0.2] = np.nan
    value[step == 0] = 0.5  # something is known of every series
    columns = {
        "station": pa.array([f"s{i}" for i in owner]),
        "time": pa.array(step * 3_600_000_000, pa.timestamp("us", "UTC")),
        "x": pa.array(value[:, 0]),
        "n": pa.array(np.round(100 * value[:, 1]), from_pandas=True).cast(pa.int32()),
        "note": pa.array([f"row {i}" for i in range(rows)]),
    }
    made = pa.table(columns)
    if order == "id":
        made = made.sort_by([("station", "ascending"), ("time", "ascending")])
    fields = [field.with_metadata({"about": field.name}) for field in made.schema]
    return made.cast(pa.schema(fields, {"made": "by hand"}))


@pytest.fixture(scope="module")
def model():
    return NRTSI(preset="tiny", steps=3).fit(
        table(400), time="time", id="station", columns=["x", "n"]
    )


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    """The options that name the file of the model."""
    path = tmp_path_factory.mktemp("model") / "m.nrtsi"
    model.save(path)
    return ["--model", path]


@pytest.fixture
def folder(tmp_path):
    """A folder of days, some in subfolders, among other files."""
    data = tmp_path / "in"
    for name, shard in zip(
        ("a/day-2.parquet", "a/day-10.parquet", "b/day-1.PQ"), slices(table(360), 3), strict=True
    ):
        write(data / name, shard)
    write(data / ".hidden.parquet", table(8))
    write(data / "_temporary" / "x.parquet", table(8))
    (data / "read me.txt").write_text("no table")
    return data


def slices(whole, count):
    cuts = [i * whole.num_rows // count for i in range(count + 1)]
    return [whole.slice(a, b - a) for a, b in pairwise(cuts)]


def write(path, content, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(content, path, **options)
    return path


def write_all(folder, tables):
    for number, each in enumerate(tables):
        write(folder / f"{number}.parquet", each)
    return folder


def impute_pieces(model, place, pieces, **options):
    """Imputes a folder of files with these rows; returns the rows of its output."""
    impute_files(model, write_all(place / "in", pieces), place / "out", **options)
    return pa.concat_tables(read(place / f"out/{i}.parquet") for i in range(len(pieces)))


def read(path):
    with pq.ParquetFile(path) as file:
        return file.read()


def files_in(path):
    return sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())


def same_but_for_gaps(got, was):
    """Schema, order and observed cells are the input's, to the bit; nothing is missing."""
    assert got.schema.equals(was.schema, check_metadata=True)
    for name in was.column_names:
        known = np.asarray(was[name].is_valid())
        if name == "x":
            known &= ~np.isnan(was["x"].to_numpy())
            assert not np.isnan(got["x"].to_numpy()).any()
        assert got[name].filter(pa.array(known)).equals(was[name].filter(pa.array(known)))
        assert not got[name].null_count
    return True


def hollow(whole, rows, names=("x", "n")):
    """The table with nothing known in these rows."""
    gone = pa.array(np.isin(np.arange(whole.num_rows), rows))
    for name in names:
        place, kind = whole.schema.get_field_index(name), whole.schema.field(name)
        empty = pa.compute.if_else(gone, pa.scalar(None, kind.type), whole[name])
        whole = whole.set_column(place, kind, empty)
    return whole


def with_x(whole, x):
    return whole.set_column(2, whole.schema.field("x"), pa.array(x))


# Laws -------------------------------------------------------------------------------------------


@settings(max_examples=6)
@given(seeds, st.integers(1, 9))
def test_files_of_whole_series_are_imputed_as_in_memory(model, seed, count):
    whole = table(240, series=12, seed=seed, order="id")
    cuts = 20 * np.unique(np.random.default_rng(seed).integers(1, 12, count))
    pieces = [whole.slice(a, b - a) for a, b in pairwise([0, *cuts, 240])]
    with TemporaryDirectory() as place:
        data, out = write_all(Path(place) / "in", pieces), Path(place) / "out"
        done = impute_files(model, data, out)
        got = pa.concat_tables(read(out / f"{i}.parquet") for i in range(len(pieces)))
    filled = model.impute(whole)
    assert same_but_for_gaps(got, whole)
    np.testing.assert_allclose(got["x"].to_numpy(), filled["x"].to_numpy(), rtol=1e-5, atol=1e-6)
    assert done.shards == done.files == len(pieces)
    assert done.imputed == whole["n"].null_count + np.isnan(whole["x"].to_numpy()).sum()
    assert (done.rows, done.cells, done.left, done.steps) == (240, 480, 0, 3)


@settings(max_examples=6)
@given(seeds, st.integers(20, 400), st.integers(7, 300), st.sampled_from(["time", "id"]))
def test_a_file_in_shards_keeps_all_known_cells(model, seed, rows, group, order):
    whole = table(360, seed=seed, order=order)
    with TemporaryDirectory() as place:
        data, out = Path(place) / "in.parquet", Path(place) / "out.parquet"
        write(data, whole, row_group_size=group)
        done = impute_files(model, data, out, memory_limit=memory(rows))
        got = read(out)
        assert files_in(Path(place)) == ["in.parquet", "out.parquet"]
    assert done.files == 1
    assert same_but_for_gaps(got, whole)
    # With 256 known rows as context every shard has seen all of its series.
    filled = model.impute(whole)
    if done.shards <= 3:
        assert np.abs(got["x"].to_numpy() - filled["x"].to_numpy()).max() < 0.05


@settings(max_examples=20)
@given(seeds, st.integers(1, 90), st.integers(1, 40), st.integers(1, 40))
def test_shards_are_the_rows_of_the_file_in_order(seed, rows, most, group):
    whole = table(rows, seed=seed)
    with TemporaryDirectory() as place:
        path = write(Path(place) / "a.parquet", whole, row_group_size=group)
        shards = shards_of(input_files(path, memory(most)))
        first = seed % len(shards)
        tables = list(read_shards(shards[first:]))
    assert [shard.rows for shard in shards[first:]] == [each.num_rows for each in tables]
    assert pa.concat_tables(tables)["note"].equals(whole["note"].slice(shards[first].first))
    sizes = [shard.rows for shard in shards]
    assert sum(sizes) == rows
    assert max(sizes) - min(sizes) <= 1


def test_shards_that_were_read_are_freed(tmp_path):
    """Arrow's reader holds what it reads ahead until the file is closed, unless told not to."""
    noise = pa.table({"x": np.random.default_rng(0).random(1_200_000)})
    path = write(tmp_path / "a.parquet", noise, row_group_size=60_000)
    shards = shards_of(input_files(path, (BYTES_PER_CELL + 30) * 15_000))
    before = pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() - before for _ in read_shards(shards)]
    assert max(held) < path.stat().st_size / 4


def context_of(place, model, shards, config):
    """Finds the context; returns a function that reads that of one shard."""
    path = place / "context.parquet"
    find_context(path, shards, model, config)

    def found(shard):
        (own,) = read_shards([shard], model.columns_.named)
        return read_context(path, shard, own, model)

    return found


@settings(max_examples=20)
@given(seeds, st.integers(1, 6))
def test_neighbours_give_the_known_rows_at_their_ends_and_the_gaps_among_them(model, seed, most):
    whole = table(60, seed=seed, whole=True)
    with TemporaryDirectory() as place:
        # The same rows in the middle, a hundred hours after the first and before the last.
        hours = np.array([0, 100, 200], "m8[h]")
        pieces = [
            whole.set_column(1, whole.schema.field("time"), pa.compute.add(whole["time"], later))
            for later in (pa.scalar(hour.astype("m8[us]")) for hour in hours)
        ]
        shards = shards_of(input_files(write_all(Path(place) / "in", pieces), 10**9))
        config = StreamConfig(context_rows=most, channel_rows=1)
        before, after = context_of(Path(place), model, shards, config)(shards[1])
    for key in whole["station"].unique().to_pylist():
        mine, tail, head = (
            each.filter(pa.compute.equal(each["station"], key))["x"].to_numpy()
            for each in (whole, before, after)
        )
        known = np.flatnonzero(~np.isnan(mine))
        first = known[most - 1] + 1 if most <= known.size else mine.size
        last = known[-most] if most <= known.size else 0
        np.testing.assert_array_equal(head, mine[:first])
        np.testing.assert_array_equal(tail, mine[last:])


@pytest.mark.parametrize(("gap", "rows"), [((145, 155), 256), ((110, 200), 8)])
def test_a_gap_between_two_files_is_imputed_from_both_sides(model, tmp_path, gap, rows):
    """Also if it is longer than the context."""
    whole = hollow(table(300, series=1, seed=2, whole=True), np.arange(*gap))
    config = StreamConfig(context_rows=rows)
    got = impute_pieces(model, tmp_path, slices(whole, 2), config=config)
    difference = got["x"].to_numpy() - model.impute(whole)["x"].to_numpy()
    assert np.abs(difference[slice(*gap)]).max() < 0.05


# Gaps longer than a shard -----------------------------------------------------------------------


@settings(max_examples=25)
@given(seeds, st.integers(3, 12), st.integers(1, 3))
def test_the_known_rows_on_both_sides_of_every_gap_are_found(model, seed, count, far):
    """Against a look at all rows of every series and channel."""
    rng, rows, series = np.random.default_rng(seed), 96, 3
    whole, owner = table(rows, series, seed=seed), np.arange(rows) % series
    known = rng.random((rows, 2)) < rng.choice([0.03, 0.1, 0.5], 2)
    for name, some in zip(("x", "n"), known.T, strict=True):
        place, kind = whole.schema.get_field_index(name), whole.schema.field(name)
        whole = whole.set_column(place, kind, pa.array(np.ones(rows), kind.type, mask=~some))
    with TemporaryDirectory() as place:
        data = write_all(Path(place) / "in", slices(whole, count))
        shards = shards_of(input_files(data, 10**9))
        config = StreamConfig(context_rows=1, channel_rows=far)
        found = context_of(Path(place), model, shards, config)
        tables = [pa.concat_tables(found(shard)) for shard in shards]
    where = np.repeat(np.arange(count), [shard.rows for shard in shards])
    for shard, each in zip(shards, tables, strict=True):
        step = each["time"].cast(pa.int64()).to_numpy() // 3_600_000_000
        got = step * series + np.array([int(i[1:]) for i in each["station"].to_pylist()], int)
        assert np.unique(got).size == got.size
        assert (where[got] != shard.number).all()
        for s, some in ((s, some) for s in range(series) for some in known.T):
            mine = np.flatnonzero(some & (owner == s))
            left, right = mine[where[mine] < shard.number], mine[where[mine] > shard.number]
            if left.size and where[left[-1]] <= shard.number - 2:
                assert set(left[-far:]) <= set(got)
            assert set(left[-1:]) <= set(got)
            assert set(right[where[right] == where[right[:1]]][:far]) <= set(got)


def test_a_gap_of_many_shards_is_imputed_from_both_sides(model, tmp_path):
    """In its middle shards, and those beside them, nothing is known."""
    whole = hollow(table(600, series=2, seed=3), np.arange(121, 481, 2))  # of the second series
    path = write(tmp_path / "in.parquet", whole)
    done = impute_files(model, path, tmp_path / "out.parquet", memory_limit=memory(60))
    assert done.shards >= 8
    assert done.left == 0
    got, filled = read(tmp_path / "out.parquet"), model.impute(whole)
    assert same_but_for_gaps(got, whole)
    difference = np.abs(got["x"].to_numpy() - filled["x"].to_numpy())
    assert difference[121:481:2].max() < 0.3


@pytest.mark.parametrize("side", ["begin", "end"])
def test_a_gap_to_the_edge_of_the_input_is_imputed_from_one_side(model, tmp_path, side):
    gone = np.arange(1, 500, 2) if side == "begin" else np.arange(101, 600, 2)
    path = write(tmp_path / "in.parquet", hollow(table(600, series=2, seed=3), gone))
    assert impute_files(model, path, tmp_path / "out.parquet", memory_limit=memory(60)).left == 0


def test_a_channel_is_known_on_both_sides_if_others_are_known_between(model, tmp_path):
    """More rows than the context has, with the other channel known, lie between it and the cut."""
    line, whole = np.linspace(0, 10, 1200), table(1200, series=1, seed=1)
    whole = hollow(with_x(whole, line), np.arange(281, 920), ["x"])
    got = impute_pieces(model, tmp_path, slices(whole, 2))["x"].to_numpy()
    assert np.abs(got - line).max() < 0.5
    assert np.abs(np.diff(got)).max() < 0.1


def test_one_channel_may_be_missing_for_long(model, tmp_path):
    whole = with_x(table(600, series=1, seed=4), np.full(600, 50.0))
    path = write(tmp_path / "in.parquet", hollow(whole, np.arange(101, 500), ["x"]))
    impute_files(model, path, tmp_path / "out.parquet", memory_limit=memory(60))
    got = read(tmp_path / "out.parquet")["x"].to_numpy()
    # Without the far sides the middle would be the mean of what the model was fitted on, 0.
    assert np.abs(got - 50).max() < 5


def test_numbered_rows_continue_from_shard_to_shard(tmp_path):
    """A short gap at a cut is imputed from both sides, a long one from the side before."""
    long = np.concatenate([np.full(100, 1.0), np.full(400, np.nan), np.full(100, 3.0)])
    short = np.where(np.abs(np.arange(200) - 99.5) < 5, np.nan, np.linspace(0, 1, 200))
    model = NRTSI(preset="tiny", steps=2).fit(pa.table({"x": long}), columns=["x"])

    def imputed(x, rows):
        path = write(tmp_path / "in.parquet", pa.table({"x": x}))
        out, limit = tmp_path / "out.parquet", (BYTES_PER_CELL + 50) * rows
        done = impute_files(model, path, out, memory_limit=limit, overwrite=True)
        return done.shards, read(out)["x"].to_numpy()

    shards, got = imputed(long, 60)
    assert shards > 6
    assert np.abs(got[200:300] - 1).max() < 0.3
    shards, got = imputed(short, 100)
    assert shards == 2
    assert np.abs(got - np.linspace(0, 1, 200)).max() < 0.1


def test_a_gap_does_not_reach_over_times_that_go_back(model, tmp_path):
    """The first file is later than the others: what it knows is no neighbour of theirs."""
    whole = hollow(table(400, series=1, seed=5), np.arange(100, 300))
    got = impute_pieces(model, tmp_path, [slices(whole, 4)[i] for i in (3, 0, 1, 2)])
    alone = model.impute(whole.slice(0, 300))["x"].to_numpy()[250:300]
    np.testing.assert_allclose(got["x"].to_numpy()[350:], alone, atol=0.05)


def test_a_shard_may_have_less_than_one_row_of_every_series(model, tmp_path):
    """No series has a row in the next shard, and many shards lie between its rows."""
    whole = table(400, series=100, seed=6)
    path = write(tmp_path / "in.parquet", whole)
    done = impute_files(model, path, tmp_path / "out.parquet", memory_limit=memory(20))
    assert done.shards > 10
    assert same_but_for_gaps(read(tmp_path / "out.parquet"), whole)


def test_beyond_the_limit_the_series_not_seen_for_longest_are_dropped(model, tmp_path):
    """Each series has a known row and, ten shards later, a missing one."""
    whole = hollow(table(400, series=200), np.arange(200, 400))
    shards = shards_of(input_files(write(tmp_path / "in.parquet", whole), memory(20)))
    last = shards[-1]

    def found(config):
        return context_of(tmp_path, model, shards, config)(last)[0].num_rows

    assert found(StreamConfig()) == last.rows
    assert found(StreamConfig(max_series=1)) == 0


def test_files_whose_times_go_back_are_imputed_alone(model, tmp_path):
    """Two files without ids that count from the same zero are two series."""
    pieces = [table(80, series=1, seed=seed) for seed in (1, 2)]
    got = impute_pieces(model, tmp_path, pieces)
    assert got.equals(pa.concat_tables(model.impute(each) for each in pieces))


# Folders and files ------------------------------------------------------------------------------


def test_a_folder_gives_a_folder_of_the_same_names(model, folder, tmp_path):
    names = ["a/day-2.parquet", "a/day-10.parquet", "b/day-1.PQ"]  # numbers sorted by value
    assert [source.name for source in input_files(folder, 10**9)] == names
    done = impute_files(model, folder, tmp_path / "out")
    assert files_in(tmp_path / "out") == sorted(names)
    assert (done.files, done.shards, done.rows) == (3, 3, 360)
    for name in names:
        assert same_but_for_gaps(read(tmp_path / "out" / name), read(folder / name))
    assert not work_folder(tmp_path / "out").exists()


@pytest.mark.parametrize("codec", ["NONE", "SNAPPY", "GZIP", "ZSTD", "LZ4"])
def test_compression_and_row_groups_are_kept(model, tmp_path, codec):
    path = write(tmp_path / "a.parquet", table(400), compression=codec, row_group_size=40)
    impute_files(model, path, tmp_path / "out.parquet", memory_limit=memory(130))
    before, after = pq.read_metadata(path), pq.read_metadata(tmp_path / "out.parquet")
    kinds = {meta.row_group(0).column(0).compression for meta in (before, after)}
    assert len(kinds) == 1
    assert max(after.row_group(i).num_rows for i in range(after.num_row_groups)) == 40


def test_files_without_rows_or_gaps_are_unchanged(model, tmp_path):
    full = model.impute(table(40))
    got = impute_pieces(model, tmp_path, [table(40), full.slice(0, 0), full])
    assert read(tmp_path / "out/1.parquet").equals(full.slice(0, 0))
    assert got.slice(40).equals(full)


def test_progress_only_rises(model, tmp_path):
    path, seen = write(tmp_path / "a.parquet", table(400)), []
    limit = {"memory_limit": memory(90), "listener": seen.append}
    impute_files(model, path, tmp_path / "o.parquet", **limit)
    fractions = [event.fraction for event in seen]
    assert fractions == sorted(fractions)
    assert 0.9 < fractions[-1] <= 1.0


# Training ---------------------------------------------------------------------------------------


def test_an_unfitted_model_is_trained_on_a_sample(folder, tmp_path):
    said = []
    unfitted = NRTSI(preset="tiny", steps=3, time="time", id="station", columns=["x", "n"])
    done = impute_files(unfitted, folder, tmp_path / "out", log_line=said.append)
    assert said == ["training on 3 of 3 shards (360 rows)"]
    assert (done.left, done.steps) == (0, 3)


def test_the_sample_is_spread_over_the_input_and_bounded(tmp_path):
    path = write(tmp_path / "a.parquet", table(1000))
    shards = shards_of(input_files(path, memory(30)))
    chosen = [shard.number for shard in sample_shards(shards)]
    assert len(chosen) == 3
    assert np.ptp(chosen) > len(shards) / 2
    assert sample_shards(shards_of(input_files(path, 10**9))) == shards_of(
        input_files(path, 10**9)
    )


def test_shards_that_do_not_suit_training_are_refused(tmp_path):
    words = {"preset": "tiny", "steps": 2, "time": "time"}
    write(tmp_path / "in/a.parquet", table(40, series=1))
    write(tmp_path / "in/b.parquet", table(40, series=1))
    with pytest.raises(InputError, match=r"times must be unique.*2 shards to train on; .*--model"):
        impute_files(NRTSI(**words), tmp_path / "in", tmp_path / "out")
    write(tmp_path / "none/a.parquet", table(8).slice(0, 0))
    with pytest.raises(InputError, match="must have at least one row to train on"):
        impute_files(NRTSI(**words), tmp_path / "none", tmp_path / "out2")


# Mistakes ---------------------------------------------------------------------------------------


def test_an_empty_series_is_refused_with_the_name_of_its_file(model, tmp_path):
    bad = hollow(table(8, series=1), np.arange(8))
    bad = bad.set_column(0, bad.schema.field("station"), pa.array(["new"] * 8))
    with pytest.raises(InputError, match=r"1\.parquet: series 'new' must have observed values"):
        impute_pieces(model, tmp_path, [table(40), bad])
    assert files_in(tmp_path / "out") == ["0.parquet"]


SHUFFLED = np.random.default_rng(0).permutation(200)
LATE = np.concatenate([np.arange(180), np.arange(20)])  # times go back at the very end


@pytest.mark.parametrize(("order", "rows"), [(SHUFFLED, 80), (LATE, 60), (LATE, 120)])
def test_times_that_go_back_inside_a_file_are_refused_before_imputation(
    model, tmp_path, order, rows
):
    path = write(tmp_path / "a.parquet", table(200).take(order))
    message = r"a.parquet must have the rows of each series in order of time"
    with pytest.raises(InputError, match=message):
        impute_files(model, path, tmp_path / "out.parquet", memory_limit=memory(rows))
    assert files_in(tmp_path) == ["a.parquet"]
    if order is SHUFFLED:
        impute_files(model, path, tmp_path / "whole.parquet")  # in one shard any order is allowed


def test_a_mistake_in_the_data_names_the_file_and_the_shard(model, tmp_path):
    x = np.where(np.arange(200) == 150, np.inf, 1.0)
    path = write(tmp_path / "a.parquet", with_x(table(200), x))
    first = shards_of(input_files(path, memory(120)))[1].first
    message = rf"a\.parquet, shard from row {first}: .*inf at row {150 - first} "
    with pytest.raises(InputError, match=message):
        impute_files(model, path, tmp_path / "out.parquet", memory_limit=memory(120))


def test_files_that_are_not_alike_are_refused(model, tmp_path):
    write(tmp_path / "in/a.parquet", table(40))
    write(tmp_path / "in/b.parquet", table(40).drop_columns("x"))
    with pytest.raises(InputError, match=r"b\.parquet must have one column 'x', got none"):
        impute_files(model, tmp_path / "in", tmp_path / "out")
    other = table(40).set_column(3, "n", table(40)["n"].cast(pa.float64()))
    write(tmp_path / "in/b.parquet", other)
    with pytest.raises(InputError, match=r"column 'n' of type int32 as a\.parquet has, got dou"):
        impute_files(model, tmp_path / "in", tmp_path / "out")
    # A column that the model does not read may be of any kind.
    write(tmp_path / "in/b.parquet", table(40).drop_columns("note"))
    assert impute_files(model, tmp_path / "in", tmp_path / "out").files == 2


def test_other_files_than_parquet_are_refused(model, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        InputError, match=r"empty must contain files that end in \.parquet or \.pq"
    ):
        impute_files(model, tmp_path / "empty", tmp_path / "out")
    (tmp_path / "a.parquet").write_text("no")
    with pytest.raises(InputError, match=r"a\.parquet is not a readable Parquet file"):
        impute_files(model, tmp_path / "a.parquet", tmp_path / "out.parquet")
    with pytest.raises(InputError, match=r"b\.parquet does not exist"):
        impute_files(model, tmp_path / "b.parquet", tmp_path / "out.parquet")


def test_a_file_that_is_damaged_behind_its_footer_is_refused(model, tmp_path):
    path = write(tmp_path / "a.parquet", table(4000), compression="GZIP")
    content = bytearray(path.read_bytes())
    content[4:2000] = b"\xff" * 1996
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.parquet cannot be read: .*; is it damaged\?"):
        impute_files(model, path, tmp_path / "out.parquet")


def test_places_that_do_not_suit_are_refused(model, folder, tmp_path):
    def refused(source, target, message):
        with pytest.raises(InputError, match=message):
            impute_files(model, source, target)

    one = write(tmp_path / "one.parquet", table(40))
    refused(folder, folder, "must not overlap the input")
    refused(folder, folder / "out", "must not overlap the input")
    refused(folder / "a", folder, "must not overlap the input")
    refused(one, one, "must not overlap the input")
    refused(folder, tmp_path / "out.csv", "must be a folder, because .* is one")
    refused(folder, one, "must be a folder, because .* is one")
    refused(one, tmp_path / "out.csv", r"must end in \.parquet or \.pq")
    refused(folder, tmp_path / "no" / "out", "there is no folder")
    refused(folder, Path(), "exists already and is not empty")
    taken = write(tmp_path / "taken" / "x.parquet", table(40)).parent
    refused(folder, taken, "taken exists already and is not empty; add --overwrite")
    refused(one, taken / "x.parquet", "exists already; add --overwrite")
    assert files_in(taken) == ["x.parquet"]
    impute_files(model, folder, taken, overwrite=True)
    assert len(files_in(taken)) == 4


@pytest.mark.parametrize("left", ["nothing", "half a run"])
def test_an_output_is_not_replaced_because_a_run_had_hardly_begun(model, tmp_path, left):
    data = write(tmp_path / "in.parquet", table(40))
    out, work = tmp_path / "out.parquet", tmp_path / "out.parquet.partial"
    out.write_bytes(b"precious")
    work.mkdir()
    if left == "half a run":
        (work / ".run.0123456789ab.json").write_text('{"vers')
    for resume in (False, True):
        with pytest.raises(InputError, match="exists already; add --overwrite"):
            impute_files(model, data, out, resume=resume)
    assert out.read_bytes() == b"precious"
    impute_files(model, data, out, overwrite=True)
    assert not work.exists()


@pytest.mark.parametrize("inside", [".git/config", "run.json", ".run.json", "thesis.txt"])
def test_a_folder_that_is_not_ours_is_left_alone(model, folder, tmp_path, inside):
    theirs = tmp_path / "out.partial" / inside
    theirs.parent.mkdir(parents=True)
    theirs.write_text('{"mine": true}')
    message = r"out\.partial is needed for unfinished work, .* nrtsi did not write; move it away"
    for words in ({}, {"overwrite": True}, {"resume": True}):
        with pytest.raises(InputError, match=message):
            impute_files(model, folder, tmp_path / "out", **words)
    assert theirs.read_text() == '{"mine": true}'


def test_the_target_of_a_link_is_written(model, folder, tmp_path):
    data, far = write(tmp_path / "in.parquet", table(300)), tmp_path / "far"
    (far / "folder").mkdir(parents=True)
    (tmp_path / "out.parquet").symlink_to(far / "file.parquet")
    (tmp_path / "out").symlink_to(far / "folder")
    assert work_folder(tmp_path / "out.parquet") == far / "file.parquet.partial"
    impute_files(model, data, tmp_path / "out.parquet", memory_limit=memory(90))
    assert same_but_for_gaps(read(far / "file.parquet"), table(300))
    impute_files(model, folder, tmp_path / "out")
    assert len(files_in(far / "folder")) == 3


def test_a_folder_inside_the_output_may_be_on_another_disk(model, folder, tmp_path):
    """As a mount is; files are copied, and a finished one is not written again after a crash."""
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other disk here")
    (tmp_path / "out").mkdir()
    with TemporaryDirectory(dir=other) as place:
        (tmp_path / "out" / "a").symlink_to(place)
        with pytest.raises(InterruptionError):
            impute_files(stopped_after(model, 1), folder, tmp_path / "out", overwrite=True)
        first = Path(place, "day-2.parquet").stat()
        impute_files(model, folder, tmp_path / "out", resume=True)
        assert Path(place, "day-2.parquet").stat().st_ino == first.st_ino
        assert files_in(Path(place)) == ["day-10.parquet", "day-2.parquet"]
    assert (tmp_path / "out/b/day-1.PQ").exists()


# An interrupted run ----------------------------------------------------------------------------


class InterruptionError(Exception):
    """Stands for a crash."""


def stopped_after(model, shards):
    """A model that fails after `shards` shards."""
    calls = []

    class Failing(NRTSI):
        def run(self, *arguments, **options):
            calls.append(1)
            if len(calls) > shards:
                raise InterruptionError
            return super().run(*arguments, **options)

    failing = Failing()
    failing.__dict__.update(model.__dict__)
    return failing


@pytest.fixture
def begun(model, folder, tmp_path):
    """A run that was interrupted after one of three files."""
    with pytest.raises(InterruptionError):
        impute_files(stopped_after(model, 1), folder, tmp_path / "out")
    assert files_in(tmp_path / "out") == ["a/day-2.parquet"]
    return folder, tmp_path / "out"


def test_an_unfinished_run_is_discarded_only_to_start_over(model, begun):
    message = r"partial contains an interrupted run; add --resume .*--overwrite to start over"
    with pytest.raises(InputError, match=message):
        impute_files(model, *begun)
    first = (begun[1] / "a/day-2.parquet").stat()
    impute_files(model, *begun, overwrite=True)
    assert (begun[1] / "a/day-2.parquet").stat().st_ino != first.st_ino
    assert len(files_in(begun[1])) == 3
    assert not work_folder(begun[1]).exists()


def test_another_model_memory_or_input_is_refused(model, begun):
    folder, out = begun

    def refused(message, model=model, **options):
        with pytest.raises(InputError, match=f"cannot resume the run in .*: the {message}"):
            impute_files(model, folder, out, resume=True, **options)

    refused("model has changed; use the original one, or", copy.copy(model).set_params(seed=1))
    refused("memory limit has changed;", memory_limit="2GiB")
    day = write(folder / "b/day-1.PQ", table(40))
    refused(r"input has changed \(b/day-1.PQ was changed\)")
    day.rename(folder / "b/day-3.PQ")
    refused(r"input has changed \(b/day-3.PQ was added\)")
    (folder / "b/day-3.PQ").unlink()
    refused(r"input has changed \(b/day-1.PQ was removed\)")
    (work_folder(out) / "run.json").write_text('{"version of nrtsi": "0.0.1"}')
    refused("version of nrtsi has changed; use the original one")  # an earlier format


def test_on_empty_may_change_when_a_run_resumes(model, begun):
    lenient = copy.copy(model).set_params(on_empty="skip", memory_limit="3GiB")
    assert impute_files(lenient, *begun, resume=True).files == 3
    assert (lenient.memory_limit, lenient.on_empty) == ("3GiB", "skip")


@pytest.mark.parametrize("kind", ["folder", "file in memory"])
def test_the_memory_limit_applies_to_the_network(saved, folder, tmp_path, monkeypatch, kind):
    source, out = (folder, "out") if kind == "folder" else (folder / "a/day-2.parquet", "out.csv")
    seen, within = [], FittedModel.with_memory_limit
    monkeypatch.setattr(
        FittedModel, "with_memory_limit", lambda s, m: seen.append(m) or within(s, m)
    )
    words = [*saved, "--memory-limit", "300MB"]
    assert run("impute", source, "--out", tmp_path / out, *words).exit_code == 0
    assert set(seen) == {300_000_000}


def test_without_anything_to_resume_it_starts(model, folder, tmp_path):
    said = []
    impute_files(model, folder, tmp_path / "out", resume=True, log_line=said.append)
    assert said == [
        f"there is no {tmp_path / 'out.partial'} to resume; starting from the beginning"
    ]


def test_an_output_that_cannot_be_written_is_refused(model, folder, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "a").write_text("a file where a folder is needed")
    message = r"day-2\.parquet cannot be written: .*; free some space .*--resume to continue"
    with pytest.raises(InputError, match=message):
        impute_files(model, folder, out, overwrite=True)


KILLED = """
import os, signal
from nrtsi import NRTSI
from nrtsi.cli.main import main

run, calls = NRTSI.run, []

def killed(*arguments, **options):
    calls.append(1)
    if len(calls) > 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return run(*arguments, **options)

NRTSI.run = killed
main()
"""


def contents(path):
    names = files_in(path) if path.is_dir() else [""]
    return {name: (path / name).read_bytes() for name in names}


@pytest.mark.parametrize("stop", [0, 1, 2, "killed", "damaged"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_run_stopped_after_any_shard_ends_with_the_same_bytes(
    model, saved, tmp_path, folder, kind, stop
):
    """No shard is imputed twice, and the memory limit is that of the first process."""
    source = folder if kind == "folder" else write(tmp_path / "a.parquet", table(330))
    suffix, size = ("", "1GiB") if kind == "folder" else (".parquet", memory(90))
    plain, out = tmp_path / f"plain{suffix}", tmp_path / f"out{suffix}"
    summary = impute_files(model, source, plain, memory_limit=size)
    assert summary.shards > 2
    done = stop if isinstance(stop, int) else 2
    if stop == "killed":
        words = ["impute", source, "--out", out, *saved, "--memory-limit", size]
        command = [sys.executable, "-c", KILLED, *map(str, words)]
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    else:
        with pytest.raises(InterruptionError):
            impute_files(stopped_after(model, done), source, out, memory_limit=size)
    if stop == "damaged":  # a crash cuts lines and files off; a file can be removed since
        with (work_folder(out) / "done.jsonl").open("a") as file:
            file.write('["shard 2", {"impu')
        (work_folder(out) / ".00000009.0123456789ab.parquet").write_text("half a par")
        finished = (
            out / "a/day-2.parquet" if kind == "folder" else work_folder(out) / f"{0:08d}.parquet"
        )
        done -= finished.exists()
        finished.unlink(missing_ok=True)
    rest = stopped_after(model, summary.shards - done)
    assert impute_files(rest, source, out, resume=True) == summary
    assert contents(out) == contents(plain)
    assert not work_folder(out).exists()


# The command ------------------------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def refused(result, message):
    assert result.exit_code == 2, result.output
    assert len(result.stderr.strip().splitlines()) == 1
    assert message in result.stderr
    return True


def test_the_command_imputes_a_folder(saved, folder, tmp_path):
    result = run("impute", folder, "--out", tmp_path / "out", *saved)
    assert result.exit_code == 0, result.output
    line = rf"wrote .*out: \d+ of 720 cells imputed \(3 files, 3 shards\) by {saved[1]} in \d+ s"
    assert re.match(line, result.stdout)
    assert len(files_in(tmp_path / "out")) == 3


def test_the_command_trains_on_a_sample_and_notes_it(tmp_path):
    path = write(tmp_path / "a.parquet", table(400))
    words = ["--steps", 3, "--preset", "tiny", "--memory-limit", memory(150)]
    result = run("impute", path, "--out", tmp_path / "o.parquet", *words)
    assert result.exit_code == 0, result.output
    assert "nrtsi: training on 3 of 3 shards (400 rows)\nnrtsi: time: column" in result.stderr
    assert "(1 file, 3 shards), 3 steps in" in result.stdout


def test_files_that_fit_and_csv_are_imputed_in_memory(tmp_path):
    path = write(tmp_path / "a.parquet", table(400))
    assert not needs_shards(path, tmp_path / "o.parquet", "1GiB")
    assert needs_shards(path, tmp_path / "o.parquet", memory(150))
    assert not needs_shards(path, tmp_path / "o.csv", memory(150))
    with pytest.raises(InputError, match=r"absent\.parquet does not exist; check the name"):
        needs_shards(tmp_path / "absent.parquet", tmp_path / "o.parquet", 1)
    assert needs_shards(tmp_path, tmp_path / "o", "1GiB")


def test_options_that_do_not_suit_are_refused(folder, tmp_path):
    out, csv, table = tmp_path / "out", tmp_path / "a.csv", tmp_path / "o.csv"
    csv.write_text("time,x\n0,1\n1,\n2,3\n")
    day, shard = folder / "b/day-1.PQ", ["--memory-limit", memory(60), "--every", "15min"]
    needs = "--resume needs a folder, or a Parquet file larger than --memory-limit"
    for command, message in [
        (["impute", folder, "--out", out, "--every", "15min"], "--every must not be given for"),
        (["impute", folder, "--out", out, "--at", csv], "leave it out, or name a file in it"),
        (["impute", folder, "--out", out, "--report", "r.html"], "--report must not be given for"),
        (["impute", csv, "--out", table, "--resume"], needs),
        (["impute", day, "--out", tmp_path / "o.parquet", *shard], "or raise --memory-limit"),
        (["impute", tmp_path / "nodays", "--out", out], "nodays does not exist; check the name"),
        (["impute", csv, "--out", table, "--memory-limit", "lots"], "memory_limit must be a posi"),
        (["fit", folder, "--out", tmp_path / "m"], "must be a file, got a folder; name the file"),
    ]:
        assert refused(run(*command), message)


def test_a_large_file_with_other_output_than_parquet_is_noted(saved, tmp_path):
    path = write(tmp_path / "a.parquet", table(400))
    words = [*saved, "--memory-limit", memory(150)]
    result = run("impute", path, "--out", tmp_path / "o.csv", *words)
    assert result.exit_code == 0, result.output
    told = "needs more than --memory-limit: only Parquet output is written in shards"
    assert result.stderr == f"nrtsi: {path} {told}\n"


def test_an_interruption_tells_how_to_continue(saved, folder, tmp_path, monkeypatch):
    command = ["impute", folder, "--out", tmp_path / "out", *saved]

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(NRTSI, "run", interrupted)
        result = run(*command)
    assert result.exit_code == 130
    kept = f"finished work is in {tmp_path / 'out.partial'}: add --resume to continue"
    assert result.stderr == f"nrtsi: interrupted; {kept}\n"
    assert run(*command, "--resume").exit_code == 0


def test_an_interruption_of_training_ends_the_run(tmp_path, monkeypatch):
    """A partly trained model imputes nothing; the resumed run ends like an uninterrupted one."""
    data = write(tmp_path / "in.parquet", table(400))
    words = ["--steps", 24, "--preset", "tiny", "--memory-limit", memory(150), "--quiet"]
    assert run("impute", data, "--out", tmp_path / "plain.parquet", *words).exit_code == 0

    def interrupt(self, event):
        if isinstance(event, TrainStep) and event.step == 22:
            raise KeyboardInterrupt

    out = tmp_path / "out.parquet"
    with monkeypatch.context() as patched:
        patched.setattr(ProgressBar, "__call__", interrupt)
        result = run("impute", data, "--out", out, *words)
    assert result.exit_code == 130
    assert "add --resume to continue" in result.stderr
    assert files_in(work_folder(out)) == ["run.json", "training.checkpoint"]
    del words[4:6]  # the memory is known
    assert run("impute", data, "--out", out, *words, "--resume").exit_code == 0
    assert read(out).equals(read(tmp_path / "plain.parquet"))


def test_an_unfinished_run_is_not_discarded_with_more_memory(model, saved, tmp_path):
    data, out = write(tmp_path / "in.parquet", table(330)), tmp_path / "out.parquet"
    with pytest.raises(InterruptionError):
        impute_files(stopped_after(model, 1), data, out, memory_limit=memory(90))
    command = ["impute", data, "--out", out, *saved]
    result = run(*command, "--resume", "--memory-limit", "4GiB")
    assert refused(result, f"--memory-limit must be that of the run in {work_folder(out)}, ")
    assert refused(run(*command), "contains an interrupted run; add --resume")
    assert run(*command, "--overwrite").exit_code == 0
    assert not work_folder(out).exists()


def test_empty_series_may_be_skipped_with_a_saved_model(saved, tmp_path):
    whole = hollow(table(80), np.arange(1, 80, 4))
    data, folder = write(tmp_path / "in.parquet", whole), tmp_path / "in"
    write(folder / "a.parquet", whole)
    for source, out in ((data, "out.parquet"), (folder, "out")):
        command = ["impute", source, "--out", tmp_path / out, *saved]
        assert refused(run(*command), "must have observed values, got none; remove it, or")
        result = run(*command, "--on-empty", "ignore")
        assert refused(result, "--on-empty must be error or skip, got 'ignore'")
        resume = ["--resume"] if source is folder else []
        assert run(*command, "--on-empty", "skip", *resume).exit_code == 0


MEASURED = """
import sys
from pathlib import Path
from nrtsi.cli.main import main
try:
    main()
finally:
    # Not what getrusage says, which begins with the memory of the process that started this one.
    lines = Path("/proc/self/status").read_text().splitlines()
    print(*(line.split()[1] for line in lines if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells the peak")
def test_memory_does_not_grow_with_the_data(saved, tmp_path):
    def peak(times):
        path = tmp_path / f"{times}.parquet"
        whole = table(20_000 * times, whole=True)
        write(path, whole, row_group_size=whole.num_rows)  # a single row group: the hardest case
        words = ["impute", path, "--out", f"{path}.out.parquet", *saved]
        words = [sys.executable, "-c", MEASURED, *words, "--memory-limit", memory(10_000)]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
        wrote, kib = done.stdout.strip().split("\n")
        assert f"of {2 * whole.num_rows:,} cells imputed" in wrote
        return int(kib)

    small, large = peak(8), peak(32)  # 16 shards, then 64
    assert large < 1.1 * small


# Limits of gaps and widths ----------------------------------------------------------------------


def test_a_gap_that_is_too_long_stays_missing_in_all_its_shards(model, tmp_path):
    whole = hollow(table(600, series=2, seed=3), np.arange(121, 481, 2))
    path, target = write(tmp_path / "in.parquet", whole), tmp_path / "out.parquet"
    done = impute_files(
        model, path, target, memory_limit=memory(60), options=ImputeOptions(max_gap=100)
    )
    assert done.shards >= 8
    left = np.asarray(read(target)["x"].is_null()) | np.isnan(read(target)["x"].to_numpy())
    assert left[121:481:2].all()
    at_once = model.impute(whole, max_gap=100)["x"].to_numpy()
    np.testing.assert_array_equal(left, np.isnan(at_once))
    with pytest.raises(InputError, match="max_gap must be"):
        impute_files(model, path, tmp_path / "other.parquet", options=ImputeOptions(max_gap=0))
