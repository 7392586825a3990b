"""Readers of original files: on small ones made by hand in the same form, and on real ones."""

import io
import itertools
import logging
import zipfile
from pathlib import Path

import numpy as np
import pytest

from nrtsi.bench.datasets.files import matching_files, one_file
from nrtsi.bench.datasets.readers import (
    AIR,
    GAS,
    read_air,
    read_gas,
    read_nfl,
    read_traffic,
    read_traffic20,
)
from nrtsi.errors import InputError

REAL = Path(__file__).parents[2] / "shared" / "data"


def real(name):
    if not (REAL / name).exists():
        pytest.skip(f"the original {name} is not here")
    return REAL / name


# Air: imitates PRSA_Data_<station>_20130301-20170228.csv.

HEADER = '"No","year","month","day","hour",' + ",".join(f'"{c}"' for c in AIR[:-1])
HEADER += ',"wd","WSPM","station"\n'


def station(hours, name, *, value=None, first="2013-03-01T00"):
    """Text of one station's file; the value is by default station-free: hour + channel."""
    lines = [HEADER]
    for i in range(hours):
        when = np.datetime64(first, "h") + i
        day = when.astype("datetime64[D]")
        year, month, date = str(day).split("-")
        cells = [f"{i + c if value is None else value(i, c)}" for c in range(11)]
        row = [i + 1, int(year), int(month), int(date), (when - day).astype(int), *cells[:10]]
        lines.append(",".join(map(str, row)) + f',"NNW",{cells[10]},"{name}"\n')
    return "".join(lines)


def air_folder(folder, hours=480, names=("A", "B"), **how):
    for name in names:
        text = station(hours, name, **how)
        (folder / f"PRSA_Data_{name}_20130301-20170228.csv").write_text(text)
    return folder


def test_air_is_cut_into_windows_of_48_hours_and_split_by_time(tmp_path, caplog):
    data = read_air(air_folder(tmp_path, 480 + 17))
    assert [part.value.shape for part in data.parts.values()] == [
        (14, 48, 11),
        (2, 48, 11),
        (4, 48, 11),
    ]
    assert (
        "Training from 2013-03-01, validation from 2013-03-15, test from 2013-03-17" in data.about
    )
    assert "has 2 stations; the original has 12" in caplog.text
    # Hour 0 to 335 is for training: the mean and deviation of 0 … 335 by formula.
    mean, deviation = 335 / 2, np.sqrt((336**2 - 1) / 12)
    expected = (np.arange(384, 432) - mean) / deviation
    np.testing.assert_allclose(data.test.value[0], np.tile(expected[:, None], (1, 11)))
    np.testing.assert_array_equal(data.test.time[0], np.arange(48.0))
    assert data.channels == AIR


def test_air_shuffled_has_the_same_windows_in_an_order_of_the_seed(tmp_path):
    folder = air_folder(tmp_path, value=lambda hour, channel: (hour * 37 + channel) % 1009)

    def ordered(data):
        """All hours of all windows, scaled by themselves: each split has a scale of its own."""
        value = np.concatenate([part.value for part in data.parts.values()]).reshape(-1, 11)
        return (value - value.mean(axis=0)) / value.std(axis=0)

    by_time, first, again, other = (read_air(folder, seed) for seed in (None, 3, 3, 4))
    sizes = [part.value.shape for part in by_time.parts.values()]
    assert [part.value.shape for part in first.parts.values()] == sizes
    assert first.digest == again.digest != other.digest
    assert "taken at random" in first.about
    a, b = ordered(by_time), ordered(first)
    assert not np.allclose(a, b)
    np.testing.assert_allclose(np.sort(a, axis=0), np.sort(b, axis=0), atol=1e-9)
    # Whole windows change places: inside one, hours follow each other as they did.
    whole = {tuple(np.round(window, 6).ravel()) for window in a.reshape(-1, 48, 11)}
    assert whole == {tuple(np.round(window, 6).ravel()) for window in b.reshape(-1, 48, 11)}


