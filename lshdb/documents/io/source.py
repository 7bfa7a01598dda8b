"""One file to read, or standard input: what is known of it before it is opened."""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF8
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lshdb.arguments import printable
from lshdb.documents.registry import FORMATS, HEAD, Format, Look, by_name, look_at
from lshdb.errors import hide_credentials

if TYPE_CHECKING:
    from lshdb.documents.io.remote import Archive

__all__ = ["STDIN", "InputFile"]

STDIN = "-"


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file to read, or standard input.

    Attributes
    ----------
    path : str
        The path, or ``-``.
    size : int
        Bytes on disk; 0 when unknown.
    is_regular : bool
        Whether it can be opened twice and has a size.
    problem : str or None
        Why it cannot be read, if that is known beforehand.
    input_format : str
        A name in ``FORMATS``.
    compression : str
        A name in ``COMPRESSIONS``, or empty.
    is_named : bool
        Whether the caller gave this very path.
    is_guessed : bool
        Whether it is read as one text only because its extension is unknown.
    is_by_name : bool
        Whether its extension says the format.
    misnamed : str
        What it is, if its first bytes say something other than its name: "gzip-compressed".
    root : str
        The directory that was given, or the one before the first component with ``*``, ``?`` or
        ``[``; of a named file, its own directory.
    given_key : str
        The key of the document, if it is not the path.
    of_texts : bool
        Whether it was found in a directory of texts, so that its extension says nothing.
    is_remote : bool
        Whether the path is a URL; then it is not regular.
    archive : Archive or None
        The archive in which it was found elsewhere, with others.
    """

    path: str
    size: int = 0
    is_regular: bool = True
    problem: str | None = None
    input_format: str = "text"
    compression: str = ""
    is_named: bool = False
    is_guessed: bool = False
    is_by_name: bool = False
    misnamed: str = ""
    root: str = ""
    given_key: str = ""
    of_texts: bool = False
    is_remote: bool = False
    archive: Archive | None = field(default=None, repr=False, compare=False)

    @property
    def can_seek(self) -> bool:
        """Whether it is read from places of its own choice: a file, or Parquet elsewhere."""
        return self.is_regular or (self.is_remote and self.format.from_end)

    @property
    def is_stdin(self) -> bool:
        """Whether it is standard input."""
        return self.path == STDIN

    @property
    def is_found(self) -> bool:
        """Whether it was found in a directory or by a pattern."""
        return not self.is_named and not self.is_stdin

    @property
    def is_empty(self) -> bool:
        """Whether it was found, and holds no byte where records are expected: part of a job."""
        is_file = self.is_found and self.is_regular and not self.size
        return is_file and not self.format.is_gathered and self.input_format != "text"

    @property
    def name(self) -> str:
        """The path as messages and the documents' sources have it."""
        return "<stdin>" if self.is_stdin else printable(self.path)

    @property
    def own_path(self) -> str:
        """The path whose extension says the format.

        Of a file in an archive (``zip://a.csv::data.zip``) it is that in the archive, and of a web
        address that without its query.
        """
        if not self.is_remote:
            return self.path
        path = self.path.partition("::")[0]
        is_web = path.lower().startswith(("http://", "https://"))
        return re.split("[?#]", path, maxsplit=1)[0] if is_web else path

    @property
    def format(self) -> Format:
        """The entry of its format."""
        return FORMATS[self.input_format]

    @property
    def key(self) -> str:
        """The key of the document, if the source is one text."""
        if self.given_key or self.is_stdin or self.is_remote:
            return self.given_key or hide_credentials(self.path)
        return os.path.normpath(self.path).replace(os.sep, "/")

    def look(self, head: bytes) -> Look | None:
        """Return the form that the file seems to have if its format is another one, else None.

        Parameters
        ----------
        head : bytes
            The first ``HEAD`` bytes, decompressed; fewer if the file is shorter.
        """
        if self.format.has_rows or not head:
            return None
        looks = look_at(head[:HEAD], self.own_path)
        begins = self.format.begins
        is_other = begins is not None and not begins.match(head.removeprefix(BOM_UTF8).lstrip())
        if self.is_guessed or (is_other and self.is_by_name):
            return looks or by_name(self.own_path)
        return looks if looks is not None and looks.is_binary else None
