import signal
import subprocess
import sys
import time
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

from nrtsi import NRTSI, load
from nrtsi.cli.main import app
from nrtsi.cli.progress import ProgressBar
from nrtsi.config import StreamConfig
from nrtsi.core.events import TrainStep
from nrtsi.errors import InputError
from nrtsi.imputer.fitted import FittedModel
from nrtsi.imputer.options import ImputeOptions
from nrtsi.scale import impute_files
from nrtsi.scale.context import ShardEnds
from nrtsi.scale.journal import work_folder
from nrtsi.scale.long_gaps import far_rows, find_long_gaps
from nrtsi.scale.shards import (
    BYTES_PER_CELL,
    input_files,
    needs_shards,
    read_shards,
    shards_of,
)
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
    made = (
        made.sort_by([("station", "ascending"), ("time", "ascending")]) if order == "id" else made
    )
    fields = [field.with_metadata({"about": field.name}) for field in made.schema]
    return made.cast(pa.schema(fields, {"made": "by hand"}))


@pytest.fixture(scope="module")
def model():
    return NRTSI(preset="tiny", steps=3).fit(
        table(400), time="time", id="station", columns=["x", "n"]
    )


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


# Laws -------------------------------------------------------------------------------------------


@settings(max_examples=6)
@given(seeds, st.integers(1, 9))
def test_files_of_whole_series_are_imputed_as_in_memory(model, seed, count):
    whole = table(240, series=12, seed=seed, order="id")
    rows = 20 * np.unique(np.random.default_rng(seed).integers(1, 12, count))
    with TemporaryDirectory() as place:
        data, out = Path(place) / "in", Path(place) / "out"
        for number, (a, b) in enumerate(zip([0, *rows], [*rows, 240], strict=True)):
            write(data / f"{number}.parquet", whole.slice(a, b - a))
        done = impute_files(model, data, out)
        got = pa.concat_tables(read(out / f"{i}.parquet") for i in range(len(rows) + 1))
    filled = model.impute(whole)
    assert same_but_for_gaps(got, whole)
    np.testing.assert_allclose(got["x"].to_numpy(), filled["x"].to_numpy(), rtol=1e-5, atol=1e-6)
    assert done.shards == done.files == len(rows) + 1
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


@settings(max_examples=20)
@given(seeds, st.integers(1, 6))
def test_context_is_the_known_rows_at_the_ends_and_the_gaps_among_them(seed, most):
    whole = table(60, seed=seed, whole=True)
    model = NRTSI(time="time", id="station", columns=["x", "n"])
    panel = model.read(whole)
    config = StreamConfig(context_rows=most, channel_rows=1)
    with TemporaryDirectory() as place:
        shard = shards_of(input_files(write(Path(place) / "a.parquet", whole), 10**9))[0]
        ends = ShardEnds.of(shard, whole, panel.columns, panel.clock, config)
    for i, key in enumerate(ends.ids):
        mine = whole.filter(pa.compute.equal(whole["station"], key))
        known = np.flatnonzero(~np.isnan(mine["x"].to_numpy()))
        first = mine.slice(0, known[most - 1] + 1) if most <= known.size else mine
        last = mine.slice(known[-most]) if most <= known.size else mine
        assert ends.head.filter(pa.array(ends.head_owner == i))["note"].equals(first["note"])
        assert ends.tail.filter(pa.array(ends.tail_owner == i))["note"].equals(last["note"])


def test_a_series_continues_in_the_next_file(model, tmp_path):
    """Without its neighbours, a gap at the edge would be filled from one side."""
    whole = table(400, series=1, seed=1)
    x = whole["x"].to_numpy().copy()
    x[190:210] = np.nan
    whole = whole.set_column(2, whole.schema.field("x"), pa.array(x))
    for number, shard in enumerate(slices(whole, 2)):
        write(tmp_path / "in" / f"{number}.parquet", shard)
    impute_files(model, tmp_path / "in", tmp_path / "out")
    got = pa.concat_tables(read(tmp_path / "out" / f"{i}.parquet") for i in range(2))
    filled = model.impute(whole)
    np.testing.assert_allclose(
        got["x"].to_numpy()[185:215], filled["x"].to_numpy()[185:215], atol=0.02
    )


