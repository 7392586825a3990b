"""The folder of an unfinished run: its settings, finished shards and their counts."""

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from nrtsi.core.atomic import atomic
from nrtsi.errors import InputError
from nrtsi.scale.shards import InputFile, Shard

__all__ = ["Journal", "memory_limit_for", "read_run", "work_folder"]

_RUN, _DONE = "run.json", "done.jsonl"
_PARTIAL_RUN = re.compile(r"\.run\.[0-9a-f]+\.json")  # `_RUN` while it is written
_DEFAULT_LIMIT = "1GiB"


def work_folder(target: Path) -> Path:
    """The folder of unfinished work of a run that writes to `target`, on the same disk."""
    real = Path(os.path.realpath(target))
    return real.parent / f"{real.name}.partial"


def memory_limit_for(limit: str | float | None, target: Path, *, resume: bool) -> str | float:
    """The memory limit to use: the given one, that of the run to resume, or the default."""
    if limit is not None:
        return limit
    run = read_run(work_folder(target)) if resume else None
    return _DEFAULT_LIMIT if run is None else run.get("memory limit", _DEFAULT_LIMIT)


def read_run(folder: Path) -> dict[str, Any] | None:
    """The settings of the unfinished run in `folder`; None if there is none."""
    try:
        run = json.loads((folder / _RUN).read_text())
    except (OSError, ValueError):
        return None
    return run if isinstance(run, dict) and "version of nrtsi" in run else None


