import os
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

from nrtsi import NRTSI
from nrtsi.cli import app
from nrtsi.errors import InputError
from nrtsi.streaming import context, impute_files
from nrtsi.streaming.reading import read_parts
from nrtsi.streaming.sources import BYTES, in_parts, parts_of, sources_of
from nrtsi.streaming.training import sample
from nrtsi.streaming.work import work_folder
from tests.strategies import seeds

COLUMNS = 5  # of `table`


def memory(rows):
    """Memory for parts of nearly so many rows; the file's own bytes take a little of it."""
    return (BYTES * COLUMNS + 600) * rows


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
    for name, part in zip(
        ("a/day-2.parquet", "a/day-10.parquet", "b/day-1.PQ"), slices(table(360), 3), strict=True
    ):
        write(data / name, part)
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


def same_but_for_holes(got, was):
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
def test_files_of_whole_series_are_filled_as_the_table_in_memory(model, seed, count):
    whole = table(240, series=12, seed=seed, order="id")
    rows = 20 * np.unique(np.random.default_rng(seed).integers(1, 12, count))
    with TemporaryDirectory() as place:
        data, out = Path(place) / "in", Path(place) / "out"
        for number, (a, b) in enumerate(zip([0, *rows], [*rows, 240], strict=True)):
            write(data / f"{number}.parquet", whole.slice(a, b - a))
        done = impute_files(model, data, out)
        got = pa.concat_tables(read(out / f"{i}.parquet") for i in range(len(rows) + 1))
    filled = model.impute(whole)
    assert same_but_for_holes(got, whole)
    np.testing.assert_allclose(got["x"].to_numpy(), filled["x"].to_numpy(), rtol=1e-5, atol=1e-6)
    assert done.parts == done.files == len(rows) + 1
    assert done.imputed == whole["n"].null_count + np.isnan(whole["x"].to_numpy()).sum()
    assert (done.rows, done.cells, done.left, done.steps) == (240, 480, 0, 3)


@settings(max_examples=6)
@given(seeds, st.integers(20, 400), st.integers(7, 300), st.sampled_from(["time", "id"]))
def test_a_file_that_is_cut_keeps_all_that_was_known(model, seed, rows, group, order):
    whole = table(360, seed=seed, order=order)
    with TemporaryDirectory() as place:
        data, out = Path(place) / "in.parquet", Path(place) / "out.parquet"
        write(data, whole, row_group_size=group)
        done = impute_files(model, data, out, memory=memory(rows))
        got = read(out)
        assert files_in(Path(place)) == ["in.parquet", "out.parquet"]
    assert done.files == 1
    assert same_but_for_holes(got, whole)
    # With 256 known rows as context every part has seen all of its series.
    filled = model.impute(whole)
    if done.parts <= 3:
        assert np.abs(got["x"].to_numpy() - filled["x"].to_numpy()).max() < 0.05


@settings(max_examples=20)
@given(seeds, st.integers(1, 90), st.integers(1, 40), st.integers(1, 40))
def test_parts_are_the_rows_of_the_file_in_order(seed, rows, most, group):
    whole = table(rows, seed=seed)
    with TemporaryDirectory() as place:
        path = write(Path(place) / "a.parquet", whole, row_group_size=group)
        parts = parts_of(sources_of(path, memory(most)))
        first = seed % len(parts)
        tables = list(read_parts(parts[first:]))
    assert [part.rows for part in parts[first:]] == [each.num_rows for each in tables]
    assert pa.concat_tables(tables)["note"].equals(whole["note"].slice(parts[first].first))
    sizes = [part.rows for part in parts]
    assert sum(sizes) == rows
    assert max(sizes) - min(sizes) <= 1


def test_what_was_read_is_not_held(tmp_path):
    """Arrow's reader holds what it reads ahead until the file is closed, unless told not to."""
    noise = pa.table({"x": np.random.default_rng(0).random(1_200_000)})
    path = write(tmp_path / "a.parquet", noise, row_group_size=60_000)
    parts = parts_of(sources_of(path, (BYTES + 30) * 15_000))
    before = pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() - before for _ in read_parts(parts)]
    assert max(held) < path.stat().st_size / 4


