"""Files whose first bytes say something other than their name: read as what they are, and said.

A compressed file under any name is decompressed, and a file that is not compressed is read under
the name of one that is: a text without control characters, or a format with a beginning of its own.
Anything else there is damage. A Parquet file under another format's name is read
as Parquet, unless the caller named the format. The rest of the formats with a beginning of their
own are refused or passed over (``registry.py``).

A file of its own, because both finding files and reading them ask it.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from lshdb.documents.document import BrokenSourceError, system_reason
from lshdb.documents.io.encodings import encoding_of_mark
from lshdb.documents.registry import COMPRESSIONS, FORMATS, HEAD, look_at

if TYPE_CHECKING:
    from lshdb.documents.io.source import InputFile

__all__ = ["NOT_COMPRESSED", "is_plain", "read_head", "recognised"]

NOT_COMPRESSED = "not compressed"
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f\x7f]")

_SMALL_READ = 2**16
_MAGIC_BYTES = 10


def read_head(file: BinaryIO, *, is_regular: bool) -> bytes:
    """Return the first bytes of a file.

    A regular file is at its beginning again afterwards. From a pipe no more is read than comes at
    once, unless that may be the beginning of a compressed file.

    Raises
    ------
    BrokenSourceError
        The file cannot be read.
    """
    read = getattr(file, "read1", file.read)
    head = b""
    try:
        while len(head) < _MAGIC_BYTES and any(
            compression.magic.startswith(head[: len(compression.magic)])
            for compression in COMPRESSIONS.values()
        ):
            data = read(HEAD if is_regular else _SMALL_READ)
            if data is None:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            if not data:
                break
            head += data
            if is_regular:
                break
        if is_regular:
            file.seek(0)
    except OSError as error:
        raise BrokenSourceError(f"cannot be read: {system_reason(error)}") from error
    return head


def is_plain(compression: str, head: bytes) -> bool:
    """Return whether a file whose name says that it is compressed is not.

    Parameters
    ----------
    compression : str
        By its name.
    head : bytes
        Its first bytes. None is truncated, and so is the beginning of a compression's own.
    """
    if not head or head.startswith(b"BZh"):
        return False
    magics = [format_of.magic for format_of in COMPRESSIONS.values()]
    if any(head[: len(magic)] == magic[: len(head)] for magic in magics):
        return False
    is_text = _CONTROL.search(head[:HEAD]) is None or encoding_of_mark(head) is not None
    return bool(compression) and (is_text or look_at(head[:HEAD]) is not None)


def recognised(source: InputFile, head: bytes) -> InputFile:
    """Return a source as what its first bytes show it to be.

    Parameters
    ----------
    head : bytes
        Its first bytes, as they lie on disk.

    Returns
    -------
    InputFile
        With ``misnamed`` if it differs from what its name says.
    """
    if source.format.from_end or source.misnamed:
        return source
    for name, compression in COMPRESSIONS.items():
        if name != source.compression and compression.begins(head):
            return replace(source, compression=name, misnamed=f"{compression.title}-compressed")
    if is_plain(source.compression, head):
        source = replace(source, compression="", misnamed=NOT_COMPRESSED)
    if (
        source.compression
        or source.format.has_rows
        or not (source.is_by_name and source.is_regular)
    ):
        return source
    look = look_at(head[:HEAD])
    if look is None or look.reads not in FORMATS:
        return source
    return replace(source, input_format=look.reads, misnamed=look.what, is_guessed=False)