def test_a_gap_longer_than_the_context_is_imputed_from_both_sides(model, tmp_path):
    whole = table(300, series=1, seed=2, whole=True)
    gaps = np.zeros(300, bool)
    gaps[110:200] = True
    x, n = whole["x"].to_numpy().copy(), whole["n"]
    x[gaps] = np.nan
    n = pa.compute.if_else(pa.array(gaps), pa.scalar(None, pa.int32()), n)
    whole = whole.set_column(2, "x", pa.array(x)).set_column(3, "n", n)
    for number, shard in enumerate(slices(whole, 2)):
        write(tmp_path / "in" / f"{number}.parquet", shard)
    config = StreamConfig(context_rows=8)
    impute_files(model, tmp_path / "in", tmp_path / "out", config=config)
    got = pa.concat_tables(read(tmp_path / "out" / f"{i}.parquet") for i in range(2))
    filled = model.impute(whole)
    assert np.abs(got["x"].to_numpy() - filled["x"].to_numpy())[gaps].max() < 0.05


# Gaps longer than a shard -----------------------------------------------------------------------


def hollow(whole, rows):
    """The table with nothing known in these rows."""
    gone = pa.array(np.isin(np.arange(whole.num_rows), rows))
    for name in ("x", "n"):
        place, kind = whole.schema.get_field_index(name), whole.schema.field(name)
        empty = pa.compute.if_else(gone, pa.scalar(None, kind.type), whole[name])
        whole = whole.set_column(place, kind, empty)
    return whole


def long_gaps_of(place, pieces, far):
    """Writes files of these pieces; returns their shards and the far rows of a shard."""
    for number, piece in enumerate(pieces):
        write(place / "in" / f"{number}.parquet", piece)
    shards = shards_of(input_files(place / "in", 10**9))
    panel = NRTSI(time="time", id="station", columns=["x", "n"]).read(table(40))
    names = ["time", "station", "x", "n"]
    config = StreamConfig(channel_rows=far)
    find_long_gaps(place / "gaps.parquet", shards, names, panel.columns, panel.clock, config)

    def found(shard):
        own = pieces[shard.number].select(names)
        return far_rows(place / "gaps.parquet", shard, own, panel.columns)

    return shards, found


@settings(max_examples=25)
@given(seeds, st.integers(3, 12), st.integers(1, 3))
def test_the_known_rows_on_both_sides_of_every_long_gap_are_found(seed, count, far):
    """Against a look at all rows of every series and channel."""
    rng, rows, series = np.random.default_rng(seed), 96, 3
    whole, owner = table(rows, series, seed=seed), np.arange(rows) % series
    known = rng.random((rows, 2)) < rng.choice([0.03, 0.1, 0.5], 2)
    for name, some in zip(("x", "n"), known.T, strict=True):
        place, kind = whole.schema.get_field_index(name), whole.schema.field(name)
        whole = whole.set_column(place, kind, pa.array(np.ones(rows), kind.type, mask=~some))
    with TemporaryDirectory() as place:
        shards, found = long_gaps_of(Path(place), slices(whole, count), far)
        tables = [found(shard) for shard in shards]
    where = np.repeat(np.arange(count), [shard.rows for shard in shards])
    for shard, each in zip(shards, tables, strict=True):
        step = each["time"].cast(pa.int64()).to_numpy() // 3_600_000_000
        got = step * series + np.array([int(i[1:]) for i in each["station"].to_pylist()], int)
        assert np.unique(got).size == got.size
        assert (np.abs(where[got] - shard.number) >= 2).all()
        for s, some in ((s, some) for s in range(series) for some in known.T):
            mine = np.flatnonzero(some & (owner == s))
            left, right = mine[where[mine] < shard.number], mine[where[mine] > shard.number]
            if left.size and where[left[-1]] <= shard.number - 2:
                assert set(left[-far:]) <= set(got)
            if right.size and where[right[0]] >= shard.number + 2:
                assert set(right[where[right] == where[right[0]]][:far]) <= set(got)


def test_a_gap_of_many_shards_is_imputed_from_both_sides(model, tmp_path):
    """In its middle shards, and those beside them, nothing is known."""
    whole = hollow(table(600, series=2, seed=3), np.arange(121, 481, 2))  # of the second series
    path = write(tmp_path / "in.parquet", whole)
    done = impute_files(model, path, tmp_path / "out.parquet", memory_limit=memory(60))
    assert done.shards >= 8
    assert done.left == 0
    got, filled = read(tmp_path / "out.parquet"), model.impute(whole)
    assert same_but_for_gaps(got, whole)
    apart = np.abs(got["x"].to_numpy() - filled["x"].to_numpy())
    assert apart[121:481:2].max() < 0.3


