"""The scikit-learn estimator API, with scikit-learn's base class as the oracle."""

import copy
import pickle

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from nrtsi.baselines import Imputer, Linear
from nrtsi.errors import InputError, NotFittedError

VALUE = np.where(np.arange(24).reshape(12, 2) % 5 == 2, np.nan, np.arange(24.0).reshape(12, 2))


def test_fit_transform_equals_fit_and_transform():
    once = Linear().fit_transform(VALUE, None, times=np.arange(12.0))
    np.testing.assert_array_equal(once, Linear().fit(VALUE).transform(VALUE))


def test_tags_are_those_of_a_transformer_without_a_target():
    tags = get_tags(Linear())
    assert tags.transformer_tags is not None
    assert tags.estimator_type is None
    assert tags.requires_fit
    assert not tags.target_tags.required


@pytest.mark.parametrize("routing", [False, True])
def test_an_imputer_works_in_a_pipeline_and_a_grid_search(routing):
    def known(pipeline, value, y=None):
        return float(np.isfinite(pipeline.transform(value)).mean())

    with sklearn.config_context(enable_metadata_routing=routing):
        pipeline = make_pipeline(Linear(), StandardScaler())
        grid = {"linear__on_empty": ["skip", "error"]}
        search = GridSearchCV(pipeline, grid, scoring=known, cv=2).fit(VALUE)
    assert search.best_score_ == 1.0
    assert search.best_params_ == {"linear__on_empty": "skip"}
    check_is_fitted(search.best_estimator_)


def test_a_pipeline_passes_arguments_of_fit_on():
    spaced = make_pipeline(Linear()).fit(VALUE, linear__times=np.arange(12.0) * 2)
    assert spaced[0].clock_.unit == 2 * make_pipeline(Linear()).fit(VALUE)[0].clock_.unit


def test_representations_for_notebook_and_terminal():
    pipeline = make_pipeline(Linear(on_empty="skip"))
    assert repr(pipeline) == "Pipeline(steps=[('linear', Linear(on_empty='skip'))])"
    assert "Linear" in pipeline._repr_html_()
    assert "Linear(on_empty=&#x27;skip&#x27;)" in Linear(on_empty="skip")._repr_html_()
    with sklearn.config_context(display="text"):
        assert Linear()._repr_html_() is None


def test_an_unfitted_imputer_raises_both_errors():
    with pytest.raises(SklearnNotFittedError) as caught:
        Linear().impute(VALUE)
    assert isinstance(caught.value, NotFittedError)
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(Linear())
    check_is_fitted(Linear().fit(VALUE))


def test_an_imputer_and_its_error_can_be_pickled():
    fitted = Linear().fit(VALUE)
    for other in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        np.testing.assert_array_equal(other.transform(VALUE), fitted.transform(VALUE))
    with pytest.raises(NotFittedError) as caught:
        Linear().impute(VALUE)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), SklearnNotFittedError)


class Ours(Imputer):
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
def test_parameters_and_repr_agree_with_scikit_learn(first, then):
    ours, theirs = Ours(**first), Theirs(**first)
    assert ours.get_params() == ours.get_params(deep=False) == theirs.get_params()
    assert ours.set_params(**then) is ours
    theirs.set_params(**then)
    assert list(ours.get_params().items()) == list(theirs.get_params().items())
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")


@given(params=some)
def test_a_clone_has_the_same_parameters(params):
    ours = Ours(**params)
    copy = clone(ours)
    assert copy is not ours
    assert copy.get_params() == ours.get_params()


def test_an_array_can_be_a_parameter():
    assert repr(Ours(names=np.array([1, 2]))) == "Ours(names=array([1, 2]))"


def test_an_unknown_parameter_is_rejected_and_nothing_is_set():
    ours = Ours()
    with pytest.raises(
        InputError,
        match="Ours has no parameter 'size'; valid parameters: names, number, word",
    ):
        ours.set_params(number=2, size=3)
    assert ours.number == 1