def test_air_of_a_few_days_cannot_be_shuffled(tmp_path):
    with pytest.raises(InputError, match=r"a split needs at least 10 windows of 48 hours, got 8;"):
        read_air(air_folder(tmp_path, 4 * 48), 0)


def test_air_keeps_what_is_missing_and_leaves_out_windows_of_nothing(tmp_path):
    def value(hour, channel):
        return "NA" if hour < 48 or (hour % 5 == 0 and channel == 3) else hour * channel

    data = read_air(air_folder(tmp_path, value=value))
    assert data.train.series == 12  # one window less of each station
    missing = np.isnan(data.train.value)
    assert not missing[:, :, [0, 1, 2, 4, 5]].any()
    np.testing.assert_array_equal(missing[0, :, 3], np.arange(48, 96) % 5 == 0)


def test_air_puts_an_absent_hour_where_it_belongs(tmp_path):
    air_folder(tmp_path)
    file = next(tmp_path.glob("PRSA_Data_A*"))
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[: 1 + 10] + lines[1 + 12 :]))
    data = read_air(tmp_path)
    absent = np.isnan(data.train.value[0]).all(axis=1)
    np.testing.assert_array_equal(np.flatnonzero(absent), [10, 11])


def test_air_is_the_same_from_a_folder_a_zip_and_a_zip_in_a_zip(tmp_path):
    folder = tmp_path / "plain"
    folder.mkdir()
    air_folder(folder)
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"PRSA_Data_20130301-20170228/{file.name}")
    (tmp_path / "one.zip").write_bytes(inner.getvalue())
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("PRSA2017.zip", inner.getvalue())
    first = read_air(folder)
    for path in (tmp_path / "one.zip", tmp_path / "two.zip"):
        again = read_air(path)
        for name, part in first.parts.items():
            np.testing.assert_array_equal(part.value, again.parts[name].value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"TEMP"', '"HEAT"', r"A_.*csv must have the columns year, .*, got others; give the orig"),
        ("1,2013,3,1,0,0", "1,2013,3,1,0,warm", r"must be a table of numbers, got: .*warm"),
        ("2,2013,3,1,1,", "2,2013,3,1,0,", r"must have every hour once, got 1 repeats; give"),
        ("2,2013,3,1,1,", "2,2013,NA,1,1,", r"must have a year, month, day and hour in every row"),
    ],
)
def test_an_air_file_that_is_not_the_original_is_refused(tmp_path, old, new, message):
    air_folder(tmp_path, names=("A",))
    file = next(tmp_path.glob("*.csv"))
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        read_air(tmp_path)


def test_too_short_a_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"at least 10 windows of 48 hours, got 9; give a longer"):
        read_air(air_folder(tmp_path, 479))


def test_real_air_has_its_known_size_and_dates():
    data = read_air(real("beijing_air.zip"))
    assert [part.value.shape for part in data.parts.values()] == [
        (6132, 48, 11),
        (876, 48, 11),
        (1752, 48, 11),
    ]
    assert "12 stations" in data.about
    assert "from 2013-03-01, validation from 2015-12-18, test from 2016-05-12" in data.about
    cells = np.concatenate([part.value.ravel() for part in data.parts.values()])
    assert np.isnan(cells).mean() == pytest.approx(0.0156, abs=2e-4)
    train = data.train.value
    np.testing.assert_allclose(np.nanmean(train, axis=(0, 1)), 0, atol=1e-9)
    np.testing.assert_allclose(np.nanstd(train, axis=(0, 1)), 1, atol=1e-9)


# Where files may lie.


def test_a_path_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none.zip must be readable, got: No such file.*check"):
        read_air(tmp_path / "none.zip")


def test_a_folder_without_the_files_is_named(tmp_path):
    with pytest.raises(
        InputError, match=r"must hold files named PRSA_Data_\*.csv, got none; give"
    ):
        read_air(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "changed", "text"])
