"""Files of rows: plain .npy files that grow in place, and every way in which one can be wrong."""

from __future__ import annotations

import contextlib
import io
import os
import zlib
from pathlib import Path

import numpy as np
import pytest

from lshdb.errors import DamageError
from lshdb.storage.rowfiles.layouts import HEADER_BYTES, RowLayout, npy_header
from lshdb.storage.rowfiles.row_file import RowFile

pytestmark = pytest.mark.fast

LAYOUT = RowLayout("signature", "<u4", 8)


def rows(first: int, count: int, num_perm: int = 8) -> np.ndarray:
    return np.arange(first * num_perm, (first + count) * num_perm, dtype=np.uint32).reshape(
        count, num_perm
    )


@pytest.fixture
def file(tmp_path: Path) -> RowFile:
    file = RowFile(tmp_path / "signatures.npy", LAYOUT)
    file.create()
    return file


def test_grows_in_place_and_numpy_opens_it(file: RowFile) -> None:
    assert np.load(file.path, allow_pickle=False).shape == (0, 8)
    file.append(0, rows(0, 3))
    file.set_header(3)
    first_bytes = file.path.read_bytes()
    file.append(3, rows(3, 100_000))
    file.set_header(100_003)
    assert file.path.read_bytes()[HEADER_BYTES:].startswith(first_bytes[HEADER_BYTES:])
    loaded = np.load(file.path, mmap_mode="r", allow_pickle=False)
    assert np.array_equal(loaded, rows(0, 100_003))
    assert np.array_equal(file.rows(100_003)[:], loaded)
    assert file.path.stat().st_size == HEADER_BYTES + 100_003 * 32


@pytest.mark.parametrize("dtype", ["<f4", "<f8", "<f2", "|u1"])
def test_vectors_of_any_type_and_width(tmp_path: Path, dtype: str) -> None:
    for n_columns in (1, 2**20):
        file = RowFile(
            tmp_path / "vectors.npy", RowLayout("vector", np.dtype(dtype).str, n_columns)
        )
        file.write(0, [])
        vectors = (np.arange(3 * n_columns) % 200).reshape(3, n_columns).astype(dtype)
        file.append(0, vectors)
        for count in (10**15, 3):
            file.set_header(count)
            assert file.path.read_bytes()[:HEADER_BYTES].endswith(b"\n")
            assert file.check_header(3) == count
        assert np.array_equal(np.load(file.path, allow_pickle=False), vectors)
        assert np.array_equal(file.rows(3)[np.array([2, 0])], vectors[[2, 0]])


