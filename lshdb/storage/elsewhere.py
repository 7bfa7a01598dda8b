"""An index whose signature file lies on another host, and what that means here.

The database may lie outside the index directory, and then other hosts may have a directory of their
own for the same index, with nothing in it but ``index.toml``. Rows are on the host that writes;
what can be answered from SQL alone is answered anywhere.

Decided here, and nowhere else: signatures lie elsewhere where the database is not inside the index
directory and the file that the committed state names is not there. Where the database lies inside,
a file that is missing is damage.
"""

from __future__ import annotations

from pathlib import Path

from lshdb.errors import SignaturesElsewhereError
from lshdb.storage.dialects.base import Database
from lshdb.storage.signature_file import SignatureFile

__all__ = ["OutlyingFile", "is_settled", "signature_file"]


def signature_file(path: Path, num_perm: int, database: Database) -> SignatureFile:
    """A signature file; where the database is not in its directory, it may be on another host.

    Parameters
    ----------
    path : Path
    num_perm : int
        Slots a row.
    database : Database
    """
    is_beside = database.lies_in(path.parent)
    return (SignatureFile if is_beside else OutlyingFile)(path, num_perm)


def is_settled(file: SignatureFile | None) -> bool:
    """Whether a file has been recognised as the index's, or is known to lie on another host."""
    if file is None or file.is_recognised:
        return file is not None
    return isinstance(file, OutlyingFile) and not file.is_here()


class OutlyingFile(SignatureFile):
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