@pytest.mark.parametrize("side", ["begin", "end"])
def test_a_gap_to_the_edge_of_the_input_is_imputed_from_one_side(model, tmp_path, side):
    gone = np.arange(1, 500, 2) if side == "begin" else np.arange(101, 600, 2)
    path = write(tmp_path / "in.parquet", hollow(table(600, series=2, seed=3), gone))
    assert impute_files(model, path, tmp_path / "out.parquet", memory_limit=memory(60)).left == 0


def test_a_channel_is_known_on_both_sides_where_others_are_known_between(model, tmp_path):
    """More rows than the context has, with the other channel known, lie between it and the cut."""
    line, whole = np.linspace(0, 10, 1200), table(1200, series=1, seed=1)
    x = np.where((np.arange(1200) > 280) & (np.arange(1200) < 920), np.nan, line)
    whole = whole.set_column(2, whole.schema.field("x"), pa.array(x))
    for number, shard in enumerate(slices(whole, 2)):
        write(tmp_path / "in" / f"{number}.parquet", shard)
    impute_files(model, tmp_path / "in", tmp_path / "out")
    got = np.concatenate([read(tmp_path / f"out/{i}.parquet")["x"].to_numpy() for i in range(2)])
    assert np.abs(got - line).max() < 0.5
    assert np.abs(np.diff(got)).max() < 0.1


def test_one_channel_may_be_missing_for_long(model, tmp_path):
    whole = table(600, series=1, seed=4)
    x = np.where((np.arange(600) > 100) & (np.arange(600) < 500), np.nan, 50.0)
    whole = whole.set_column(2, whole.schema.field("x"), pa.array(x))
    path = write(tmp_path / "in.parquet", whole)
    impute_files(model, path, tmp_path / "out.parquet", memory_limit=memory(60))
    got = read(tmp_path / "out.parquet")["x"].to_numpy()
    # Without the far sides the middle would be the mean of what the model was fitted on, 0.
    assert np.abs(got - 50).max() < 5


def test_a_long_gap_of_numbered_rows_is_imputed_from_the_side_before(tmp_path):
    x = np.concatenate([np.full(100, 1.0), np.full(400, np.nan), np.full(100, 3.0)])
    whole = pa.table({"x": x})
    model = NRTSI(preset="tiny", steps=2).fit(whole, columns=["x"])
    path = write(tmp_path / "in.parquet", whole)
    done = impute_files(
        model, path, tmp_path / "out.parquet", memory_limit=(BYTES_PER_CELL + 50) * 60
    )
    got = read(tmp_path / "out.parquet")["x"].to_numpy()
    assert done.shards > 6
    assert np.abs(got[200:300] - 1).max() < 0.3


def test_a_gap_does_not_reach_over_times_that_go_back(model, tmp_path):
    """The first file is later than the others: what it knows is no neighbour of theirs."""
    whole = hollow(table(400, series=1, seed=5), np.arange(100, 300))
    for number, shard in enumerate([3, 0, 1, 2]):
        write(tmp_path / "in" / f"{number}.parquet", slices(whole, 4)[shard])
    impute_files(model, tmp_path / "in", tmp_path / "out")
    alone = model.impute(whole.slice(0, 300))["x"].to_numpy()[250:300]
    got = read(tmp_path / "out/3.parquet")["x"].to_numpy()[50:]
    np.testing.assert_allclose(got, alone, atol=0.05)


def test_a_shard_may_have_less_than_one_row_of_every_series(model, tmp_path):
    """No series has a row in the next shard, and many shards lie between its rows."""
    whole = table(400, series=100, seed=6)
    path = write(tmp_path / "in.parquet", whole)
    done = impute_files(model, path, tmp_path / "out.parquet", memory_limit=memory(20))
    assert done.shards > 10
    assert same_but_for_gaps(read(tmp_path / "out.parquet"), whole)


def test_beyond_the_limit_the_series_not_seen_for_longest_are_dropped(tmp_path):
    """Each series has a known row and, ten shards later, a missing one."""
    whole = hollow(table(400, series=200), np.arange(200, 400))
    shards = shards_of(input_files(write(tmp_path / "in.parquet", whole), memory(20)))
    panel = NRTSI(time="time", id="station", columns=["x", "n"]).read(whole)
    names, last = ["time", "station", "x", "n"], shards[-1]
    own = whole.slice(last.first, last.rows).select(names)

    def found(config):
        path = tmp_path / "gaps.parquet"
        find_long_gaps(path, shards, names, panel.columns, panel.clock, config)
        return far_rows(path, last, own, panel.columns).num_rows

    assert found(StreamConfig()) == last.rows
    assert found(StreamConfig(max_series=1)) == 0


