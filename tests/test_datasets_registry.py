"""`make`: every data set by name, kept on disk, the same bytes each time; and the long table."""

import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nrtsi.bench.datasets import registry
from nrtsi.bench.datasets.dataset import Dataset, Part
from nrtsi.bench.datasets.registry import DATASETS, default_cache, make
from nrtsi.errors import InputError

QUICK = ("billiards", "billiards-irregular", "sinusoids")


def same(one, two):
    assert (one.name, one.channels, one.about) == (two.name, two.channels, two.about)
    for name, part in one.parts.items():
        np.testing.assert_array_equal(part.time, two.parts[name].time)
        np.testing.assert_array_equal(part.value, two.parts[name].value)


def kept(folder):
    return sorted((folder / "datasets").glob("*"))


@pytest.fixture
def hourly(tmp_path):
    """A small file in the form of the hourly traffic."""

    def write(name="traffic20.txt", seed=0):
        value = np.random.default_rng(seed).uniform(0, 1, (30 * 24, 20)).round(4)
        path = tmp_path / name
        path.write_text("\n".join(" ".join(map(str, row)) for row in value.tolist()))
        return path

    return write


def test_every_recipe_says_what_it_is_and_what_it_needs():
    for name, recipe in DATASETS.items():
        assert recipe.name == name
        assert recipe.description
        assert "\n" not in recipe.description
        assert "series" in recipe.sizes
    assert DATASETS["billiards"].needs == "nothing"
    assert DATASETS["mujoco"].needs == "the bench extra"
    assert DATASETS["air"].needs.startswith("a path: the downloaded zip")
    assert "https://" in DATASETS["air"].needs