@pytest.mark.parametrize("piece", [1, 70, 10**6])
def test_a_block_is_proved_by_all_of_it(
    file: RowFile, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    """However it is read, and where the file ends before it does."""
    monkeypatch.setattr("lshdb.storage.rowfiles.row_file.PIECE_BYTES", piece)
    file.append(0, rows(0, 20))
    crc = zlib.crc32(rows(3, 9).tobytes())
    assert file.block_crc(3, 9) == crc
    assert np.array_equal(np.concatenate(list(file.checked(3, 9, crc))), rows(3, 9))
    for first, count, wrong in ((3, 9, crc ^ 1), (3, 8, crc), (2, 9, crc), (3, 9, None)):
        with pytest.raises(DamageError, match=f"rows {first} to {first + count - 1} of the sig"):
            file.check_block(first, count, wrong)
    end = zlib.crc32(rows(18, 2).tobytes())
    with pytest.raises(DamageError, match="ends before a committed row"):
        file.check_block(18, 5, end)


def test_a_block_of_a_file_that_is_cut_meanwhile_ends(
    file: RowFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at its length and the reading."""
    file.append(0, rows(0, 20))
    long = os.path.getsize(file.path)
    os.truncate(file.path, HEADER_BYTES + 5 * file.row_bytes)
    monkeypatch.setattr(RowFile, "_size", lambda _: long)
    assert file.block_crc(0, 20) == zlib.crc32(rows(0, 5).tobytes())


def test_header_keeps_its_length_up_to_huge_numbers(file: RowFile) -> None:
    for count in (0, 9, 10, 10**9, 10**15):
        file.set_header(count)
        with open(file.path, "rb") as opened:
            np.lib.format.read_magic(opened)
            shape, _, _ = np.lib.format.read_array_header_1_0(opened)
            assert (shape, opened.tell()) == ((count, 8), HEADER_BYTES)


def test_rows_past_the_committed_count_do_not_exist(file: RowFile) -> None:
    file.append(0, rows(0, 5))
    file.append(2, rows(50, 1))
    assert np.array_equal(file.rows(2)[:], rows(0, 2))
    assert np.array_equal(file.rows(3)[2:3], rows(50, 1))
    assert np.array_equal(file.rows(2)[1:9], rows(1, 1))
    assert len(file.rows(2)) == 2 and file.rows(2)[5:].shape == (0, 8)
    for outside in (-1, 2, 2**62):
        with pytest.raises(IndexError, match="there are 2"):
            file.rows(2)[np.array([0, outside])]
        with pytest.raises(IndexError, match="there are 2"):
            file.rows(2).among(np.array([0, outside]))


@pytest.mark.parametrize("most_held", [0, 2**20])
def test_some_rows_are_read_and_all_of_a_small_file_held_in_time(
    file: RowFile, monkeypatch: pytest.MonkeyPatch, most_held: int
) -> None:
    monkeypatch.setattr("lshdb.storage.rowfiles.row_file.MOST_HELD_BYTES", most_held)
    file.append(0, rows(0, 1000))
    stored = file.rows(1000)
    ids = np.array([7, 999, 7, 0, 8, 9])
    for _ in range(60):
        assert np.array_equal(stored[ids], rows(0, 1000)[ids])
        assert np.array_equal(stored[1:900:7], rows(0, 1000)[1:900:7])
        read, places = stored.among(ids)
        assert np.array_equal(read[places], rows(0, 1000)[ids])
    assert len(read) == (1000 if most_held else 5)
    file.append(1000, rows(1000, 500))
    assert np.array_equal(file.rows(1500)[np.array([1499, 3])], rows(0, 1500)[[1499, 3]])
    assert np.array_equal(stored[ids], rows(0, 1000)[ids])


def test_short_file_is_damage_and_not_a_crash(file: RowFile) -> None:
    file.append(0, rows(0, 5))
    with open(file.path, "r+b") as opened:
        opened.truncate(HEADER_BYTES + 5 * 32 - 1)
    with pytest.raises(DamageError, match="5 rows need 288"):
        file.rows(5)
    with pytest.raises(DamageError, match="5 rows need 288"):
        file.check_header(5)
    assert len(file.rows(4)) == 4


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY\x01\x00",
        b"\x93NUMPY\x03\x00" + b"\x76\x00" + b"{" * 118,
        b"PK\x03\x04" + bytes(200),
    ],
)
def test_file_that_is_no_npy(file: RowFile, content: bytes) -> None:
    file.path.write_bytes(content)
    with pytest.raises(DamageError, match="the header of"):
        file.check_header(0)


def test_every_flipped_bit_of_the_header_is_found(file: RowFile, is_long: bool) -> None:
    """Of digits of the row count, too: they make it another number. A fifth of them by default."""
    file.append(0, rows(0, 5))
    file.set_header(0)
    good = file.path.read_bytes()
    for place in range(0, 8 * HEADER_BYTES, 1 if is_long else 5):
        bad = bytearray(good)
        bad[place // 8] ^= 1 << place % 8
        file.path.write_bytes(bad)
        with contextlib.suppress(DamageError):
            assert file.check_header(0) > 0


def test_file_with_other_rows(file: RowFile, tmp_path: Path) -> None:
    np.save(file.path, np.zeros((3, 9), np.uint32))
    with pytest.raises(DamageError, match=r"\(3, 9\).*rows of 8 uint32 \(<u4\)"):
        file.check_header(3)
    np.save(file.path, np.zeros((3, 8), np.int64))
    with pytest.raises(DamageError, match="i8"):
        file.check_header(3)
    np.save(file.path, np.asfortranarray(np.zeros((3, 8), np.uint32)))
    with pytest.raises(DamageError):
        file.check_header(3)
    np.save(file.path, np.zeros((3, 8), np.uint32))
    assert file.check_header(3) == file.check_header(2) == 3
    file.path.unlink()
    file.check_header(3)
    with pytest.raises(DamageError, match="cannot be read"):
        RowFile(file.path, LAYOUT).check_header(0)


def test_a_file_that_is_cut_while_it_is_read_is_refused(file: RowFile) -> None:
    """It may have lost its name by then."""
    file.append(0, rows(0, 1000))
    stored = file.rows(1000)
    assert stored[999:].sum()
    renamed = file.path.rename(file.path.with_name("old.npy"))
    assert file.rows(1000)[999:].sum()
    with open(renamed, "r+b") as opened:
        opened.truncate(HEADER_BYTES + 10 * 32)
    with pytest.raises(DamageError, match="448 bytes long; 1000 rows need 32128"):
        file.rows(1000)
    for read in (lambda: stored[:], lambda: stored[np.array([5, 999])], lambda: stored[9:11]):
        with pytest.raises(DamageError, match="ends before a committed row"):
            read()
    assert np.array_equal(stored[np.array([5, 9])], rows(0, 10)[[5, 9]])


def test_less_is_read_than_was_asked_for(file: RowFile, monkeypatch: pytest.MonkeyPatch) -> None:
    pread = os.pread
    file.append(0, rows(0, 1000))
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: pread(fd, (size + 1) // 2, offset))
    assert np.array_equal(file.take(np.array([3, 999])), rows(0, 1000)[[3, 999]])
    assert np.array_equal(file.take_between(3, 1000), rows(3, 997))


@pytest.mark.parametrize("type_", ["<u4", "|u1", "<f2", "<f4", "<f8"])
def test_a_header_is_the_one_that_numpy_writes(type_: str) -> None:
    for shape in ((0, 1), (1, 128), (10**9, 4096), (10**17, 1), (3, 17, 10**6), (3, 256, 2**32)):
        buffer = io.BytesIO()
        about = {"descr": type_, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(buffer, about)
        assert npy_header(type_, shape) == buffer.getvalue()


@pytest.mark.parametrize(
    "ids", [[], [7], [0, 1, 2], [9, 8, 7], [5, 5, 6, 6, 7], [0, 2, 3, 4, 90, 91, 1]]
)
def test_takes_rows_in_any_order_and_those_in_a_row_at_once(file: RowFile, ids: list[int]) -> None:
    file.append(0, rows(0, 100))
    assert np.array_equal(file.take(np.array(ids, dtype=np.int64)), rows(0, 100)[ids])
    with pytest.raises(DamageError, match="ends before"):
        file.take(np.array([98, 99, 100]))
