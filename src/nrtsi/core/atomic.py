"""Atomic writing: a file is replaced completely or not at all."""

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
    """Yields a temporary path beside `path` and renames it to `path` when the block succeeds.

    The temporary file is empty, has the same suffix, and is flushed to disk before the rename, so
    a crash leaves the old file or the new one. If the block raises, the temporary file is removed
    and `path` is unchanged.

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
            # Some libraries replace the file by one with other permissions.
            temporary.chmod(mode)
            _flush(temporary)
            temporary.replace(target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise InputError(_refusal(path, error)) from error
    # Makes the rename durable; not every system can open a folder.
    with suppress(OSError):
        _flush(target.parent)


def check_writable(path: Path, *, overwrite: bool) -> None:
    """Checks, before long work, that `atomic` can write to `path`."""
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
    """The file to replace; a symbolic link is followed."""
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
        # A rename would replace a write-protected file.
        if target.exists() and not os.access(target, os.W_OK):
            raise InputError(f"{path} is write-protected; allow writing or choose another name")
    except (OSError, RuntimeError) as error:  # RuntimeError: a link that points to itself
        raise InputError(_refusal(path, error)) from error
    return target


def _create_beside(target: Path) -> Path:
    # Cut, because names have a maximum length; with the suffix, from which some libraries infer
    # the format.
    temporary = target.with_name(f".{target.stem[:40]}.{secrets.token_hex(6)}{target.suffix}")
    # O_EXCL rejects an existing file; 0o666 without the umask is the mode that open() sets.
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    return temporary


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refusal(path: Path, error: Exception) -> str:
    number = getattr(error, "errno", None)  # strerror may be the text of a library
    reason = os.strerror(number) if number else str(error)
    return (
        f"{path} cannot be written: {reason}; free some space or choose another folder "
        f"(a file that was there before is unchanged)"
    )
