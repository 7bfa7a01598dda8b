"""Bodies as they are stored: zstd frames, the short ones made by hand."""

from __future__ import annotations

import contextlib
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lshdb.errors import DamageError
from lshdb.storage.tables.bodies import (
    _RAW_UP_TO,
    WITHOUT_DICTIONARY,
    hash_body,
    raw_body,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LENGTHS = [*range(9), *range(_RAW_UP_TO - 3, _RAW_UP_TO + 4), 254, 255, 256, 257, 65_536]


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("byte", [b"a", b"\x00", b"\xff"])
def test_any_decoder_reads_a_frame_of_any_length(size: int, byte: bytes) -> None:
    raw = byte * size
    packed = WITHOUT_DICTIONARY.pack(raw)
    assert zstd.decompress(packed) == raw
    assert zstd.get_frame_info(packed).decompressed_size == size
    assert zstd.get_frame_size(packed) == len(packed)


@given(st.binary(max_size=600))
def test_any_decoder_reads_a_frame_of_any_bytes(raw: bytes) -> None:
    assert zstd.decompress(WITHOUT_DICTIONARY.pack(raw)) == raw


@given(st.text(max_size=300) | st.lists(st.text(max_size=8), max_size=40))
def test_bodies_come_back(body: str | list[str]) -> None:
    form, raw = raw_body(body)
    assert WITHOUT_DICTIONARY.unpack(form, WITHOUT_DICTIONARY.pack(raw)) == body
    assert WITHOUT_DICTIONARY.unpack(form, zstd.compress(raw)) == body


def test_a_short_body_is_one_raw_block() -> None:
    assert (
        WITHOUT_DICTIONARY.pack(b"a text").hex(" ")
        == "28 b5 2f fd 20 06 31 00 00 61 20 74 65 78 74"
    )
    assert len(WITHOUT_DICTIONARY.pack(b"a" * _RAW_UP_TO)) == _RAW_UP_TO + 9
    assert len(WITHOUT_DICTIONARY.pack(b"a" * (_RAW_UP_TO + 1))) < 40


@given(st.binary(max_size=_RAW_UP_TO + 40), st.data())
def test_a_frame_that_was_cut_or_grew_is_damage(raw: bytes, data: st.DataObject) -> None:
    packed = WITHOUT_DICTIONARY.pack(raw)
    cut = packed[: data.draw(st.integers(1, len(packed) - 1))]
    for damaged in (cut, packed + b"\0", packed[:5] + bytes([packed[5] ^ 1]) + packed[6:]):
        with pytest.raises(DamageError):
            WITHOUT_DICTIONARY.unpack("text", damaged)


@pytest.mark.parametrize("form", ["text", "tokens"])
def test_what_is_no_utf8_or_json_is_damage(form: str) -> None:
    with pytest.raises(DamageError):
        WITHOUT_DICTIONARY.unpack(form, WITHOUT_DICTIONARY.pack(b"\xff"))


def test_tokens_are_json() -> None:
    assert orjson.loads(zstd.decompress(WITHOUT_DICTIONARY.pack(raw_body(["a", "\n"])[1]))) == [
        "a",
        "\n",
    ]


@given(st.data())
def test_a_flipped_bit_in_a_compressed_frame_is_damage(data: st.DataObject) -> None:
    text = "some words that come again, " * 12 + data.draw(st.text(max_size=40))
    packed = bytearray(WITHOUT_DICTIONARY.pack(text.encode()))
    bit = data.draw(st.integers(0, 8 * len(packed) - 1))
    packed[bit // 8] ^= 1 << bit % 8
    with contextlib.suppress(DamageError):  # what a frame leaves open may change, and no text
        assert WITHOUT_DICTIONARY.unpack("text", bytes(packed)) == text


def test_bodies_packed_together_are_those_packed_one_by_one() -> None:
    raws = [b"ab" * size for size in [*LENGTHS, *LENGTHS[:3]]]
    assert WITHOUT_DICTIONARY.pack_many(raws) == [WITHOUT_DICTIONARY.pack(raw) for raw in raws]
    assert WITHOUT_DICTIONARY.pack_many(raws[:9]) == [
        WITHOUT_DICTIONARY.pack(raw) for raw in raws[:9]
    ]
    assert WITHOUT_DICTIONARY.pack_many([]) == []


def test_every_thread_has_contexts_of_its_own() -> None:
    """A context that two threads use at once mixes their texts."""
    barrier = Barrier(2)

    def mine() -> tuple[object, object]:
        contexts = WITHOUT_DICTIONARY._contexts
        barrier.wait(60)
        return contexts.compressor, contexts.decompressor

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.submit(mine), pool.submit(mine)
        assert not set(one.result(60)) & set(other.result(60))


def test_a_frame_that_lies_about_its_size_is_damage() -> None:
    """The size in the header of a frame decides how much is made at once."""
    packed = bytearray(WITHOUT_DICTIONARY.pack(b"some words " * 40))
    assert zstd.get_frame_info(bytes(packed)).decompressed_size == 440
    for said in (256, 439, 441, 65_791):
        packed[5:7] = (said - 256).to_bytes(2, "little")
        with pytest.raises(DamageError):
            WITHOUT_DICTIONARY.unpack("text", bytes(packed))


def test_many_bodies_are_as_written_where_each_is() -> None:
    """Damage of any byte, another hash, a missing text: never taken for what was written."""
    rng = random.Random(3)
    raws = [bytes(rng.choices(b"abcd ", k=size)) for size in (0, 3, 199, 200, 201, 300, 5000)]
    whole = [("text", WITHOUT_DICTIONARY.pack(raw), hash_body("text", raw)) for raw in raws]
    assert WITHOUT_DICTIONARY.are_as_written(whole) == [True] * len(whole)
    for _ in range(200):
        place = rng.randrange(len(whole))
        form, packed, body_hash = whole[place]
        bad = bytearray(packed)
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        for spoilt in (bytes(bad), packed[: rng.randrange(len(packed))], packed + b"x", None):
            some: list[tuple[str, Any, bytes]] = [*whole]
            some[place] = (form, spoilt, body_hash)
            for one, is_whole in zip(some, WITHOUT_DICTIONARY.are_as_written(some), strict=True):
                if is_whole:
                    WITHOUT_DICTIONARY.unpack(*one)  # raises if it is not
            some[place] = (form, spoilt or packed, bytes(16))
            assert not WITHOUT_DICTIONARY.are_as_written(some)[place]
