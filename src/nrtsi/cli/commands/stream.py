"""`nrtsi impute` where the data is filled part by part."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nrtsi.cli.messages import count
from nrtsi.cli.options import Console, Overwrite
from nrtsi.cli.progress import ProgressBar
from nrtsi.errors import InputError

if TYPE_CHECKING:
    from nrtsi.imputer.nrtsi import NRTSI
    from nrtsi.imputer.options import ImputeOptions
    from nrtsi.scale import Summary

__all__ = ["StreamOptions", "impute_in_parts", "refuse_in_parts", "refuse_whole"]


@dataclass(frozen=True)
class StreamOptions:
    """How much is worked on at once, and what becomes of an earlier run."""

    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory for the work, such as 512MB or 4GiB, 1GiB by default; a Parquet file "
            "that needs more, and any folder, is filled part by part.",
        ),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run, part by part, that was cut short.")
    ] = False
    overwrite: Overwrite = False


def refuse_in_parts(data: Path, **options: object) -> None:
    """Refuses the options that are not for data which is filled part by part."""
    for name, value in options.items():
        if value is not None:
            remedy = "give a file in it" if data.is_dir() else "allow more --memory"
            raise InputError(
                f"--{name} must not be given for {data}, which is filled part by part; "
                f"leave it out, or {remedy}"
            )


def refuse_whole(data: Path, out: Path, stream_options: StreamOptions, console: Console) -> None:
    """Refuses to fill at once what was begun part by part; says where it takes more memory."""
    from nrtsi.scale.journal import Work, begun_in, memory_for, work_folder
    from nrtsi.scale.sources import in_parts

    folder = work_folder(out)
    begun = begun_in(folder)
    if stream_options.resume and begun is not None:
        raise InputError(
            f"--memory must be that of the run in {folder}, {begun['memory']:,} bytes, "
            f"got {stream_options.memory}, within which {data} is filled at once; leave it out"
        )
    if stream_options.resume:
        raise InputError(
            f"--resume must come with a folder, or with a Parquet file larger than --memory and "
            f"a Parquet file to write, got {data}; leave it out"
        )
    if begun is not None and Work.check(folder, resume=False, overwrite=stream_options.overwrite):
        Work(folder).remove()
    if in_parts(data, data, memory_for(stream_options.memory, out, resume=False)):
        console.say(
            f"{data} needs more than --memory: only a Parquet file is written part by part"
        )


def impute_in_parts(
    model: "NRTSI",
    options: "ImputeOptions",
    path: Path | None,
    data: Path,
    out: Path,
    stream_options: StreamOptions,
    console: Console,
) -> None:
    """Fills DATA by the model of the file at `path`, or one to be trained first."""
    from nrtsi.scale import impute_files
    from nrtsi.scale.journal import work_folder

    began, settings = time.monotonic(), asdict(stream_options) | {"options": options}
    try:
        with ProgressBar(quiet=console.quiet) as listener:
            summary = impute_files(
                model, data, out, listener=listener, say=console.say, **settings
            )
    except KeyboardInterrupt:
        kept = f"what is done is kept in {work_folder(out)}"
        typer.echo(f"nrtsi: interrupted; {kept}: add --resume to go on", err=True)
        raise typer.Exit(130) from None
    by = f", {count(summary.steps, 'step')}" if path is None else f" by {path}"
    console.report(f"wrote {out}: {_done(summary)}{by} in {time.monotonic() - began:.0f} s")


def _done(summary: "Summary") -> str:
    still = f", {summary.left:,} still missing" if summary.left else ""
    parts = f"{count(summary.files, 'file')}, {count(summary.parts, 'part')}"
    return f"{summary.imputed:,} of {count(summary.cells, 'cell')} imputed{still} ({parts})"
