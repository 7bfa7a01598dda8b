"""A document's body as it is stored: zstd over UTF-8 text, or over JSON of ready tokens.

Tokens in order are an array, ``["a","b"]``; a set of tokens, which has none, is the object
``{"set":["a","b"]}`` with its tokens sorted, so that one set has one form and one hash.

A vector, or bits, is stored as a row of the vector file instead; but its hash is defined here, too.

A short body becomes a frame of one *raw* block (RFC 8878, 3.1.1.2.2). To every decoder it is a
frame like any other, but here it is made and taken apart by a header of nine bytes.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import threading
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

import orjson

from lshdb.arrays import np, sorted_texts
from lshdb.errors import DamageError, QueryError

if TYPE_CHECKING:
    from hashlib import blake2b

    from numpy.typing import NDArray

__all__ = [
    "HEADER_BYTES",
    "RAW_HEADERS",
    "Body",
    "are_as_written",
    "hash_body",
    "most_bytes",
    "pack_bodies",
    "pack_body",
    "plain_tokens",
    "plain_vector",
    "raw_body",
    "size_of_body",
    "unpack_bodies",
    "unpack_body",
    "unpack_plain",
]

Body = Any
"""A text, a list or a set of tokens, or the canonical array of a vector or of bits."""

_LEVEL = 1
"""Against level 3, texts of 540 bytes take 0.4 % more room and 6 to 20 % less time, those of 6.6 KB
3 % more and 26 % less, those of 20 KB 4 % more and 32 % less, those of 200 KB 5 % more and 40 %
less. Texts are a fifth to two thirds of an index. Levels below 1 take a third more room.
"""

_RAW_UP_TO = 200
"""Longest body, in bytes, that is not compressed.

