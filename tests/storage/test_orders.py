"""Frozen orders: the same postings as by SQL, whatever happened to the files."""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lshdb import Index, LshdbError
from lshdb.params.order_layout import CELL, OrderLayout
from lshdb.signatures.banding import bucket_keys, content_keys
from lshdb.storage.bands.band_table import BandTable
from lshdb.storage.bands.postings import Buckets, Postings
from lshdb.storage.orders import comparing, freezing, frozen, uncovered
from lshdb.storage.orders.order_file import OrderFile, OrderName, order_names
from lshdb.storage.transactions import writer as writing
from lshdb.storage.transactions.snapshot import Snapshot
from tests.children.databases import child_path
from tests.sizes import set_sizes

WORDS = [f"{a}{b}" for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u")]


def texts(rng: random.Random, n: int, first: int = 0) -> list[tuple[str, str]]:
    """Texts of which many are near-duplicates of others, and some are copies."""
    found: list[tuple[str, str]] = []
    for number in range(first, first + n):
        words = rng.choices(WORDS, k=30)
        if found and rng.random() < 0.5:
            words = rng.choice(found)[1].split()
            if rng.random() < 0.7:
                words[rng.randrange(len(words))] = rng.choice(WORDS)
        found.append((f"key{number}", " ".join(words)))
    return found


@contextmanager
def snapshot_of(path: Path) -> Iterator[tuple[Snapshot, Any]]:
    with Index.open(path) as index, index._store.reading() as snapshot:
        yield snapshot, index._store.params


def by_sql(snapshot: Snapshot) -> Postings:
    return Postings(snapshot.bands, snapshot.n_signatures)


def assert_equal(left: Buckets, right: Buckets) -> None:
    for one, other in zip(
        (left.keys, left.sizes, left.members), (right.keys, right.sizes, right.members), strict=True
    ):
        assert one.tolist() == other.tolist()


def joined(blocks: list[Buckets]) -> Buckets:
    empty = np.empty(0, dtype=np.int64)
    return Buckets(
        *(
            np.concatenate([empty, *(getattr(block, name) for block in blocks)])
            for name in ("keys", "sizes", "members")
        )
    )


def assert_same_postings(path: Path, *, covered: bool = True) -> None:
    """Every question to the orders has the answer that SQL gives."""
    with snapshot_of(path) as (snapshot, params):
        found, expected = snapshot.postings, by_sql(snapshot)
        assert (found.cover() is not None) == covered
        n, bands = snapshot.n_signatures, params.bands
        rng = np.random.default_rng(n)
        some = rng.integers(0, n, size=min(n, 40))
        keys = bucket_keys(snapshot.signatures[some], **params.cut).reshape(-1)
        keys = rng.permutation(np.unique(np.concatenate([keys, keys ^ 1, keys ^ 2**20])))
        assert sorted(found.members(keys).tolist()) == sorted(expected.members(keys).tolist())
        assert_equal(found.shared_of(keys), expected.shared_of(keys))
        assert_equal(found.grouped_of(keys), expected.grouped_of(keys))
        assert_equal(joined(list(found.in_order())), joined(list(expected.in_order())))
        ends = np.sort(keys[keys >= 0])
        for first, last, above in [
            (0, bands << 32, 1), (int(ends[0]), int(ends[-1]), 1), (1, 2**30, 0),
            (int(ends[1]), int(ends[1]), 0), (3 << 32, (4 << 32) - 1, 3), (0, -1, 1),
        ]:  # fmt: skip
            assert_equal(
                found.shared(first, last, above=above), expected.shared(first, last, above=above)
            )
        assert found.cover() is not None or not covered  # none was given up
        assert_contents(snapshot)


def assert_contents(snapshot: Snapshot) -> None:
    rows = snapshot.session.fetch(
        "SELECT content_hash FROM document WHERE signature_id IS NOT NULL"
    )
    hashes = [bytes(row[0]) for row in rows] + [bytes(16)]
    keys = content_keys(hashes)
    found = snapshot.signatures_of_contents(set(hashes), keys)
    snapshot.postings._covers = {True: None, False: None}
    assert found == snapshot.signatures_of_contents(set(hashes), keys)


def names(path: Path) -> list[OrderName]:
    return order_names(path)


@contextmanager
def small_steps() -> Iterator[None]:
    """Sort some rows at a time, so that small indexes are merged from parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uncovered, "_SORTED_BYTES", 20 * 17 * 50)
        patch.setattr(freezing, "_MERGED_BYTES", 40 * 64)
        patch.setattr(uncovered, "_READ_BYTES", 512 * 16)
        yield


METRICS: dict[str, dict[str, Any]] = {
    "words": {},
    "chars": {"unit": "char", "k": 3, "threshold": 0.6},
    "one row": {"bands": 200, "rows": 1, "num_perm": 256},
    "cosine": {"metric": "cosine", "dim": 8, "threshold": 0.9},
    "hamming": {"metric": "hamming", "dim": 64, "dtype": "bits", "threshold": 6},
    "l2": {"metric": "l2", "dim": 8, "threshold": 0.5, "width": 2.0},
}


def bodies(kind: str, rng: random.Random, n: int, first: int = 0) -> list[tuple[str, Any]]:
    if kind in ("words", "chars", "one row"):
        return list(texts(rng, n, first))
    numbers = np.random.default_rng(rng.randrange(2**32))
    if kind == "hamming":
        few = numbers.integers(0, 256, size=(3, 8), dtype=np.uint8)
        many = few[numbers.integers(0, 3, size=n)]
        many[:, 0] ^= numbers.integers(0, 8, size=n, dtype=np.uint8)
    else:
        few = numbers.normal(size=(5, 8)).astype(np.float32)
        noise = numbers.normal(size=(n, 8), scale=0.05).astype(np.float32)
        many = few[numbers.integers(0, 5, size=n)] + noise
    return [(f"key{first + number}", body) for number, body in enumerate(many)]


@pytest.mark.parametrize("kind", METRICS)
def test_every_metric_has_the_postings_of_sql(tmp_path: Path, kind: str) -> None:
    rng = random.Random(kind)
    path = tmp_path / "x"
    with Index.create(path, **METRICS[kind]) as index:
        for first in (0, 120, 150):
            index.add(bodies(kind, rng, 60, first))
    assert_same_postings(path)
    with Index.open(path) as index:
        assert index.check() == []


@pytest.mark.parametrize("batch", [90, 500])
def test_rows_sorted_for_their_run_make_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """The name of a file has the CRC-32 of its content."""
    set_sizes(monkeypatch, batch_documents=batch)
    monkeypatch.setattr(freezing, "MOST_SORTED", 50)
    read: list[int] = []

    def counted(*arguments: Any) -> Any:
        read.append(arguments[3] - arguments[2])
        return keys_of(*arguments)

    keys_of = freezing.keys_between
    monkeypatch.setattr(freezing, "keys_between", counted)
    found = []
    monkeypatch.setattr("secrets.randbits", lambda bits: 5)  # which sums are seeded with
    for most in (2**20, -1):
        monkeypatch.setattr(writing, "_MOST_SORTED_BYTES", most)
        path = tmp_path / f"{most}"
        with small_steps(), Index.create(path, seed=1) as index:
            index.add(list(texts(random.Random(3), 400, 0)))
            index.add(list(texts(random.Random(4), 100, 900)))
            found.append(([replace(name, segment=0) for name in names(path)], sum(read)))
            assert index.check() == []
        read.clear()
    (names_, n_read), (others, _) = found
    assert names_ == others
    assert n_read == 0


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_orders_follow_a_life(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Adds, removals, rewriting, lost and foreign files: never another answer than SQL's."""
    with small_steps():
        live(tmp_path_factory.mktemp("life") / "x", data)


def live(path: Path, data: st.DataObject) -> None:
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    with Index.create(path) as index:
        index.add(texts(rng, 40))
    steps = ("add", "replace", "remove", "compact", "reband", "lose", "cut", "foreign")
    for step in data.draw(st.lists(st.sampled_from(steps), max_size=5)):
        there = names(path)
        if step in ("add", "replace", "remove"):
            with Index.open(path) as index:
                n = len(index)
                if step == "remove":
                    index.remove(list(index)[: rng.randrange(n)])
                else:
                    first = 0 if step == "replace" else 1000 + rng.randrange(10**6)
                    index.add(texts(rng, rng.randrange(1, 130), first))
        elif step == "compact":
            with Index.open(path) as index:
                index.compact()
        elif step == "reband":
            Index.reband(path, threshold=rng.choice([0.6, 0.7, 0.8]))
        elif there:
            file = path / str(rng.choice(there))
            if step == "lose":
                file.unlink()
            elif step == "cut":
                os.truncate(file, rng.randrange(file.stat().st_size))
            else:
                size = file.stat().st_size
                file.write_bytes(file.read_bytes()[:128] + rng.randbytes(size - 128))
        with Index.open(path) as index:
            if not index._store.params.bands or not len(index):
                continue
            with index._store.reading() as snapshot:
                if not snapshot.n_signatures:
                    continue
                covered = snapshot.postings.cover() is not None
        assert_same_postings(path, covered=covered)
    with Index.open(path) as index:
        index.add([("last", "one more text that nothing else is like")])
        assert_same_postings(path)
        assert index.check() == []
        assert len(names(path)) <= 4


def test_an_add_takes_in_the_files_before_it_as_they_grow(tmp_path: Path) -> None:
    path = tmp_path / "x"
    rng = random.Random(5)
    ends = []
    with Index.create(path) as index:
        for first, n in ((0, 500), (500, 20), (520, 1), (521, 10), (531, 200)):
            index.add(
                [(f"k{i}", " ".join(rng.choices(WORDS, k=20))) for i in range(first, first + n)]
            )
            ends.append([name.last for name in names(path)])
    assert ends == [[500], [500, 520], [500, 520, 521], [500, 531], [731]]
    assert_same_postings(path)


def test_rows_are_sorted_while_an_add_goes_on_and_merged_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of the middle of an add does not need SQL; nor does one after an add that broke."""
    path, rng, ends = tmp_path / "x", random.Random(7), []
    set_sizes(monkeypatch, batch_documents=40)
    monkeypatch.setattr(freezing, "MOST_SORTED", 10)
    monkeypatch.setattr(frozen, "MOST_SORTED", 45)
    monkeypatch.setattr(freezing, "MOST_PARTS", 3)

    def documents(first: int, n: int) -> Iterator[tuple[str, str]]:
        for i in range(first, first + n):
            yield f"k{i}", " ".join(rng.choices(WORDS, k=20))

    def look(_: object) -> None:
        ends.append([name.last for name in names(path)])
        assert_same_postings_but_contents(path)

    with Index.create(path) as index:
        index.add(documents(0, 400))
        assert [name.last for name in names(path)] == [400]
        index.add(documents(400, 225), on_commit=look)
        assert ends == [
            [400],
            [400, 440],
            [400, 440, 480],
            [400, 440, 480, 520],
            [400, 560],
            [400, 560, 600],
        ]
        assert [name.last for name in names(path)] == [625]

        def broken() -> Iterator[tuple[str, str]]:
            yield from documents(700, 100)
            raise KeyError("of the caller")

        with pytest.raises(KeyError):
            index.add(broken())
        assert [name.last for name in names(path)] == [625, 665, 705]
        assert_same_postings(path)
        index.add(documents(900, 25))
    assert [name.last for name in names(path)] == [625, 730]
    assert_same_postings(path)


def test_a_long_add_rewrites_a_row_once_a_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, rng = tmp_path / "x", random.Random(8)
    set_sizes(monkeypatch, batch_documents=20)
    monkeypatch.setattr(freezing, "MOST_SORTED", 5)
    monkeypatch.setattr(freezing, "MOST_PARTS", 4)
    there: set[OrderName] = set()
    written: list[int] = []

    def look(_: object) -> None:
        new = set(names(path)) - there
        there.update(new)
        written.extend(name.last - name.first for name in new)
        assert len(names(path)) <= 4 * 3

    with Index.create(path) as index:
        index.add([("first", "a text of its own")])
        index.add(
            ((f"k{i}", " ".join(rng.choices(WORDS, k=20))) for i in range(1_200)), on_commit=look
        )
    assert sum(written) < 4 * 1_200  # 60 batches, three levels; 6 times with all files each time
    assert max(written) == 500
    assert len(names(path)) == 1
    assert_same_postings(path)


@pytest.mark.parametrize("step", [2**20, 50, 1])
@pytest.mark.parametrize("left", [0, 80])
def test_rows_of_a_killed_writer_are_sorted_by_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, left: int
) -> None:
    """In memory or in a temporary file, be the last of them or all, and SQL is not asked."""
    path = tmp_path / "x"
    rng = random.Random(6)
    with Index.create(path) as index:
        index.add(texts(rng, left))
    monkeypatch.setattr("lshdb.storage.transactions.store.freeze_rows", lambda *given, **how: None)
    monkeypatch.setattr(frozen, "MOST_SORTED", 3)
    monkeypatch.setattr(uncovered, "_SORTED_BYTES", 20 * 17 * step)
    with Index.open(path) as index:
        index.add(texts(rng, 150, 80))
    with snapshot_of(path) as (snapshot, _):
        expected = by_sql(snapshot)
        for name in ("of", "shared", "in_order"):
            monkeypatch.setattr(BandTable, name, None)
        assert snapshot.postings.cover(sorts=False) is None
        cover = snapshot.postings.cover()
        assert cover is not None and bool(cover.n_covered) == bool(left)
        n_steps = -(-(snapshot.n_signatures - cover.n_covered) // step)
        assert len(cover._places) == bool(left) + n_steps
        buckets = joined(list(snapshot.postings.in_order()))
        monkeypatch.undo()
        assert_equal(buckets, joined(list(expected.in_order())))
    assert_same_postings_but_contents(path)
    with Index.open(path) as index:
        assert index.add(texts(rng, 1, 500)).added == 1
        assert index.check() == []
    assert_same_postings(path)


def test_sql_answers_where_there_is_no_room_for_a_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    with Index.create(path) as index:
        index.add(texts(random.Random(6), 80))
        expected = list(index.pairs())
    for name in names(path):
        (path / str(name)).unlink()
    monkeypatch.setattr(uncovered, "_SORTED_BYTES", 20 * 17 * 50)
    monkeypatch.setattr(uncovered, "write_at", raise_full)
    with Index.open(path) as index:
        assert list(index.pairs()) == expected
        assert "No space left" in index._store.orders.faults[0]


def raise_full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def assert_same_postings_but_contents(path: Path) -> None:
    with snapshot_of(path) as (snapshot, _):
        cover = snapshot.postings.cover()
        assert cover is not None and cover.n_covered < snapshot.n_signatures
    assert_same_postings(path)


def test_a_file_of_other_rows_is_not_used(tmp_path: Path) -> None:
    """Restored around it: the same range, the same cut, other documents."""
    rng = random.Random(7)
    for name in ("a", "b"):
        with Index.create(tmp_path / name) as index:
            index.add([(f"k{i}", " ".join(rng.choices(WORDS, k=20))) for i in range(100)])
    (there,), (other,) = names(tmp_path / "a"), names(tmp_path / "b")
    assert (there.first, there.last) == (other.first, other.last)
    (tmp_path / "a" / str(there)).unlink()
    (tmp_path / "b" / str(other)).rename(tmp_path / "a" / str(other))
    with Index.open(tmp_path / "a") as index:
        found = index._store.orders
        with index._store.reading() as snapshot:
            assert snapshot.postings.cover() is not None and not snapshot.postings.cover().n_covered
        assert "not of the rows" in found.faults[0]
        notes: list[str] = []
        assert index.check(on_note=notes.append) == []
        assert any("not of the rows" in note for note in notes)
        assert not any("no frozen order covers" in note for note in notes)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lshdb.maintain.check.findings.MOST_SORTED", 3)
            assert index.check(on_note=notes.append) == []
        assert "no frozen order covers the signatures from 0 to 99" in " ".join(notes)
        index.add([("more", "a text that is not there yet")])
    assert_same_postings(tmp_path / "a")
    assert [name.last for name in names(tmp_path / "a")] == [101]


def test_orders_that_fail_on_the_way_are_followed_by_sql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each bucket comes once: also the one behind the last that orders gave."""
    with Index.create(tmp_path / "x") as index:
        index.add(texts(random.Random(11), 40))
    with snapshot_of(tmp_path / "x") as (snapshot, _):
        expected = joined(list(by_sql(snapshot).in_order()))
        first, last = 0, int(expected.keys[-1])
        middle = int(expected.keys[7])
        monkeypatch.setattr(
            frozen.Cover, "ranges", lambda cover, n: [(first, middle - 1), (middle, last)]
        )
        grouped = frozen.Cover.grouped

        def fail_behind(cover: frozen.Cover, begin: int, end: int, *, above: int) -> Any:
            if begin == middle:
                raise OSError("gone")
            return grouped(cover, begin, end, above=above)

        monkeypatch.setattr(frozen.Cover, "grouped", fail_behind)
        assert_equal(joined(list(snapshot.postings.in_order())), expected)
        assert snapshot.orders is not None and snapshot.orders.faults == ["gone"]


def test_a_file_of_other_rows_and_of_a_commit_of_that_number_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one beside which other rows were put: its last row is looked up in it."""
    monkeypatch.setattr("secrets.randbits", lambda n_bits: 7)
    for name in ("a", "b"):
        with Index.create(tmp_path / name) as index:
            index.add([(f"k{n}", f"{name}{n} one two three four five {n % 3}") for n in range(20)])
    (there,), (other,) = names(tmp_path / "a"), names(tmp_path / "b")
    (tmp_path / "a" / str(there)).unlink()
    (tmp_path / "b" / str(other)).rename(tmp_path / "a" / str(other))
    with Index.open(tmp_path / "a") as index, index._store.reading() as snapshot:
        cover = snapshot.postings.cover()
        assert cover is not None and cover.n_covered == 0
        assert "not of the rows that its name says" in index._store.orders.faults[0]


@pytest.mark.parametrize("what", ["link", "pipe", "directory", "short", "long", "header"])
def test_what_is_no_order_is_not_read(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x"
    with Index.create(path) as index:
        index.add(texts(random.Random(8), 60))
    (name,) = names(path)
    file = path / str(name)
    data = file.read_bytes()
    if what in ("link", "pipe", "directory"):
        file.rename(tmp_path / "kept")
        if what == "link":
            file.symlink_to(tmp_path / "kept")
        elif what == "pipe":
            os.mkfifo(file)
        else:
            file.mkdir()
    elif what == "header":
        file.write_bytes(data[:60] + b"9" + data[61:])
    else:
        file.write_bytes(data[:-4] if what == "short" else data + bytes(4))
    with Index.open(path) as index:
        assert index.query(texts(random.Random(8), 1)[0][1])
        with index._store.reading() as snapshot:
            assert not snapshot.postings.cover().n_covered  # type: ignore[union-attr]
        index.add(texts(random.Random(9), 10, 100))
        assert (tmp_path / "kept").exists() or what not in ("link", "pipe", "directory")
    assert_same_postings(path)


def test_an_add_whose_orders_cannot_be_written_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "x"

    def full(*given: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(freezing, "write_at", full)
    with Index.create(path) as index:
        assert index.add(texts(random.Random(10), 60)).added == 60
    assert "could not be sorted into a file: No space left on device; questions" in caplog.text
    assert not names(path) and not (path / "orders.next.npy").exists()
    with Index.open(path) as index:
        assert index.check() == []
        monkeypatch.undo()
        index.compact()
    assert [name.last for name in names(path)] and not list(path.glob("orders.next*"))
    assert_same_postings(path)


def test_a_file_of_somebody_else_is_read_and_not_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    with Index.create(path) as index:
        index.add(texts(random.Random(11), 300))
    (name,) = names(path)
    (path / str(name)).chmod(0o666)
    with Index.open(path) as index:
        with index._store.reading() as snapshot:
            (file,) = snapshot.order_files()
        assert file.words is None
        assert_same_postings(path)
        with index._store.reading() as snapshot:
            postings = snapshot.postings
            os.truncate(path / str(name), 200)
            assert_equal(
                postings.shared(0, (255 << 32) - 1), by_sql(snapshot).shared(0, (255 << 32) - 1)
            )
            assert postings.cover() is None
        assert "ends too early" in index._store.orders.faults[-1]


def rename_by_crc(path: Path, data: bytes, name: OrderName) -> None:
    """Put a file in the place of another, under the name of its own checksum."""
    (path / str(name)).unlink()
    (path / str(replace(name, crc=zlib.crc32(data)))).write_bytes(data)


def test_merging_does_not_make_damage_good(tmp_path: Path) -> None:
    """A file that differs from what was written is left out; its rows are sorted again."""
    path, rng = tmp_path / "x", random.Random(16)
    with Index.create(path) as index:
        for first, n in ((0, 400), (400, 90), (490, 20)):
            index.add(texts_of_chance(rng, n, first))
    assert [name.first for name in names(path)] == [0, 400, 490]
    file = path / str(names(path)[1])
    data, layout = bytearray(file.read_bytes()), OrderLayout(90, 17)
    postings = np.frombuffer(data, layout.posting, 90, 128 + layout.posting_offset(3))
    at = 0 if np.flatnonzero(postings["row"] == 89)[0] > 45 else 89  # the last row is looked up
    postings["row"][at] ^= 1
    file.write_bytes(data)
    with Index.open(path) as index:
        index.add(texts_of_chance(rng, 110, 510))
        assert "is not what was written" in index._store.orders.faults[-1]
    assert [(name.first, name.last) for name in names(path)] == [(0, 620)]
    with Index.open(path) as index:
        assert index.check() == []
    assert_same_postings(path)


def texts_of_chance(rng: random.Random, n: int, first: int) -> list[tuple[str, str]]:
    return [(f"k{i}", " ".join(rng.choices(WORDS, k=9))) for i in range(first, first + n)]


def test_a_check_gives_each_order_back_before_it_reads_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory at a time is one of the orders, which are as many as bands, and one more."""
    read: list[int] = []
    part = OrderFile.part

    def read_part(self: OrderFile, order: int, start: int, stop: int) -> Any:
        read.append(order)
        postings = part(self, order, start, stop)
        assert set(self._starts) <= {order}
        return postings

    monkeypatch.setattr(OrderFile, "part", read_part)
    with Index.create(tmp_path / "x") as index:
        index.add(texts(random.Random(15), 200))
        read.clear()
        assert index.check() == []
    assert set(read) == set(range(17))


@pytest.mark.parametrize("read", [600, 2**22])
@pytest.mark.parametrize(
    "what", ["bytes", "a bucket", "a place", "contents", "the sequence", "an entry twice"]
)
def test_a_check_finds_an_order_that_is_not_of_the_rows_and_a_repair_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, read: int
) -> None:
    for module in (uncovered, comparing):  # 600: a row, or 50 entries, at a time
        monkeypatch.setattr(module, "_READ_BYTES", read)
    path = tmp_path / "x"
    with Index.create(path) as index:
        index.add(texts(random.Random(14), 200))
        index.remove([f"key{number}" for number in range(0, 200, 3)])
        assert index.check() == []
    (name,) = names(path)
    good = (path / str(name)).read_bytes()
    n = name.last
    layout = OrderLayout(n, 17)
    postings = np.frombuffer(good, layout.posting, offset=128 + layout.posting_offset(0))
    postings = postings.reshape(17, n).copy()
    if what == "a bucket":
        postings["rest"][7, n // 2] ^= 1
    elif what == "a place":
        postings["row"][3, :2] = postings["row"][3, 1::-1]
    elif what == "contents":
        postings["row"][16, :2] = postings["row"][16, 1::-1]
    elif what == "the sequence":
        postings[4, [49, 50]] = postings[4, [50, 49]]
    elif what == "an entry twice":
        postings[9, 50] = postings[9, 49]
    else:
        postings["row"][2, 5] ^= 2**15
    data = good[: -postings.nbytes] + postings.tobytes()
    if what == "bytes":
        (path / str(name)).write_bytes(data)
    else:
        rename_by_crc(path, data, name)
    with Index.open(path) as index:
        (finding,) = index.check()
        assert finding.kind == "order" and finding.where.startswith("orders.0.16x6.0-")
        assert ("CRC-32" in finding.what) == (what == "bytes")
        assert index.check(quick=True) == []
    result = Index.repair(path)
    assert [one.kind for one in result.findings] == ["order"] and not result.lost
    with Index.open(path) as index:
        assert index.check() == [] and result.documents == len(index)
    assert_same_postings(path)
    assert not Index.repair(path).findings


@pytest.mark.parametrize("where", ["a cell", "a posting"])
def test_a_damaged_order_is_not_merged_into_another(tmp_path: Path, where: str) -> None:
    """Its sums would be right again in the new file."""
    path = tmp_path / "x"
    with Index.create(path) as index:
        index.add(texts(random.Random(17), 200))
    (name,) = names(path)
    data = bytearray((path / str(name)).read_bytes())
    layout = OrderLayout(name.last, 17)
    posting = layout.posting_offset(2) + 5 * np.dtype(layout.posting).itemsize
    data[128 + (4 * 60 if where == "a cell" else posting)] ^= 1
    (path / str(name)).write_bytes(data)
    with Index.open(path) as index, small_steps():
        index.add(texts(random.Random(18), 100, 500))
        assert index.check() == []
    (merged,) = names(path)
    assert merged.first == 0 and merged.last > name.last
    assert_same_postings(path)


def test_a_file_of_a_later_state_is_used_once_its_reader_comes_to_it(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with Index.create(path) as index:
        index.add(texts(random.Random(21), 100))
    with Index.open(path) as reader:
        orders = reader._store.orders
        with reader._store.reading() as snapshot:
            with Index.open(path) as index:
                index.add(texts(random.Random(22), 20, 100))
            assert orders.cover(snapshot) is not None
        assert orders.faults == [] and not orders.refused
        with reader._store.reading() as snapshot:
            cover = orders.cover(snapshot)
            assert cover is not None and cover.n_covered == snapshot.n_signatures
        assert orders.faults == []


def test_a_reader_of_an_earlier_state_sees_that_state(tmp_path: Path) -> None:
    path = tmp_path / "x"
    rng = random.Random(12)
    with Index.create(path) as index:
        index.add(texts(rng, 50))
    with Index.open(path) as reader, reader._store.reading() as snapshot:
        n = snapshot.n_signatures
        with Index.open(path) as index:
            index.add(texts(rng, 100, 50))
        found = snapshot.postings
        assert found.cover() is not None and found.cover().n_covered == 0 < n  # made of later rows
        assert_equal(found.shared(0, 2**62, above=0), by_sql(snapshot).shared(0, 2**62, above=0))
        with Index.open(path) as index:
            index.remove([f"key{number}" for number in range(20)])
            index.compact()
        assert_equal(found.shared(0, (255 << 32) - 1), by_sql(snapshot).shared(0, (255 << 32) - 1))


KILLED = """
import os, signal, sys
import lshdb.storage.{module} as module
from lshdb import Index
plain = module.{name}
def killed(*given, **named):
    if {after}:
        plain(*given, **named)
    os.kill(os.getpid(), signal.SIGKILL)
module.{name} = killed
with Index.open(sys.argv[1]) as index:
    index.add([(f"new{{n}}", f"a text of {{n}} and some words besides {{n}}") for n in range(90)])
"""


@pytest.mark.parametrize(
    ("module", "name", "after"),
    [
        ("transactions.store", "freeze_rows", False), ("orders.freezing", "write_orders", False),
        ("orders.order_file", "write_at", True), ("orders.order_file", "sync_file", False),
        ("orders.order_file", "_crc32", True), ("orders.freezing", "clear_orders", False),
    ],
)  # fmt: skip
def test_a_writer_killed_at_any_step_has_added_and_leaves_nothing_wrong(
    tmp_path: Path, module: str, name: str, after: bool
) -> None:
    path = tmp_path / "x"
    with Index.create(path) as index:
        index.add(texts(random.Random(16), 60))
        n, n_signatures = len(index), index.stats().signatures
    assert frozen.covering(names(path))[-1].last == n_signatures
    script = KILLED.format(module=module, name=name, after=after)
    environment = {**os.environ, "PYTHONPATH": child_path()}
    done = subprocess.run(
        [sys.executable, "-c", script, path], env=environment, check=False, timeout=300
    )
    assert done.returncode == -9
    # The new file holds the rows of the old one, which goes after it has come.
    assert frozen.covering(names(path))[-1].last >= n_signatures
    with Index.open(path) as index:
        assert len(index) == n + 90 and index.check() == []
    assert_same_postings(path)
    with Index.open(path) as index:
        index.add([("last", "and then one more of the texts")])
        assert index.check() == []
        assert names(path)[-1].last == index.stats().signatures
    assert not list(path.glob("orders.next*"))
    assert_same_postings(path)


def test_a_copy_has_the_orders_of_its_state(tmp_path: Path) -> None:
    with Index.create(tmp_path / "x") as index:
        index.add(texts(random.Random(15), 150))
        index.copy(tmp_path / "y")
        assert names(tmp_path / "y") == names(tmp_path / "x")
    (name,) = names(tmp_path / "y")
    assert (tmp_path / "y" / str(name)).read_bytes() == (tmp_path / "x" / str(name)).read_bytes()
    assert_same_postings(tmp_path / "y")


def test_a_name_is_read_as_it_is_written() -> None:
    name = OrderName(5, 9, 3, "16x6", 0xFEED, 0xBEEF)
    assert str(name) == "orders.3.16x6.5-9.000000000000feed.0000beef.npy"
    assert OrderName.of(str(name)) == name
    for bad in ("3.16x6.9-9.000000000000feed.0000beef", "next", "3.16x6.5-9.feed.0000beef",
                "3.16x6.5-9.000000000000feed.beef", "3.16x6.9-5.000000000000feed.0000beef",
                "3.16x6.5-9.0000beef", "3.../x.5-9.000000000000feed.0000beef"):  # fmt: skip
        assert OrderName.of(f"orders.{bad}.npy") is None


def test_a_file_is_a_plain_array(tmp_path: Path) -> None:
    with Index.create(tmp_path / "x") as index:
        index.add(texts(random.Random(13), 60))
        signatures = np.array(index.signatures)
    (name,) = names(tmp_path / "x")
    data = np.load(tmp_path / "x" / str(name), mmap_mode="r", allow_pickle=False)
    n, layout = len(signatures), OrderLayout(len(signatures), 17)
    assert data.dtype == "u1" and data.shape == (layout.size,)
    keys = bucket_keys(signatures, bands=16, rows=int(name.cut.split("x")[1]))
    for band in range(16):
        cells = data[layout.cell_offset(band) : layout.cell_offset(band + 1)].view(CELL)
        postings = data[layout.posting_offset(band) : layout.posting_offset(band + 1)]
        postings = postings.view(layout.posting)
        sizes = np.diff(np.append(cells["place"], n))
        numbers = np.repeat(np.arange(layout.n_cells), sizes)
        buckets = numbers << layout.rest_bits | postings["rest"]
        assert (buckets == keys[postings["row"], band] - (band << 32)).all()
        assert (np.diff(buckets) >= 0).all()


def mapped_orders(path: Path) -> int:
    """KiB of an index's order files that this process has in memory."""
    found, is_order_map = 0, False
    for line in Path("/proc/self/smaps").read_text(errors="surrogateescape").splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            is_order_map = f"{path}/orders." in line
        elif is_order_map and line.startswith("Rss:"):
            found += int(line.split()[1])
    return found


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="says what is mapped on Linux")
def test_a_long_add_does_not_keep_what_it_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_sizes(monkeypatch, batch_documents=40)
    monkeypatch.setattr(freezing, "MOST_SORTED", 10)
    set_sizes(monkeypatch, commit_postings=0)
    before: list[int] = []
    after: list[int] = []
    find = frozen.Cover.of_contents
    rest = frozen.OrderFile.rest

    def watched(self: frozen.OrderFile) -> None:
        before.append(mapped_orders(tmp_path / "x"))
        rest(self)

    def found(self: frozen.Cover, keys: Any) -> Any:
        signatures = find(self, keys)
        after.append(mapped_orders(tmp_path / "x"))
        return signatures

    monkeypatch.setattr(frozen.OrderFile, "rest", watched)
    monkeypatch.setattr(frozen.Cover, "of_contents", found)
    with Index.create(tmp_path / "x") as index:
        index.add(texts(random.Random(9), 200))
        n_signatures = index.stats().signatures
        before.clear()
        index.add((f"again {key}", text) for key, text in texts(random.Random(9), 200))
        assert any(before) and after and not any(after)
        assert index.stats().signatures == n_signatures


def lineages(tmp_path: Path, *, last: list[tuple[str, str]]) -> tuple[Path, Path]:
    """Two copies of an index that went on by themselves, and end with the same rows.

    The second has the rows of the first, and others before them; both have as many.
    """
    one, other = tmp_path / "one", tmp_path / "other"
    with Index.create(one) as index:
        index.add(prose("base", 30))
        index.copy(other)
    for path, kind in ((one, "mine"), (other, "theirs")):
        with Index.open(path) as index:
            index.add(prose(kind, 40))
            index.add(last)
    return one, other


def prose(kind: str, n: int) -> list[tuple[str, str]]:
    """Documents that are like no other kind's."""
    return [
        (f"{kind}{number}", " ".join(f"{kind}{number}word{place}" for place in range(12)))
        for number in range(n)
    ]


def copy_over(source: Path, target: Path, *, orders: bool = True) -> None:
    """``cp -a SOURCE/. TARGET/``; without orders, there are none but the target's own."""
    for file in sorted(source.iterdir()):
        if orders or not file.name.startswith("orders."):
            shutil.copy2(file, target / file.name)


LAST2 = [("last2", "another last row that is the same on both sides " * 2)]
LAST = [("last", "the last of the rows is the same on both sides " * 2)]


@pytest.mark.fast
@pytest.mark.parametrize("orders", [True, False])
def test_an_order_of_another_history_is_not_believed(tmp_path: Path, orders: bool) -> None:
    one, other = lineages(tmp_path, last=LAST)
    assert {name.last for name in names(one)} == {name.last for name in names(other)}
    copy_over(other, one, orders=orders)
    foreign = set(names(one)) - set(names(other))
    assert foreign
    with Index.open(one) as index:
        for key, text in prose("theirs", 40) + prose("base", 30) + LAST:
            (hit,) = index.query(text, top=1)
            assert (hit.key, hit.similarity) == (key, 1.0)
        assert not index.query(prose("mine", 1)[0][1])
        with index._store.reading() as snapshot:
            cover = snapshot.postings.cover()
            assert cover is not None
            assert cover.n_covered == (snapshot.n_signatures if orders else 0)
        assert any("another copy" in fault for fault in index._store.orders.faults)
        notes: list[str] = []
        assert index.check(on_note=notes.append) == []
        assert any("another copy" in note for note in notes)
    assert_same_postings(one)


@pytest.mark.parametrize("orders", [True, False])
def test_an_add_merges_no_order_of_another_history(tmp_path: Path, orders: bool) -> None:
    one, other = lineages(tmp_path, last=LAST)
    copy_over(other, one, orders=orders)
    with Index.open(one) as index:
        index.add(prose("more", 60))
        assert index.add([(f"again{key}", text) for key, text in prose("theirs", 40)]).copies == 40
        assert index.check() == []
        for key, text in prose("theirs", 40):
            assert {hit.key for hit in index.query(text)} == {key, f"again{key}"}
    assert_same_postings(one)
    with Index.open(one) as index, index._store.reading() as snapshot:
        segments = snapshot.segments([name.last for name in names(one)])
    assert [segments[name.last] for name in names(one)] == [name.segment for name in names(one)]


def test_an_order_of_another_history_with_more_rows_is_not_believed_later(tmp_path: Path) -> None:
    """It covers rows that the index comes to have, under the numbers of others."""
    one, other = lineages(tmp_path, last=LAST)
    for path, kind in ((one, "many"), (other, "few")):
        with Index.open(path) as index:
            index.add(prose(kind, 300))
            index.add(LAST2)
    with Index.open(one) as index:
        index.add(prose("still more", 2000))
    copy_over(other, one, orders=False)
    with Index.open(one) as index:
        assert index.query(prose("few", 1)[0][1]) and not index.query(prose("many", 1)[0][1])
        assert index.check() == []
    assert_same_postings(one)


def test_an_order_of_the_same_rows_with_other_contents_is_not_believed(tmp_path: Path) -> None:
    """Signatures are of sets: texts that repeat themselves have those of shorter ones."""
    one, other = tmp_path / "one", tmp_path / "other"
    with Index.create(one) as index:
        index.add(prose("base", 3))
        index.copy(other)
    short = "a b c d e f g " * 3
    for path, text in ((one, short), (other, short * 2)):
        with Index.open(path) as index:
            index.add([("x", text)])
    copy_over(other, one, orders=False)
    with Index.open(one) as index:
        assert index.add([("y", short * 2)]).copies == 1
        assert index.check() == []
    assert_same_postings(one)


def test_orders_of_both_after_each_was_compacted_are_told_apart(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    with Index.create(one) as index:
        index.add(prose("base", 40))
        index.copy(other)
    for path, gone in ((one, "base3"), (other, "base30")):
        with Index.open(path) as index:
            index.remove([gone])
            index.compact()
    assert (
        [name.generation for name in names(one)]
        == [1]
        == [name.generation for name in names(other)]
    )
    copy_over(other, one, orders=False)
    with Index.open(one) as index:
        assert index.check() == []
        assert index.query(dict(prose("base", 40))["base3"])
    assert_same_postings(one)


def test_a_commit_without_rows_leaves_no_segment(tmp_path: Path) -> None:
    with Index.create(tmp_path / "x") as index:
        index.add(prose("a", 5))
        index.add(prose("a", 5))
        index.add(prose("b", 5))
        index.remove(["a0"])
        ends = "SELECT n_signatures FROM segment ORDER BY 1"
        assert list(index.sql(ends).rows) == [(5,), (10,)]
        index.compact()
        assert list(index.sql(ends).rows) == [(9,)]
        numbers = "SELECT count(DISTINCT number), min(number) > 0 FROM segment"
        assert list(index.sql(numbers).rows) == [(1, 1)]


def scramble(path: Path, how: str) -> None:
    """Damage the contents of each order."""
    for name in names(path):
        data = bytearray((path / str(name)).read_bytes())
        n = name.last - name.first
        layout = OrderLayout(n, 17)
        begin = 128 + layout.posting_offset(16)
        contents = np.frombuffer(data, layout.posting, offset=begin)
        cells = np.frombuffer(data, CELL, offset=128, count=17 * layout.n_cells)
        if how == "shuffled":
            contents[:] = contents[np.random.default_rng(1).permutation(n)]
        elif how == "shuffled buckets":
            contents["rest"] = contents["rest"][np.random.default_rng(1).permutation(n)]
        elif how == "other signatures":
            contents["row"] = contents["row"][::-1]
        elif how == "zeros":
            data[begin:] = bytes(len(data) - begin)
        elif how == "ones":
            data[begin:] = b"\xff" * (len(data) - begin)
        elif how == "lower bits":
            contents["rest"] ^= 1
        else:
            cells["sum"] = 0
        (path / str(name)).write_bytes(data)


@pytest.mark.parametrize(
    "how",
    ["shuffled", "shuffled buckets", "other signatures", "zeros", "ones", "lower bits", "sums"],
)
@pytest.mark.parametrize("n", [1, 5, 400, 3000])
@pytest.mark.parametrize("is_own", [True, False])
def test_exact_copies_are_shared_where_the_order_of_contents_is_scrambled(
    tmp_path: Path, how: str, n: int, is_own: bool
) -> None:
    if n == 1 and how in ("shuffled", "shuffled buckets", "other signatures"):
        return  # one entry stays where it is
    path = tmp_path / "x"
    documents = prose("a", n)
    with Index.create(path) as index:
        index.add(documents)
    scramble(path, how)
    for name in names(path):
        (path / str(name)).chmod(0o644 if is_own else 0o666)  # and is read, not mapped
    again = [(f"again {key}", text) for key, text in documents]
    with Index.open(path) as index:
        assert index.add(again[:1]).copies == 1
        result = index.add([*again[1:], *prose("b", 3)])
        assert (result.copies, result.added) == (n - 1, n + 2)
        assert index.check() == []
        assert index.stats().signatures == n + 3
    assert_same_postings(path)
    with snapshot_of(path) as (snapshot, _):  # new rows were sorted with those of the damaged file
        assert snapshot.postings.cover() is not None
        assert snapshot.postings.cover().n_covered == n + 3


def asked(path: Path) -> tuple[list[tuple[str, str, float]], list[str], int]:
    """The pairs of an index, what a check says of it, and how many signatures an order covers."""
    said: list[str] = []
    with Index.open(path) as index:
        pairs = [(pair.key1, pair.key2, pair.similarity) for pair in index.pairs()]
        said += map(str, index.check(on_note=said.append))
        return pairs, said, index.stats().ordered_signatures


def test_an_order_that_cannot_be_mapped_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where addresses are limited; it is a file of the index all the same."""
    with Index.create(tmp_path / "a", threshold=0.5) as index:
        index.add(texts(random.Random(5), 300))
    expected = asked(tmp_path / "a")
    assert expected[0] and expected[2] > 0
    mapped = mmap.mmap
    n_refused = 0

    def refusing(descriptor: int, *arguments: Any, **options: Any) -> mmap.mmap:
        nonlocal n_refused
        if descriptor < 0:
            return mapped(descriptor, *arguments, **options)
        n_refused += 1
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(mmap, "mmap", refusing)
    assert asked(tmp_path / "a") == expected
    assert n_refused
    n_refused, size = 0, sum(path.stat().st_size for path in (tmp_path / "a").glob("orders.*"))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (7 * size, 7 * size))
    assert asked(tmp_path / "a") == expected
    assert not n_refused, "a map would take much of the addresses that there may be"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_an_order_that_cannot_be_opened_now_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Nothing is wrong with it, so no add or compaction removes it, and no check names it."""
    with Index.create(tmp_path / "a", threshold=0.5) as index:
        index.add(texts(random.Random(5), 300))
    expected, names = asked(tmp_path / "a"), order_names(tmp_path / "a")

    def refusing(path: Path, *_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number), str(path))

    places = ("order_file.open_file", "frozen.order_names")  # the file itself, and its folder
    for place, question in itertools.product(places, ("pairs", "check", "compact", "add")):
        with (
            monkeypatch.context() as patch,
            Index.open(tmp_path / "a") as index,
            pytest.raises((OSError, LshdbError), match=re.escape(os.strerror(number))),
        ):
            patch.setattr(f"lshdb.storage.orders.{place}", refusing)
            if question == "add":
                index.add([("more", "words that nobody else has in a row")])
            else:
                list(getattr(index, question)() or ())
        assert order_names(tmp_path / "a") == names, (place, question)
    assert asked(tmp_path / "a") == expected
