"""Model files and training checkpoints: tensors and JSON in one safetensors file, nothing else."""

import json
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialise
from torch import Tensor

from nrtsi.core.atomic import atomic
from nrtsi.core.state import digest
from nrtsi.errors import CheckpointError

__all__ = ["load", "save"]

FORMAT = 4
DIGITS = 64

FileKind = Literal["model", "training"]


def save(path: Path, kind: FileKind, tensors: dict[str, Tensor], settings: dict[str, Any]) -> None:
    """Writes both to `path`, whole or not at all."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps({"format": FORMAT, "kind": kind, "settings": settings}, sort_keys=True)
    # One entry: safetensors writes several in an order of its own, and the bytes would differ.
    header = {"nrtsi": _checksum(plain, text) + text}
    with atomic(path) as temporary:
        temporary.write_bytes(serialise(plain, header))


def load(path: Path, kind: FileKind) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Reads what `save` wrote.

    Raises:
        CheckpointError: `path` is absent, damaged, foreign, or of another kind or format.
    """
    if not path.is_file():
        found = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise CheckpointError(f"{path} {found}; give the path of what `nrtsi fit` wrote")
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{path} is not a readable nrtsi {kind} file ({error}); give the path of what "
            f"`nrtsi fit` wrote, or fit again"
        ) from error
    if "nrtsi" not in header:
        raise CheckpointError(f"{path} is a safetensors file, but not one that nrtsi wrote")
    checksum, text = header["nrtsi"][:DIGITS], header["nrtsi"][DIGITS:]
    try:
        about = json.loads(text)
        version: Any = about["format"]
    except (ValueError, TypeError, KeyError):
        version, checksum = FORMAT, ""
    if version != FORMAT:
        raise CheckpointError(
            f"{path} has format {version}, this version reads {FORMAT}; "
            f"use the version of nrtsi that wrote it, or fit again"
        )
    if _checksum(tensors, text) != checksum:
        raise CheckpointError(f"{path} is damaged: its checksum does not match; fit again")
    if about["kind"] != kind:
        raise CheckpointError(f"{path} is a {about['kind']} file, not a {kind} file")
    return tensors, about["settings"]


def _checksum(tensors: dict[str, Tensor], text: str) -> str:
    """Digest of everything in the file: names, types, shapes and values of tensors, and text."""
    return digest(text, *(part for name in sorted(tensors) for part in (name, tensors[name])))
