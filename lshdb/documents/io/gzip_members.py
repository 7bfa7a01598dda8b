"""Gzip members that hold a record each: a damaged one costs its record, and the next one is read.

A member says nothing of its length. So where one is damaged, the next is looked for by the bytes
that members begin with, from behind the beginning of the damaged one: its end may be missing, and
what follows may have been taken for its data. Those bytes also occur within compressed data, so a
member counts only if what it holds begins as a record does.

A file of its own: the decoder of :mod:`streams` takes a file for one piece of data.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from lshdb.documents.document import DamagedDataError
from lshdb.documents.io.streams import CHUNK, Damage, MemberEnd, corrupt

__all__ = ["gzip_members"]

_MAGIC = b"\x1f\x8b\x08"
_WINDOW = 31
_KEPT = 2**20
"""Of a member's bytes on disk, the last are kept, to look for the next member among them."""
_TRIED = 2**16


def gzip_members(read: Callable[[], bytes], begins: bytes) -> Iterator[bytes]:
    """Decompress a file, member after member, and go on behind damaged ones.

    Parameters
    ----------
    read : callable
        Returns the next bytes of the file, of any length; ``b""`` at its end.
    begins : bytes
        What each member holds first.

    Yields
    ------
    bytes
        At least one and at most ``CHUNK`` bytes. A :class:`MemberEnd` follows a sound member; a
        :class:`Damage` stands for the rest of one that is damaged, if another follows.

    Raises
    ------
    DamagedDataError
        The last member is truncated or corrupt.
    """
    position = last = 0

    def more() -> bytes:
        nonlocal position, last
        piece = read()
        position, last = position + len(piece), len(piece)
        return piece

    data = more()
    if not data:
        raise DamagedDataError("the compressed file is truncated: it is empty")
    while data:
        inflater = zlib.decompressobj(_WINDOW)
        on_disk = bytearray()
        is_whole = True
        try:
            while not inflater.eof:
                data = data or more()
                if not data:
                    raise DamagedDataError("the compressed file is truncated")
                on_disk += data
                if len(on_disk) > _KEPT:
                    del on_disk[:-_KEPT]
                    is_whole = False
                while True:
                    out = inflater.decompress(data, CHUNK)
                    data = inflater.unconsumed_tail
                    if out:
                        yield out
                    if inflater.eof or not (data or len(out) == CHUNK):
                        break
            yield MemberEnd()
            data = inflater.unused_data.lstrip(b"\0")
            while not data and (piece := more()):
                data = piece.lstrip(b"\0")
        except (zlib.error, DamagedDataError) as error:
            damage = error if isinstance(error, DamagedDataError) else corrupt(error)
            damage.start = position - last
            damage.is_corrupt = isinstance(error, zlib.error)
            data = _next_member(bytes(on_disk[is_whole:]), more, begins)
            if not data:
                raise damage from None
            yield Damage(damage.reason)


def _next_member(data: bytes, more: Callable[[], bytes], begins: bytes) -> bytes:
    """Return the bytes read from the next member on; none if there is no member."""
    while True:
        at = data.find(_MAGIC)
        if at < 0:
            piece = more()
            if not piece:
                return b""
            data = data[-len(_MAGIC) + 1 :] + piece
            continue
        data = data[at:]
        while len(data) < _TRIED and (piece := more()):
            data += piece
        try:
            if zlib.decompressobj(_WINDOW).decompress(data, len(begins)) == begins:
                return data
        except zlib.error:
            pass
        data = data[1:]
