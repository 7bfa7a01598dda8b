"""Plain text: one file is one document, and its path is the key.

Decided: a file that is not UTF-8 is rejected, unless its encoding is known. Line ends stay
unchanged. This is the only format that holds a whole file, so it reads no further than the limit.

A file of its own, as every format has one.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator

from lshdb.documents.document import BrokenSourceError, Document, Rejected, validate_key
from lshdb.documents.io.encodings import undecodable
from lshdb.documents.io.streams import OpenFile

__all__ = ["read_plaintext"]


def read_plaintext(file: OpenFile) -> Iterator[Document | Rejected]:
    """Read one text, and no further than the limit, not counting a byte order mark.

    Yields
    ------
    Document or Rejected
        Exactly one.

    Raises
    ------
    BrokenSourceError
        As the chunks raise it, with the line.
    """
    name, key, limit = file.name, file.key, file.limit
    reason = validate_key(key)
    if reason is not None:
        yield Rejected(name, reason)
        return
    content = bytearray()
    try:
        for chunk in file.chunks:
            content += chunk
            if len(content) > limit + len(BOM_UTF8):
                break
    except BrokenSourceError as error:
        error.line = content.count(b"\n") + 1
        raise
    skipped = len(BOM_UTF8) if content.startswith(BOM_UTF8) else 0
    del content[:skipped]
    if len(content) > limit:
        yield Rejected(name, f"the text has more bytes than the limit of {limit:,}")
        return
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        offset = error.start + skipped
        yield Rejected(name, undecodable(f"at byte offset {offset:,} of the file", file.encoding))
        return
    yield Document(key, text, name)
