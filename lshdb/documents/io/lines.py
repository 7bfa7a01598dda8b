"""Split chunks of bytes into lines of bounded length.

Decided: a line ends at a line feed and nowhere else, so that U+2028, form feeds and lone carriage
returns inside a text do not end it. The limit applies before memory is taken: only the length of
an over-long line is kept, and reading goes on after its end. A UTF-8 byte order mark is removed at
the front of a file, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lshdb.documents.document import BrokenSourceError

__all__ = ["BOM", "TooLong", "split_lines", "without_bom"]

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for a line over the limit.

    Attributes
    ----------
    size : int
        Bytes of the line, without its line feed.
    n_quotes : int
        How many of them are double quotes; the CSV reader needs it to find the record's end.
    """

    size: int
    n_quotes: int


def without_bom(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks without a byte order mark at their beginning."""
    iterator = iter(chunks)
    head = b""
    for chunk in iterator:
        head += chunk
        if len(head) >= len(BOM):
            break
    head = head.removeprefix(BOM)
    if head:
        yield head
    yield from iterator


def split_lines(chunks: Iterable[bytes], limit: int) -> Iterator[bytes | TooLong]:
    """Split at line feeds.

    Parameters
    ----------
    chunks : iterable of bytes
        The content, cut anywhere; a byte order mark at its beginning is skipped.
    limit : int
        The longest line, in bytes without its line feed.

    Yields
    ------
    bytes or TooLong
        Each line without its line feed. A last line without one counts if it holds anything.

    Raises
    ------
    BrokenSourceError
        As the chunks raise it, with the line number. The beginning of that line is dropped,
        because its rest is unknown.
    """
    n_ended = 0
    held = _Held(limit)
    try:
        for chunk in without_bom(chunks):
            pieces = chunk.split(b"\n")
            rest = pieces.pop()
            for piece in pieces:
                n_ended += 1
                if held.size or len(piece) > limit:
                    held.add(piece)
                    yield held.take()
                else:
                    yield piece
            if rest:
                held.add(rest)
    except BrokenSourceError as error:
        error.line = n_ended + 1
        raise
    if held.size:
        yield held.take()


class _Held:
    """The beginning of a line whose end has not come yet; beyond the limit, only its length."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._n_quotes = 0
        self.size = 0

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        self._n_quotes += piece.count(b'"')
        if self.size > self._limit:
            self._pieces.clear()
        else:
            self._pieces.append(piece)

    def take(self) -> bytes | TooLong:
        line: bytes | TooLong
        if self.size > self._limit:
            line = TooLong(self.size, self._n_quotes)
        else:
            line = b"".join(self._pieces)
        self._pieces.clear()
        self._n_quotes = 0
        self.size = 0
        return line
