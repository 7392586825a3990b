"""An imputer among scikit-learn's own tools, though of none of its classes."""

import copy
import pickle

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from nrtsi.baselines import Linear
from nrtsi.errors import NotFittedError

VALUE = np.where(np.arange(24).reshape(12, 2) % 5 == 2, np.nan, np.arange(24.0).reshape(12, 2))


def test_fit_transform_is_fit_and_then_transform():
    once = Linear().fit_transform(VALUE, None, times=np.arange(12.0))
    np.testing.assert_array_equal(once, Linear().fit(VALUE).transform(VALUE))


def test_tags_are_those_of_a_transformer_that_needs_no_target():
    tags = get_tags(Linear())
    assert tags.transformer_tags is not None
    assert tags.estimator_type is None
    assert tags.requires_fit
    assert not tags.target_tags.required


@pytest.mark.parametrize("routing", [False, True])
def test_it_is_a_step_of_a_pipeline_and_of_a_search(routing):
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


def test_a_notebook_and_a_terminal_show_it():
    pipeline = make_pipeline(Linear(on_empty="skip"))
    assert repr(pipeline) == "Pipeline(steps=[('linear', Linear(on_empty='skip'))])"
    assert "Linear" in pipeline._repr_html_()
    assert "Linear(on_empty=&#x27;skip&#x27;)" in Linear(on_empty="skip")._repr_html_()
    with sklearn.config_context(display="text"):
        assert Linear()._repr_html_() is None


def test_an_unfitted_imputer_raises_the_error_of_both():
    with pytest.raises(SklearnNotFittedError) as caught:
        Linear().impute(VALUE)
    assert isinstance(caught.value, NotFittedError)
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(Linear())
    check_is_fitted(Linear().fit(VALUE))


def test_processes_can_pass_it_and_its_error_to_each_other():
    fitted = Linear().fit(VALUE)
    for other in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        np.testing.assert_array_equal(other.transform(VALUE), fitted.transform(VALUE))
    with pytest.raises(NotFittedError) as caught:
        Linear().impute(VALUE)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), SklearnNotFittedError)
