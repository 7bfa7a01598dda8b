"""A stored text that decompresses to far more than its document has is an error, and not made."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from lshdb import DamageError, Index
from lshdb.storage.dialects.sqlite.text_function import LONGEST_VALUE
from lshdb.storage.tables.bodies import WITHOUT_DICTIONARY, most_bytes, raw_body
from tests.cli.conftest import MEASURED, MODULE, environment

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BOMB_BYTES = 600 * 2**20
MOST_KIB = 300 * 1024
"""What a command may take: some 150 MiB are Python's, NumPy's and SQLite's."""
TEXT = "some words of a text that is long enough to be compressed by zstd, which begins at " * 4


def bomb(size: int, *, begin: bytes = b"") -> bytes:
    """A frame of so many bytes, all but the first the same; it says nothing of its size."""
    compressor = zstd.ZstdCompressor(level=1)
    piece = b" " * 2**20
    parts = [compressor.compress(begin)]
    parts += [compressor.compress(piece) for _ in range(size // len(piece))]
    return b"".join([*parts, compressor.flush()])


@pytest.fixture(scope="module")
def frame() -> bytes:
    found = bomb(BOMB_BYTES)
    assert len(found) < 200_000
    return found


@pytest.fixture
def path(tmp_path: Path, frame: bytes) -> Path:
    """An index of three copies of a text, the second of which is a bomb."""
    path = tmp_path / "x.lshdb"
    with Index.create(path) as index:
        index.add([("first", "other words " + TEXT), ("bomb", TEXT), ("near", TEXT + "end")])
    connection = sqlite3.connect(path / "index.db")
    connection.execute("UPDATE content SET body = ? WHERE doc_id = 2", (frame,))
    connection.commit()
    connection.close()
    return path


@pytest.mark.sqlite("a row is changed behind its back")
@pytest.mark.parametrize(
    "command",
    [
        ("show", "x.lshdb", "bomb"),
        ("sql", "x.lshdb", "SELECT length(text(doc_id)) FROM document"),
        ("check", "x.lshdb"),
        ("query", "x.lshdb", "--key", "bomb"),
        ("query", "x.lshdb", "documents.txt"),
        ("pairs", "x.lshdb", "--threshold", "0.5"),
        ("explain", "x.lshdb", "bomb", "near"),
        ("export", "x.lshdb", "-o", "files"),
        ("reindex", "x.lshdb", "new.lshdb", "--k", "3"),
        ("check", "x.lshdb", "--repair"),
    ],
)
def test_a_bomb_is_named_and_not_made(path: Path, command: tuple[str, ...]) -> None:
    (path.parent / "documents.txt").write_text(TEXT)
    done = subprocess.run(
        [*MEASURED, *MODULE, *command],
        cwd=path.parent, capture_output=True, text=True, check=False, env=environment(),
        timeout=300,
    )  # fmt: skip
    said, peak = done.stderr.rstrip().rpartition("\n")[::2]
    said += done.stdout
    assert done.returncode == 4, said
    assert int(peak) < MOST_KIB
    assert "doc_id 2" in said
    assert "has more than 1,048,576 bytes, and its document 332 characters" in said
    if "--repair" in command:
        assert "lost: 1 document: bomb" in said


@pytest.mark.sqlite("a row is changed behind its back")
def test_a_bomb_in_a_statement_is_not_made_whatever_its_document_says(path: Path) -> None:
    """Up to what one value may have, and no further."""
    connection = sqlite3.connect(path / "index.db")
    connection.execute("UPDATE document SET n_chars = 1000000000000 WHERE doc_id = 2")
    connection.commit()
    connection.close()
    done = subprocess.run(
        [*MEASURED, *MODULE, "sql", "x.lshdb", "SELECT length(text(doc_id)) FROM document"],
        cwd=path.parent, capture_output=True, text=True, check=False, env=environment(),
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 1
    assert "doc_id 2) has more than 268,435,456 bytes" in done.stderr
    assert int(done.stderr.split()[-1]) < MOST_KIB + LONGEST_VALUE // 1024


@pytest.mark.parametrize("form", ["text", "tokens"])
@pytest.mark.parametrize("n_chars", [None, 0, 10, -1, "many", 3 * 2**20])
def test_the_bound_is_the_length_of_the_document(frame: bytes, form: str, n_chars: object) -> None:
    with pytest.raises(DamageError, match=rf"has more than {most_bytes(form, n_chars):,} bytes"):
        WITHOUT_DICTIONARY.unpack(form, frame, n_chars=n_chars)


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_a_text_is_read_up_to_four_bytes_a_character(extra: int) -> None:
    n_chars = 400_000
    raw = ("\U0001f600" * n_chars + "aaa").encode()[: 4 * n_chars + extra]
    body = raw[: len(raw) // 4 * 4] + b"a" * (len(raw) % 4)
    for packed in (WITHOUT_DICTIONARY.pack(body), zstd.compress(body)):
        if extra > 0:
            with pytest.raises(DamageError, match="its document 400,000 characters"):
                WITHOUT_DICTIONARY.unpack("text", packed, n_chars=n_chars)
        else:
            assert (
                WITHOUT_DICTIONARY.unpack("text", packed, n_chars=lambda: n_chars) == body.decode()
            )


def test_the_length_is_asked_for_where_the_text_is_long() -> None:
    asked = []

    def length() -> int:
        asked.append(True)
        return 2**21

    for size in (10, 1_000, 2**20):
        WITHOUT_DICTIONARY.unpack("text", WITHOUT_DICTIONARY.pack(b"a" * size), n_chars=length)
    assert not asked
    WITHOUT_DICTIONARY.unpack("text", WITHOUT_DICTIONARY.pack(b"a" * (2**20 + 1)), n_chars=length)
    assert asked


@pytest.mark.parametrize(
    "tokens", [["\x01" * 6] * 500_000, [""] * 600_000, ["a"] * 1_000_000, ["\U0001f600" * 400_000]]
)
def test_any_list_of_tokens_comes_back(tokens: list[str]) -> None:
    form, raw = raw_body(tokens)
    assert (
        WITHOUT_DICTIONARY.unpack(form, WITHOUT_DICTIONARY.pack(raw), n_chars=sum(map(len, tokens)))
        == tokens
    )


def test_weights_come_back() -> None:
    weights = {f"{number:x}": 2.2250738585072014e-300 / (number + 1) for number in range(200_000)}
    form, raw = raw_body(weights)
    n_chars = sum(map(len, weights))
    assert len(raw) <= most_bytes(form, n_chars) and len(raw) <= 34 * n_chars
    assert WITHOUT_DICTIONARY.unpack(form, WITHOUT_DICTIONARY.pack(raw), n_chars=n_chars) == weights


def test_a_second_frame_is_damage() -> None:
    packed = WITHOUT_DICTIONARY.pack(b"a" * 300)
    for more in (packed, bomb(2**22), b"a"):
        with pytest.raises(DamageError, match="followed by other bytes"):
            WITHOUT_DICTIONARY.unpack("text", packed + more, n_chars=300)


@pytest.mark.parametrize("cut", [1, 100, 5_000])
def test_a_long_frame_that_was_cut_is_damage(cut: int) -> None:
    packed = bomb(2**24)
    with pytest.raises(DamageError, match="cannot be decoded"):
        WITHOUT_DICTIONARY.unpack("text", packed[: max(20, len(packed) - cut)], n_chars=2**24)


@pytest.mark.sqlite("a row is changed behind its back")
def test_a_repair_keeps_a_long_text_whose_length_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    text = " ".join(f"word{number}" for number in range(200_000))
    with Index.create(path) as index:
        index.add([("long", text), ("short", TEXT)])
    connection = sqlite3.connect(path / "index.db")
    connection.execute("UPDATE document SET n_chars = 5 WHERE doc_id = 1")
    connection.commit()
    connection.close()
    with Index.open(path) as index, pytest.raises(DamageError):
        index.show("long")
    assert Index.repair(path).lost == []
    with Index.open(path) as index:
        assert index.check() == []
        assert index.show("long").body == text
