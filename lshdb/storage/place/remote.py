"""An index whose signature file lies on another host, and what that means here.

The database may lie outside the index directory, and then other hosts may have a directory of their
own for the same index, with nothing in it but ``index.toml``. Rows are on the host that writes;
what can be answered from SQL alone is answered anywhere.

Decided here, and nowhere else: signatures lie elsewhere where the database is not inside the index
directory and the file that the committed state names is not there. Where the database lies inside,
a file that is missing is damage. The vector file lies where the signature file does: where only one
of the two is there, that is damage, too.
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
    """Row files; where the database is not in their directory, they may be on another host.

    Parameters
    ----------
    directory : Path
    name : str
        Of the signature file.
    layouts : sequence of RowLayout
    database : Database
    """
    kind = RowFile if database.lies_in(directory) else OutlyingFile
    return Generation(directory, name, layouts, kind=kind)


def is_settled(generation: Generation | None) -> bool:
    """Whether files have been recognised as the index's, or are known to lie on another host."""
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
                hint="run it on that host; what works without the signatures says "
                "docs/elsewhere.md: query and pairs with --verify none or exact, show, sql, "
                "stats and others",
            ) from error

    def is_here(self) -> bool:
        """Whether the file is there."""
        try:
            self.open()
        except SignaturesElsewhereError:
            return False
        return True
