"""Settings of the test run; must not import nrtsi, or its shapes would go unchecked."""

import logging
import os

import pytest
from hypothesis import settings

# The tests' networks are tiny and two test processes run at once: more threads only get in each
# other's way. Before torch is imported, or it comes too late.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shared machine stalls now and then: time is no law.
settings.register_profile("nrtsi", deadline=None, max_examples=60)
settings.load_profile("nrtsi")


@pytest.fixture(autouse=True)
def _logging_as_it_was():
    """A command decides how much is logged; the next test must not hear more or less by it."""
    level, handlers = logging.root.level, list(logging.root.handlers)
    yield
    logging.root.setLevel(level)
    logging.root.handlers[:] = handlers
