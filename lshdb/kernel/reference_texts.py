"""The reference of the kernel's functions on texts: normalising, hashing, shingling, signing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lshdb.kernel.lookup_tables import UNITS_OF_NUMBERS
from lshdb.kernel.reference_rows import SLOT, SLOT_BITS, bucket_keys
from lshdb.kernel.reference_sets import count_common, sketch
from lshdb.shingling import NORMALISATION, count_unassigned, shingle_hashes
from lshdb.shingling import normalise as normalised

_DIGEST_BYTES = 16


def normalise(
    texts: list[str], fold: bool, table: Any, fill: Any, memo: Any, segment: Any
) -> list[str | None]:
    """Normalise texts; no table is needed, and none is left to be normalised as a whole."""
    steps = NORMALISATION if fold else "ignorable-nfkc-space"
    return [normalised(text, steps) for text in texts]


def hash_texts(
    texts: list[str], person: bytes, headers: bytes | None, width: int, hashes: Any
) -> tuple[list[bytes], list[int]] | None:
    """Hash texts, and put the headers before those that are short enough to have one."""
    raws = [text.encode() for text in texts]
    _put_digests(raws, person, hashes)
    if headers is None:
        return None
    plain = [place for place, raw in enumerate(raws) if len(raw) >= len(headers) // width]
    headed = [headers[len(raw) * width : (len(raw) + 1) * width] + raw for raw in raws]
    return headed, plain


def _put_digests(raws: list[bytes], person: bytes, hashes: Any) -> None:
    digests = (
        hashlib.blake2b(raw, digest_size=_DIGEST_BYTES, person=person).digest() for raw in raws
    )
    memoryview(hashes).cast("B")[:] = b"".join(digests)


def sign_texts(
    texts: list[str],
    fold: int,
    table: Any,
    fill: Any,
    memo: Any,
    segment: Any,
    whole: Callable[[str], str],
    kinds: Any,
    learn: Any,
    person: bytes,
    unit: int,
    k: int,
    bag: bool,
    scheme: int,
    num_perm: int,
    constants: Any,
    hashes: Any,
    unassigned: Any,
    rows: Any,
    counts: Any,
) -> None:
    """Normalise, hash and sign texts; ``whole`` normalises each."""
    contents = texts if fold < 0 else [whole(text) for text in texts]
    _put_digests([content.encode() for content in contents], person, hashes)
    np.frombuffer(unassigned, np.int64)[:] = [count_unassigned(content) for content in contents]
    sign_contents(contents, unit, k, bag, scheme, num_perm, constants, rows, counts)


def scan_lines(
    block: Any,
    at: int,
    number: int,
    before: str,
    key_field: str,
    text_field: str,
    longest: int,
    keys: list[str],
    texts: list[str],
    sources: list[str],
) -> tuple[int, int]:
    """Leave every line to the parser, which takes what the compiled code takes, and more."""
    return at, number


def _hashes(content: Any, unit: int, k: int, bag: bool) -> Any:
    if not isinstance(content, str | list | tuple):
        raise TypeError(f"a content is {type(content).__name__}, expected str or a list of str")
    return shingle_hashes(content, unit=UNITS_OF_NUMBERS[unit], k=k, bag=bag)


def sign_contents(
    contents: Sequence[str | list[str]],
    unit: int,
    k: int,
    bag: bool,
    scheme: int,
    num_perm: int,
    constants: Any,
    rows: Any,
    counts: Any,
) -> None:
    """Shingle and sign texts, and lists of tokens."""
    sets = [_hashes(content, unit, k, bag) for content in contents]
    sizes = np.frombuffer(counts, np.int64)
    sizes[:] = [len(hashes) for hashes in sets]
    filled = np.flatnonzero(sizes)
    if len(filled):
        signed = np.empty((len(filled), num_perm), dtype=SLOT)
        sketch(np.concatenate(sets), sizes[filled], scheme, num_perm, constants, signed)
        np.frombuffer(rows, SLOT).reshape(-1, num_perm)[filled] = signed


def shingle_text(text: str, unit: int, k: int, bag: bool) -> bytearray:
    """Return the shingle hashes of a text."""
    return bytearray(_hashes(text, unit, k, bag).tobytes())


def shingle_texts(texts: list[str], unit: int, k: int, bag: bool, counts: Any) -> bytearray:
    """Return the sorted shingle hashes of texts, one text after the other."""
    sets = [_hashes(text, unit, k, bag) for text in texts]
    np.frombuffer(counts, np.int64)[:] = [len(hashes) for hashes in sets]
    return bytearray(b"".join(hashes.tobytes() for hashes in sets))


def compare_texts(left: str, right: str, unit: int, k: int, bag: bool) -> tuple[int, int, int]:
    """Count the shingles that two texts share, and those of each."""
    first, second = (_hashes(text, unit, k, bag) for text in (left, right))
    return count_common(first, second), len(first), len(second)


def share_with(
    hashes: Any, texts: list[str], unit: int, k: int, bag: bool
) -> list[tuple[int, int]]:
    """Count the shingles that each text shares with a set, and those that it has."""
    point = np.sort(np.frombuffer(hashes, np.uint64))
    sets = (_hashes(text, unit, k, bag) for text in texts)
    return [(count_common(point, shingles), len(shingles)) for shingles in sets]


def sign_query(
    text: str, unit: int, k: int, bag: bool, scheme: int, num_perm: int, constants: Any, bands: int,
    height: int,
) -> tuple[bytes, bytes, bytes]:  # fmt: skip
    """Return the shingle hashes, the row and the bucket keys of a text; nothing of an empty one."""
    hashes = _hashes(text, unit, k, bag)
    if not len(hashes):
        return b"", b"", b""
    row, keys = np.empty(num_perm, dtype=SLOT), np.empty(bands, dtype=np.int64)
    sketch(hashes, np.array([len(hashes)]), scheme, num_perm, constants, row)
    bucket_keys(row, num_perm, SLOT_BITS, bands, height, keys)
    return hashes.tobytes(), row.tobytes(), keys.tobytes()