def test_a_damaged_zip_is_named(tmp_path, damage):
    path = tmp_path / "air.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("PRSA_Data_A.csv", station(480, "A"))
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "changed":
        content[len(content) // 2] ^= 0xFF
    else:
        content = bytearray(b"<html>not found</html>")
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"air.zip must be a whole zip, got: .*download it again"):
        read_air(path)


def test_members_come_by_name_from_any_depth(tmp_path):
    for name in ("b/2.csv", "a/3.csv", "a/note.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert list(matching_files(tmp_path, "*.csv")) == [
        ("3.csv", b"a/3.csv"),
        ("2.csv", b"b/2.csv"),
    ]
    with pytest.raises(InputError, match=r"must hold one file named \*.csv, got 2; give the file"):
        one_file(tmp_path, "*.csv")


# Gas: imitates one of the thirteen files of the gas sensor array.


def gas_text(rows, seed=0):
    value = np.random.default_rng(seed).uniform(0, 50, (rows, 20)).round(4)
    head = ",".join(["Time (s)", *GAS])
    return head + "\n" + "".join(",".join(map(str, row)) + "\n" for row in value.tolist()), value


def test_gas_windows_stand_in_order_of_time_and_never_cross_a_file(tmp_path):
    first, before = gas_text(7 * 48 + 20, 1)
    second, after = gas_text(3 * 48 + 40, 2)
    (tmp_path / "20161007_210049.csv").write_text(second)
    (tmp_path / "20160930_203718.csv").write_text(first)
    data = read_gas(tmp_path)
    assert [part.series for part in data.parts.values()] == [7, 1, 2]
    learned = before[: 7 * 48, 1:]
    expected = (after[48:96, 1:] - learned.mean(axis=0)) / learned.std(axis=0)
    np.testing.assert_allclose(data.test.value[0], expected, atol=1e-4)
    assert data.train.value.dtype == np.float32
    assert "2 of the 13 files" in data.about


def test_gas_without_a_column_or_with_too_few_rows_is_refused(tmp_path):
    text, _ = gas_text(480)
    path = tmp_path / "20160930_203718.csv"
    path.write_text(text.replace("R7 (MOhm)", "R7 (kOhm)"))
    with pytest.raises(InputError, match=r"20160930.*must have the columns CO \(ppm\), "):
        read_gas(path)
    path.write_text(gas_text(470)[0])
    with pytest.raises(InputError, match=r"at least 10 windows of 48 rows, got 9"):
        read_gas(path)
    path.write_text("")
    with pytest.raises(InputError, match=r"must be a table of numbers, got: Empty CSV file"):
        read_gas(path)


def test_a_real_piece_of_gas_is_read():
    data = read_gas(real("gas_fragment.csv"))
    assert [part.value.shape for part in data.parts.values()] == [
        (42, 48, 19),
        (6, 48, 19),
        (13, 48, 19),
    ]
    assert not np.isnan(data.test.value).any()


# Traffic: imitates PEMS_train and PEMS_test, smaller; and the hourly stand-in.


def matrix(value):
    return "[" + "; ".join(" ".join(map(str, row)) for row in value.tolist()) + "]\n"


def traffic_folder(folder, days=(12, 3), shape=(4, 6)):
    value = np.random.default_rng(0).uniform(0, 1, (sum(days), *shape)).round(4)
    (folder / "PEMS_train").write_text("".join(map(matrix, value[: days[0]])))
    (folder / "PEMS_test").write_text("".join(map(matrix, value[days[0] :])))
    return value


