"""`impute_files`: Parquet in, Parquet out, part by part; a killed run goes on where it was."""

import copy
import hashlib
import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path

from nrtsi import __version__
from nrtsi.core.atomic import check_writable
from nrtsi.core.events import Listener
from nrtsi.core.sizes import bytes_of
from nrtsi.errors import InputError
from nrtsi.imputer.nrtsi import NRTSI
from nrtsi.imputer.options import ImputeOptions, Limits
from nrtsi.scale.fill import Filling, model_columns
from nrtsi.scale.journal import Work, memory_for, work_folder
from nrtsi.scale.output import Output
from nrtsi.scale.sources import SUFFIXES, must_be_alike, parts_of, sources_of
from nrtsi.scale.training import Say, fitted_in

__all__ = ["Summary", "impute_files"]

log = logging.getLogger(__name__)


PLAIN = ImputeOptions()
"""Nothing but the values."""


@dataclass(frozen=True)
class Summary:
    """What a run has done, all its sittings together."""

    files: int
    parts: int
    rows: int
    cells: int
    """Cells of the columns that are filled."""

    imputed: int
    """Cells that were missing and are filled."""

    left: int
    """Cells that are still missing."""

    steps: int
    """Training steps of the model."""


def impute_files(
    model: NRTSI,
    source: str | Path,
    target: str | Path,
    *,
    memory: str | float | None = None,
    options: ImputeOptions = PLAIN,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
    say: Say = log.info,
) -> Summary:
    """Fills the missing values of Parquet files of any size and writes files like them.

    Observed cells, the order of rows, schema and names are those of the input. The memory in use
    does not depend on the size of the input. A run that was killed leaves a folder
    `TARGET.partial` and goes on from there with `resume`; the result is the same.

    Args:
        model: A fitted model; one that is not fitted is trained on a sample of the parts first.
        source: A Parquet file, or a folder of them.
        target: A file for a file, a folder for a folder; its parent folder exists.
        memory: Memory for the data worked on at once, as "512MB", "2GiB" or bytes; what the
            program itself takes comes on top. That of the run to be resumed, or 1 GiB, without it.
        options: What is not to be filled: `max_gap` and `max_width` of `NRTSI.impute`.
        resume: Go on with a run that was cut short, if there is one.
        overwrite: Replace files that are in the way, and forget a run that was cut short.
        listener: Told of every step of training and every pass of imputation.
        say: Told in sentences what was guessed and what it is trained on.

    Raises:
        InputError: The data or a setting cannot be used, or the run to be resumed was another.
    """
    source, target = Path(source), Path(target)
    folder, budget = work_folder(target), bytes_of(memory_for(memory, target, resume=resume))
    model = copy.copy(model).set_params(memory_limit=budget)  # the caller's stays as it is
    sources = sources_of(source, budget)
    begun = Work.check(folder, resume=resume, overwrite=overwrite) is not None
    _check_places(source, target, overwrite=overwrite or begun)
    must_be_alike(sources, _columns(model))
    identity = {
        "version of nrtsi": __version__,
        "model": _digest(model),
        "memory": budget,
        "limits": [options.max_gap, options.max_width],
        "input": {each.name: [each.size, each.modified, each.rows] for each in sources},
    }
    if resume and not begun:
        say(f"there is no {folder} to resume; starting from the beginning")
    work = Work.begin(folder, identity, resume=resume, overwrite=overwrite)
    parts = parts_of(sources)
    places = {each.name: target / each.name if source.is_dir() else target for each in sources}
    try:
        fitted = fitted_in(work, model, parts, listener, say)
        Limits.of(options, fitted.clock_, fitted.names)  # finds a mistake before the work
        Filling(fitted, Output(work, places), parts, options).run(listener)
    except InputError:
        if work.is_worthless:
            work.remove()
        raise
    counts = [work.counts(part.number) for part in parts]
    work.remove()
    rows = sum(part.rows for part in parts)
    return Summary(
        files=len(sources),
        parts=len(parts),
        rows=rows,
        cells=rows * len(fitted.columns_.values or ()),
        imputed=sum(each["imputed"] for each in counts),
        left=sum(each["left"] for each in counts),
        steps=fitted.steps_,
    )


def _columns(model: NRTSI) -> list[str] | None:
    """The columns that all files must have; all that the first has, where nothing is settled."""
    return model_columns(model) if model.__sklearn_is_fitted__() else None


def _digest(model: NRTSI) -> str:
    """A digest of all that decides what the model fills in."""
    words = model.get_params(deep=False)
    for name in ("memory_limit", "on_empty"):
        del words[name]  # no value depends on them
    fitted = model.__sklearn_is_fitted__()
    tensors, record = model.fitted_.state() if fitted else ({}, {})
    clock = asdict(model.clock_) if fitted else None
    about = json.dumps([words, record, clock, _columns(model)], sort_keys=True, default=str)
    digest = hashlib.sha256(about.encode())
    for name in sorted(tensors):
        digest.update(tensors[name].detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def _check_places(source: Path, target: Path, *, overwrite: bool) -> None:
    """Refuses, before any work, a target that cannot or should not be written.

    Raises:
        InputError: It is in the way of the input, or exists already, or is of another kind.
    """
    here, there = source.resolve(), target.resolve()
    if here == there or here in there.parents or there in here.parents:
        raise InputError(
            f"the output must lie apart from the input, {source}, which is read while it is "
            f"written, got {target}; choose another --out"
        )
    if source.is_dir():
        _check_folder(source, target, overwrite=overwrite)
        return
    if target.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"{target} must end in {' or '.join(SUFFIXES)}, because {source} is too large to be "
            f"read at once; rename it, or allow more memory"
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
