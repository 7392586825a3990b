"""The model of a run: given, saved by an earlier process, or trained on a sample of the shards."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from nrtsi.core.events import Listener
from nrtsi.errors import InputError
from nrtsi.imputer.functions import load
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.scale.journal import Journal
from nrtsi.scale.shards import Shard, read_shards

__all__ = ["fitted_model", "sample_shards"]


def fitted_model(
    journal: Journal,
    model: NRTSI,
    shards: Sequence[Shard],
    listener: Listener | None,
    log_line: Callable[[str], None],
) -> NRTSI:
    """Returns `model` if it is fitted, otherwise the saved model of the run, trained if needed.

    Raises:
        InputError: The model cannot be trained on the shards.
        KeyboardInterrupt: Training was interrupted; its checkpoint is kept.
    """
    if model.__sklearn_is_fitted__():
        return model
    kept = {"memory_limit": model.memory_limit, "on_empty": model.on_empty}
    if not journal.model.exists():
        chosen = sample_shards(shards)
        if not chosen:
            raise InputError(
                "the input must have at least one row to train on, got none; add rows"
            )
        rows = sum(shard.rows for shard in chosen)
        log_line(f"training on {len(chosen):,} of {len(shards):,} shards ({rows:,} rows)")
        try:
            panel = model.read(pa.concat_tables(_tables(chosen)))
            for note in panel.notes:
                log_line(note)
            # A series that is empty in these shards may have observations in others.
            model.set_params(on_empty="skip")
            model.fit_panel(panel, listener=listener, path=journal.checkpoint, resume=True)
        except InputError as error:
            raise InputError(
                f"{error} (found in the {len(chosen):,} shards to train on; "
                f"a model fitted elsewhere can be given with --model)"
            ) from error
        if model.interrupted_:
            raise KeyboardInterrupt  # the checkpoint has what was learned so far
        model.save(journal.model)
    return load(journal.model, device=model.device).set_params(**kept)


def sample_shards(shards: Sequence[Shard]) -> list[Shard]:
    """Evenly spaced shards, as many as fit into memory: three of full size."""
    full = [shard for shard in shards if shard.rows]
    share = sum(shard.memory_share for shard in full)
    count = min(len(full), int(3 * len(full) / max(1e-9, share)))
    while True:
        chosen = [full[(2 * i + 1) * len(full) // (2 * count)] for i in range(count)]
        if count < 2 or sum(shard.memory_share for shard in chosen) <= 3:
            return chosen
        count -= 1


def _tables(shards: Sequence[Shard]) -> list[pa.Table]:
    return [table.replace_schema_metadata() for s in shards for table in read_shards([s])]
