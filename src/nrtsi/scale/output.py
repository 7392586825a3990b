"""Parts on their way out: written, joined to files again, and placed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from nrtsi.core.atomic import atomic
from nrtsi.scale.journal import Work
from nrtsi.scale.sources import Part, Source

__all__ = ["Output"]


@dataclass(frozen=True)
class Output:
    """Where filled parts go."""

    work: Work
    places: Mapping[str, Path]
    """The place of each file, by its name."""

    def is_placed(self, source: Source) -> bool:
        """Whether the file is done."""
        return self.work.is_placed(source.name, self.places[source.name])

    def is_made(self, part: Part) -> bool:
        """Whether the part has been written already."""
        return self.work.is_made(part.number)

    def write(self, part: Part, table: Any, counts: dict[str, int]) -> None:
        """Keeps a filled part; from now on it is made and will not be made again."""
        source = part.source
        with atomic(self.work.part(part.number)) as temporary:
            pq.write_table(
                table,
                temporary,
                compression=source.compression,
                row_group_size=max(1, min(source.group_rows, part.rows)),
            )
            self.work.note_part(part.number, counts)

    def place(self, parts: Sequence[Part]) -> None:
        """Puts a file, all parts of which are made, to its place."""
        source = parts[0].source
        pieces = [self.work.part(part.number) for part in parts]
        made = pieces[0]
        if len(pieces) > 1:
            made = self.work.folder / "joined.parquet"
            _join(pieces, made, source)
        self.work.place(made, source.name, self.places[source.name])
        for piece in pieces:
            piece.unlink(missing_ok=True)  # the only one has been moved


def _join(pieces: Sequence[Path], target: Path, source: Source) -> None:
    """One file of several, a row group at a time."""
    with (
        atomic(target) as temporary,
        pq.ParquetWriter(temporary, source.schema, compression=source.compression) as writer,
    ):
        for piece in pieces:
            with pq.ParquetFile(piece) as file:
                for index in range(file.num_row_groups):
                    group = file.read_row_group(index)
                    writer.write_table(group, row_group_size=max(1, group.num_rows))