def test_a_day_of_traffic_is_a_series_of_steps_by_sensors(tmp_path, caplog):
    value = traffic_folder(tmp_path)
    with caplog.at_level(logging.WARNING):
        data = read_traffic(tmp_path)
    got = np.concatenate([part.value for part in data.parts.values()])
    np.testing.assert_allclose(got, value.transpose(0, 2, 1), rtol=1e-6)
    assert [part.series for part in data.parts.values()] == [11, 1, 3]
    assert data.channels == ("sensor1", "sensor2", "sensor3", "sensor4")
    assert "PEMS_train is not the original file (its checksum differs)" in caplog.text
    assert "PEMS_test is not the original file" in caplog.text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1 2; 3]\n", r"PEMS_train must have a matrix \[a b c; .*, got another line 2; give the"),
        ("[1 2; 3 x]\n", r"PEMS_train must have a matrix .* of numbers .*, got another line 2"),
        ("[1 2; 3 4]\n", r"must have a matrix of one shape in every line, got \[\(2, 2\), \(4, 6"),
    ],
)
def test_traffic_of_another_form_is_refused(tmp_path, line, message):
    value = traffic_folder(tmp_path)
    (tmp_path / "PEMS_train").write_text(matrix(value[0]) + line)
    with pytest.raises(InputError, match=message):
        read_traffic(tmp_path)


def test_traffic_that_is_not_all_there_is_refused(tmp_path):
    value = traffic_folder(tmp_path)
    with pytest.raises(InputError, match=r"must be the folder with PEMS_train and PEMS_test, got"):
        read_traffic(tmp_path / "PEMS_train")
    (tmp_path / "PEMS_train").write_text("\n")
    with pytest.raises(InputError, match=r"of one shape in every line, got no line; give"):
        read_traffic(tmp_path)
    (tmp_path / "PEMS_train").write_text(matrix(value[0]))
    with pytest.raises(InputError, match=r"PEMS_train must have at least 2 days, got 1; give"):
        read_traffic(tmp_path)
    (tmp_path / "PEMS_train").write_text(2 * matrix(value[0, :2]))
    with pytest.raises(InputError, match=r"of one shape, got \(6, 2\) and \(6, 4\); give the or"):
        read_traffic(tmp_path)
    (tmp_path / "PEMS_test").unlink()
    with pytest.raises(InputError, match=r"must hold files named PEMS_test, got none"):
        read_traffic(tmp_path)


@pytest.mark.parametrize("separator", [" ", ","])
def test_hourly_traffic_is_cut_into_days(tmp_path, separator):
    value = np.random.default_rng(0).uniform(0, 1, (10 * 24 + 5, 20)).round(4)
    path = tmp_path / "traffic20.txt"
    path.write_text("\n".join(separator.join(map(str, row)) for row in value.tolist()))
    data = read_traffic20(path)
    assert [part.value.shape for part in data.parts.values()] == [
        (7, 24, 20),
        (1, 24, 20),
        (2, 24, 20),
    ]
    np.testing.assert_array_equal(data.validation.value[0], value[7 * 24 : 8 * 24])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "1 " * 20 + "\n" + "1 " * 19,
            r"must have 20 numbers in every line, got 19 in line 2; gi",
        ),
        ("1 " * 19 + "x", r"traffic20.txt must hold numbers only, got: .*; check it"),
        ("", r"at least 10 days, got 0"),
    ],
)
def test_hourly_traffic_of_another_form_is_refused(tmp_path, text, message):
    path = tmp_path / "traffic20.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_traffic20(path)


def test_real_hourly_traffic_has_its_known_size():
    data = read_traffic20(real("traffic20.txt"))
    assert [part.series for part in data.parts.values()] == [511, 73, 147]
    for part in data.parts.values():
        assert part.value.shape[1:] == (24, 20)
        assert 0 <= part.value.min() <= part.value.max() <= 1


# Football: imitates an array of tracks beside the list of its plays.


def nfl_files(folder, plays=20, each=3):
    """Tracks in which player p of window w is at (100 w + p, frame)."""
    window = np.arange(plays * each)
    value = np.empty((window.size, 50, 6, 2))
    value[..., 0] = 100 * window[:, None, None] + np.arange(6)
    value[..., 1] = np.arange(50)[:, None]
    np.save(folder / "tracks.npy", value.reshape(-1, 50, 12).astype(np.float32))
    rows = [f"2018{i // each % 2},{i // each // 2},{i}\n" for i in window]
    (folder / "tracks.csv").write_text("gameId,playId,startFrame\n" + "".join(rows))
    return folder / "tracks.npy"