class Journal:
    """Records what a run has finished, so that another process can resume it.

    A shard is finished when its file is in the folder under its number: it is written under
    another name and renamed. An output file is finished when it is at its target; its size and
    modification time are recorded before it is moved there, which tells it from a file of an
    earlier run.

    Args:
        folder: The work folder.
        targets: The target of each output file by its name.
    """

    def __init__(self, folder: Path, targets: Mapping[str, Path]) -> None:
        self.folder = folder
        self.targets = targets
        self.model = folder / "model.nrtsi"
        self.checkpoint = folder / "training.checkpoint"
        self.context = folder / "context.parquet"
        self._records: dict[str, dict[str, int]] = {}
        done = folder / _DONE
        for line in done.read_text().splitlines() if done.exists() else []:
            with suppress(ValueError):  # a crash can have cut the last line off
                key, record = json.loads(line)
                self._records[key] = record

    @classmethod
    def open(
        cls,
        folder: Path,
        targets: Mapping[str, Path],
        settings: dict[str, Any],
        *,
        resume: bool,
        overwrite: bool,
    ) -> "Journal":
        """Opens the folder of an unfinished run, or creates one.

        Raises:
            InputError: As for `check`, or the run to resume has other settings.
        """
        run = cls.check(folder, resume=resume, overwrite=overwrite)
        if run is None or not resume:
            with _writing(folder):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
            with atomic(folder / _RUN) as temporary:
                temporary.write_text(json.dumps(settings))
        else:
            _check_settings(folder, run, settings)
        return cls(folder, targets)

    @staticmethod
    def check(folder: Path, *, resume: bool, overwrite: bool) -> dict[str, Any] | None:
        """Returns the settings of the unfinished run in the folder; None if there is none.

        Raises:
            InputError: There is one and neither `resume` nor `overwrite` is set, or the folder
                contains files that are not ours.
        """
        run = read_run(folder)
        if run is not None and not overwrite and not resume:
            raise InputError(
                f"{folder} contains an interrupted run; add --resume to continue it, "
                f"or --overwrite to start over"
            )
        # A run that was killed at once leaves an empty folder, or an incomplete `_RUN`.
        ours = run is not None or (
            folder.is_dir() and all(_PARTIAL_RUN.fullmatch(p.name) for p in folder.iterdir())
        )
        if not ours and os.path.lexists(folder):
            raise InputError(
                f"{folder} is needed for unfinished work, but contains something that nrtsi did "
                f"not write; move it away, or choose another --out"
            )
        return run

    @property
    def is_empty(self) -> bool:
        """True if nothing is recorded that would have to be done again."""
        return not (self._records or self.model.exists() or self.checkpoint.exists())

    def counts(self, shard: Shard) -> dict[str, int]:
        """The counts recorded of a shard."""
        return self._records[f"shard {shard.number}"]

    def has_shard(self, shard: Shard) -> bool:
        """True if the shard is finished."""
        return f"shard {shard.number}" in self._records and self._path(shard).exists()

    def has_file(self, file: InputFile) -> bool:
        """True if the output of `file` is at its target, and this run moved it there."""
        record, target = self._records.get(f"file {file.name}"), self.targets[file.name]
        return record is not None and target.exists() and record == _stamp(target)

    def add_shard(self, shard: Shard, table: Any, counts: dict[str, int]) -> None:
        """Writes an imputed shard and records its counts."""
        group = max(1, min(shard.file.group_rows, shard.rows))
        with atomic(self._path(shard)) as path:
            pq.write_table(table, path, compression=shard.file.compression, row_group_size=group)
            self._record(f"shard {shard.number}", counts)

    def finish_file(self, shards: Sequence[Shard]) -> None:
        """Moves a file, all `shards` of which are finished, to its target."""
        file, paths = shards[0].file, [self._path(shard) for shard in shards]
        path = paths[0]
        if len(paths) > 1:
            path = self.folder / "joined.parquet"
            _concatenate(paths, path, file)
        key, target = f"file {file.name}", self.targets[file.name]
        self._record(key, _stamp(path))
        with _writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                path.replace(target.resolve())  # the target of a link, not the link
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                with atomic(target) as temporary:  # on another disk: a mount, or a link to it
                    shutil.copyfile(path, temporary)
                    self._record(key, _stamp(temporary))
        for each in paths:
            each.unlink(missing_ok=True)  # a single one has been moved

    def remove(self) -> None:
        """Removes the folder; the file that marks it as ours is removed last."""
        with _writing(self.folder):
            for path in self.folder.iterdir():
                if path.name != _RUN:
                    path.unlink()
            shutil.rmtree(self.folder)

    def _path(self, shard: Shard) -> Path:
        return self.folder / f"{shard.number:08d}.parquet"

    def _record(self, key: str, record: dict[str, int]) -> None:
        path = self.folder / _DONE
        with _writing(path), path.open("a") as file:
            file.write(json.dumps([key, record]) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._records[key] = record


def _concatenate(paths: Sequence[Path], target: Path, file: InputFile) -> None:
    """Concatenates Parquet files, one row group at a time."""
    with (
        atomic(target) as temporary,
        pq.ParquetWriter(temporary, file.schema, compression=file.compression) as writer,
    ):
        for path in paths:
            with pq.ParquetFile(path) as source:
                for index in range(source.num_row_groups):
                    group = source.read_row_group(index)
                    writer.write_table(group, row_group_size=max(1, group.num_rows))


def _stamp(path: Path) -> dict[str, int]:
    status = path.stat()
    return {"size": status.st_size, "modified": status.st_mtime_ns}


def _check_settings(folder: Path, run: dict[str, Any], settings: dict[str, Any]) -> None:
    for name, expected in settings.items():
        found, which = run.get(name), ""
        if found == expected:
            continue
        if isinstance(found, dict) and isinstance(expected, dict):  # by file
            file = next(f for f in (*expected, *found) if found.get(f) != expected.get(f))
            change = "added" if file not in found else "changed" if file in expected else "removed"
            which = f" ({file} was {change})"
        raise InputError(
            f"cannot resume the run in {folder}: the {name} has changed{which}; "
            f"use the original one, or start over with --overwrite"
        )


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise InputError(
            f"{path} cannot be written: {reason}; free some space or allow writing, "
            f"then add --resume to continue"
        ) from error
