"""The law of resuming: a training stopped anywhere and resumed ends with the same bytes."""

import pytest


class Stopped(Exception):  # noqa: N818
    """Ends a training as a crash does, without keeping the weights."""


def check_resuming(model, data, folder, stops):
    """Fits `model()` at once, and in parts that end at the steps `stops`; compares the files."""
    whole, parts, state = folder / "whole", folder / "parts", folder / "state"
    fitted = model().fit(data)
    fitted.save(whole)
    for stop in stops:

        def listen(event, stop=stop):
            if event.step >= stop:
                raise Stopped

        with pytest.raises(Stopped):
            model().fit(data, checkpoint=state, resume=True, listener=listen)
        assert state.exists()
    model().fit(data, checkpoint=state, resume=True).save(parts)
    assert whole.read_bytes() == parts.read_bytes()
    return fitted
