"""A model for files that do not fit in memory: trained on some of their parts."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from nrtsi.core.events import Listener
from nrtsi.errors import InputError
from nrtsi.imputer.functions import load
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.scale.journal import Work
from nrtsi.scale.reading import read_parts
from nrtsi.scale.sources import Part

__all__ = ["fitted_in", "sample"]

log = logging.getLogger(__name__)

Say = Callable[[str], None]


def fitted_in(
    work: Work, model: NRTSI, parts: Sequence[Part], listener: Listener | None, say: Say
) -> NRTSI:
    """The model that the run in `work` uses: as given, as it was kept, or fitted now and kept.

    Raises:
        InputError: The parts cannot be learnt from.
        KeyboardInterrupt: The training was interrupted; it can be gone on with.
    """
    if model.__sklearn_is_fitted__():
        return model
    if not work.model.exists():
        _fit(work, model, parts, listener, say)
        model.save(work.model)
    kept = load(work.model, device=model.device)
    return kept.set_params(memory_limit=model.memory_limit, on_empty=model.on_empty)


def sample(parts: Sequence[Part]) -> list[Part]:
    """Whole parts, evenly spaced, as many as memory allows: three of full size."""
    full = [part for part in parts if part.rows]
    count = min(len(full), int(3 * len(full) / max(1e-9, sum(part.share for part in full))))
    while True:
        chosen = [full[(2 * i + 1) * len(full) // (2 * count)] for i in range(count)]
        if count < 2 or sum(part.share for part in chosen) <= 3:
            return chosen
        count -= 1


def _fit(
    work: Work, model: NRTSI, parts: Sequence[Part], listener: Listener | None, say: Say
) -> None:
    chosen = sample(parts)
    if not chosen:
        raise InputError("there must be at least one row to learn from, got none; give it rows")
    rows = sum(part.rows for part in chosen)
    say(f"training on {len(chosen):,} of {len(parts):,} parts ({rows:,} rows)")
    on_empty = model.on_empty
    try:
        panel = model.read(_joined(chosen))
        for guess in panel.notes:
            say(guess)
        # A series that is empty in these parts need not be so in others.
        model.set_params(on_empty="skip")
        model.fit_panel(panel, listener=listener, path=work.checkpoint, resume=True)
    except InputError as error:
        raise InputError(
            f"{error} (this was found in the {len(chosen):,} parts to train on, joined; "
            f"a model fitted elsewhere can be given with --model)"
        ) from error
    finally:
        model.set_params(on_empty=on_empty)
    if model.interrupted_:
        raise KeyboardInterrupt  # what was learnt is in the checkpoint, not good enough to be used


def _joined(parts: Sequence[Part]) -> Any:
    tables = (table for part in parts for table in read_parts([part]))
    return pa.concat_tables(table.replace_schema_metadata() for table in tables)
