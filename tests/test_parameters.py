"""Laws of settings by name, with scikit-learn's own base class as the oracle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone

from nrtsi.baselines.parameters import Parameters
from nrtsi.errors import InputError


class Ours(Parameters):
    def __init__(self, *, number=1, word="x", names=None):
        self.number, self.word, self.names = number, word, names


class Theirs(BaseEstimator):
    def __init__(self, *, number=1, word="x", names=None):
        self.number, self.word, self.names = number, word, names


some = st.fixed_dictionaries(
    {},
    optional={
        "number": st.integers(0, 3) | st.floats(allow_nan=False),
        "word": st.sampled_from(["x", "y"]),
        "names": st.none() | st.lists(st.sampled_from("ab"), max_size=3),
    },
)


@given(first=some, then=some)
def test_settings_are_read_set_and_shown_as_scikit_learn_does(first, then):
    ours, theirs = Ours(**first), Theirs(**first)
    assert ours.get_params() == ours.get_params(deep=False) == theirs.get_params()
    assert ours.set_params(**then) is ours
    theirs.set_params(**then)
    assert list(ours.get_params().items()) == list(theirs.get_params().items())
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")


@given(words=some)
def test_a_clone_has_the_same_settings(words):
    ours = Ours(**words)
    copy = clone(ours)
    assert copy is not ours
    assert copy.get_params() == ours.get_params()


def test_an_array_can_be_a_setting():
    assert repr(Ours(names=np.array([1, 2]))) == "Ours(names=array([1, 2]))"


def test_an_unknown_setting_is_named_and_nothing_is_set():
    ours = Ours()
    with pytest.raises(
        InputError,
        match="settings of Ours must be some of names, number, word, got 'size'; mend the name",
    ):
        ours.set_params(number=2, size=3)
    assert ours.number == 1