zstd takes 5 us to make a short frame and 3 us to read one; a raw one takes 0.2 us either way. Of
114,027 verses (130 bytes on average) this covers 88 %. With a limit of 128, 200 and 255 bytes their
texts take 8, 22 and 29 % more room, the whole index 0.8, 2.3 and 3.0 %; an add is faster by 2.9,
4.7 and 5.1 us a verse.
"""

_RAW_HEADERS = tuple(
    # magic number; one segment, one byte of content size; that size; last block, raw, its size
    b"\x28\xb5\x2f\xfd\x20" + bytes([size]) + (size << 3 | 1).to_bytes(3, "little")
    for size in range(_RAW_UP_TO + 1)
)
HEADER_BYTES = len(_RAW_HEADERS[0])
RAW_HEADERS = b"".join(_RAW_HEADERS)
"""What stands before a body of 0, 1, 2, ... bytes that is not compressed."""

_HAS_CHECKSUM = 4
"""Flag of a frame that :func:`pack_body` compressed; a raw one has no checksum."""
_LEAST_BYTES = 12

_UNASKED_BYTES = 2**20
"""A body up to this length is read whatever length its document has."""
_MOST_EMPTY_BYTES = 64 * 2**20


@functools.cache
def _module() -> Any:
    """Return the module for frames that come out in pieces, each of a bounded length."""
    standard = sys.version_info >= (3, 14)
    return importlib.import_module("compression.zstd" if standard else "backports.zstd")


class _Contexts(threading.local):
    """A thread's contexts, kept from frame to frame; two threads cannot share one.

    A context of its own for each frame takes six times as long: 16 us instead of 5 for a text of
    700 bytes.

    Frames have zstd's checksum, for 4 bytes and 0.3 us: without it, 177 of 300 bits flipped in
    frames gave another text and no error.
    """

    def __init__(self) -> None:
        import zstandard

        self.decompressor = zstandard.ZstdDecompressor()
        self.compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        self.frame_content_size = zstandard.frame_content_size
        self.error = zstandard.ZstdError


@functools.cache
def _contexts() -> _Contexts:
    return _Contexts()


def raw_body(body: Body) -> tuple[str, bytes]:
    """Return form (``text``, ``tokens`` or ``vector``) and bytes of a body, before compression."""
    if isinstance(body, str):
        return "text", body.encode()
    if isinstance(body, np.ndarray):
        return "vector", body.astype(body.dtype.newbyteorder("<"), copy=False).tobytes()
    return "tokens", orjson.dumps(plain_tokens(body))


def plain_tokens(body: Body) -> Any:
    """Return tokens as JSON can hold them: a set as an object, anything else as it is."""
    return {"set": sorted_texts(body)} if isinstance(body, AbstractSet) else body


@functools.cache
def _hasher(form: str) -> blake2b:
    from hashlib import blake2b  # with OpenSSL, which a query by key does not need

    return blake2b(digest_size=16, person=form.encode())


def hash_body(form: str, raw: bytes) -> bytes:
    """Return the BLAKE2b (16 bytes) of a body or canonical content, personalised by the form.

    It copies a fresh hasher: 0.5 us for 130 bytes; making one each time takes 0.8 us.
    """
    hasher = _hasher(form).copy()
    hasher.update(raw)
    return hasher.digest()


def pack_body(raw: bytes) -> bytes:
    """Make one zstd frame of the bytes of a body, with their number in its header."""
    if len(raw) <= _RAW_UP_TO:
        return _RAW_HEADERS[len(raw)] + raw
    return _contexts().compressor.compress(raw)


def pack_bodies(raws: Sequence[bytes]) -> list[bytes]:
    """Make a frame of each, as :func:`pack_body` does, without the interpreter's lock.

    Takes the memory of the frames twice.
    """
    frames = [pack_body(raw) if len(raw) <= _RAW_UP_TO else b"" for raw in raws]
    places = [place for place, frame in enumerate(frames) if not frame]
    if places:
        made = _contexts().compressor.multi_compress_to_buffer([raws[place] for place in places])
        for number, place in enumerate(places):
            frames[place] = made[number].tobytes()
    return frames


def unpack_body(
    form: str,
    packed: bytes,
    body_hash: bytes | None = None,
    *,
    n_chars: object | Callable[[], object] = None,
    doc_id: int | None = None,
) -> str | list[str] | frozenset[str]:
    """Return the body again; weights, which only one metric has, as a dict.

    Never makes more than the body's possible length: a frame of 99 KB can hold 3 GB, and an index
    may come from elsewhere.

    Parameters
    ----------
    form : {"text", "tokens"}
    packed : bytes
    body_hash : bytes, optional
        Its :func:`hash_body`, to be compared.
    n_chars : int or callable, optional
        Its length in the row of its document, or a function that looks it up. Asked for only if the
        body is longer than 1 MiB; without it, a longer body is refused.
    doc_id : int, optional
        Named in messages.

    Raises
    ------
    DamageError
        The bytes are not what :func:`pack_body` made, or of another or a longer body.
    """
    where = _place(doc_id)
    try:
        raw = _unpacked(form, packed, n_chars, where)
        if body_hash is not None and hash_body(form, raw) != body_hash:
            raise DamageError(
                f"a stored text is not the one written{where}: {raw[:60]!r}",
                hint="run lshdb check, and then lshdb check --repair",
            )
        if form == "text":
            return str(raw, "utf-8")
        tokens: Any = orjson.loads(raw)
        if isinstance(tokens, dict) and isinstance(tokens.get("set"), list):
            return frozenset(tokens["set"])  # a weight is a number
        return tokens  # type: ignore[no-any-return]
    except (ValueError, _module().ZstdError) as error:
        raise _undecodable(where, error) from error


def size_of_body(packed: bytes) -> int | None:
    """Return the bytes of a body before compression, as its frame says, if at most 1 MiB."""
    size = len(packed) - HEADER_BYTES
    if 0 <= size <= _RAW_UP_TO and packed.startswith(_RAW_HEADERS[size]):
        return size
    contexts = _contexts()
    try:
        size = contexts.frame_content_size(packed)
    except contexts.error:
        return None
    return size if 0 < size <= _UNASKED_BYTES else None


def unpack_bodies(bodies: Sequence[tuple[int, str, bytes]]) -> list[Any]:
    """Return bodies again, as :func:`unpack_body` does, and decompress without the lock.

    Parameters
    ----------
    bodies : sequence of (doc_id, form, packed)
        Each with a :func:`size_of_body`. Takes the memory of them all.

    Raises
    ------
    DamageError
        As for :func:`unpack_body`.
    """
    raws = _whole_frames([packed for _, _, packed in bodies])
    unpacked: list[Any] = []
    for place, (doc_id, form, packed) in enumerate(bodies):
        raw = raws.get(place) if form == "text" else None
        try:
            body = unpack_body(form, packed, doc_id=doc_id) if raw is None else str(raw, "utf-8")
        except UnicodeDecodeError:
            body = unpack_body(form, packed, doc_id=doc_id)  # says which
        unpacked.append(body)
    return unpacked


def are_as_written(bodies: Sequence[tuple[Any, Any, bytes]]) -> list[bool]:
    """Return which bodies are surely those with their hashes, and decompress without the lock.

    Parameters
    ----------
    bodies : sequence of (form, packed, body_hash)
        As they are stored; any of them may be damaged or missing.

    Returns
    -------
    list of bool
        False where only :func:`unpack_body` can say: also for a body that is sound, but longer than
        1 MiB. Takes the memory of them all.
    """
    usual = [
        isinstance(form, str) and isinstance(packed, bytes) and size_of_body(packed) is not None
        for form, packed, _ in bodies
    ]
    both = zip(usual, bodies, strict=True)
    raws = _whole_frames([packed if is_usual else b"" for is_usual, (_, packed, _) in both])
    written = []
    for place, (form, packed, body_hash) in enumerate(bodies):
        raw = raws.get(place)
        if raw is None and usual[place]:
            size = len(packed) - HEADER_BYTES
            if 0 <= size <= _RAW_UP_TO and packed.startswith(_RAW_HEADERS[size]):
                raw = packed[HEADER_BYTES:]
        written.append(raw is not None and hash_body(form, raw) == body_hash)
    return written


def _whole_frames(frames: list[bytes]) -> dict[int, Any]:
    """Return by place the bodies in frames that are whole and compressed.

    None at all if one of them is damaged.
    """
    places = [
        place for place, packed in enumerate(frames)
        if len(packed) > _LEAST_BYTES and packed[4] & _HAS_CHECKSUM and _is_whole_frame(packed)
    ]  # fmt: skip
    if places:
        contexts = _contexts()
        chosen: Any = [frames[place] for place in places]
        with contextlib.suppress(contexts.error):
            made = contexts.decompressor.multi_decompress_to_buffer(chosen)
            return {place: made[number] for number, place in enumerate(places)}
    return {}


def _is_whole_frame(packed: bytes) -> bool:
    """Return whether nothing follows the last block and the checksum (RFC 8878, 3.1.1)."""
    flags = packed[4]
    window = not flags & 0x20
    at = 5 + window + (0, 1, 2, 4)[flags & 3] + ((not window), 2, 4, 8)[flags >> 6]
    last = 0
    while not last and at < len(packed):
        header = int.from_bytes(packed[at : at + 3], "little")
        last, is_repeated = header & 1, header >> 1 & 3 == 1
        at += 3 + (1 if is_repeated else header >> 3)
    return bool(last) and at + (flags & 4) == len(packed)


def unpack_plain(
    form: str, packed: bytes, *, n_chars: object, doc_id: int, most: int | None = None
) -> str:
    """Return a body as SQL can hold it: a text as it is, tokens as the JSON that is stored.

    Parameters
    ----------
    form, packed, n_chars, doc_id
        As for :func:`unpack_body`.
    most : int, optional
        Bytes that are made at most, whatever the document's length.

    Raises
    ------
    DamageError
        As for :func:`unpack_body`.
    QueryError
        It has more bytes than ``most``.
    """
    where = _place(doc_id)
    try:
        return str(_unpacked(form, packed, n_chars, where, most), "utf-8")
    except (ValueError, _module().ZstdError) as error:
        raise _undecodable(where, error) from error


def _place(doc_id: int | None) -> str:
    return "" if doc_id is None else f" (table content, doc_id {doc_id})"


def _undecodable(where: str, error: Exception) -> DamageError:
    return DamageError(f"a stored text cannot be decoded{where}: {error}", hint="run lshdb check")


def _unpacked(
    form: str,
    packed: bytes,
    n_chars: object | Callable[[], object],
    where: str,
    most: int | None = None,
) -> bytes:
    size = len(packed) - HEADER_BYTES
    if 0 <= size <= _RAW_UP_TO and packed.startswith(_RAW_HEADERS[size]):
        return packed[HEADER_BYTES:]
    return _decompressed(form, packed, n_chars, where, most)


def _decompressed(
    form: str,
    packed: bytes,
    n_chars: object | Callable[[], object],
    where: str,
    longest: int | None,
) -> bytes:
    """Return the content of the one frame, up to its possible length.

    A frame that says that it has at most 1 MiB is read at once, which no other length can fill.
    Any other, and one that this fails for, is read in pieces.

    Raises
    ------
    ZstdError, DamageError
    QueryError
        It may be longer than ``longest`` bytes, and is.
    """
    contexts = _contexts()
    with contextlib.suppress(contexts.error):
        size = contexts.frame_content_size(packed)
        if 0 < size <= _UNASKED_BYTES and (longest is None or size <= longest):
            return contexts.decompressor.decompress(packed, allow_extra_data=False)
    return _in_pieces(form, packed, n_chars, where, longest)


def _in_pieces(
    form: str,
    packed: bytes,
    n_chars: object | Callable[[], object],
    where: str,
    longest: int | None,
) -> bytes:
    module = _module()
    frame = module.ZstdDecompressor()
    raw: bytes = frame.decompress(packed, _UNASKED_BYTES)
    if not frame.eof:
        length = n_chars() if callable(n_chars) else n_chars
        most = possible = most_bytes(form, length)
        if longest is not None:
            most = min(possible, longest)
        pieces, left = [raw], most - len(raw)
        while not frame.eof and left >= 0:
            # One more than allowed: what fills that is too long.
            piece: bytes = frame.decompress(b"", min(left + 1, _UNASKED_BYTES))
            if not piece and frame.needs_input:
                raise module.ZstdError("the frame ends before its content does")
            pieces.append(piece)
            left -= len(piece)
        if left < 0 and most < possible:
            raise QueryError(
                f"a stored text{where} has more than {most:,} bytes, the most that one value of a "
                "statement may have",
                hint="leave it out (n_chars in document is its length), or read it with lshdb show",
            )
        if left < 0:
            raise DamageError(
                f"a stored text{where} has more than {most:,} bytes, and its document "
                + (f"{length:,} characters" if isinstance(length, int) else "no length"),
                hint="run lshdb check; be careful with an index that comes from elsewhere",
            )
        raw = b"".join(pieces)
    if frame.unused_data:
        raise module.ZstdError("the frame is followed by other bytes")
    return raw


def most_bytes(form: str, n_chars: object) -> int:
    r"""Return the longest possible body of this many characters, in bytes before compression.

    A character has up to 4 bytes. In JSON it has up to 6 (``\u0000``), and a token, of at least
    one, 4 for quotes, comma and colon, and 24 for its weight. Tokens may also be empty, as many as
    are in a document of the usual limit.
    """
    length = n_chars if isinstance(n_chars, int) else 0
    if form == "text":
        return max(_UNASKED_BYTES, 4 * length)
    return max(_MOST_EMPTY_BYTES, 34 * length)


def plain_vector(vector: NDArray[Any], *, is_bits: bool) -> list[float] | str:
    """Return a vector as JSON can hold it: exact numbers, or bits as hexadecimal.

    Parameters
    ----------
    vector : ndarray, shape (vector_columns,)
    is_bits : bool
        Whether its bytes are packed bits.
    """
    if is_bits:
        return vector.tobytes().hex()
    numbers: list[float] = vector.tolist()
    return numbers
