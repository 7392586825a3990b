"""The folder of an unfinished run: what was asked, what is done, and parts on their way."""

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nrtsi.core.atomic import atomic
from nrtsi.errors import InputError

__all__ = ["Work", "begun_in", "memory_for", "work_folder"]

_RUN, _DONE = "run.json", "done.jsonl"
_HALF_A_RUN = re.compile(r"\.run\.[0-9a-f]+\.json")  # `_RUN` while it is written
_USUAL = "1GiB"


def work_folder(target: Path) -> Path:
    """Where a run that writes to `target` keeps what is unfinished: on the same disk."""
    place = Path(os.path.realpath(target))  # what a link points to, not the link
    return place.parent / f"{place.name}.partial"


def memory_for(memory: str | float | None, target: Path, *, resume: bool) -> str | float:
    """The memory to use: what is given, or that of the run to be resumed, or the usual."""
    if memory is not None:
        return memory
    run = begun_in(work_folder(target)) if resume else None
    return _USUAL if run is None else run["memory"]


class Work:
    """What a killed run leaves behind, and how the next one goes on.

    A part is made when its file stands in the folder under its number: it is written beside and
    renamed. A file is placed when it stands under its name in the output; its size and time of
    writing are noted before it is moved there, so that it is known from a file of an earlier run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = folder / "model.nrtsi"
        self.checkpoint = folder / "training.checkpoint"
        self.gaps = folder / "gaps.parquet"
        self._noted = _lines(folder / _DONE)

    @classmethod
    def begin(
        cls, folder: Path, identity: dict[str, Any], *, resume: bool, overwrite: bool
    ) -> "Work":
        """Opens the folder of an unfinished run, or a new one.

        Raises:
            InputError: There is one and neither `resume` nor `overwrite` is set; or the run in it
                was another.
        """
        begun = cls.check(folder, resume=resume, overwrite=overwrite)
        if begun is not None and resume:
            _must_be_the_same(folder, begun, identity)
            return cls(folder)
        with _writing(folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        with atomic(folder / _RUN) as temporary:
            temporary.write_text(json.dumps(identity))
        return cls(folder)

    @staticmethod
    def check(folder: Path, *, resume: bool, overwrite: bool) -> dict[str, Any] | None:
        """What was asked of the unfinished run in the folder; None where there is none.

        Raises:
            InputError: There is one and neither `resume` nor `overwrite` is set, or something in
                the way that is not ours.
        """
        run = begun_in(folder)
        if run is None:
            _must_be_free(folder)
        elif not overwrite and not resume:
            raise InputError(
                f"{folder} is left from a run that was cut short; add --resume to go on with it, "
                f"or --overwrite to start anew"
            )
        return run

    def part(self, number: int) -> Path:
        """The file of a part that has been made."""
        return self.folder / f"{number:08d}.parquet"

    def counts(self, number: int) -> dict[str, int]:
        """What was noted of a part."""
        return self._noted[f"part {number}"]

    def note(self, key: str, record: dict[str, int]) -> None:
        """Notes a record, on disk before this returns."""
        path = self.folder / _DONE
        with _writing(path), path.open("a") as file:
            file.write(json.dumps([key, record]) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._noted[key] = record

    def note_part(self, number: int, record: dict[str, int]) -> None:
        """Notes what was done in a part."""
        self.note(f"part {number}", record)

    def is_made(self, number: int) -> bool:
        """Whether the part's file stands here."""
        return f"part {number}" in self._noted and self.part(number).exists()

    def is_placed(self, name: str, target: Path) -> bool:
        """Whether the file at `target` is the one that this run moved there."""
        noted = self._noted.get(f"file {name}")
        return noted is not None and target.exists() and noted == _marks(target)

    def place(self, made: Path, name: str, target: Path) -> None:
        """Moves a finished file to its place in the output."""
        key = f"file {name}"
        self.note(key, _marks(made))
        with _writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                made.replace(target.resolve())  # what a link points to, not the link
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                with atomic(target) as temporary:  # on another disk: a mount, or a link to it
                    shutil.copyfile(made, temporary)
                    self.note(key, _marks(temporary))

    @property
    def is_worthless(self) -> bool:
        """Whether nothing has been done yet that would have to be done again."""
        return not (self._noted or self.model.exists() or self.checkpoint.exists())

    def remove(self) -> None:
        """Removes the folder; what says that it is ours goes last."""
        with _writing(self.folder):
            for path in self.folder.iterdir():
                if path.name != _RUN:
                    path.unlink()
            shutil.rmtree(self.folder)


def _marks(path: Path) -> dict[str, int]:
    status = path.stat()
    return {"size": status.st_size, "modified": status.st_mtime_ns}


def _lines(path: Path) -> dict[str, dict[str, int]]:
    """The records noted, the last of each key; a line that was cut off by a crash is left out."""
    records: dict[str, dict[str, int]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            key, record = json.loads(line)
        except ValueError:
            continue
        records[key] = record
    return records


def begun_in(folder: Path) -> dict[str, Any] | None:
    """What was asked of the run in the folder; None where it holds none of ours."""
    try:
        run = json.loads((folder / _RUN).read_text())
    except (OSError, ValueError):
        return None
    return run if isinstance(run, dict) and "version of nrtsi" in run else None


def _must_be_free(folder: Path) -> None:
    """Refuses to touch a folder, or a file, that no run of this library has made."""
    # A run that was killed at once leaves a folder with nothing in it, or half of `_RUN`.
    begun = folder.is_dir() and all(_HALF_A_RUN.fullmatch(p.name) for p in folder.iterdir())
    if not begun and os.path.lexists(folder):
        raise InputError(
            f"{folder} must be free for unfinished work, got something that nrtsi did not write; "
            f"move it away, or choose another --out"
        )


def _must_be_the_same(folder: Path, found: dict[str, Any], identity: dict[str, Any]) -> None:
    for what, expected in identity.items():
        if found.get(what) != expected:
            raise InputError(
                f"the run in {folder} must be gone on with as it began, got another {what}"
                f"{_first_changed(found.get(what), expected)}; "
                f"give the same again, or add --overwrite instead of --resume to start anew"
            )


def _first_changed(found: Any, expected: Any) -> str:
    """The file that changed, where the two are lists of files."""
    if not (isinstance(found, dict) and isinstance(expected, dict)):
        return ""
    names = [*expected, *found]
    name = next(name for name in names if found.get(name) != expected.get(name))
    change = "added" if name not in found else "changed" if name in expected else "removed"
    return f" ({name} was {change})"


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise InputError(
            f"{path} cannot be written: {reason}; free some space or allow writing, "
            f"then add --resume to go on"
        ) from error
