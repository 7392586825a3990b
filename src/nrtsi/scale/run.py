"""`impute_files`: imputes Parquet files in shards; an interrupted run can resume."""

import copy
import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nrtsi import __version__
from nrtsi.config import StreamConfig
from nrtsi.core.atomic import check_writable
from nrtsi.core.events import Listener
from nrtsi.core.sizes import bytes_of
from nrtsi.core.state import digest
from nrtsi.errors import InputError
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.imputer.options import ImputeOptions, ImputeTask, Limits
from nrtsi.inference import sub_listener
from nrtsi.scale.context import find_context, read_context
from nrtsi.scale.journal import Journal, memory_limit_for, work_folder
from nrtsi.scale.shards import (
    SUFFIXES,
    Shard,
    check_schemas,
    errors_in,
    input_files,
    read_shards,
    shards_of,
)
from nrtsi.scale.training import fitted_model

__all__ = ["ShardInput", "Summary", "impute_files", "impute_shard"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Summary:
    """What a run has done, with all its interruptions."""

    files: int
    shards: int
    rows: int
    cells: int  # of the columns to impute
    imputed: int  # cells that were missing and are imputed
    left: int  # cells that are still missing
    steps: int  # of the training of the model


def impute_files(
    model: NRTSI,
    source: str | Path,
    target: str | Path,
    *,
    memory_limit: str | float | None = None,
    options: ImputeOptions | None = None,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
    log_line: Callable[[str], None] = log.info,
    config: StreamConfig | None = None,
) -> Summary:
    """Imputes the missing values of Parquet files of any size and writes files like them.

    Observed cells, the order of rows, schema and names are those of the input. The memory in use
    does not depend on the size of the input. A run that was killed leaves a folder
    `TARGET.partial`; with `resume` it continues from there, and the result is the same.

    Args:
        model: A fitted model; an unfitted one is trained on a sample of the shards first.
        source: A Parquet file, or a folder of them.
        target: A file for a file, a folder for a folder; its parent folder exists.
        memory_limit: Memory for the data in work, such as "512MB", "2GiB" or bytes; the program
            itself comes on top. Default: that of the run to resume, or 1 GiB.
        options: `max_gap` and `max_width` limit what is imputed.
        resume: Continue an interrupted run, if there is one.
        overwrite: Replace existing files, and discard an interrupted run.
        listener: Is called at every step of training and imputation.
        log_line: Is called with sentences on what was detected and what the model is trained on.
        config: The context of a shard.

    Raises:
        InputError: The data or an option cannot be used, or the run to resume was another.
    """
    source, target, options = Path(source), Path(target), options or ImputeOptions()
    folder, config = work_folder(target), config or StreamConfig()
    memory = bytes_of(memory_limit_for(memory_limit, target, resume=resume))
    model = copy.copy(model).set_params(memory_limit=memory)  # the caller's is not changed
    files = input_files(source, memory)
    begun = Journal.check(folder, resume=resume, overwrite=overwrite) is not None
    _check_target(source, target, overwrite=overwrite or begun)
    check_schemas(files, model.columns_.named if model.__sklearn_is_fitted__() else None)
    settings = {
        "version of nrtsi": __version__,
        "model": _digest(model),
        "memory limit": memory,
        "limits": [options.max_gap, options.max_width],
        "config": config.model_dump(),
        "input": {each.name: [each.size, each.modified, each.rows] for each in files},
    }
    if resume and not begun:
        log_line(f"there is no {folder} to resume; starting from the beginning")
    targets = {each.name: target / each.name if source.is_dir() else target for each in files}
    journal = Journal.open(folder, targets, settings, resume=resume, overwrite=overwrite)
    shards = shards_of(files)
    try:
        model = fitted_model(journal, model, shards, listener, log_line)
        Limits.of(options, model.clock_, model.names)  # finds a mistake before the work
        if not journal.context.exists():
            find_context(journal.context, shards, model, config)
        _impute_shards(model, shards, journal, options, listener)
    except InputError:
        if journal.is_empty:
            journal.remove()
        raise
    imputed, left = (
        sum(journal.counts(shard)[k] for shard in shards) for k in ("imputed", "left")
    )
    journal.remove()
    rows = sum(file.rows for file in files)
    cells = rows * len(model.names)
    return Summary(len(files), len(shards), rows, cells, imputed, left, model.steps_)


@dataclass(frozen=True)
class ShardInput:
    """A shard in memory with its context; each a `pyarrow.Table`."""

    shard: Shard
    table: Any
    """All columns of its rows."""

    before: Any
    """Context in the columns of the model, to be placed before the rows."""

    after: Any


def impute_shard(
    model: NRTSI, given: ShardInput, options: ImputeOptions, listener: Listener | None = None
) -> tuple[Any, dict[str, int]]:
    """Imputes a shard together with its context.

    Returns:
        The table of the shard without missing values, and the counts of imputed and left cells.

    Raises:
        InputError: The rows cannot be used; the message names the file.
    """
    table, missing = given.table, _missing(given.table, model.names)
    if not missing:
        return table, {"imputed": 0, "left": 0}
    own = table.select(model.columns_.named)
    with errors_in(given.shard):
        panel = model.read_fitted(pa.concat_tables([given.before, own, given.after]))
        limits = ImputeOptions(max_gap=options.max_gap, max_width=options.max_width)
        imputed = model.run(ImputeTask.of(panel, limits), listener).frame()
    imputed = imputed.slice(given.before.num_rows, own.num_rows)
    for name in model.names:
        index = table.schema.get_field_index(name)
        table = table.set_column(index, table.schema.field(index), imputed[name])
    left = _missing(table, model.names)
    return table, {"imputed": missing - left, "left": left}


def _missing(table: Any, names: Sequence[str]) -> int:
    """Number of missing cells in these columns."""
    return sum(pc.sum(pc.is_null(table[n], nan_is_null=True)).as_py() or 0 for n in names)


def _impute_shards(
    model: NRTSI,
    shards: Sequence[Shard],
    journal: Journal,
    options: ImputeOptions,
    listener: Listener | None,
) -> None:
    """Imputes every unfinished shard, and moves every file to its target once it is complete."""
    files = {name: list(own) for name, own in groupby(shards, lambda shard: shard.file.name)}
    files = {name: own for name, own in files.items() if not journal.has_file(own[0].file)}
    pending = [shard for own in files.values() for shard in own if not journal.has_shard(shard)]
    left = Counter(shard.file.name for shard in pending)
    for name, own in files.items():
        if not left[name]:
            journal.finish_file(own)
    rows, total = sum(s.rows for s in pending), max(1, sum(s.rows for s in shards))
    for shard, table in zip(pending, read_shards(pending), strict=True):
        own = table.select(model.columns_.named)
        context = read_context(journal.context, shard, own, model)
        progress = sub_listener(listener, 1 - rows / total, shard.rows / total)
        imputed = impute_shard(model, ShardInput(shard, table, *context), options, progress)
        journal.add_shard(shard, *imputed)
        pa.default_memory_pool().release_unused()  # or fragments of freed memory add up
        rows -= shard.rows
        left[shard.file.name] -= 1
        if not left[shard.file.name]:
            journal.finish_file(files[shard.file.name])


def _digest(model: NRTSI) -> str:
    """A digest of everything that the values of the model depend on."""
    params = model.get_params(deep=False)
    for name in ("memory_limit", "on_empty"):
        del params[name]  # no value depends on them
    if not model.__sklearn_is_fitted__():
        return digest(json.dumps(params, sort_keys=True, default=str))
    tensors, record = model.fitted_.state()
    about = [params, record, asdict(model.clock_), model.columns_.named]
    arrays = [tensors[name] for name in sorted(tensors)]
    return digest(json.dumps(about, sort_keys=True, default=str), *arrays)


def _check_target(source: Path, target: Path, *, overwrite: bool) -> None:
    """Checks, before any work, that the target can and may be written.

    Raises:
        InputError: It overlaps the input, exists already, or is not of the kind of the input.
    """
    here, there = source.resolve(), target.resolve()
    if here == there or here in there.parents or there in here.parents:
        raise InputError(
            f"the output must not overlap the input {source}, which is read while it is "
            f"written, got {target}; choose another --out"
        )
    if source.is_file():
        if target.suffix.lower() not in SUFFIXES:
            raise InputError(
                f"{target} must end in {' or '.join(SUFFIXES)}, because {source} is imputed in "
                f"shards; rename it, or raise the memory limit"
            )
        check_writable(target, overwrite=overwrite)
        return
    tables = (*SUFFIXES, ".csv", ".tsv", ".gz")
    if target.is_file() or (target.suffix in tables and target.suffix != source.suffix):
        raise InputError(
            f"{target} must be a folder, because {source} is one, got the name of a file; "
            f"name a folder"
        )
    if target.is_dir() and any(target.iterdir()) and not overwrite:
        raise InputError(
            f"{target} exists already and is not empty; add --overwrite to replace the files that "
            f"are written, or choose another name"
        )
    if not work_folder(target).exists():
        check_writable(work_folder(target), overwrite=True)
