"""Settings of the test run; must not import nrtsi, or its shapes would go unchecked."""

import os

from hypothesis import settings

# The tests' networks are tiny and two test processes run at once: more threads only get in each
# other's way. Before torch is imported, or it comes too late.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shared machine stalls now and then: time is no law.
settings.register_profile("nrtsi", deadline=None, max_examples=60)
settings.load_profile("nrtsi")