@pytest.mark.parametrize("seed", range(3))
def test_no_play_is_in_two_parts_and_no_window_is_lost(tmp_path, seed):
    data = read_nfl(nfl_files(tmp_path), seed)
    assert [part.series for part in data.parts.values()] == [14 * 3 * 4, 2 * 3, 4 * 3]
    windows = [set((part.value[:, 0, 0] // 100).astype(int)) for part in data.parts.values()]
    plays = [{window // 3 for window in part} for part in windows]
    for one, two in itertools.combinations(plays, 2):
        assert not one & two
    assert set().union(*windows) == set(range(60))


def test_players_keep_their_tracks_and_change_places(tmp_path):
    data = read_nfl(nfl_files(tmp_path), 0)
    orders = {}
    for part in data.parts.values():
        player = part.value.reshape(-1, 50, 6, 2)
        assert (player[..., 1] == np.arange(50)[:, None]).all()
        assert (player[:, :1, :, 0] == player[..., 0]).all()
        number = (player[:, 0, :, 0] % 100).astype(int)
        np.testing.assert_array_equal(
            np.sort(number, axis=1), np.tile(np.arange(6), (len(number), 1))
        )
        for window, order in zip(player[:, 0, 0, 0] // 100, number.tolist(), strict=True):
            orders.setdefault(int(window), []).append(tuple(order))
    assert sorted(map(len, orders.values())) == [1] * 18 + [4] * 42
    assert all(len(set(seen)) == len(seen) for seen in orders.values())
    assert len({order for seen in orders.values() for order in seen}) > 100


def test_a_seed_gives_the_same_plays_and_orders_again(tmp_path):
    path = nfl_files(tmp_path)
    first, again, other = read_nfl(path, 1), read_nfl(path, 1), read_nfl(path, 2)
    np.testing.assert_array_equal(first.train.value, again.train.value)
    assert not np.array_equal(first.test.value, other.test.value)
    assert read_nfl(path, 1, orders=1).train.series == 42


def test_tracks_of_another_form_are_refused(tmp_path):
    path = nfl_files(tmp_path)
    csv = path.with_suffix(".csv")
    text = csv.read_text()
    with pytest.raises(InputError, match=r"other.npy must be readable, got No such file.*check"):
        read_nfl(tmp_path / "other.npy", 0)
    csv.write_text(text + "1,2,3\n")
    with pytest.raises(InputError, match=r"must have a row for each of the 60 windows, got 61"):
        read_nfl(path, 0)
    csv.write_text(text.replace("playId", "play"))
    with pytest.raises(InputError, match=r"tracks.csv must have the columns gameId, playId, got"):
        read_nfl(path, 0)
    csv.write_text(text.replace("20180,0,0", ",0,0"))
    with pytest.raises(InputError, match=r"must have a gameId and a playId in every row, got"):
        read_nfl(path, 0)
    csv.unlink()
    with pytest.raises(InputError, match=r"tracks.csv must be readable, got: No such file"):
        read_nfl(path, 0)
    np.save(path, np.zeros((60, 49, 12)))
    with pytest.raises(InputError, match=r"shape \(window, 50, 12\), got float64 \(60, 49, 12\)"):
        read_nfl(path, 0)
    with path.open("wb") as file:
        np.savez(file, tracks=np.zeros((60, 50, 12)))
    with pytest.raises(InputError, match=r"must hold floats of shape .*, got files; cut the"):
        read_nfl(path, 0)
    path.write_text("x1,y1\n")
    with pytest.raises(InputError, match=r"must be a .npy file of numbers, got another; save the"):
        read_nfl(path, 0)


def test_too_few_plays_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"at least 10 plays, got 9"):
        read_nfl(nfl_files(tmp_path, plays=9), 0)


def test_real_tracks_are_split_by_play():
    data = read_nfl(real("nfl_offense6_50x12.npy"), 0)
    sizes = [part.series for part in data.parts.values()]
    assert sizes[0] % 4 == 0
    assert sizes[0] // 4 + sizes[1] + sizes[2] == 2479
    assert -2 < data.train.value.min() < data.train.value.max() < 122
