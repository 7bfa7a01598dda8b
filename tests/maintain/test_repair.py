"""``repair`` makes good what has a source, names what is lost, and changes nothing else."""

from __future__ import annotations

import json
import os
import pkgutil
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import DamageError, DatabaseError, Document, Index, LockedError, read_documents
from lshdb.maintain import repair
from lshdb.signatures.banding import bucket_keys
from lshdb.storage.place.lock import WriterLock
from lshdb.storage.tables.records import row_checksum
from tests.conftest import family_corpus, pair_set
from tests.raw import change, raw

CORPUS = family_corpus(5, families=6)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.lshdb"
    with Index.create(path) as index:
        index.add(CORPUS[:20])
        more = [("same", CORPUS[9][1]), ("empty", ""), ("tokens", ["a", "b"]), ("f000-1", "new")]
        index.add([*CORPUS[20:], *more])
        index.update_clusters()
        assert index.check() == []
    return path


def contents(path: Path) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes()
        for file in sorted(path.iterdir())
        if not file.name.startswith(("index.db-", "lock"))
    }


def files(path: Path) -> set[str]:
    """Names of the files of an index, without those of its database; orders without their range."""
    names = [file.name for file in path.iterdir() if not file.name.startswith("index.db")]
    return {name[:8] if name.startswith("orders.") else name for name in names}


def everything(path: Path) -> tuple[object, ...]:
    """What an index answers, but for the numbers of its signatures."""
    with Index.open(path) as index:
        assert index.check() == []
        keys = [key for (key,) in index.sql("SELECT key FROM document ORDER BY doc_id").rows]
        found = (index.show(key) for key in keys)
        shown = [(one.document.doc_id, one.body, one.copies) for one in found]
        clusters = sorted(sorted(cluster.keys) for cluster in index.clusters())
        return keys, shown, pair_set(index), clusters, index.batches()


def test_a_sound_index_is_left_as_it_is(path: Path) -> None:
    before = contents(path)
    result = Index.repair(path)
    assert result.findings == [] and result.quarantine is None
    assert contents(path) == before
    assert os.listdir(path.parent) == [path.name]


def cut(path: Path) -> None:
    os.truncate(path / "signatures.npy", 5000)


def remove(path: Path) -> None:
    (path / "signatures.npy").unlink()


def garble_header(path: Path) -> None:
    content = (path / "signatures.npy").read_bytes()
    (path / "signatures.npy").write_bytes(b"\x93NUMPX" + content[6:])


def swap(path: Path) -> None:
    with Index.create(path.with_name("other.lshdb")) as other:
        other.add((f"o{number}", f"words of another index {number}") for number in range(50))
    (path.with_name("other.lshdb") / "signatures.npy").replace(path / "signatures.npy")


def flip_signature(path: Path) -> None:
    content = bytearray((path / "signatures.npy").read_bytes())
    content[128 + 256 + 30] ^= 4
    (path / "signatures.npy").write_bytes(content)


def statement(text: str, *parameters: object) -> Callable[[Path], None]:
    return lambda path: change(path, text, *parameters)


ELSEWHERE = pytest.mark.sqlite("Beside Postgres, rows that are not there lie on another host")
UNCHECKED = pytest.mark.sqlite("Postgres lets no such form in")


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        pytest.param(remove, marks=ELSEWHERE),
        garble_header,
        swap,
        flip_signature,
        statement("UPDATE state SET n_signatures = 7"),
        statement("UPDATE state SET n_signatures = 68719476736"),
        statement("UPDATE state SET signature_file = 'sygnatures.npy'"),
        statement("UPDATE state SET uuid = 'x', format = 9"),
        statement("UPDATE signature_block SET crc32 = 5"),
        statement("DELETE FROM band WHERE signature_id % 2 = 1"),
        statement("UPDATE band SET signature_id = 999 WHERE signature_id = 3"),
        statement("UPDATE band SET b0 = 3"),
        statement("UPDATE edge SET similarity = 0.9"),
        statement("UPDATE cluster_member SET label = 1"),
        statement("INSERT INTO content VALUES (777, 'text', ?)", b"x"),
        statement("UPDATE document SET signature_id = 1 WHERE key = 'u001'"),
        statement("UPDATE signature_release SET signature_id = 5"),
        pytest.param(
            statement("UPDATE content SET form = 'tooens' WHERE form = 'tokens'"), marks=UNCHECKED
        ),
        pytest.param(
            statement("UPDATE content SET form = 'texu' WHERE form = 'text' AND doc_id = 5"),
            marks=UNCHECKED,
        ),
        statement("UPDATE document SET n_chars = 1, n_shingles = 2 WHERE key = 'u001'"),
        statement("UPDATE document SET content_hash = ? WHERE key = 'tokens'", b"\0"),
        statement("UPDATE content SET body = ? WHERE doc_id = 10", b"\0"),  # the text of "same"
        statement("DELETE FROM content WHERE doc_id = 10"),
    ],
)
def test_what_has_a_source_is_made_good(path: Path, damage: Callable[[Path], None]) -> None:
    before = everything(path)
    damage(path)
    result = Index.repair(path)
    assert result.findings and (result.lost, result.quarantine) == ([], None)
    assert everything(path) == before
    assert files(path) == {"index.toml", "lock", "orders.1", "signatures.1.npy"}