def test_files_whose_times_go_back_are_imputed_alone(model, tmp_path):
    """Two files without ids that count from the same zero are two series."""
    one, two = (table(80, series=1, seed=seed) for seed in (1, 2))
    write(tmp_path / "in/a.parquet", one)
    write(tmp_path / "in/b.parquet", two)
    impute_files(model, tmp_path / "in", tmp_path / "out")
    for name, each in (("a", one), ("b", two)):
        assert read(tmp_path / f"out/{name}.parquet").equals(model.impute(each))


def test_numbered_rows_continue_from_shard_to_shard(tmp_path):
    """A table without times: a gap at the cut is filled from both sides."""
    x = np.linspace(0, 1, 200)
    x[95:105] = np.nan
    whole = pa.table({"x": x})
    model = NRTSI(preset="tiny", steps=2).fit(whole, columns=["x"])
    path = write(tmp_path / "in.parquet", whole)
    done = impute_files(model, path, tmp_path / "out.parquet", memory_limit=450 * 100)
    assert done.shards == 2
    assert (
        np.abs(read(tmp_path / "out.parquet")["x"].to_numpy() - np.linspace(0, 1, 200)).max() < 0.1
    )


# Folders and files ------------------------------------------------------------------------------


def test_a_folder_gives_a_folder_of_the_same_names(model, folder, tmp_path):
    done = impute_files(model, folder, tmp_path / "out")
    assert files_in(tmp_path / "out") == ["a/day-10.parquet", "a/day-2.parquet", "b/day-1.PQ"]
    assert (done.files, done.shards, done.rows) == (3, 3, 360)
    for name in files_in(tmp_path / "out"):
        assert same_but_for_gaps(read(tmp_path / "out" / name), read(folder / name))
    assert not work_folder(tmp_path / "out").exists()


def test_numbers_in_names_are_sorted_by_value(folder):
    names = [source.name for source in input_files(folder, 10**9)]
    assert names == ["a/day-2.parquet", "a/day-10.parquet", "b/day-1.PQ"]


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
    write(tmp_path / "in/a.parquet", table(40))
    write(tmp_path / "in/b.parquet", full.slice(0, 0))
    write(tmp_path / "in/c.parquet", full)
    done = impute_files(model, tmp_path / "in", tmp_path / "out")
    assert read(tmp_path / "out/b.parquet").equals(full.slice(0, 0))
    assert read(tmp_path / "out/c.parquet").equals(full)
    assert done.rows == 80


def test_progress_only_rises(model, tmp_path):
    path, seen = write(tmp_path / "a.parquet", table(400)), []
    impute_files(
        model,
        path,
        tmp_path / "o.parquet",
        memory_limit=memory(90),
        listener=lambda e: seen.append(e),
    )
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
    write(tmp_path / "in/a.parquet", table(40))
    nothing = pa.array([None] * 8, pa.float64()), pa.array([None] * 8, pa.int32())
    bad = table(8, series=1).set_column(2, "x", nothing[0]).set_column(3, "n", nothing[1])
    bad = bad.set_column(0, "station", pa.array(["new"] * 8))
    write(tmp_path / "in/b.parquet", bad)
    with pytest.raises(InputError, match=r"b\.parquet: series 'new' must have observed values"):
        impute_files(model, tmp_path / "in", tmp_path / "out")
    assert files_in(tmp_path / "out") == ["a.parquet"]


def test_an_empty_series_can_be_left_missing(tmp_path):
    lenient = NRTSI(preset="tiny", steps=2, on_empty="skip").fit(
        table(80), time="time", id="station", columns=["x", "n"]
    )
    gaps = table(40).set_column(3, "n", pa.array([None] * 40, pa.int32()))
    x = np.where(np.arange(40) % 4 == 1, np.nan, gaps["x"].to_numpy())
    write(tmp_path / "in/a.parquet", gaps.set_column(2, "x", pa.array(x)))
    assert impute_files(lenient, tmp_path / "in", tmp_path / "out").left == 20


def test_times_that_go_back_inside_a_file_are_refused(model, tmp_path):
    shuffled = table(200).take(np.random.default_rng(0).permutation(200))
    path = write(tmp_path / "a.parquet", shuffled)
    with pytest.raises(
        InputError, match=r"a.parquet must have the rows of each series in order o"
    ):
        impute_files(model, path, tmp_path / "out.parquet", memory_limit=memory(80))
    impute_files(model, path, tmp_path / "whole.parquet")  # in one shard order does not matter
    assert files_in(tmp_path) == ["a.parquet", "whole.parquet"]


