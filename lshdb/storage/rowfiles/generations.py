"""Generations of the row files: ``signatures.npy``, ``signatures.1.npy``, and so on.

If vectors are kept they lie in a second file, row by row beside the signatures: ``vectors.npy``
belongs to ``signatures.npy``, ``vectors.1.npy`` to ``signatures.1.npy``. So the one name in the
committed state refers to both, and both are written together.

Rows below the committed count never change. To lose rows, a file is rewritten under the next name,
and the commit that refers to it makes it the index's. Files with other names come from a writer
that was killed before its commit, or before it could remove what its commit had replaced; the next
writer removes them.

The database may lie outside the index directory. Then other hosts may have their own directories
for the same index, with nothing but ``index.toml`` in them. Rows are on the host that writes; what
SQL alone can answer is answered anywhere. Decided here, and nowhere else: signatures lie elsewhere
if the database is not inside the index directory and the file that the committed state names is
missing. If the database lies inside, a missing file is damage. The vector file lies where the
signature file does; if only one of the two is there, that is damage, too.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lshdb.errors import DamageError, SignaturesElsewhereError, TextNotStoredError
from lshdb.files.descriptors import sync_directory
from lshdb.storage.rowfiles.layouts import (
    ChecksumBlock,
    RowLayout,
    StoredBlock,
    block_rows,
    extend_blocks,
)
from lshdb.storage.rowfiles.row_file import RowFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "FIRST_NAME",
    "Generation",
    "clear_generations",
    "clear_older_format",
    "generation_name",
    "is_generation",
    "is_settled",
]

FIRST_NAME = "signatures.npy"
"""Name of the signature file of a new index."""
_NAME = re.compile(r"(signature|vector)s(?:\.(\d{1,18}))?\.npy")


class Generation:
    """The row files of one generation; row i of each is of signature i.

    Parameters
    ----------
    name : str
        Name of the signature file in the committed state.
    layouts : sequence of RowLayout
        Layouts of the signature file and, if there is one, the vector file.
    is_outlying : bool
        Whether the files may lie on another host: so if the database is outside the directory.
    is_durable : bool
        Whether they outlive this process. Who makes the directory knows; if not, nothing is synced.

    Attributes
    ----------
    vectors : RowFile or None
        None if vectors are not kept.
    files : list of RowFile
        The files that there are, the signature file first.
    is_recognised : bool
        Whether they are known not to be those of another index.

    Raises
    ------
    DamageError
        A signature file cannot have that name: it may lead out of the index.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        layouts: Sequence[RowLayout],
        *,
        is_outlying: bool = False,
        is_durable: bool = True,
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
        self.is_durable = is_durable
        kind = OutlyingFile if is_outlying else RowFile  # the vectors lie where these are
        self.signatures = kind(directory / name, layouts[0], is_durable=is_durable)
        self.files = [self.signatures]
        self.vectors: RowFile | None = None
        if len(layouts) > 1:
            suffix = name.removeprefix("signatures")
            path = directory / f"{layouts[1].kind}s{suffix}"
            self.vectors = RowFile(path, layouts[1], is_durable=is_durable)
            self.files.append(self.vectors)
        self.is_recognised = False
        self._before: Generation | None = None

    @property
    def number(self) -> int:
        """The number in the name: 0 for ``signatures.npy``."""
        match = _NAME.fullmatch(self.name)
        return int(match[2] or 0) if match else 0

    @property
    def vector_file(self) -> RowFile:
        """The vector file.

        Raises
        ------
        TextNotStoredError
            Vectors are not kept.
        """
        if self.vectors is None:
            raise TextNotStoredError(
                "this needs the vectors, and the index keeps none",
                hint="add them to an index that keeps them",
            )
        return self.vectors

    def is_here(self) -> bool:
        """Return whether the files are on this host."""
        return not isinstance(self.signatures, OutlyingFile) or self.signatures.is_here()

    def following(self) -> Generation:
        """Return the generation after this one, which does not exist yet."""
        name = generation_name(self.number + 1)
        following = Generation(self._directory, name, self._layouts)
        following._before = self
        return following

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
            Signature rows and, if they are kept, as many vectors.

        Raises
        ------
        ValueError
            They are not rows of these files.
        OSError
            The disk is full or failed; committed rows are not touched.
        """
        for file, rows in zip(self.files, parts, strict=True):
            expected = (len(parts[0]), file.layout.n_columns)
            if rows.shape != expected or rows.dtype != file.layout.dtype:
                raise ValueError(f"{rows.dtype} of shape {rows.shape} for a {file.what}")
        for file, rows in zip(self.files, parts, strict=True):
            file.append(first_row, rows)

    def set_header(self, n_committed: int) -> None:
        """Update the number of rows in the headers."""
        for file in self.files:
            file.set_header(n_committed)

    def write(self, n_rows: int, of_files: Sequence[Iterable[NDArray[Any]]]) -> list[StoredBlock]:
        """Write whole files, one after the other, and make them and their names durable.

        Replaces what lies there already: nothing refers to it. They have the rights of the files
        before them.

        Parameters
        ----------
        of_files : sequence of iterable of ndarray
            n_rows rows for each file, in blocks.

        Returns
        -------
        list of StoredBlock
            CRC-32 of the rows that were to be written.

        Raises
        ------
        OSError
            The disk is full or failed.
        """
        written = []
        models = [file.path for file in (self._before or self).files]
        for file, rows, model in zip(self.files, of_files, models, strict=True):
            blocks: list[ChecksumBlock] = []
            file.write(n_rows, _counted(rows, blocks, file.layout), model=model)
            written.append(blocks)
        sync_directory(self._directory)
        return block_rows(written)


def _counted(
    blocks: Iterable[NDArray[Any]], counted: list[ChecksumBlock], layout: RowLayout
) -> Iterator[NDArray[Any]]:
    """Yield the same rows, and put their CRC-32 into ``counted``."""
    for rows in blocks:
        extend_blocks(counted, rows, layout)
        yield rows


def generation_name(number: int) -> str:
    """Return the name of the signature file of a generation."""
    return f"signatures.{number}.npy" if number else FIRST_NAME


def is_generation(name: object) -> bool:
    """Return whether a signature file can have that name."""
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    return match is not None and match[1] == "signature"


def clear_generations(current: Generation) -> None:
    """Remove the files of all generations except the one that the committed state refers to.

    A file that does not begin as they do is not one of them, whatever its name, and stays.
    """
    folder = current.signatures.path.parent
    for file in current.files:
        for path in folder.glob(f"{file.layout.kind}s*.npy"):
            if path.name != file.path.name and _NAME.fullmatch(path.name):
                with contextlib.suppress(OSError):
                    if RowFile(path, file.layout).is_own():
                        path.unlink()


def clear_older_format(current: Generation) -> None:
    """Remove the files of the index that an upgrade has replaced, and orders of any rows.

    They begin otherwise than those of this format, so only their names tell what they are.
    """
    names = {file.path.name for file in current.files}
    for path in current.signatures.path.parent.glob("*.npy"):
        is_old = path.name.startswith("orders.") or _NAME.fullmatch(path.name) is not None
        if is_old and path.name not in names and path.is_file() and not path.is_symlink():
            path.unlink()


def is_settled(generation: Generation | None) -> bool:
    """Return whether the files are recognised as the index's, or known to be on another host."""
    return generation is not None and (generation.is_recognised or not generation.is_here())


class OutlyingFile(RowFile):
    """A signature file of an index whose database lies outside its directory."""

    def open(self) -> int:
        """Open the file for reading, once.

        Raises
        ------
        SignaturesElsewhereError
            It is not there.
        LshdbError, DamageError
            It may not, or cannot, be read.
        """
        try:
            return super().open()
        except FileNotFoundError as error:
            raise SignaturesElsewhereError(
                f"this needs the signatures, and {self.path} is not there: it lies on the host "
                "that writes the index",
                hint="run it on that host; query and pairs with --verify none or exact, show, sql, "
                "stats and others work without the signatures: see lshdb guide elsewhere",
            ) from error

    def is_here(self) -> bool:
        """Return whether the file is there."""
        try:
            self.open()
        except SignaturesElsewhereError:
            return False
        return True