@pytest.mark.parametrize(
    ("text", "key", "reason", "has_text"),
    [
        ("UPDATE document SET source = 'z' WHERE key = 'u001'", "u001", "its row in", True),
        ("UPDATE document SET checksum = 1 WHERE key = 'u001'", "u001", "its row in", True),
        ("DELETE FROM content WHERE doc_id = 11", "u001", "its text is missing", False),
        ("UPDATE content SET body = 'z' WHERE doc_id = 11", "u001", "its text is missing", False),
        (
            "UPDATE content SET body = (SELECT body FROM content WHERE doc_id = 2) "
            "WHERE doc_id = 11",
            "u001",
            "its text is not the one written",
            False,
        ),
    ],
)
def test_what_is_lost_is_named_and_can_be_put_back(
    path: Path, text: str, key: str, reason: str, has_text: bool
) -> None:
    with Index.open(path) as index:
        whole = index.show(key)
        assert whole.document.doc_id == 11
    change(path, text)
    result = Index.repair(path)
    assert result.lost == [key] and result.documents == len(CORPUS) + 2
    assert result.quarantine is not None and result.quarantine.parent == path.parent
    (record,) = map(json.loads, result.quarantine.read_text().splitlines())
    assert record["id"] == key and record["reason"].startswith(reason)
    assert record["row"]["doc_id"] == 11
    with Index.open(path) as index:
        assert index.check() == []
        assert index.batches()[-1].n_removed == 1
        assert ("text" in record) is has_text
        if has_text:
            index.add(read_documents([result.quarantine]))
            assert index.show(key).body == whole.body


@pytest.mark.sqlite("pages of its file")
@pytest.mark.sqlite("any value in any column")
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("batch_id", 10**7 + 1), ("batch_id", -1), ("batch_id", "a"), ("key", b"\0\xff"),
        ("content_hash", b"\0"), ("content_hash", bytes(10**5)), ("content_hash", "abc"),
        ("body_hash", 5), ("n_chars", b"x"), ("source", 5), ("last_seen_at", 5.5),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_is_damage_whatever_its_checksum(
    path: Path, column: str, value: object
) -> None:
    """A stranger writes that, too. Batches before a number that none has are not worked out."""
    with raw(path) as execute:
        found = execute("SELECT * FROM document WHERE key = 'f001-1'")
        row = list(found.fetchone())
        row[[each[0] for each in found.description].index(column)] = value
        execute(
            f"UPDATE document SET {column} = ?, checksum = ? WHERE key = 'f001-1'",
            (value, row_checksum(row[:-1])),
        )
    with Index.open(path) as index:
        assert any(one.where.startswith("table document, ") for one in index.check())
    result = Index.repair(path)
    assert len(result.lost) == 1 and result.quarantine is not None
    with Index.open(path) as index:
        assert index.check() == [] and result.documents == len(index) == len(CORPUS) + 2


@pytest.mark.sqlite("pages of its file")
@pytest.mark.parametrize("number", [10**7 + 1, -1])
def test_a_batch_that_cannot_be_is_not_worked_out(path: Path, number: int) -> None:
    """Nor are all those before it; whoever wrote its number wrote the checksum, too."""
    with raw(path) as execute:
        found = execute("SELECT * FROM document WHERE key = 'f001-1'")
        row = list(found.fetchone())
        row[[column[0] for column in found.description].index("batch_id")] = number
        execute(
            "UPDATE document SET batch_id = ?, checksum = ? WHERE key = 'f001-1'",
            (number, row_checksum(row[:-1])),
        )
    result = Index.repair(path)
    assert result.lost == ["f001-1"] and result.quarantine is not None
    with Index.open(path) as index:
        assert index.check() == []
        index.add(read_documents([result.quarantine]))
        assert index.check() == [] and index.show("f001-1")