@pytest.mark.parametrize("rows", [60, 120])
def test_a_refusal_before_anything_was_done_leaves_nothing_behind(model, tmp_path, rows):
    """Times that go back at the very end, which a look at all rows finds before the filling."""
    whole = table(200)
    order = np.concatenate([np.arange(180), np.arange(20)])
    path = write(tmp_path / "a.parquet", whole.take(order))
    with pytest.raises(InputError, match="must have the rows of each series in order of time"):
        impute_files(model, path, tmp_path / "out.parquet", memory_limit=memory(rows))
    assert files_in(tmp_path) == ["a.parquet"]


def test_a_mistake_in_the_data_names_the_file_and_the_shard(model, tmp_path):
    x = table(200)["x"].to_numpy().copy()
    x[150] = np.inf
    path = write(tmp_path / "a.parquet", table(200).set_column(2, "x", pa.array(x)))
    shards = shards_of(input_files(path, memory(120)))
    first = shards[1].first
    with pytest.raises(
        InputError, match=rf"a\.parquet, shard from row {first}: .*inf at row {150 - first} "
    ):
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


@pytest.mark.parametrize("inside", [".git/config", "run.json", ".run.json"])
def test_hidden_files_and_runs_of_others_are_left_alone(model, folder, tmp_path, inside):
    theirs = tmp_path / "out.partial" / inside
    theirs.parent.mkdir(parents=True)
    theirs.write_text('{"mine": true}')
    for words in ({}, {"overwrite": True}, {"resume": True}):
        with pytest.raises(
            InputError, match=r"is needed for unfinished work, .* nrtsi did not write"
        ):
            impute_files(model, folder, tmp_path / "out", **words)
    assert theirs.read_text() == '{"mine": true}'


@pytest.fixture
def elsewhere(tmp_path):
    """A folder on another disk."""
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other disk here")
    with TemporaryDirectory(dir=other) as place:
        yield Path(place)


def test_what_a_link_to_another_disk_points_to_is_written(model, folder, tmp_path, elsewhere):
    data = write(tmp_path / "in.parquet", table(300))
    (tmp_path / "out.parquet").symlink_to(elsewhere / "far.parquet")
    (tmp_path / "out").symlink_to(elsewhere / "far")
    (elsewhere / "far").mkdir()
    assert work_folder(tmp_path / "out.parquet") == elsewhere / "far.parquet.partial"
    impute_files(model, data, tmp_path / "out.parquet", memory_limit=memory(90))
    assert same_but_for_gaps(read(elsewhere / "far.parquet"), table(300))
    impute_files(model, folder, tmp_path / "out")
    assert len(files_in(elsewhere / "far")) == 3