@settings(max_examples=20)
@given(seeds, st.integers(1, 6))
def test_context_is_the_known_rows_at_the_ends_and_the_holes_among_them(seed, most):
    whole = table(60, seed=seed, whole=True)
    model = NRTSI(time="time", id="station", columns=["x", "n"])
    panel = model.read(whole)
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(context, "CONTEXT", most)
        part = parts_of(sources_of(write(Path(place) / "a.parquet", whole), 10**9))[0]
        ends = context.ends_of(part, whole, panel.columns, panel.clock)
    for i, key in enumerate(ends.ids):
        mine = whole.filter(pa.compute.equal(whole["station"], key))
        known = np.flatnonzero(~np.isnan(mine["x"].to_numpy()))
        first = mine.slice(0, known[most - 1] + 1) if most <= known.size else mine
        last = mine.slice(known[-most]) if most <= known.size else mine
        only = np.arange(len(ends.ids)) == i
        assert ends.head.of(only)["note"].equals(first["note"])
        assert ends.tail.of(only)["note"].equals(last["note"])


def test_a_series_goes_on_over_the_edge_of_a_file(model, tmp_path):
    """Without its neighbours, a hole at the edge would be filled from one side."""
    whole = table(400, series=1, seed=1)
    x = whole["x"].to_numpy().copy()
    x[190:210] = np.nan
    whole = whole.set_column(2, whole.schema.field("x"), pa.array(x))
    for number, part in enumerate(slices(whole, 2)):
        write(tmp_path / "in" / f"{number}.parquet", part)
    impute_files(model, tmp_path / "in", tmp_path / "out")
    got = pa.concat_tables(read(tmp_path / "out" / f"{i}.parquet") for i in range(2))
    filled = model.impute(whole)
    np.testing.assert_allclose(
        got["x"].to_numpy()[185:215], filled["x"].to_numpy()[185:215], atol=0.02
    )


def test_a_hole_longer_than_the_context_is_seen_to_its_end(model, tmp_path, monkeypatch):
    monkeypatch.setattr(context, "CONTEXT", 8)
    whole = table(300, series=1, seed=2, whole=True)
    holes = np.zeros(300, bool)
    holes[110:200] = True
    x, n = whole["x"].to_numpy().copy(), whole["n"]
    x[holes] = np.nan
    n = pa.compute.if_else(pa.array(holes), pa.scalar(None, pa.int32()), n)
    whole = whole.set_column(2, "x", pa.array(x)).set_column(3, "n", n)
    for number, part in enumerate(slices(whole, 2)):
        write(tmp_path / "in" / f"{number}.parquet", part)
    impute_files(model, tmp_path / "in", tmp_path / "out")
    got = pa.concat_tables(read(tmp_path / "out" / f"{i}.parquet") for i in range(2))
    filled = model.impute(whole)
    assert np.abs(got["x"].to_numpy() - filled["x"].to_numpy())[holes].max() < 0.05


def test_files_whose_times_do_not_go_on_are_filled_alone(model, tmp_path):
    """Two files without ids that count from the same zero are two series."""
    one, two = (table(80, series=1, seed=seed) for seed in (1, 2))
    write(tmp_path / "in/a.parquet", one)
    write(tmp_path / "in/b.parquet", two)
    impute_files(model, tmp_path / "in", tmp_path / "out")
    for name, each in (("a", one), ("b", two)):
        assert read(tmp_path / f"out/{name}.parquet").equals(model.impute(each))


def test_rows_that_are_counted_go_on_from_part_to_part(tmp_path):
    """A table without times: a hole at the cut is filled from both sides."""
    x = np.linspace(0, 1, 200)
    x[95:105] = np.nan
    whole = pa.table({"x": x})
    model = NRTSI(preset="tiny", steps=2).fit(whole, columns=["x"])
    path = write(tmp_path / "in.parquet", whole)
    done = impute_files(model, path, tmp_path / "out.parquet", memory=450 * 100)
    assert done.parts == 2
    assert (
        np.abs(read(tmp_path / "out.parquet")["x"].to_numpy() - np.linspace(0, 1, 200)).max() < 0.1
    )


# Folders and files ------------------------------------------------------------------------------