@pytest.mark.sqlite("pages of its file")
def test_the_number_of_a_batch_says_nothing_of_others(path: Path) -> None:
    """A stranger's is as great as can be; millions before it would not be there."""
    with raw(path) as execute:
        execute("PRAGMA foreign_keys=OFF")
        row = list(execute("SELECT * FROM batch WHERE batch_id = 1").fetchone())
        row[0], row[-1] = 9_999_999, row_checksum([9_999_999, *row[1:-1]])
        execute(f"INSERT INTO batch VALUES ({', '.join('?' * len(row))})", row)
        execute("UPDATE batch SET n_rejected = 7 WHERE batch_id = 1")
    result = Index.repair(path)
    assert result.batches == [1] and result.lost == []
    with Index.open(path) as index:
        assert index.check() == []
        assert {1, 9_999_999} <= {batch.batch_id for batch in index.batches()}
        index.add([("more", "some words of another document")])
        assert index.check() == []


def spoil_page(path: Path, table: str) -> None:
    """Overwrite the head of the third leaf of a table."""
    database = sqlite3.connect(path / "index.db")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    try:
        (page,) = database.execute(
            "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' LIMIT 1 OFFSET 2",
            (table,),
        ).fetchone()
    except sqlite3.OperationalError:
        pytest.skip("this SQLite does not say which page is whose")
    finally:
        database.close()
    content = bytearray((path / "index.db").read_bytes())
    content[(page - 1) * 8192 : (page - 1) * 8192 + 8] = b"\xff" * 8
    (path / "index.db").write_bytes(content)


