"""An index whose signature file lies on another host, and what that means here.

The database may lie outside the index directory. Then other hosts may have their own directories
for the same index, with nothing but ``index.toml`` in them. Rows are on the host that writes; what
SQL alone can answer is answered anywhere.

Decided here, and nowhere else: signatures lie elsewhere if the database is not inside the index
directory and the file that the committed state names is missing. If the database lies inside, a
missing file is damage. The vector file lies where the signature file does; if only one of the two
is there, that is damage, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lshdb.errors import SignaturesElsewhereError
from lshdb.storage.dialects.base import Database
from lshdb.storage.rowfiles.generations import Generation
from lshdb.storage.rowfiles.layouts import RowLayout
from lshdb.storage.rowfiles.row_file import RowFile

__all__ = ["OutlyingFile", "generation_of", "is_settled"]


def generation_of(
    directory: Path, name: str, layouts: Sequence[RowLayout], database: Database
) -> Generation:
    """Return the row files; they may be on another host if the database is outside the directory.

    Parameters
    ----------
    directory : Path
    name : str
        Name of the signature file.
    layouts : sequence of RowLayout
    database : Database
    """
    kind = RowFile if database.lies_in(directory) else OutlyingFile
    return Generation(directory, name, layouts, kind=kind)


def is_settled(generation: Generation | None) -> bool:
    """Return whether the files are recognised as the index's, or known to be on another host."""
    if generation is None or generation.is_recognised:
        return generation is not None
    file = generation.signatures
    return isinstance(file, OutlyingFile) and not file.is_here()


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