def test_a_folder_gives_a_folder_of_the_same_names(model, folder, tmp_path):
    done = impute_files(model, folder, tmp_path / "out")
    assert files_in(tmp_path / "out") == ["a/day-10.parquet", "a/day-2.parquet", "b/day-1.PQ"]
    assert (done.files, done.parts, done.rows) == (3, 3, 360)
    for name in files_in(tmp_path / "out"):
        assert same_but_for_holes(read(tmp_path / "out" / name), read(folder / name))
    assert not work_folder(tmp_path / "out").exists()


def test_numbers_in_names_are_counted(folder):
    names = [source.name for source in sources_of(folder, 10**9)]
    assert names == ["a/day-2.parquet", "a/day-10.parquet", "b/day-1.PQ"]


@pytest.mark.parametrize("codec", ["NONE", "SNAPPY", "GZIP", "ZSTD", "LZ4"])
def test_compression_and_row_groups_are_kept(model, tmp_path, codec):
    path = write(tmp_path / "a.parquet", table(400), compression=codec, row_group_size=40)
    impute_files(model, path, tmp_path / "out.parquet", memory=memory(130))
    before, after = pq.read_metadata(path), pq.read_metadata(tmp_path / "out.parquet")
    kinds = {meta.row_group(0).column(0).compression for meta in (before, after)}
    assert len(kinds) == 1
    assert max(after.row_group(i).num_rows for i in range(after.num_row_groups)) == 40


def test_files_without_rows_and_without_holes_come_back_as_they_were(model, tmp_path):
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
        model, path, tmp_path / "o.parquet", memory=memory(90), listener=lambda e: seen.append(e)
    )
    fractions = [event.fraction for event in seen]
    assert fractions == sorted(fractions)
    assert 0.9 < fractions[-1] <= 1.0


# Training ---------------------------------------------------------------------------------------


def test_a_model_that_is_not_fitted_is_trained_on_some_parts(folder, tmp_path):
    said = []
    unfitted = NRTSI(preset="tiny", steps=3, time="time", id="station", columns=["x", "n"])
    done = impute_files(unfitted, folder, tmp_path / "out", say=said.append)
    assert said == ["training on 3 of 3 parts (360 rows)"]
    assert (done.left, done.steps) == (0, 3)


def test_the_sample_is_spread_over_the_input_and_bounded(tmp_path):
    path = write(tmp_path / "a.parquet", table(1000))
    parts = parts_of(sources_of(path, memory(30)))
    chosen = [part.number for part in sample(parts)]
    assert len(chosen) == 3
    assert np.ptp(chosen) > len(parts) / 2
    assert sample(parts_of(sources_of(path, 10**9))) == parts_of(sources_of(path, 10**9))


def test_what_cannot_be_learnt_from_is_refused(tmp_path):
    words = {"preset": "tiny", "steps": 2, "time": "time"}
    write(tmp_path / "in/a.parquet", table(40, series=1))
    write(tmp_path / "in/b.parquet", table(40, series=1))
    with pytest.raises(
        InputError, match=r"times must be unique.*2 parts to train on, joined.*--mod"
    ):
        impute_files(NRTSI(**words), tmp_path / "in", tmp_path / "out")
    write(tmp_path / "none/a.parquet", table(8).slice(0, 0))
    with pytest.raises(InputError, match="must be at least one row to learn from"):
        impute_files(NRTSI(**words), tmp_path / "none", tmp_path / "out2")


# Mistakes ---------------------------------------------------------------------------------------


def test_an_empty_series_is_refused_with_the_name_of_its_file(model, tmp_path):
    write(tmp_path / "in/a.parquet", table(40))
    nothing = pa.array([None] * 8, pa.float64()), pa.array([None] * 8, pa.int32())
    bad = table(8, series=1).set_column(2, "x", nothing[0]).set_column(3, "n", nothing[1])
    bad = bad.set_column(0, "station", pa.array(["new"] * 8))
    write(tmp_path / "in/b.parquet", bad)
    with pytest.raises(InputError, match=r"b\.parquet: series 'new' must have something observed"):
        impute_files(model, tmp_path / "in", tmp_path / "out")
    assert files_in(tmp_path / "out") == ["a.parquet"]


def test_an_empty_series_can_be_left_missing(tmp_path):
    lenient = NRTSI(preset="tiny", steps=2, on_empty="skip").fit(
        table(80), time="time", id="station", columns=["x", "n"]
    )
    holes = table(40).set_column(3, "n", pa.array([None] * 40, pa.int32()))
    x = np.where(np.arange(40) % 4 == 1, np.nan, holes["x"].to_numpy())
    write(tmp_path / "in/a.parquet", holes.set_column(2, "x", pa.array(x)))
    assert impute_files(lenient, tmp_path / "in", tmp_path / "out").left == 20


