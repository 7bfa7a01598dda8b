"""Generations of the row files: ``signatures.npy``, ``signatures.1.npy``, and so on.

Where vectors are kept they lie in a second file, row by row beside the signatures: ``vectors.npy``
belongs to ``signatures.npy``, ``vectors.1.npy`` to ``signatures.1.npy``. So the one name in the
committed state refers to both, and what is written of one is written of the other.

Rows below the committed count are never changed, so what is to lose rows is written anew, under the
next name, and the commit that refers to it makes it the index's. What lies there under another
name is of a writer that was killed before its commit, or before it could remove what its commit had
replaced; the next writer removes it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from lshdb.errors import DamageError
from lshdb.storage.place.directory import sync_directory
from lshdb.storage.rowfiles.layouts import Block, RowLayout, StoredBlock, block_rows, extend_blocks
from lshdb.storage.rowfiles.row_file import RowFile

__all__ = ["FIRST_NAME", "Generation", "clear_generations", "is_generation"]

FIRST_NAME = "signatures.npy"
"""Name of the signature file of a new index."""
_NAME = re.compile(r"(signature|vector)s(?:\.(\d{1,18}))?\.npy")


class Generation:
    """The row files of one generation; row i of each is of signature i.

    Parameters
    ----------
    directory : Path
    name : str
        Of the signature file, as the committed state says it.
    layouts : sequence of RowLayout
        Of the signature file, and of the vector file where there is one.
    kind : type of RowFile
        Of the signature file: one that may lie on another host, where the vectors then lie too.

    Attributes
    ----------
    signatures : RowFile
    vectors : RowFile or None
        None where vectors are not kept.
    files : tuple of RowFile
        Those that there are, the signature file first.
    is_recognised : bool
        Whether they have been told from those of another index.

    Raises
    ------
    DamageError
        The name is none that a signature file can have: it may lead out of the index.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        layouts: Sequence[RowLayout],
        *,
        kind: type[RowFile] = RowFile,
    ) -> None:
        if not is_generation(name):
            raise DamageError(
                f"the table state of the index {directory} names the signature file {name!r}; "
                "expected signatures.npy, or signatures.N.npy with a number",
                hint="restore the index from a copy",
            )
        self._directory = directory
        self._layouts = layouts
        self.name = name
        self.signatures = kind(directory / name, layouts[0])
        suffix = name.removeprefix("signatures")
        others = (RowFile(directory / f"{one.kind}s{suffix}", one) for one in layouts[1:])
        self.vectors = next(others, None)
        self.files = (self.signatures,) if self.vectors is None else (self.signatures, self.vectors)
        self.is_recognised = False

    def following(self) -> Generation:
        """The generation after this one, which does not exist yet."""
        found = _NAME.fullmatch(self.name)
        number = int(found[2] or 0) + 1 if found else 1
        return Generation(self._directory, f"signatures.{number}.npy", self._layouts)

    def create(self) -> None:
        """Make empty files; they must not exist."""
        for file in self.files:
            file.create()

    def append(self, first_row: int, parts: Sequence[NDArray[Any]]) -> None:
        """Write rows of each file from ``first_row`` on, and make them durable.

        Parameters
        ----------
        first_row : int
            The committed count; what lies from there on is overwritten.
        parts : sequence of ndarray
            Signature rows, and vectors where they are kept: as many.

        Raises
        ------
        ValueError
            They are not rows of these files.
        OSError
            The disk is full or failed; nothing that was committed is touched.
        """
        for file, rows in zip(self.files, parts, strict=True):
            expected = (len(parts[0]), file.layout.n_columns)
            if rows.shape != expected or rows.dtype != file.layout.dtype:
                raise ValueError(f"{rows.dtype} of shape {rows.shape} for a {file.what}")
        for file, rows in zip(self.files, parts, strict=True):
            file.append(first_row, rows)

    def set_header(self, n_committed: int) -> None:
        """Bring the headers' number of rows up to date."""
        for file in self.files:
            file.set_header(n_committed)

    def write(self, n_rows: int, of_files: Sequence[Iterable[NDArray[Any]]]) -> list[StoredBlock]:
        """Write whole files, one after the other, and make them and their names durable.

        What lies there already is replaced: nothing refers to it.

        Parameters
        ----------
        n_rows : int
        of_files : sequence of iterable of ndarray
            For each file n_rows rows in all.

        Returns
        -------
        list of StoredBlock
            CRC-32 of what was to be written.

        Raises
        ------
        OSError
            The disk is full or failed.
        """
        written = []
        for file, rows in zip(self.files, of_files, strict=True):
            found: list[Block] = []
            file.write(n_rows, _counted(rows, found, file.layout))
            written.append(found)
        sync_directory(self._directory)
        return block_rows(written)


def _counted(
    blocks: Iterable[NDArray[Any]], found: list[Block], layout: RowLayout
) -> Iterator[NDArray[Any]]:
    """The same rows, whose CRC-32 are put into ``found``."""
    for rows in blocks:
        extend_blocks(found, rows, layout)
        yield rows


def is_generation(name: object) -> bool:
    """Whether a signature file can have that name."""
    found = _NAME.fullmatch(name) if isinstance(name, str) else None
    return found is not None and found[1] == "signature"


def clear_generations(current: Generation) -> None:
    """Remove the files of all generations but the one that the committed state refers to.

    A file that does not begin as they do is not one of them, whatever its name, and stays.
    """
    folder = current.signatures.path.parent
    for file in current.files:
        for path in folder.glob(f"{file.layout.kind}s*.npy"):
            if path.name != file.path.name and _NAME.fullmatch(path.name):
                with contextlib.suppress(OSError):
                    if RowFile(path, file.layout).is_own():
                        path.unlink()