@pytest.mark.sqlite("pages of its file")
def test_kept_fields_on_other_pages_stay(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    with Index.create(path) as index:
        index.add(
            Document(f"k{number}", f"words of text {number}", fields={"note": f"{number} " * 30})
            for number in range(500)
        )
    spoil_page(path, "kept_field")
    result = Index.repair(path)
    assert result.documents == 500 and result.lost == [] and result.has_lost_fields
    with Index.open(path) as index:
        assert index.check() == []
        fields = [each["note"] for each in index.fields(index).values() if each]
    assert 300 < len(fields) < 500
    assert set(fields) <= {f"{number} " * 30 for number in range(500)}


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """An index of five documents with kept fields; doc_id 3 is d2."""
    path = tmp_path / "kept.lshdb"
    with Index.create(path, threshold=0.5) as index:
        index.add(Document(f"d{i}", f"the words of text {i}", fields={"n": i}) for i in range(5))
    return path


def only_record(result: repair.RepairResult) -> dict[str, Any]:
    assert result.quarantine is not None
    (line,) = result.quarantine.read_text().splitlines()
    record: dict[str, Any] = json.loads(line)
    return record


def test_a_document_that_is_put_out_takes_its_kept_fields_along(kept: Path) -> None:
    change(kept, "UPDATE document SET source = 'z' WHERE doc_id = 3")
    result = Index.repair(kept)
    record = only_record(result)
    assert result.lost == ["d2"] and not result.has_lost_fields
    assert (record["id"], record["text"], record["fields"]) == (
        "d2", "the words of text 2", {"n": 2},
    )  # fmt: skip


def test_kept_fields_that_are_not_proved_are_put_out_alone(kept: Path) -> None:
    change(kept, "UPDATE kept_field SET fields = ? WHERE doc_id = 3", '{"n":7}')
    result = Index.repair(kept)
    record = only_record(result)
    assert (result.lost, result.documents, result.has_lost_fields) == ([], 5, True)
    assert (record["id"], record["unproved_fields"]) == ("d2", '{"n":7}')
    with Index.open(kept) as index:
        assert index.check() == [] and index.fields(["d1", "d2"]) == {"d1": {"n": 1}, "d2": {}}


def test_a_text_without_a_row_of_its_document_is_put_out(kept: Path) -> None:
    change(kept, "DELETE FROM document WHERE doc_id = 3")
    result = Index.repair(kept)
    assert result.quarantine is not None
    record, count = map(json.loads, result.quarantine.read_text().splitlines())
    assert (result.lost, result.documents) == (["?"], 4)
    assert count["reason"].endswith("count them: 1")
    assert (record["id"], record["unproved_text"], record["fields"], record["doc_id"]) == (
        None, "the words of text 2", {"n": 2}, 3,
    )  # fmt: skip
    with Index.open(kept) as index:
        assert index.check() == [] and index.batches()[-1].n_removed == 1


def test_a_document_that_is_only_counted_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    with Index.create(path, metric="hamming", dim=32, threshold=2) as index:
        index.add((f"d{i}", np.arange(32) % (i + 2) == 0) for i in range(5))
    change(path, "DELETE FROM document WHERE doc_id = 3")
    result = Index.repair(path)
    assert (result.lost, result.documents) == (["?"], 4)
    assert only_record(result)["reason"].endswith("count them: 1")


@pytest.mark.sqlite("pages of its file")
def test_edges_that_cannot_be_read_are_not_kept_fields(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    with Index.create(path, threshold=0.5) as index:
        index.add(family_corpus(5, families=300))
        index.update_clusters()
    spoil_page(path, "edge")
    result = Index.repair(path)
    assert {finding.kind for finding in result.findings} == {"database", "edge", "cluster"}
    assert (result.lost, result.has_lost_fields) == ([], False)


@pytest.mark.sqlite("pages of its file")
def test_rows_on_a_page_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    documents = family_corpus(3, families=60)
    with Index.create(path) as index:
        index.add(documents)
        assert index.check() == []
    spoil_page(path, "document")
    result = Index.repair(path)
    assert 5 < len(result.lost) < 100
    assert result.documents + len(result.lost) == len(documents)
    with Index.open(path) as index:
        assert index.check() == []
        there = {key for (key,) in index.sql("SELECT key FROM document").rows}
    assert there == dict(documents).keys() - set(result.lost)
    assert result.quarantine is not None
    for record in map(json.loads, result.quarantine.read_text().splitlines()):
        assert record["unproved_text"] == dict(documents)[record["id"]]


@pytest.mark.sqlite("bytes in its file")
def test_a_key_is_proved_by_the_index_of_keys(path: Path) -> None:
    """It lies in the database twice: in the table, and in the index of its unique column."""
    with Index.open(path) as index:
        index.add([("the-only-key-of-its-kind", "words that nobody else has")])
    before = everything(path)
    good = contents(path)
    places = [one.start() for one in re.finditer(b"the-only-key-of-its-kind", good["index.db"])]
    assert len(places) >= 2
    for place in places:
        for file in path.iterdir():
            file.unlink()
        for name, content in good.items():
            (path / name).write_bytes(content)
        flipped = good["index.db"][:place] + b"T" + good["index.db"][place + 1 :]
        (path / "index.db").write_bytes(flipped)
        assert Index.repair(path).lost == []
        assert everything(path) == before


def test_without_texts_postings_prove_signatures(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    with Index.create(path, store_text=False, bands=16, rows=8) as index:
        index.add(CORPUS)
        before = pair_set(index)
        ((key,),) = index.sql("SELECT key FROM document WHERE signature_id = 1").rows
    flip_signature(path)  # of row 1
    result = Index.repair(path)
    assert result.lost == [key]
    assert result.vouched == 30 - 1  # every signature but that one
    with Index.open(path) as index:
        assert index.check() == []
        assert pair_set(index) == {pair for pair in before if key not in pair[:2]}


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left"), sqlite3.OperationalError("No space left")]
)
@pytest.mark.sqlite("its file is replaced as a whole")
def test_a_repair_that_fails_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    flip_signature(path)
    change(path, "DELETE FROM content WHERE doc_id = 11")
    before = contents(path)

    def full(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("lshdb.storage.dialects.sqlite.sqlite_database.replace_database", full)
        with pytest.raises(DatabaseError, match="No space left; it is unchanged"):
            Index.repair(path)
    after = contents(path)
    after.pop("signatures.1.npy")  # which nothing names
    assert after == before
    assert os.listdir(path.parent) == [path.name]
    assert Index.repair(path).lost == ["u001"]
    with Index.open(path) as index:
        assert index.check() == []


def test_what_was_rebuilt_is_checked_before_it_takes_the_place(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flip_signature(path)
    before = contents(path)

    def keys_of_others(signatures: Any, **cut: Any) -> Any:
        return bucket_keys(signatures, **cut) ^ 1

    monkeypatch.setattr("lshdb.maintain.repair.rebuild.bucket_keys", keys_of_others)
    with pytest.raises(DamageError, match="the rebuilt index is not sound"):
        Index.repair(path)
    assert contents(path) == before


def test_a_repair_waits_for_the_writer(path: Path) -> None:
    flip_signature(path)
    lock = WriterLock(path / "lock", 0.0)
    lock.acquire()
    with pytest.raises(LockedError):
        Index.repair(path, lock_timeout=0.05)
    lock.release()


def test_a_reader_goes_on_while_the_index_is_repaired(path: Path) -> None:
    change(path, "UPDATE band SET b0 = 3")
    with Index.open(path) as index, index._store.reading() as snapshot:
        before = snapshot.signatures[0:9]
        assert Index.repair(path).findings
        assert (snapshot.signatures[0:9] == before).all()
        assert list(snapshot.execute("SELECT DISTINCT b0 FROM band")) == [(3,)]
        assert index.check() == []  # a transaction of its own, of the new state


POINTS = (
    ("lshdb.maintain.repair.rebuild.Rebuild._take", False),
    ("lshdb.maintain.repair._prove", False),
    ("lshdb.maintain.repair.sync_directory", False),
    ("lshdb.storage.dialects.sqlite.sqlite_database.replace_database", False),
    ("lshdb.storage.dialects.sqlite.sqlite_database.replace_database", True),
)


@pytest.mark.sqlite("its file is replaced as a whole")
@pytest.mark.parametrize(("name", "is_after"), POINTS)
def test_a_repair_that_is_killed_changes_nothing_or_all(
    path: Path, name: str, is_after: bool
) -> None:
    before = everything(path)
    flip_signature(path)
    change(path, "UPDATE band SET b0 = 3")
    child = os.fork()
    if child == 0:
        try:
            _repair_until(path, name, is_after=is_after)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    with Index.open(path) as index:
        assert (index.check() == []) is is_after
    if not is_after:
        assert Index.repair(path).lost == []
    with Index.open(path) as index:
        index.add([])  # a writer clears away what the killed one left
    assert everything(path)[:-1] == before[:-1]
    assert files(path) - {"repair"} == {"index.toml", "lock", "orders.1", "signatures.1.npy"}
    assert Index.repair(path).findings == []


def _repair_until(path: Path, name: str, *, is_after: bool) -> None:
    """Repair in this process, which ends where a function is called, or has been."""

    def end(*arguments: Any) -> None:
        if is_after:
            real(*arguments)
        os._exit(9)

    module, _, function = name.rpartition(".")
    home = pkgutil.resolve_name(module)
    real = getattr(home, function)
    setattr(home, function, end)
    Index.repair(path)


@pytest.mark.sqlite("pages of its file")
@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("_publish", KeyboardInterrupt),
        ("_repair_orders", KeyboardInterrupt),
        ("_repair_orders", OSError),
    ],
)
def test_a_repair_that_ends_behind_its_commit_keeps_what_it_put_out(
    path: Path, step: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The documents have left the index: their file is all that is left of them."""
    with raw(path) as execute:
        execute("UPDATE document SET batch_id = -1, checksum = 0 WHERE key = 'f001-1'")
    done = getattr(repair, step)

    def interrupted(*arguments: Any) -> None:
        done(*arguments)
        raise error

    monkeypatch.setattr(repair, step, interrupted)
    with pytest.raises((error, DatabaseError)):
        Index.repair(path)
    (quarantine,) = path.parent.glob("x.lshdb.quarantine-*.jsonl")
    with Index.open(path) as index:
        assert "f001-1" not in index and index.check() == []
        index.add(read_documents([quarantine]))
        assert index.show("f001-1")


@pytest.mark.sqlite("pages of its file")
def test_a_repair_that_another_writer_keeps_out_leaves_no_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with raw(path) as execute:
        execute("UPDATE document SET batch_id = -1, checksum = 0 WHERE key = 'f001-1'")

    def locked(*_: Any) -> None:
        raise LockedError("another")

    monkeypatch.setattr(repair, "_publish", locked)
    with pytest.raises(LockedError):
        Index.repair(path)
    assert not list(path.parent.glob("*quarantine*"))
