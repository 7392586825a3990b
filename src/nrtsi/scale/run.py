"""`impute_files`: imputes Parquet files in shards; an interrupted run can resume."""

import copy
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, groupby
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
from nrtsi.scale.context import ShardEnds, context_rows
from nrtsi.scale.journal import Journal, memory_limit_for, work_folder
from nrtsi.scale.long_gaps import far_rows, find_long_gaps
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
from nrtsi.tables import read

__all__ = ["ShardInput", "Summary", "impute_files", "impute_shard"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Summary:
    """What a run has done, with all its interruptions."""

    files: int
    shards: int
    rows: int
    cells: int
    """Cells of the columns to impute."""

    imputed: int
    """Cells that were missing and are imputed."""

    left: int
    """Cells that are still missing."""

    steps: int
    """Training steps of the model."""


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
    check_schemas(files, _columns(model) if model.__sklearn_is_fitted__() else None)
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
        _impute_shards(model, shards, journal, options, config, listener)
    except InputError:
        if journal.is_empty:
            journal.remove()
        raise
    counts = [journal.counts(shard) for shard in shards]
    journal.remove()
    rows = sum(shard.rows for shard in shards)
    return Summary(
        files=len(files),
        shards=len(shards),
        rows=rows,
        cells=rows * len(model.names),
        imputed=sum(each["imputed"] for each in counts),
        left=sum(each["left"] for each in counts),
        steps=model.steps_,
    )


@dataclass(frozen=True)
class ShardInput:
    """A shard in memory with its context."""

    shard: Shard
    table: Any
    """The `pyarrow.Table` of all its columns."""

    ends: ShardEnds | None
    """None if it has no rows."""

    previous: ShardEnds | None
    """The ends of the previous shard; None if there is none, or it has no rows."""

    next: ShardEnds | None
    long_gaps: Path
    """The file of the rows at the ends of long gaps, if it exists."""


def impute_shard(
    model: NRTSI, given: ShardInput, options: ImputeOptions, listener: Listener | None = None
) -> tuple[Any, dict[str, int]]:
    """Imputes a shard together with its context.

    Returns:
        The table of the shard without missing values, and the counts of imputed and left cells.

    Raises:
        InputError: The rows cannot be used; the message names the file.
    """
    table, ends = given.table, given.ends
    if ends is None or not ends.missing:
        return table, {"imputed": 0, "left": 0}
    own = table.select(_columns(model))
    none = own.slice(0, 0)
    earlier = none if given.previous is None else context_rows(given.previous, ends)[0]
    later = none if given.next is None else context_rows(ends, given.next)[1]
    near = pa.concat_tables([earlier.cast(own.schema), own, later.cast(own.schema)])
    with errors_in(given.shard):
        far = _far_rows(model, given, own, near).cast(own.schema)
        panel = model.read_fitted(pa.concat_tables([far, near]))
        limits = ImputeOptions(max_gap=options.max_gap, max_width=options.max_width)
        imputed = model.run(ImputeTask.of(panel, limits), listener).frame()
    imputed = imputed.slice(far.num_rows + earlier.num_rows, own.num_rows)
    left = 0
    for name in model.names:
        index = table.schema.get_field_index(name)
        table = table.set_column(index, table.schema.field(index), imputed[name])
        left += pc.sum(pc.is_null(table[name], nan_is_null=True)).as_py() or 0
    return table, {"imputed": ends.missing - left, "left": left}


def _far_rows(model: NRTSI, given: ShardInput, own: Any, near: Any) -> Any:
    """The known rows beyond the neighbouring shards, of series with long gaps."""
    if not given.long_gaps.exists():
        return own.slice(0, 0)
    columns = model.columns_
    if columns.time is None:
        # The distance of far rows is unknown if rows are numbered in each shard: they only serve
        # series of which nothing is known nearby.
        empty = read(near, columns, clock=model.clock_).empty
        if columns.id is None:
            own = own if empty else own.slice(0, 0)
        else:
            ids = pa.array(empty, own.schema.field(columns.id).type)
            own = own.filter(pc.is_in(own[columns.id], ids))
    return far_rows(given.long_gaps, given.shard, own, columns)


def _impute_shards(
    model: NRTSI,
    shards: Sequence[Shard],
    journal: Journal,
    options: ImputeOptions,
    config: StreamConfig,
    listener: Listener | None,
) -> None:
    """Imputes every unfinished shard, and moves every file to its target once it is complete."""
    if len(shards) > 2 and not journal.long_gaps.exists():  # two shards see each other anyway
        names = _columns(model)
        find_long_gaps(journal.long_gaps, shards, names, model.columns_, model.clock_, config)
    files = {name: list(own) for name, own in groupby(shards, lambda shard: shard.file.name)}
    files = {name: own for name, own in files.items() if not journal.has_file(own[0].file)}
    pending = [shard for own in files.values() for shard in own if not journal.has_shard(shard)]
    left = Counter(shard.file.name for shard in pending)
    for name, own in files.items():
        if not left[name]:
            journal.finish_file(own)
    rows, total = sum(s.rows for s in pending), max(1, sum(s.rows for s in shards))
    for given in _read(model, shards, pending, journal.long_gaps, config):
        shard, name = given.shard, given.shard.file.name
        progress = sub_listener(listener, 1 - rows / total, shard.rows / total)
        journal.add_shard(shard, *impute_shard(model, given, options, progress))
        pa.default_memory_pool().release_unused()  # or fragments of freed memory add up
        rows -= shard.rows
        left[name] -= 1
        if not left[name]:
            journal.finish_file(files[name])


def _read(
    model: NRTSI,
    shards: Sequence[Shard],
    pending: Sequence[Shard],
    long_gaps: Path,
    config: StreamConfig,
) -> Iterator[ShardInput]:
    """Reads each pending shard with its neighbours, which may be finished."""
    numbers = {shard.number for shard in pending}
    wanted = [s for s in shards if numbers & {s.number - 1, s.number, s.number + 1}]
    names = _columns(model)
    previous: ShardEnds | None = None
    held: tuple[Shard, Any, ShardEnds | None] | None = None
    for shard, table in chain(zip(wanted, read_shards(wanted), strict=True), [(None, None)]):
        ends = None
        if shard is not None and table.num_rows:
            with errors_in(shard):
                own = table.select(names)
                ends = ShardEnds.of(shard, own, model.columns_, model.clock_, config)
        adjacent = held is not None and shard is not None and shard.number == held[0].number + 1
        if held is not None:
            if held[0].number in numbers:
                yield ShardInput(*held, previous, ends if adjacent else None, long_gaps)
            previous = held[2] if adjacent else None
        held = None if shard is None else (shard, table, ends)


def _columns(model: NRTSI) -> list[str]:
    """The columns that a fitted model reads."""
    columns = model.columns_
    return [n for n in (columns.time, columns.id, *(columns.values or ())) if n is not None]


def _digest(model: NRTSI) -> str:
    """A digest of everything that the values of the model depend on."""
    params = model.get_params(deep=False)
    for name in ("memory_limit", "on_empty"):
        del params[name]  # no value depends on them
    if not model.__sklearn_is_fitted__():
        return digest(json.dumps(params, sort_keys=True, default=str))
    tensors, record = model.fitted_.state()
    about = [params, record, asdict(model.clock_), _columns(model)]
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
    if source.is_dir():
        _check_folder(source, target, overwrite=overwrite)
        return
    if target.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"{target} must end in {' or '.join(SUFFIXES)}, because {source} is imputed in "
            f"shards; rename it, or raise the memory limit"
        )
    check_writable(target, overwrite=overwrite)


def _check_folder(source: Path, target: Path, *, overwrite: bool) -> None:
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