def test_times_that_go_back_where_a_file_is_cut_are_refused(model, tmp_path):
    shuffled = table(200).take(np.random.default_rng(0).permutation(200))
    path = write(tmp_path / "a.parquet", shuffled)
    with pytest.raises(
        InputError, match=r"a.parquet must have the rows of each series in order o"
    ):
        impute_files(model, path, tmp_path / "out.parquet", memory=memory(80))
    impute_files(model, path, tmp_path / "whole.parquet")  # in one part order does not matter


def test_a_mistake_in_the_data_names_the_file_and_the_part(model, tmp_path):
    x = table(200)["x"].to_numpy().copy()
    x[150] = np.inf
    path = write(tmp_path / "a.parquet", table(200).set_column(2, "x", pa.array(x)))
    parts = parts_of(sources_of(path, memory(120)))
    first = parts[1].first
    with pytest.raises(
        InputError, match=rf"a\.parquet, part from row {first} on: .*inf at row {150 - first} "
    ):
        impute_files(model, path, tmp_path / "out.parquet", memory=memory(120))


def test_files_that_are_not_alike_are_refused(model, tmp_path):
    write(tmp_path / "in/a.parquet", table(40))
    write(tmp_path / "in/b.parquet", table(40).drop_columns("x"))
    with pytest.raises(InputError, match=r"b\.parquet must have column 'x' once, got 0"):
        impute_files(model, tmp_path / "in", tmp_path / "out")
    other = table(40).set_column(3, "n", table(40)["n"].cast(pa.float64()))
    write(tmp_path / "in/b.parquet", other)
    with pytest.raises(InputError, match=r"column 'n' of type int32 as a\.parquet has, got dou"):
        impute_files(model, tmp_path / "in", tmp_path / "out")
    # A column that the model does not read may be of any kind.
    write(tmp_path / "in/b.parquet", table(40).drop_columns("note"))
    assert impute_files(model, tmp_path / "in", tmp_path / "out").files == 2


def test_what_is_no_parquet_is_refused(model, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty must hold files that end in \.parquet or \.pq"):
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
    refused(folder, folder, "must lie apart from")
    refused(folder, folder / "out", "must lie apart from")
    refused(folder / "a", folder, "must lie apart from")
    refused(one, one, "must lie apart from")
    refused(folder, tmp_path / "out.csv", "must be a folder, because .* is one")
    refused(folder, one, "must be a folder, because .* is one")
    refused(one, tmp_path / "out.csv", r"must end in \.parquet or \.pq")
    refused(folder, tmp_path / "no" / "out", "there is no folder")
    taken = write(tmp_path / "taken" / "x.parquet", table(40)).parent
    refused(folder, taken, "taken exists already and is not empty; add --overwrite")
    refused(one, taken / "x.parquet", "exists already; add --overwrite")
    assert files_in(taken) == ["x.parquet"]
    impute_files(model, folder, taken, overwrite=True)
    assert len(files_in(taken)) == 4


# A run that was cut short -----------------------------------------------------------------------


class CutError(Exception):
    """Stands for a crash."""


def cut_after(model, parts):
    """A model that fails after so many parts."""
    calls = []

    class Failing(NRTSI):
        def impute(self, *arguments, **options):
            calls.append(1)
            if len(calls) > parts:
                raise CutError
            return super().impute(*arguments, **options)

    failing = Failing()
    failing.__dict__.update(model.__dict__)
    return failing


@pytest.fixture
def begun(model, folder, tmp_path):
    """A run that was cut short after one of three files."""
    with pytest.raises(CutError):
        impute_files(cut_after(model, 1), folder, tmp_path / "out")
    assert files_in(tmp_path / "out") == ["a/day-2.parquet"]
    return folder, tmp_path / "out"


def test_an_unfinished_run_is_not_forgotten(model, begun):
    with pytest.raises(InputError, match=r"out\.partial is left from .*--resume .*--overwrite"):
        impute_files(model, *begun)


def test_an_unfinished_run_can_be_started_anew(model, begun):
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
    with pytest.raises(InputError, match="got another model; give the same again, or add --overw"):
        impute_files(other, folder, out, resume=True)
    with pytest.raises(InputError, match="got another memory;"):
        impute_files(model, folder, out, memory="2GiB", resume=True)
    write(folder / "b/day-1.PQ", table(40))
    with pytest.raises(InputError, match=r"got another data \(b/day-1.PQ was changed, added or r"):
        impute_files(model, folder, out, resume=True)
    (folder / "b/day-1.PQ").unlink()
    with pytest.raises(InputError, match=r"got another data \(b/day-1.PQ was"):
        impute_files(model, folder, out, resume=True)


def test_a_committed_file_that_was_lost_is_made_again(model, begun):
    (begun[1] / "a/day-2.parquet").unlink()
    impute_files(model, *begun, resume=True)
    assert len(files_in(begun[1])) == 3


def test_without_anything_to_resume_it_starts(model, folder, tmp_path):
    said = []
    impute_files(model, folder, tmp_path / "out", resume=True, say=said.append)
    assert said == [
        f"there is no {tmp_path / 'out.partial'} to resume; starting from the beginning"
    ]


def test_a_folder_that_is_not_ours_is_left_alone(model, folder, tmp_path):
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "thesis.txt").write_text("mine")
    with pytest.raises(
        InputError, match=r"out\.partial must be free .* nrtsi did not write; move"
    ):
        impute_files(model, folder, tmp_path / "out", overwrite=True)
    assert files_in(tmp_path / "out.partial") == ["thesis.txt"]