@pytest.mark.parametrize("name", QUICK)
def test_a_simulation_has_the_sizes_its_recipe_says(name, tmp_path):
    recipe = DATASETS[name]
    assert recipe.simulated
    data = make(name, cache=tmp_path)
    learn, test = recipe.series
    assert [p.series for p in data.parts.values()] == [learn * 9 // 10, learn // 10, test]
    assert f"{learn:,} + {test:,} series of {data.train.time.shape[1]} steps" in recipe.sizes
    assert data.train.value.shape[2] == len(data.channels)


@pytest.mark.parametrize("name", QUICK)
def test_the_same_arguments_give_the_same_bytes_with_and_without_the_cache(name, tmp_path):
    first = make(name, series=(20, 5), seed=3, cache=tmp_path / "a")
    same(first, make(name, series=(20, 5), seed=3, cache=tmp_path / "a"))
    same(first, make(name, series=(20, 5), seed=3, cache=tmp_path / "b"))
    (one,), (two,) = kept(tmp_path / "a"), kept(tmp_path / "b")
    assert one.name == two.name
    assert one.read_bytes() == two.read_bytes()
    assert first.about == (
        "Simulated with seed 3: 20 series for training, the last 2 of them for validation, "
        "and 5 for the test."
    )
    other = make(name, series=(20, 5), seed=4, cache=tmp_path / "a")
    assert not np.array_equal(first.train.value, other.train.value)


def test_what_was_made_is_not_made_again_until_its_version_changes(tmp_path, monkeypatch):
    calls = []

    def simulate(series, seed):
        calls.append(seed)
        return np.zeros((series, 1)), np.zeros((series, 1, 1))

    recipe = DATASETS["sinusoids"]
    monkeypatch.setitem(registry.SIMULATORS, "sinusoids", (simulate, ("value",)))
    for _ in range(2):
        make("sinusoids", series=(4, 2), cache=tmp_path)
    assert calls == [0]
    make("sinusoids", series=(4, 3), cache=tmp_path)
    make("sinusoids", series=(4, 2), seed=1, cache=tmp_path)
    assert calls == [0, 0, 1]
    monkeypatch.setitem(registry.DATASETS, "sinusoids", recipe.model_copy(update={"version": 2}))
    make("sinusoids", series=(4, 2), cache=tmp_path)
    assert calls == [0, 0, 1, 0]


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "other", "array"])
def test_a_damaged_cache_is_made_again(tmp_path, damage, caplog):
    first = make("sinusoids", series=(20, 5), cache=tmp_path)
    (file,) = kept(tmp_path)
    content = file.read_bytes()
    if damage == "other":
        np.savez(file, something=np.zeros(3))
    elif damage == "array":
        with file.open("wb") as stream:
            np.save(stream, np.zeros(3))
    else:
        changed = {"empty": b"", "cut": content[:-200], "text": b"not a zip"}[damage]
        file.write_bytes(changed)
    same(first, make("sinusoids", series=(20, 5), cache=tmp_path))
    assert "is damaged and will be made again" in caplog.text
    assert file.read_bytes() == content


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING):
        data = make("sinusoids", series=(20, 5), cache=blocked)
    assert data.train.series == 18
    assert "the data set sinusoids is not cached" in caplog.text


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("NRTSI_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache() == tmp_path / "own"
    make("sinusoids", series=(20, 5))
    assert len(kept(tmp_path / "own")) == 1
    monkeypatch.delenv("NRTSI_CACHE")
    assert default_cache() == tmp_path / "xdg" / "nrtsi"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache() == tmp_path / ".cache" / "nrtsi"


def test_an_original_is_remembered_without_its_path(tmp_path, hourly):
    path, cache = hourly(), tmp_path / "cache"
    first = make("traffic20", path=path, cache=cache)
    assert [part.series for part in first.parts.values()] == [21, 3, 6]
    path.unlink()
    same(first, make("traffic20", cache=cache))
    same(first, make("traffic20", seed=5, cache=cache))  # only read: no seed matters


def test_a_changed_original_is_read_again_and_the_last_one_asked_for_counts(tmp_path, hourly):
    cache = tmp_path / "cache"
    first = make("traffic20", path=hourly(), cache=cache)
    second = make("traffic20", path=hourly(seed=1), cache=cache)
    assert not np.array_equal(first.test.value, second.test.value)
    same(second, make("traffic20", cache=cache))
    other = make("traffic20", path=hourly("other.txt", seed=2), cache=cache)
    same(other, make("traffic20", cache=cache))
    make("traffic20", path=tmp_path / "traffic20.txt", cache=cache)
    same(second, make("traffic20", cache=cache))


@pytest.mark.parametrize("name", [n for n, r in DATASETS.items() if not r.simulated])
def test_an_original_never_given_says_where_to_get_it(name, tmp_path):
    message = (
        rf"{name} must be read from the original files, got no path.*https://.*make {name} --path"
    )
    with pytest.raises(InputError, match=message):
        make(name, cache=tmp_path)


def test_fewer_series_of_an_original_are_spread_over_all(tmp_path, hourly):
    cache = tmp_path / "cache"
    whole = make("traffic20", path=hourly(), cache=cache)
    few = make("traffic20", series=(10, 3), cache=cache)
    assert [part.series for part in few.parts.values()] == [9, 1, 3]
    np.testing.assert_array_equal(few.test.value, whole.test.value[[1, 3, 5]])
    assert few.about.endswith("An evenly spaced choice of at most 10 + 3 series.")
    many = make("traffic20", series=(10_000, 10_000), cache=cache)
    np.testing.assert_array_equal(many.train.value, whole.train.value)
    assert len(kept(cache)) == 1


@given(st.integers(1, 60), st.integers(1, 60))
def test_an_evenly_spaced_choice_is_even(series, asked):
    part = Part(np.zeros((series, 1)), np.arange(float(series)).reshape(-1, 1, 1))
    picked = part.spread(asked).value.ravel()
    assert picked.size == min(series, asked)
    step = np.diff(picked)
    if step.size:
        assert step.min() >= 1
        assert step.max() - step.min() <= 1


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"name": "billiard"}, r"name must be one of billiards, .*, got 'billiard'; choose one"),
        ({"series": (1, 1)}, r"series must be at least 2 for training .*, got \(1, 1\); ask for"),
        ({"series": (5, 0)}, r"series must be at least 2 for training and 1 for the test, got"),
        ({"seed": -1}, r"seed must be 0 or more, got -1; choose another"),
        ({"path": Path("a")}, r"sinusoids is simulated and needs no path, got a; leave it out"),
    ],
)
def test_an_argument_that_is_wrong_is_named(wish, message, tmp_path):
    with pytest.raises(InputError, match=message):
        make(**{"name": "sinusoids", "cache": tmp_path} | wish)


def test_the_table_has_a_row_a_step_and_null_where_there_is_no_value():
    value = np.array([[[1.0, np.nan], [2.0, 5.0]]])
    part = Part(np.array([[0.0, 0.5]]), value)
    two = Part(np.tile(part.time, (2, 1)), np.tile(value, (2, 1, 1)))
    table = Dataset("some", two, part, part, ("a", "b"), "").to_table()
    assert table.column_names == ["part", "series", "time", "a", "b"]
    assert table["part"].to_pylist() == ["train"] * 4 + ["validation"] * 2 + ["test"] * 2
    assert table["series"].to_pylist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert table["series"].type == pa.int64()
    assert table["time"].to_pylist() == [0.0, 0.5] * 4
    assert table["a"].to_pylist() == [1.0, 2.0] * 4
    assert table["b"].to_pylist() == [None, 5.0] * 4


def test_the_table_of_a_simulation_has_its_values(tmp_path):
    data = make("billiards", series=(20, 5), cache=tmp_path)
    table = data.to_table()
    assert table.num_rows == 25 * 200
    np.testing.assert_array_equal(
        table["y"].to_numpy(),
        np.concatenate([part.value[:, :, 1].ravel() for part in data.parts.values()]),
    )
