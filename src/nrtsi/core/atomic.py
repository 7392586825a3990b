"""Files written whole or not at all."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nrtsi.errors import InputError

__all__ = ["atomic", "check_writable"]


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path` and renames it to `path` when the block ends well.

    The temporary file exists and is empty, ends in the same suffix, and is on disk (fsync)
    before the rename, so a crash leaves either the old file or the new one. When the block
    raises anything, the temporary file is removed and `path` is as it was before.

    Raises:
        InputError: The operating system refused to write; the message says why.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with atomic(Path(folder) / "a.txt") as temporary:
    ...         _ = temporary.write_text("done")
    ...     (Path(folder) / "a.txt").read_text()
    'done'
    """
    target = _target(path)
    try:
        temporary = _create_beside(target)
        mode = stat.S_IMODE((target if target.exists() else temporary).stat().st_mode)
        try:
            yield temporary
            # Some libraries put a file of their own, with other rights, in place of this one.
            temporary.chmod(mode)
            _flush(temporary)
            temporary.replace(target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise InputError(_refusal(path, error)) from error
    # The rename itself must survive a crash too; not every system lets a folder be opened.
    with suppress(OSError):
        _flush(target.parent)


def check_writable(path: Path, *, overwrite: bool) -> None:
    """Refuses a `path` that `atomic` could not write, by trying it in the same folder.

    Meant for the moment before long work whose result goes to `path`.

    Raises:
        InputError: The folder is absent or refuses new files, or `path` exists already and
            `overwrite` is False.
    """
    target = _target(path)
    if target.exists() and not overwrite:
        raise InputError(
            f"{path} exists already; add --overwrite to replace it, or choose another name"
        )
    try:
        _create_beside(target).unlink()
    except OSError as error:
        raise InputError(_refusal(path, error)) from error


def _target(path: Path) -> Path:
    """The file to replace: what a symbolic link points to, not the link."""
    try:
        target = path.resolve()
        if target.is_dir():
            raise InputError(f"{path} must be a file to write, got a folder; add a file name")
        if target.exists() and not target.is_file():
            raise InputError(f"{path} must be a file to write, got a device; choose another name")
        if not target.parent.is_dir():
            raise InputError(
                f"{path} cannot be written: there is no folder {path.parent}; create it first"
            )
        # A rename would replace a write-protected file without asking.
        if target.exists() and not os.access(target, os.W_OK):
            raise InputError(f"{path} is write-protected; allow writing or choose another name")
    except (OSError, RuntimeError) as error:  # RuntimeError: a link that points to itself
        raise InputError(_refusal(path, error)) from error
    return target


def _create_beside(target: Path) -> Path:
    # Short, so that a long name stays within the system's limit; random, so that two writers
    # never share one; the same suffix, because some libraries choose the format by it.
    name = f".{target.stem[:40]}.{secrets.token_hex(6)}{target.suffix}"
    temporary = target.with_name(name)
    # O_EXCL: never an existing file. 0o666 less the umask, which is what open() would give.
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    return temporary


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refusal(path: Path, error: Exception) -> str:
    number = getattr(error, "errno", None)  # libraries put words of their own in strerror
    reason = os.strerror(number) if number else str(error)
    return (
        f"{path} cannot be written: {reason}; free some space or choose another folder "
        f"(a file that was there before is unchanged)"
    )