def test_a_line_that_was_cut_off_counts_for_nothing(model, begun):
    with (work_folder(begun[1]) / "done.jsonl").open("a") as file:
        file.write('["part 2", {"impu')
    impute_files(model, *begun, resume=True)
    assert len(files_in(begun[1])) == 3


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_refuses_to_be_written_is_told(model, folder, tmp_path):
    out = tmp_path / "out"
    out.mkdir(mode=0o500)
    with pytest.raises(InputError, match=r"cannot be written: Permission denied.*--resume to go"):
        impute_files(model, folder, out)


@pytest.mark.parametrize("parts", range(4))
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_run_cut_short_anywhere_ends_with_the_same_bytes(model, tmp_path, folder, kind, parts):
    source = folder if kind == "folder" else write(tmp_path / "a.parquet", table(330))
    suffix, size = ("", "1GiB") if kind == "folder" else (".parquet", memory(90))
    plain, out = tmp_path / f"plain{suffix}", tmp_path / f"out{suffix}"
    summary = impute_files(model, source, plain, memory=size)
    assert summary.parts > 2
    try:
        impute_files(cut_after(model, parts), source, out, memory=size)
    except CutError:
        assert impute_files(model, source, out, memory=size, resume=True) == summary
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


def test_the_command_fills_a_folder(model, folder, tmp_path):
    model.save(tmp_path / "m.nrtsi")
    result = run("impute", folder, "--out", tmp_path / "out", "--model", tmp_path / "m.nrtsi")
    assert result.exit_code == 0, result.output
    holes = sum(read(path)["n"].null_count for path in folder.glob("?/*"))
    assert f"of 720 cells imputed (3 files, 3 parts) by {tmp_path / 'm.nrtsi'} in" in result.stdout
    assert holes
    assert len(files_in(tmp_path / "out")) == 3


def test_the_command_trains_on_a_sample_and_says_so(tmp_path):
    path = write(tmp_path / "a.parquet", table(400))
    words = ["--steps", 3, "--preset", "tiny", "--memory", memory(150)]
    result = run("impute", path, "--out", tmp_path / "o.parquet", *words)
    assert result.exit_code == 0, result.output
    assert "nrtsi: training on 3 of 3 parts (400 rows)\nnrtsi: time: column" in result.stderr
    assert "(1 file, 3 parts), 3 steps in" in result.stdout


def test_files_that_fit_and_csv_are_filled_at_once(tmp_path):
    path = write(tmp_path / "a.parquet", table(400))
    assert not in_parts(path, tmp_path / "o.parquet", "1GiB")
    assert in_parts(path, tmp_path / "o.parquet", memory(150))
    assert not in_parts(path, tmp_path / "o.csv", memory(150))
    assert not in_parts(tmp_path / "absent.parquet", tmp_path / "o.parquet", 1)
    assert in_parts(tmp_path, tmp_path / "o", "1GiB")


