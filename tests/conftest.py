"""Settings of the test run; must not import nrtsi, or its shapes would go unchecked."""

from hypothesis import settings

# A shared machine stalls now and then: time is no law.
settings.register_profile("nrtsi", deadline=None, max_examples=60)
settings.load_profile("nrtsi")
