"""The folder of an unfinished run: what was asked, what is done, and parts on their way."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nrtsi.atomic import atomic
from nrtsi.errors import InputError

__all__ = ["Work", "work_folder"]

_RUN, _DONE = "run.json", "done.jsonl"


def work_folder(target: Path) -> Path:
    """Where a run that writes to `target` keeps what is unfinished."""
    return target.with_name(target.name + ".partial")


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
        self.holes = folder / "holes.parquet"
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
        if folder.exists():
            _must_be_ours(folder)
        if (folder / _RUN).exists() and not overwrite and not resume:
            raise InputError(
                f"{folder} is left from a run that was cut short; add --resume to go on with it, "
                f"or --overwrite to start anew"
            )
        if (folder / _RUN).exists() and resume:
            _must_be_the_same(folder, identity)
            return cls(folder)
        with _writing(folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        with atomic(folder / _RUN) as temporary:
            temporary.write_text(json.dumps(identity))
        return cls(folder)

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
        self.note(f"file {name}", _marks(made))
        with _writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            made.replace(target.resolve())  # what a link points to, not the link

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


def _must_be_ours(folder: Path) -> None:
    """Refuses to touch a folder, or a file, that no run of this library has made."""
    begun = folder.is_dir() and all(path.name.startswith(".") for path in folder.iterdir())
    if not begun and not (folder / _RUN).is_file():
        raise InputError(
            f"{folder} must be free for unfinished work, got something that nrtsi did not write; "
            f"move it away, or choose another --out"
        )


def _must_be_the_same(folder: Path, identity: dict[str, Any]) -> None:
    found = json.loads((folder / _RUN).read_text())
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
    changed = next(name for name in names if found.get(name) != expected.get(name))
    return f" ({changed} was changed, added or removed)"


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