def test_options_that_do_not_suit_are_refused(folder, tmp_path):
    out, csv = tmp_path / "out", tmp_path / "a.csv"
    csv.write_text("time,x\n0,1\n1,\n2,3\n")
    result = run("impute", folder, "--out", out, "--every", "15min")
    assert refused(result, f"--every must not be given for {folder}, which is filled part by part")
    assert refused(run("impute", folder, "--out", out, "--at", csv), "--at must not be given for")
    result = run("impute", csv, "--out", tmp_path / "o.csv", "--resume")
    assert refused(result, "--resume must come with a folder, or with a Parquet file larger than")
    result = run("impute", csv, "--out", tmp_path / "o.csv", "--memory", "lots")
    assert refused(result, "memory must be a positive number of bytes or a text such as")
    result = run("fit", folder, "--out", tmp_path / "m.nrtsi")
    assert refused(result, "must be a file, got a folder; name the file in it (nrtsi impute takes")


def test_an_interruption_says_how_to_go_on(model, folder, tmp_path, monkeypatch):
    model.save(tmp_path / "m.nrtsi")
    command = ["impute", folder, "--out", tmp_path / "out", "--model", tmp_path / "m.nrtsi"]

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(NRTSI, "impute", interrupted)
        result = run(*command)
    assert result.exit_code == 130
    kept = f"what is done is kept in {tmp_path / 'out.partial'}: add --resume to go on"
    assert result.stderr == f"nrtsi: interrupted; {kept}\n"
    assert run(*command, "--resume").exit_code == 0


def wait_for(condition, seconds=60):
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds
        time.sleep(0.002)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_killed_run_goes_on_where_it_was(model, tmp_path, kind):
    """SIGKILL while parts are made: the rest is made, and nothing twice."""
    count, whole = 20, table(4000)
    model.save(tmp_path / "m.nrtsi")
    for number, part in enumerate(slices(whole, count)):
        write(tmp_path / "in" / f"{number}.parquet", part)
    source, suffix, size = tmp_path / "in", "", "1GiB"
    if kind == "file":
        source, suffix = write(tmp_path / "in.parquet", whole), ".parquet"
        size = memory(200)
    out, work = tmp_path / f"out{suffix}", tmp_path / f"out{suffix}.partial"
    options = ["--model", tmp_path / "m.nrtsi", "--memory", size]
    made = work if kind == "file" else out
    code = "import sys; from nrtsi.cli import main; sys.argv[0] = 'nrtsi'; main()"
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
        patch.setattr(NRTSI, "impute", counted(NRTSI.impute, calls))
        result = run("impute", source, "--out", out, *options, "--resume")
    assert result.exit_code == 0, result.output
    plain = tmp_path / f"plain{suffix}"
    summary = impute_files(model, source, plain, memory=size)
    assert len(calls) == summary.parts - len(before)
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
from nrtsi import load
from nrtsi.streaming import impute_files
model, source, target, memory = sys.argv[1:]
done = impute_files(load(model), source, target, memory=int(memory))
# Not what getrusage says, which begins with the memory of the process that started this one.
lines = Path("/proc/self/status").read_text().splitlines()
print(done.rows, *(line.split()[1] for line in lines if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells the peak")
def test_memory_does_not_grow_with_the_data(model, tmp_path):
    model.save(tmp_path / "m.nrtsi")

    def peak(times):
        path = tmp_path / f"{times}.parquet"
        whole = table(20_000 * times, whole=True)
        write(path, whole, row_group_size=whole.num_rows)  # a single row group: the hardest case
        command = [
            sys.executable,
            "-c",
            MEASURED,
            tmp_path / "m.nrtsi",
            path,
            f"{path}.out.parquet",
        ]
        words = [str(word) for word in (*command, memory(10_000))]
        # Otherwise oneDNN keeps its 1,024 latest kernels, one for every shape it meets.
        bare = os.environ | {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "0"}
        done = subprocess.run(words, capture_output=True, text=True, check=True, env=bare)
        rows, kib = done.stdout.split()
        assert int(rows) == whole.num_rows
        return int(kib)

    small, large = peak(2), peak(32)  # 4 parts, then 64
    assert large < 1.1 * small