def test_a_folder_inside_the_output_may_be_on_another_disk(model, folder, tmp_path, elsewhere):
    """As a mount is; a copy, and still known as done after a crash."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").symlink_to(elsewhere)
    with pytest.raises(InterruptionError):
        impute_files(interrupted_after(model, 1), folder, tmp_path / "out", overwrite=True)
    first = (elsewhere / "day-2.parquet").stat()
    impute_files(model, folder, tmp_path / "out", resume=True)
    assert (elsewhere / "day-2.parquet").stat().st_ino == first.st_ino
    assert files_in(elsewhere) == ["day-10.parquet", "day-2.parquet"]
    assert (tmp_path / "out/b/day-1.PQ").exists()


# An interrupted run ----------------------------------------------------------------------------


def load_again(model):
    """The same model from a file."""
    with TemporaryDirectory() as place:
        model.save(Path(place) / "m.nrtsi")
        return load(Path(place) / "m.nrtsi")


class InterruptionError(Exception):
    """Stands for a crash."""


def interrupted_after(model, shards):
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
        impute_files(interrupted_after(model, 1), folder, tmp_path / "out")
    assert files_in(tmp_path / "out") == ["a/day-2.parquet"]
    return folder, tmp_path / "out"


def test_an_unfinished_run_is_not_discarded(model, begun):
    with pytest.raises(
        InputError,
        match=r"partial contains an interrupted run; add --resume .*--overwrite to start over",
    ):
        impute_files(model, *begun)


def test_an_unfinished_run_can_start_over(model, begun):
    first = (begun[1] / "a/day-2.parquet").stat()
    impute_files(model, *begun, overwrite=True)
    assert (begun[1] / "a/day-2.parquet").stat().st_ino != first.st_ino
    assert len(files_in(begun[1])) == 3
    assert not work_folder(begun[1]).exists()


def test_another_model_memory_or_input_is_refused(model, begun):
    folder, out = begun
    other = NRTSI(preset="tiny", steps=4).fit(
        table(400), time="time", id="station", columns=["x", "n"]
    )
    with pytest.raises(
        InputError,
        match=r"cannot resume the run in .*: the model has changed; use the original one, or",
    ):
        impute_files(other, folder, out, resume=True)
    with pytest.raises(InputError, match="the memory limit has changed;"):
        impute_files(model, folder, out, memory_limit="2GiB", resume=True)
    write(folder / "b/day-1.PQ", table(40))
    with pytest.raises(InputError, match=r"the input has changed \(b/day-1.PQ was changed\)"):
        impute_files(model, folder, out, resume=True)
    write(folder / "b/day-1.PQ", table(40)).rename(folder / "b/day-3.PQ")
    with pytest.raises(InputError, match=r"the input has changed \(b/day-3.PQ was added\)"):
        impute_files(model, folder, out, resume=True)
    (folder / "b/day-3.PQ").unlink()
    with pytest.raises(InputError, match=r"the input has changed \(b/day-1.PQ was removed\)"):
        impute_files(model, folder, out, resume=True)


def test_a_run_of_an_earlier_format_is_refused(model, begun):
    run_file = work_folder(begun[1]) / "run.json"
    run_file.write_text('{"version of nrtsi": "0.0.1"}')
    with pytest.raises(InputError, match="the version of nrtsi has changed; use the original one"):
        impute_files(model, *begun, resume=True)


def test_on_empty_may_change_when_a_run_resumes(model, begun):
    lenient = load_again(model).set_params(on_empty="skip", memory_limit="3GiB")
    assert impute_files(lenient, *begun, resume=True).files == 3
    assert (lenient.memory_limit, lenient.on_empty) == ("3GiB", "skip")


def test_the_memory_limit_is_that_of_the_run_to_resume(model, tmp_path):
    data, out = write(tmp_path / "in.parquet", table(330)), tmp_path / "out.parquet"
    with pytest.raises(InterruptionError):
        impute_files(interrupted_after(model, 1), data, out, memory_limit=memory(90))
    assert impute_files(model, data, out, resume=True).shards > 2


def test_the_memory_limit_applies_to_the_network(model, folder, tmp_path, monkeypatch):
    seen = []
    within = FittedModel.with_memory_limit
    monkeypatch.setattr(
        FittedModel, "with_memory_limit", lambda s, m: seen.append(m) or within(s, m)
    )
    impute_files(model, folder, tmp_path / "out", memory_limit="300MB")
    assert set(seen) == {300_000_000}
    assert model.memory_limit == "1GiB"


def test_the_memory_limit_applies_to_a_file_in_memory(model, tmp_path, monkeypatch):
    model.save(tmp_path / "m.nrtsi")
    data, seen = write(tmp_path / "in.parquet", table(80)), []
    within = FittedModel.with_memory_limit
    monkeypatch.setattr(
        FittedModel, "with_memory_limit", lambda s, m: seen.append(m) or within(s, m)
    )
    words = ["--model", tmp_path / "m.nrtsi", "--memory-limit", "300MB"]
    assert run("impute", data, "--out", tmp_path / "out.csv", *words).exit_code == 0
    assert set(seen) == {300_000_000}


def test_a_committed_file_that_was_lost_is_made_again(model, begun):
    (begun[1] / "a/day-2.parquet").unlink()
    impute_files(model, *begun, resume=True)
    assert len(files_in(begun[1])) == 3


def test_without_anything_to_resume_it_starts(model, folder, tmp_path):
    said = []
    impute_files(model, folder, tmp_path / "out", resume=True, log_line=said.append)
    assert said == [
        f"there is no {tmp_path / 'out.partial'} to resume; starting from the beginning"
    ]


def test_a_folder_that_is_not_ours_is_left_alone(model, folder, tmp_path):
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "thesis.txt").write_text("mine")
    with pytest.raises(
        InputError,
        match=r"out\.partial is needed for unfinished work, .* nrtsi did not write; move",
    ):
        impute_files(model, folder, tmp_path / "out", overwrite=True)
    assert files_in(tmp_path / "out.partial") == ["thesis.txt"]


def test_an_incomplete_line_of_the_journal_is_ignored(model, begun):
    with (work_folder(begun[1]) / "done.jsonl").open("a") as file:
        file.write('["shard 2", {"impu')
    impute_files(model, *begun, resume=True)
    assert len(files_in(begun[1])) == 3


def test_an_output_that_cannot_be_written_is_refused(model, folder, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "a").write_text("a file where a folder is needed")
    message = r"day-2\.parquet cannot be written: .*; free some space .*--resume to continue"
    with pytest.raises(InputError, match=message):
        impute_files(model, folder, out, overwrite=True)


@pytest.mark.parametrize("shards", range(4))
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_run_interrupted_anywhere_ends_with_the_same_bytes(
    model, tmp_path, folder, kind, shards
):
    source = folder if kind == "folder" else write(tmp_path / "a.parquet", table(330))
    suffix, size = ("", "1GiB") if kind == "folder" else (".parquet", memory(90))
    plain, out = tmp_path / f"plain{suffix}", tmp_path / f"out{suffix}"
    summary = impute_files(model, source, plain, memory_limit=size)
    assert summary.shards > 2
    try:
        impute_files(interrupted_after(model, shards), source, out, memory_limit=size)
    except InterruptionError:
        assert impute_files(model, source, out, memory_limit=size, resume=True) == summary
    for one, two in (
        [(plain, out)]
        if plain.is_file()
        else zip(*(sorted(p.rglob("*.p*q*")) for p in (plain, out)), strict=True)
    ):
        assert one.is_dir() or one.read_bytes() == two.read_bytes()
    assert not work_folder(out).exists()


# The command ------------------------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def refused(result, message):
    assert result.exit_code == 2, result.output
    assert len(result.stderr.strip().splitlines()) == 1
    assert message in result.stderr
    return True


def test_the_command_imputes_a_folder(model, folder, tmp_path):
    model.save(tmp_path / "m.nrtsi")
    result = run("impute", folder, "--out", tmp_path / "out", "--model", tmp_path / "m.nrtsi")
    assert result.exit_code == 0, result.output
    gaps = sum(read(path)["n"].null_count for path in folder.glob("?/*"))
    assert (
        f"of 720 cells imputed (3 files, 3 shards) by {tmp_path / 'm.nrtsi'} in" in result.stdout
    )
    assert gaps
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
    out, csv = tmp_path / "out", tmp_path / "a.csv"
    csv.write_text("time,x\n0,1\n1,\n2,3\n")
    result = run("impute", folder, "--out", out, "--every", "15min")
    assert refused(result, f"--every must not be given for {folder}, which is imputed in shards")
    assert refused(run("impute", folder, "--out", out, "--at", csv), "--at must not be given for")
    result = run("impute", csv, "--out", tmp_path / "o.csv", "--resume")
    assert refused(result, "--resume needs a folder, or a Parquet file larger than --memory-limit")
    result = run(
        "impute",
        folder / "b" / "day-1.PQ",
        "--out",
        tmp_path / "o.parquet",
        "--memory-limit",
        memory(60),
        "--every",
        "15min",
    )
    assert refused(result, "leave it out, or raise --memory-limit")
    result = run("impute", tmp_path / "nodays", "--out", out)
    assert refused(result, f"{tmp_path / 'nodays'} does not exist; check the name and the folder")
    result = run("impute", csv, "--out", tmp_path / "o.csv", "--memory-limit", "lots")
    assert refused(result, "memory_limit must be a positive number of bytes or a text such as")
    result = run("fit", folder, "--out", tmp_path / "m.nrtsi")
    assert refused(result, "must be a file, got a folder; name the file in it (nrtsi impute takes")


def test_a_large_file_with_other_output_than_parquet_is_noted(model, tmp_path):
    model.save(tmp_path / "m.nrtsi")
    path = write(tmp_path / "a.parquet", table(400))
    words = ["--model", tmp_path / "m.nrtsi", "--memory-limit", memory(150)]
    result = run("impute", path, "--out", tmp_path / "o.csv", *words)
    assert result.exit_code == 0, result.output
    told = "needs more than --memory-limit: only Parquet output is written in shards"
    assert result.stderr == f"nrtsi: {path} {told}\n"


def test_an_interruption_tells_how_to_continue(model, folder, tmp_path, monkeypatch):
    model.save(tmp_path / "m.nrtsi")
    command = ["impute", folder, "--out", tmp_path / "out", "--model", tmp_path / "m.nrtsi"]

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


def test_an_unfinished_run_is_not_discarded_with_more_memory(model, tmp_path):
    model.save(tmp_path / "m.nrtsi")
    data, out = write(tmp_path / "in.parquet", table(330)), tmp_path / "out.parquet"
    with pytest.raises(InterruptionError):
        impute_files(interrupted_after(model, 1), data, out, memory_limit=memory(90))
    command = ["impute", data, "--out", out, "--model", tmp_path / "m.nrtsi"]
    result = run(*command, "--resume", "--memory-limit", "4GiB")
    assert refused(result, f"--memory-limit must be that of the run in {work_folder(out)}, ")
    assert refused(run(*command), "contains an interrupted run; add --resume")
    assert run(*command, "--overwrite").exit_code == 0
    assert not work_folder(out).exists()


def test_empty_series_may_be_skipped_with_a_saved_model(model, tmp_path):
    model.save(tmp_path / "m.nrtsi")
    whole = hollow(table(80), np.arange(1, 80, 4))
    data, folder = write(tmp_path / "in.parquet", whole), tmp_path / "in"
    write(folder / "a.parquet", whole)
    for source, out in ((data, "out.parquet"), (folder, "out")):
        command = ["impute", source, "--out", tmp_path / out, "--model", tmp_path / "m.nrtsi"]
        assert refused(run(*command), "must have observed values, got none; remove it, or")
        result = run(*command, "--on-empty", "ignore")
        assert refused(result, "--on-empty must be error or skip, got 'ignore'")
        resume = ["--resume"] if source is folder else []
        assert run(*command, "--on-empty", "skip", *resume).exit_code == 0


def wait_for(condition, seconds=60):
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds
        time.sleep(0.002)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_killed_run_resumes(model, tmp_path, kind):
    """SIGKILL during imputation: the rest is imputed, and no shard twice."""
    count, whole = 20, table(4000)
    model.save(tmp_path / "m.nrtsi")
    for number, shard in enumerate(slices(whole, count)):
        write(tmp_path / "in" / f"{number}.parquet", shard)
    source, suffix, size = tmp_path / "in", "", "1GiB"
    if kind == "file":
        source, suffix = write(tmp_path / "in.parquet", whole), ".parquet"
        size = memory(200)
    out, work = tmp_path / f"out{suffix}", tmp_path / f"out{suffix}.partial"
    options = ["--model", tmp_path / "m.nrtsi", "--memory-limit", size]
    made = work if kind == "file" else out
    code = "import sys; from nrtsi.cli.main import main; sys.argv[0] = 'nrtsi'; main()"
    command = [sys.executable, "-c", code, "impute", source, "--out", out, *options]
    process = subprocess.Popen([str(word) for word in command])
    wait_for(lambda: len(list(made.glob("[0-9]*.parquet"))) >= 3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (work / "run.json").exists()
    before = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in made.glob("[0-9]*")}
    assert 3 <= len(before) < count
    (work / ".00000009.0123456789ab.parquet").write_text("half a par")  # as a kill may leave it
    calls = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NRTSI, "run", counted(NRTSI.run, calls))
        result = run("impute", source, "--out", out, *options, "--resume")
    assert result.exit_code == 0, result.output
    plain = tmp_path / f"plain{suffix}"
    summary = impute_files(model, source, plain, memory_limit=size)
    assert len(calls) == summary.shards - len(before)
    assert f"wrote {out}: {summary.imputed:,} of {summary.cells:,} cells imputed" in result.stdout
    if kind == "file":
        assert out.read_bytes() == plain.read_bytes()
    else:
        assert files_in(out) == files_in(plain)
        assert all((out / n).read_bytes() == (plain / n).read_bytes() for n in files_in(plain))
        assert before == {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in before}
    assert not work.exists()


def counted(function, calls):
    def call(*arguments, **options):
        calls.append(1)
        return function(*arguments, **options)

    return call


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
def test_memory_does_not_grow_with_the_data(model, tmp_path):
    model.save(tmp_path / "m.nrtsi")

    def peak(times):
        path = tmp_path / f"{times}.parquet"
        whole = table(20_000 * times, whole=True)
        write(path, whole, row_group_size=whole.num_rows)  # a single row group: the hardest case
        words = ["impute", path, "--out", f"{path}.out.parquet", "--model", tmp_path / "m.nrtsi"]
        words = [sys.executable, "-c", MEASURED, *words, "--memory-limit", memory(10_000)]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
        wrote, kib = done.stdout.strip().split("\n")
        assert f"of {2 * whole.num_rows:,} cells imputed" in wrote
        return int(kib)

    small, large = peak(2), peak(32)  # 4 shards, then 64
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
