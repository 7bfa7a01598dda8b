"""Links of a graph: one per line, ``source TAB target`` or ``source TAB target TAB count``.

Decided: keys are written plainly, without quotes and escapes, so that a key is found in an index
by its very bytes. A key with a tab or a line feed cannot be written here. A line ends in LF or
CRLF. Blank lines are skipped. Every line is independent: a line that is not a link is rejected,
and the next one is read as usual.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from lshdb.documents.document import MAX_KEY_BYTES, Rejected, validate_key
from lshdb.documents.io.lines import TooLong, split_lines
from lshdb.documents.io.single_file import open_single

__all__ = ["MAX_COUNT", "read_links"]

MAX_COUNT = 2**53
"""The largest count of a line; every program that reads it as JSON keeps it exact."""

_LINE_BYTES = 2 * MAX_KEY_BYTES + 100


class _NoLinkError(Exception):
    """A line is not a link; the message is the reason."""


def read_links(path: str | os.PathLike[str]) -> Iterator[tuple[str, str, int] | Rejected]:
    """Read the links of one file, as a stream.

    Parameters
    ----------
    path : path-like
        Plain, ``.gz`` or ``.zst``; ``-`` for standard input, which is not decompressed.

    Yields
    ------
    tuple of (str, str, int) or Rejected
        Source, target and count of each line that is not blank, in order; the count is 1 if
        the line has none.

    Raises
    ------
    InputError
        The path cannot be read to its end; the links before that point have been yielded.
    """
    with open_single(path, input_format="tsv") as (name, chunks):
        for number, line in enumerate(split_lines(chunks, _LINE_BYTES), start=1):
            try:
                link = _link(line)
            except _NoLinkError as error:
                yield Rejected(f"{name}:{number}", str(error))
            else:
                if link is not None:
                    yield link


def _link(line: bytes | TooLong) -> tuple[str, str, int] | None:
    """Return the link of a line; None for a blank line."""
    if isinstance(line, TooLong):
        raise _NoLinkError(f"the line has {line.size:,} bytes; a link has at most {_LINE_BYTES:,}")
    try:
        cells = line.removesuffix(b"\r").decode("utf-8").split("\t")
    except UnicodeDecodeError as error:
        raise _NoLinkError(f"not valid UTF-8 at byte {error.start + 1} of the line") from error
    if not 2 <= len(cells) <= 3:
        if len(cells) == 1 and (not cells[0] or cells[0].isspace()):
            return None
        found = "one cell" if len(cells) == 1 else f"{len(cells)} cells"
        raise _NoLinkError(
            f"{found}, expected source, target and perhaps a count, separated by tabs"
        )
    source, target = cells[:2]
    for end, key in (("source", source), ("target", target)):
        reason = validate_key(key)
        if reason is not None:
            raise _NoLinkError(f"{end}: {reason}")
    return source, target, _count(cells[2]) if len(cells) == 3 else 1


def _count(cell: str) -> int:
    if cell.isascii() and cell.isdigit() and len(cell) < 100:
        count = int(cell)
        if 1 <= count <= MAX_COUNT:
            return count
    raise _NoLinkError(
        f"the count is {cell[:40]!r}, expected a whole number from 1 to {MAX_COUNT:,}"
    )
