"""Gzip, Zstandard, xz, bzip2: whole, joined, truncated, corrupt, far larger than they look."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lshdb import Index, read_documents
from lshdb.documents.document import DamagedDataError, Document
from lshdb.documents.io.streams import CHUNK, decompressed, load_decompressor

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Read = Callable[..., tuple[list, list]]


def _zst(content: bytes) -> bytes:
    return zstd.compress(content, options={zstd.CompressionParameter.checksum_flag: 1})


def _bz2(content: bytes) -> bytes:
    return bz2.compress(content, 1)  # in blocks of 100 kB, each of which comes out whole or not


COMPRESS = {"gz": gzip.compress, "zst": _zst, "xz": lzma.compress, "bz2": _bz2}
TABLES = {"gz": 0, "zst": 0, "xz": 12 * 2**20, "bz2": 5 * 2**20}
"""Memory of a decoder besides the chunks, where Python counts it."""
kinds = pytest.mark.parametrize("kind", COMPRESS)


@pytest.fixture
def lines() -> bytes:
    """800 KB of documents that hardly compress, so that the damage has somewhere to be."""
    rng = random.Random(7)
    row = '{{"id":{},"text":"{:0400x}"}}\n'
    return "".join(row.format(i, rng.getrandbits(1600)) for i in range(2000)).encode()


@kinds
@pytest.mark.parametrize("case", [str.lower, str.upper])
def test_every_format_by_both_extensions(kind: str, case, tmp_path, read: Read) -> None:
    contents = {
        "a.jsonl": b'{"id":"k","text":"x"}\n',
        "b.csv": b"id,text\nk,x\n",
        "c.tsv": b"id\ttext\nk\tx\n",
    }
    for name, content in contents.items():
        path = tmp_path / case(f"{name}.{kind}")
        path.write_bytes(COMPRESS[kind](content))
        assert [(d.key, d.body) for d in read(path)[0]] == [("k", "x")]
    path = tmp_path / f"d.txt.{kind}"
    path.write_bytes(COMPRESS[kind](b"\xef\xbb\xbfx"))
    assert read(path)[0] == [Document(str(path), "x", str(path))]


@kinds
def test_large_and_of_many_members(kind: str, lines: bytes, tmp_path, read: Read) -> None:
    path = tmp_path / f"a.jsonl.{kind}"
    cuts = [0, 0, 1, 1000, 300_000, len(lines), len(lines)]
    parts = [lines[a:b] for a, b in pairwise(cuts)]
    path.write_bytes(b"".join(map(COMPRESS[kind], parts)))
    documents, rejected = read(path)
    assert [d.key for d in documents] == [str(i) for i in range(2000)]
    assert rejected == []


def test_zeros_after_a_gzip_member_are_padding(tmp_path, jsonl, read: Read) -> None:
    path = tmp_path / "a.jsonl.gz"
    member = gzip.compress(jsonl(3))
    path.write_bytes(member + bytes(100_000) + member + bytes(70_000))
    documents, rejected = read(path)
    assert len(documents) == 6 and rejected == []


def test_skippable_frames(tmp_path, jsonl, read: Read) -> None:
    path = tmp_path / "a.jsonl.zst"
    skippable = b"\x50\x2a\x4d\x18\x05\0\0\0hello"
    path.write_bytes(skippable + _zst(jsonl(3)) + skippable + _zst(jsonl(2)))
    documents, rejected = read(path)
    assert len(documents) == 5 and rejected == []


def test_frames_of_any_blocks_read_in_any_steps() -> None:
    """What comes out at a time is bounded, whatever the blocks: long, repeated, flushed, empty."""
    rng = random.Random(5)
    hardly = b"".join(b"%x\n" % rng.getrandbits(900) for _ in range(2000))
    skippable = [b"\x53\x2a\x4d\x18" + bytes([n, 0, 0, 0]) + bytes(n) for n in (0, 3, 70)]
    empty_blocks = b"\x28\xb5\x2f\xfd\x00\x58" + bytes(3 * 50_000) + b"\x01\x00\x00"
    for content in (b"", b"a", hardly, b"x" * 3_000_000, bytes(300_000) + hardly):
        flushed = zstd.ZstdCompressor()
        pieces = [
            flushed.compress(content[start : start + 777], flushed.FLUSH_BLOCK)
            for start in range(0, len(content), 777)
        ]
        frames = (_zst(content), zstd.compress(content, 19), b"".join(pieces) + flushed.flush())
        for frame in frames:
            file = skippable[2] + frame + skippable[0] + empty_blocks + frame + skippable[1]
            for most in (2**16, 4000):
                chunks = list(decompressed("zst", _steps(file, most)))
                assert b"".join(chunks) == 2 * content
                assert max(map(len, chunks), default=0) <= CHUNK


def _steps(content: bytes, most: int) -> Callable[[], bytes]:
    rng, file = random.Random(most), io.BytesIO(content)
    return lambda: file.read(rng.randint(1, most))


@kinds
def test_what_follows_the_last_member_is_damage(kind: str, tmp_path, jsonl, read: Read) -> None:
    path = tmp_path / f"a.jsonl.{kind}"
    path.write_bytes(COMPRESS[kind](jsonl(3)) + b"something else entirely")
    documents, rejected = read(path)
    assert len(documents) == 3
    assert [r.source for r in rejected] == [f"{path}:4"]
    assert "corrupt" in rejected[0].reason


@kinds
@pytest.mark.parametrize(
    "content", [b"", b"\0\0\0\0", b"\1{}", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh9", b"\xfd7z"]
)
def test_no_compressed_data_at_all(kind: str, content: bytes, tmp_path, read: Read) -> None:
    for name in ("a.jsonl", "b.csv", "c.txt"):
        path = tmp_path / f"{name}.{kind}"
        path.write_bytes(content)
        documents, rejected = read(path)
        assert documents == [] and len(rejected) == 1
        assert "truncated" in rejected[0].reason or "corrupt" in rejected[0].reason
        if not content:
            assert "truncated" in rejected[0].reason


@kinds
@pytest.mark.parametrize("name", ["a.jsonl", "b.csv", "c.tsv", "d.json", "e.txt", "f.bib", "g.npy"])
def test_a_plain_file_is_read_under_the_name_of_a_compressed_one(
    kind: str, name: str, tmp_path, read: Read
) -> None:
    contents = {
        "a.jsonl": b'{"id": "a", "text": "x\xc3\xa9"}\n', "b.csv": b"id,text\na,x\n",
        "c.tsv": b"id\ttext\r\na\tx\x1b[0m\r\n", "d.json": b'[{"id": "a", "text": "x"}]',
        "e.txt": b"{}", "f.bib": b"@misc{a, title={x}}", "g.npy": saved(),
    }  # fmt: skip
    how = {"body": "vector"} if name == "g.npy" else {}
    (tmp_path / name).write_bytes(contents[name])
    packed = tmp_path / f"{name}.{kind}"
    packed.write_bytes(contents[name])
    plain, _ = read(tmp_path / name, **how)
    for path in (packed, tmp_path / f"?.*.{kind}"):
        notes: list[str] = []
        documents, rejected = read(str(path), on_note=notes.append, **how)
        assert rejected == [] and notes == [f"{packed} is not compressed; reading it as such"]
        assert [len(one.body) for one in documents] == [len(one.body) for one in plain] != []


def saved() -> bytes:
    data = io.BytesIO()
    np.save(data, np.ones((3, 4), dtype=np.float32))
    return data.getvalue()


@pytest.mark.parametrize("name", ["a.parquet.gz", "a.arrow.zst", "a.jsonl.gz"])
def test_plain_tables_under_the_name_of_compressed_ones(name: str, tmp_path, read: Read) -> None:
    rows = pa.table({"id": ["a"], "text": ["x"]})
    path = tmp_path / name
    if "arrow" in name:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
    else:
        pq.write_table(rows, path)
    for given in (path, tmp_path):
        notes: list[str] = []
        documents, rejected = read(given, on_note=notes.append)
        assert [one.key for one in documents] == ["a"] and rejected == []
        assert len(notes) == 1 and notes[0].startswith(str(path))
    path.write_bytes(gzip.compress(path.read_bytes()))
    if name == "a.parquet.gz":
        assert "decompress it first" in read(path)[1][0].reason


def test_dedup_writes_a_plain_file_as_it_was(tmp_path, jsonl) -> None:
    data = jsonl(5)
    (tmp_path / "a.jsonl.gz").write_bytes(data)
    with Index.create(tmp_path / "x.lshdb") as index:
        index.add(read_documents([tmp_path / "a.jsonl.gz"]))
        index.dedup_files([tmp_path / "a.jsonl.gz"], tmp_path / "b.jsonl.gz")
    assert (tmp_path / "b.jsonl.gz").read_bytes() == data


@kinds
def test_truncated(kind: str, lines: bytes, tmp_path, read: Read) -> None:
    path = tmp_path / f"a.jsonl.{kind}"
    whole = COMPRESS[kind](lines)
    for keep in (1, 10, len(whole) // 3, len(whole) - 9, len(whole) - 1):
        path.write_bytes(whole[:keep])
        expected = _before_damage(kind, whole[:keep]).count(b"\n")
        documents, rejected = read(path)
        assert [d.key for d in documents] == [str(i) for i in range(expected)]
        assert [r.source for r in rejected] == [f"{path}:{expected + 1}"]
        assert "truncated" in rejected[0].reason
        assert f"at about line {expected + 1}" in rejected[0].reason


@pytest.mark.parametrize("kind", ["gz", "zst", "xz"])  # bzip2 checks a block before it gives it
def test_a_wrong_check_sum_costs_no_document(kind: str, tmp_path, jsonl, read: Read) -> None:
    path = tmp_path / f"a.jsonl.{kind}"
    whole = bytearray(COMPRESS[kind](jsonl(100)))
    whole[-5 if kind == "gz" else -1] ^= 1
    path.write_bytes(whole)
    documents, rejected = read(path)
    assert len(documents) == 100
    assert [r.source for r in rejected] == [f"{path}:101"]
    assert "corrupt" in rejected[0].reason


@kinds
@pytest.mark.parametrize("eighth", range(1, 8))
def test_corrupt_in_the_middle(
    kind: str, eighth: int, lines: bytes, tmp_path, read: Read, read_bytes: Read
) -> None:
    path = tmp_path / f"a.jsonl.{kind}"
    whole = bytearray(COMPRESS[kind](lines))
    at = len(whole) * eighth // 8
    whole[at : at + 40] = b"\xff" * 40
    path.write_bytes(whole)
    decoded = _before_damage(kind, bytes(whole))
    expected, garbled = read_bytes(decoded[: decoded.rindex(b"\n") + 1])
    assert len(expected) >= 2000 * (eighth - 2) // 8
    documents, rejected = read(path)
    assert [(d.key, d.body) for d in documents] == [(d.key, d.body) for d in expected]
    assert len(rejected) == len(garbled) + 1
    assert rejected[-1].source == f"{path}:{decoded.count(bytes([10])) + 1}"
    assert "corrupt" in rejected[-1].reason


def _before_damage(kind: str, content: bytes) -> bytes:
    """What comes out of a decoder that is fed single bytes until it fails."""
    new_decoder, errors = load_decompressor(kind)
    if kind == "zst":
        new_decoder, errors = zstd.ZstdDecompressor, zstd.ZstdError
    decoder = zlib.decompressobj(31) if kind == "gz" else new_decoder()
    out = bytearray()
    try:
        for i in range(len(content)):
            out += decoder.decompress(content[i : i + 1])
    except errors:
        pass
    return bytes(out)


@kinds
def test_wherever_it_is_cut_nothing_decoded_is_lost(kind: str) -> None:
    """One bit stands for 258 bytes here: a full step leaves much inside the decoder."""
    whole = COMPRESS[kind](b"x" * (3 * CHUNK + 1000))
    for keep in range(1, len(whole)):
        chunks: list[bytes] = []
        with pytest.raises(DamagedDataError, match="truncated"):
            chunks.extend(decompressed(kind, io.BytesIO(whole[:keep]).read))
        assert b"".join(chunks) == _before_damage(kind, whole[:keep])
        assert all(0 < len(chunk) <= CHUNK for chunk in chunks)


@kinds
def test_damage_in_csv_drops_the_record_it_is_in(kind: str, tmp_path, read: Read) -> None:
    path = tmp_path / f"a.csv.{kind}"
    first, second = b'id,text\na,one\nb,"two\n', b'more"\nc,three\n'
    path.write_bytes(COMPRESS[kind](first) + COMPRESS[kind](second)[:-12])
    documents, rejected = read(path)
    assert documents[0].key == "a"
    assert len(rejected) == 1 and "truncated" in rejected[0].reason
    path.write_bytes(COMPRESS[kind](first) + b"damage")
    documents, rejected = read(path)
    assert [d.key for d in documents] == ["a"]
    assert [r.source for r in rejected] == [f"{path}:4"]
    assert "corrupt" in rejected[0].reason or "truncated" in rejected[0].reason


@kinds
def test_a_damaged_text_is_no_document(kind: str, tmp_path, read: Read) -> None:
    path = tmp_path / f"a.txt.{kind}"
    path.write_bytes(COMPRESS[kind](b"one\ntwo\n" * 1000)[:-1])
    documents, rejected = read(path)
    assert documents == []
    assert [r.source for r in rejected] == [str(path)]
    assert "truncated" in rejected[0].reason


def test_a_window_too_large_is_not_called_corrupt(tmp_path, read: Read) -> None:
    path = tmp_path / "a.jsonl.zst"
    encoder = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 29})
    path.write_bytes(encoder.compress(b"{}\n") + encoder.flush())
    documents, rejected = read(path)
    assert documents == [] and "128 MiB" in rejected[0].reason


@kinds
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.txt"])
def test_a_bomb_is_rejected_within_little_memory(
    kind: str, name: str, tmp_path, read: Read
) -> None:
    path = tmp_path / f"{name}.{kind}"
    head = b"id,text\n" if name == "a.csv" else b""
    path.write_bytes(COMPRESS[kind](head + b"x" * 100_000_000 + b'\n{"id":"a","text":"b"}\n'))
    assert path.stat().st_size < 120_000
    read(path, max_document_bytes=1000)  # modules are loaded
    tracemalloc.start()
    try:
        documents, rejected = read(path, max_document_bytes=1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "limit of 1,000" in rejected[0].reason
    assert len(documents) == (name == "a.jsonl")
    assert peak < 8 * CHUNK + TABLES[kind]


def test_without_a_zstandard_module_the_error_names_the_package(
    tmp_path, read: Read, monkeypatch
) -> None:
    from lshdb.documents.read import read_documents
    from lshdb.errors import InputError

    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(_zst(b""))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(InputError, match="Zstandard") as caught:
        read_documents([path])
    assert "pip install zstandard" in (caught.value.hint or "")
