"""`nrtsi impute` for files larger than memory."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nrtsi.cli.command import as_option
from nrtsi.cli.console import Console, count, shards_done
from nrtsi.cli.options import StreamOptions
from nrtsi.errors import InputError

if TYPE_CHECKING:
    from nrtsi.imputer.nrtsi import NRTSI
    from nrtsi.imputer.options import ImputeOptions

__all__ = ["check_in_memory", "impute_in_shards", "reject_options"]


def reject_options(data: Path, given: dict[str, Any], report: Path | None) -> None:
    """Rejects options that need all data in memory."""
    for name in ("at", "every", "method", "interval", "provenance", "report"):
        if name in given or (name == "report" and report is not None):
            remedy = "name a file in it" if data.is_dir() else "raise --memory-limit"
            raise InputError(
                f"{as_option(name)} must not be given for {data}, which is imputed in shards; "
                f"leave it out, or {remedy}"
            )


def check_in_memory(data: Path, out: Path, stream: StreamOptions, console: Console) -> None:
    """Rejects data in memory if a run in shards is unfinished; notes if they exceed the limit."""
    from nrtsi.scale.journal import Journal, memory_limit_for, read_run, work_folder
    from nrtsi.scale.shards import needs_shards

    folder = work_folder(out)
    run = read_run(folder)
    if stream.resume and run is not None:
        raise InputError(
            f"--memory-limit must be that of the run in {folder}, "
            f"{run.get('memory limit', 'unknown')} bytes, got {stream.memory_limit}, "
            f"into which {data} fits; leave it out"
        )
    if stream.resume:
        raise InputError(
            f"--resume needs a folder, or a Parquet file larger than --memory-limit and a Parquet "
            f"file to write, got {data}; leave it out"
        )
    if run is not None and Journal.check(folder, resume=False, overwrite=stream.overwrite):
        Journal(folder, {}).remove()
    if needs_shards(data, data, memory_limit_for(stream.memory_limit, out, resume=False)):
        console.note(
            f"{data} needs more than --memory-limit: only Parquet output is written in shards"
        )


def impute_in_shards(
    model: "NRTSI",
    data: Path,
    out: Path,
    options: "ImputeOptions",
    stream: StreamOptions,
    console: Console,
) -> str:
    """Imputes files with a fitted model or one that is trained first; returns what was done."""
    from nrtsi.scale import impute_files
    from nrtsi.scale.journal import work_folder

    fitted = model.__sklearn_is_fitted__()
    try:
        with console.progress() as listener:
            given: dict[str, Any] = {
                "options": options,
                "listener": listener,
                "log_line": console.note,
            }
            summary = impute_files(model, data, out, **vars(stream), **given)
    except KeyboardInterrupt:
        kept = f"finished work is in {work_folder(out)}"
        typer.echo(f"nrtsi: interrupted; {kept}: add --resume to continue", err=True)
        raise typer.Exit(130) from None
    steps = "" if fitted else f", {count(summary.steps, 'step')}"
    return f"{shards_done(summary)}{steps}"
