"""Compressed chunks -> decompressed chunks of bounded size, up to the first damage.

Decided: the streams are driven here and not by ``gzip.open`` or ``zstd.open``, because those throw
away what they have decoded when they meet damage, and because every step here is bounded: a chunk
that expands a millionfold comes out in pieces of ``CHUNK`` bytes.

A file is one or more gzip members, or Zstandard frames, one after another. Zeros after a gzip
member are padding; anything else that is no member is damage. A file without a single byte is a
truncated one. Zstandard frames that want a window over 128 MiB are refused by its decoder.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

from lshdb.documents.faults import DamagedDataError

__all__ = ["CHUNK", "decompressed", "load_decompressor"]

CHUNK = 2**18
"""The most bytes one step hands on."""

_GZIP_WINDOW = 31  # 15 bits of window, plus 16 for the gzip header and its check sum


class _Member(Protocol):
    """One gzip member or Zstandard frame on its way through."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _GzipMember:
    """zlib's decompressor with the manners of zstd's: it keeps the input it has not used."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(wbits=_GZIP_WINDOW)
        self._tail = b""
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inflater.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflater.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._inflater.decompress(self._tail + data if self._tail else data, max_length)
        self._tail = self._inflater.unconsumed_tail
        # A full output may leave bytes inside the inflater although it has taken all input.
        self.needs_input = not self._tail and len(out) < max_length
        return out


def load_decompressor(compression: str) -> tuple[Callable[[], _Member], type[Exception]]:
    """What makes a decoder of one member, and the error such a decoder raises.

    Parameters
    ----------
    compression : {"gz", "zst"}

    Raises
    ------
    ImportError
        For ``zst``, if neither the standard library nor ``backports.zstd`` has it.
    """
    if compression == "gz":
        return _GzipMember, zlib.error
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.ZstdDecompressor, zstd.ZstdError


def decompressed(compression: str, read: Callable[[], bytes]) -> Iterator[bytes]:
    """Decompress a whole file, member after member.

    Parameters
    ----------
    compression : {"gz", "zst"}
    read : callable
        Returns the next bytes of the file, of any length; ``b""`` at its end.

    Yields
    ------
    bytes
        At most ``CHUNK`` bytes, never none. What was decoded before damage comes out first, except
        for what the decoder loses in the step that fails: at most what one ``read`` returned.

    Raises
    ------
    DamagedDataError
        The data is truncated or corrupt.
    """
    new_member, decoder_error = load_decompressor(compression)
    member: _Member | None = None
    n_members = 0
    data = read()
    if not data:
        raise DamagedDataError("the compressed file is truncated: it is empty")
    while data:
        if member is None:
            if compression == "gz" and n_members:
                data = data.lstrip(b"\0")
            if data:
                member = new_member()
                n_members += 1
        while member is not None:
            try:
                out = member.decompress(data, CHUNK)
            except decoder_error as error:
                raise DamagedDataError(_corrupt(error)) from error
            data = b""
            if out:
                yield out
            if member.eof:
                data = member.unused_data
                member = None
            elif member.needs_input:
                break
        data = data or read()
    if member is not None:
        raise DamagedDataError("the compressed file is truncated")


def _corrupt(error: Exception) -> str:
    detail = str(error).rpartition(": ")[2].lower()
    if "memory" in detail:
        return "the compressed file cannot be decoded: it asks for a window of more than 128 MiB"
    return f"the compressed file is corrupt ({detail})"
