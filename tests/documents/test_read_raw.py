"""Lines as they lie: whatever the cuts and the limit, no byte is lost and none is held too long."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lshdb.documents.formats.jsonl import read_raw_lines, split_raw_lines

CONTENT = st.lists(st.sampled_from([b"a", b"\n", b"bc", b"\r\n", b"{}", b"x" * 40])).map(b"".join)


@settings(max_examples=300)
@given(content=CONTENT, limit=st.integers(1, 60), step=st.integers(1, 30))
def test_the_bytes_come_out_whatever_the_cuts(content: bytes, limit: int, step: int) -> None:
    chunks = [content[start : start + step] for start in range(0, len(content), step)]
    pieces = list(split_raw_lines(iter(chunks), limit))
    assert b"".join(piece.data for piece in pieces) == content
    lines = content.split(b"\n")
    lines = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    assert sum(not piece.continues for piece in pieces) == len(lines)
    whole = [piece.data for piece in pieces if piece.is_whole]
    assert whole == [line for line in lines if len(line.removesuffix(b"\n")) <= limit]
    longest = max((len(piece.data) for piece in pieces), default=0)
    assert longest <= limit + 1 + step


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_over_the_limit_is_passed_on_unheld(end: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    long = b'{"id":"a","text":"' + b"x" * 60_000_000 + b'"}\n'
    path.write_bytes(b'{"id":"b"}\n' + long + b'{"id":"c"}' + end)
    size = 0
    tracemalloc.start()
    try:
        for line in read_raw_lines(path, limit=1_000_000):
            size += len(line.data)
            if line.is_whole:
                assert line.record == json.loads(line.data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size == path.stat().st_size
    assert peak < 8_000_000
