"""Progress: bytes on disk, bounded rate, and the total at the end."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable

from lshdb.documents.read import read_documents

Read = Callable[..., tuple[list, list]]
MIB = 2**20


def test_progress_rises_to_the_total(tmp_path, jsonl, read: Read) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl(100_000, "x" * 50))
    (tmp_path / "b.jsonl").write_bytes(b"")
    (tmp_path / "c.txt").write_bytes(b"\xff")
    (tmp_path / "d.csv").write_bytes(b"no,header\n" * 10)
    (tmp_path / "e.jsonl.gz").write_bytes(gzip.compress(os.urandom(200_000))[:-100])
    (tmp_path / "f.txt").write_bytes(b"x" * 3 * MIB)
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    calls: list[tuple[int, int | None, str]] = []
    read(tmp_path, on_progress=lambda *call: calls.append(call), max_document_bytes=1000)
    positions = [position for position, _, _ in calls]
    assert {call[1:] for call in calls} == {(total, "bytes")}
    assert positions == sorted(set(positions))
    assert positions[-1] == total
    assert total // MIB <= len(calls) <= total // MIB + 6


def test_compressed_files_count_bytes_on_disk(tmp_path, jsonl, read: Read) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(jsonl(50_000)))
    calls: list[tuple[int, int | None, str]] = []
    read(path, on_progress=lambda *call: calls.append(call))
    size = path.stat().st_size
    assert calls == [(size, size, "bytes")]


def test_standard_input_alone_has_no_total(jsonl, read: Read) -> None:
    content = jsonl(100_000)
    calls: list[tuple[int, int | None, str]] = []
    read("-", stdin=io.BytesIO(content), on_progress=lambda *call: calls.append(call))
    assert calls[-1] == (len(content), None, "bytes")
    assert len(calls) <= len(content) // MIB + 1


def test_standard_input_beside_files_adds_nothing(tmp_path, jsonl, read: Read) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(10))
    size = path.stat().st_size
    calls: list[tuple[int, int | None, str]] = []
    stdin = io.BytesIO(jsonl(100_000))
    read(["-", path], stdin=stdin, on_progress=lambda *call: calls.append(call))
    assert calls == [(size, size, "bytes")]


def test_files_that_vanish_or_grow_keep_to_the_total(tmp_path, jsonl) -> None:
    for name in "abc":
        (tmp_path / f"{name}.jsonl").write_bytes(jsonl(1000))
    calls: list[tuple[int, int | None, str]] = []
    stream = read_documents([tmp_path], on_progress=lambda *call: calls.append(call))
    total = 3 * (tmp_path / "a.jsonl").stat().st_size
    (tmp_path / "a.jsonl").write_bytes(jsonl(100_000))
    (tmp_path / "b.jsonl").unlink()
    assert sum(1 for _ in stream) == 101_001
    assert [position for position, _, _ in calls] == [total // 3, 2 * total // 3, total]


def test_an_error_of_the_callback_comes_through(tmp_path, jsonl) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(10))

    def broken(bytes_read: int, bytes_total: int | None, unit: str) -> None:
        raise OSError("the terminal is gone")

    stream = read_documents([path], on_progress=broken)
    try:
        list(stream)
    except OSError as error:
        assert "terminal" in str(error)
    else:
        raise AssertionError("the error was swallowed")


def test_a_reader_that_is_left_early_closes_its_file(tmp_path, jsonl) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(100_000))
    stream = read_documents([path])
    next(stream)
    held = _open_files()
    stream.close()
    assert str(path) in held and str(path) not in _open_files()


def _open_files() -> set[str]:
    directory = "/proc/self/fd"
    found = set()
    for number in os.listdir(directory):
        try:
            found.add(os.readlink(f"{directory}/{number}"))
        except FileNotFoundError:
            continue
    return found
