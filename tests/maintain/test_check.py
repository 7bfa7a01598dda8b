"""``check`` names what is damaged, and finds nothing in a sound index."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from lshdb import DamageError, DatabaseError, Finding, Index, LshdbError, ParameterMismatchError
from lshdb.storage.tables.records import row_checksum
from tests.conftest import family_corpus
from tests.raw import change, is_sqlite, raw

CORPUS = family_corpus(5, families=6)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.lshdb"
    with Index.create(path) as index:
        index.add(CORPUS[:30])
        index.add(CORPUS[20:])
        index.add([("extra", "")])
        index.update_clusters()
        assert index.check() == []
    return path


def findings(path: Path) -> str:
    with Index.open(path) as index:
        return "\n".join(f"{finding.where}: {finding.what}" for finding in index.check())


def test_every_flipped_bit_of_a_signature_row_is_found(path: Path) -> None:
    rng = random.Random(1)
    file = path / "signatures.npy"
    good = file.read_bytes()
    for _ in range(60):
        place = rng.randrange(8 * 128, 8 * len(good))
        bad = bytearray(good)
        bad[place // 8] ^= 1 << place % 8
        file.write_bytes(bad)
        assert "signatures.npy, rows 0 to" in findings(path)
    file.write_bytes(good)
    assert findings(path) == ""


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM band WHERE signature_id = 3", "table band, row 3: is missing"),
        ("DELETE FROM band WHERE signature_id = 0", "has signatures from 1 to"),
        (
            "UPDATE band SET signature_id = 999 WHERE signature_id = 3",
            "names signatures that do not exist",
        ),
        (
            "UPDATE band SET b2 = 77 WHERE signature_id = 3",
            "row 3, band 2: says bucket 77; by its row, it is not in that one",
        ),
        ("UPDATE band SET b2 = NULL WHERE signature_id = 3", "values that are no whole numbers"),
        ("UPDATE band SET b2 = 0.5 WHERE signature_id = 3", "table band, row"),
        pytest.param(
            f"UPDATE band SET b2 = {2**63 - 1} WHERE signature_id = 3",
            "table band, row",
            marks=pytest.mark.sqlite("Postgres lets no such number in"),
        ),
        (
            "UPDATE band SET b2 = (SELECT b2 FROM band AS other "
            "WHERE other.signature_id = 7 - band.signature_id) WHERE signature_id IN (3, 4)",
            "row 3, band 2: says",  # their sum is as before
        ),
        ("UPDATE document SET key = 'x' WHERE key = 'u000'", "table document, row"),
        ("UPDATE document SET n_chars = n_chars + 1 WHERE key = 'u000'", "CRC-32 of its values"),
        ("UPDATE document SET last_seen_at = '2000-01-01 00:00:00.000000'", "table document, row"),
        ("UPDATE batch SET n_added = n_added + 1 WHERE batch_id = 1", "table batch, row 1"),
        ("UPDATE edge SET similarity = similarity - 1e-9 WHERE similarity < 1", "table edge, row"),
        ("UPDATE edge_state SET recall_lost = 0.5", "table edge_state, row 1"),
        ("UPDATE state SET next_doc_id = 1000", "table state, row 1"),
        ("UPDATE document SET signature_id = 999 WHERE key = 'u000'", "has signature 999"),
        ("UPDATE document SET signature_id = NULL WHERE key = 'u000'", "and signature None"),
        ("UPDATE document SET batch_id = 77 WHERE key = 'u000'", "names batch 77, which does not"),
        (
            "UPDATE document SET content_hash = CAST('x' AS {bytes}) WHERE key = 'u000'",
            "table document, row",
        ),
        ("UPDATE content SET body = CAST('(x' AS {bytes}) WHERE doc_id = 1", "cannot be decoded"),
        ("DELETE FROM content WHERE doc_id = 1", "the text is missing"),
        (
            "UPDATE content SET body = (SELECT body FROM content WHERE doc_id = 2) "
            "WHERE doc_id = 1",
            "the text is not the one written",
        ),
        ("UPDATE signature_block SET crc32 = crc32 + 1", "CRC-32 is"),
        ("UPDATE signature_block SET n_rows = n_rows - 1", "are committed"),
        ("UPDATE signature_block SET n_rows = n_rows + 1", "are committed"),
        ("UPDATE edge SET similarity = 0.5", "has similarity 0.5"),
        ("UPDATE edge SET signature2 = 100000 + signature2", "expected two of"),
        ("DELETE FROM cluster_member WHERE signature_id = 1", "has label None; expected"),
        ("UPDATE cluster_member SET label = label + 1", ", by the edges"),
        ("INSERT INTO cluster_member VALUES (5000, 1)", "by the edges it is in no cluster"),
        ("DELETE FROM edge_state", "nothing tells their age"),
        (
            "INSERT INTO content SELECT 999, form, body FROM content LIMIT 1",
            "the text has no document",
        ),
        ("UPDATE batch SET n_removed = 1 WHERE batch_id = 1", "by the table batch"),
        ("DELETE FROM document WHERE key = 'u000'", "by the table batch"),
        ("UPDATE state SET next_doc_id = 3", "and a document has"),
        ("INSERT INTO signature_release VALUES (9, 99, 1)", "names signature 99; there are"),
        (
            "UPDATE document SET signature_id = 3 WHERE signature_id = 4",
            "signature 4: no document has it, and it was not released",
        ),
    ],
)
def test_changed_rows_are_found(path: Path, statement: str, expected: str) -> None:
    of_bytes = "BLOB" if is_sqlite(path) else "bytea"
    change(path, statement.format(bytes=of_bytes))
    assert expected in findings(path)


@pytest.mark.parametrize("fields", ["{", "[1]", "5"])
def test_fields_that_are_none_are_damage(path: Path, fields: str) -> None:
    with raw(path) as execute:
        (doc_id,) = execute("SELECT doc_id FROM document WHERE key = 'u000'").fetchone()
        checksum = row_checksum([doc_id, fields])
        execute("INSERT INTO kept_field VALUES (?, ?, ?)", (doc_id, fields, checksum))
    with Index.open(path) as index, pytest.raises(DamageError, match="table kept_field is"):
        index.show("u000")


def test_a_number_that_no_index_comes_to_is_damage(path: Path) -> None:
    """Whoever wrote it wrote its checksum, too."""
    with raw(path) as execute:
        row = list(execute("SELECT * FROM state").fetchone())
        names = [column[0] for column in execute("SELECT * FROM state").description]
        row[names.index("next_doc_id")] = 2**63 - 1
        execute(
            "UPDATE state SET next_doc_id = ?, checksum = ?", (2**63 - 1, row_checksum(row[:-1]))
        )
    said = f"the next doc_id is {2**63 - 1}"
    with Index.open(path) as index:
        with pytest.raises(DamageError, match=said):
            index.add([("new", "some words of a new text, and some more of them")])
        assert [said in finding.what for finding in index.check()] == [True]
    Index.repair(path)
    with Index.open(path) as index:
        index.add([("new", "some words of a new text, and some more of them")])
        assert index.check() == []


def test_many_faults_of_a_kind_hide_none_of_another(path: Path) -> None:
    change(path, "UPDATE document SET n_chars = n_chars + 1")
    change(path, "DELETE FROM content WHERE doc_id = (SELECT max(doc_id) - 1 FROM content)")
    shown = findings(path)
    assert shown.count("CRC-32 of its values") == 20
    assert shown.count("table document: more of the same") == 1
    assert shown.count("the text is missing") == 1


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE signature_block SET n_rows = n_rows - 1", "are committed"),
        ("UPDATE signature_block SET first_row = 1", "expected a block from row 0 on"),
        ("UPDATE batch SET n_added = n_added + 1 WHERE batch_id = 1", "by the table batch"),
        ("UPDATE batch SET source = 'x' WHERE batch_id = 1", "table batch, row 1"),
        ("UPDATE state SET next_doc_id = 1000", "table state, row 1"),
        ("UPDATE edge_state SET recall_lost = 0.5", "table edge_state, row 1"),
        ("DELETE FROM band WHERE signature_id = 0", "has signatures from 1 to"),
        ("DELETE FROM document WHERE key = 'u000'", "has 32 rows; expected 33, by the table batch"),
    ],
)
def test_a_quick_check_sees_counts_and_small_tables(
    path: Path, statement: str, expected: str
) -> None:
    change(path, statement)
    with Index.open(path) as index:
        found = index.check(quick=True)
    assert expected in "\n".join(f"{one.where}: {one.what}" for one in found)


def test_a_quick_check_sees_the_first_block_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    with Index.create(path, num_perm=4, bands=2, rows=2) as index:
        index.add((f"k{number}", f"word{number}") for number in range(1100))
    file = path / "signatures.npy"
    good = file.read_bytes()
    for row, is_seen in ((3, True), (1050, False)):
        file.write_bytes(good[: 128 + 8 * row] + b"!" + good[129 + 8 * row :])
        with Index.open(path) as index:
            assert bool(index.check(quick=True)) is is_seen
            (found, *_) = index.check()
            assert found.kind == "signatures" and found.affected.startswith(
                ("1,024 documents: k0, ", "76 documents: k")
            )
            assert f"bytes {128 + 8 * (row - row % 1024)} to " in found.where


@pytest.mark.fast
def test_edges_of_signatures_that_no_document_has(path: Path) -> None:
    """Damage, unless a document left the signature since the edges were found."""
    with Index.open(path) as index:
        cluster, *_ = index.clusters()
        index.remove(cluster.keys)
        assert index.check() == []
    change(path, "DELETE FROM signature_release")
    assert "no document has one of them" in findings(path)
    assert "table cluster_member" in findings(path)


@pytest.mark.fast
def test_notes_are_no_findings(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    with Index.open(path) as index:
        index.add([("odd", "a word and \u0378 another")])
        assert index.check(on_note=notes.append) == []
        assert any("1 document with 1 character that Unicode" in note for note in notes)
        del notes[:]
        monkeypatch.setattr("unicodedata.unidata_version", "99.0.0")
        assert index.check(quick=True, on_note=notes.append) == []
    (note,) = notes
    assert "and this interpreter has 99.0.0" in note


DAMAGED_DOCUMENT = "UPDATE document SET n_chars = n_chars + 1 WHERE key = 'u000'"
DAMAGED_TEXT = (
    "UPDATE content SET body = (SELECT body FROM content WHERE doc_id = 2) WHERE doc_id = "
    "(SELECT doc_id FROM document WHERE key = 'f001-1')"
)
OLD_BATCH = "UPDATE batch SET started_at = '2000-01-01 00:00:00.000000' WHERE batch_id = 1"
OLD_DOCUMENT = "UPDATE document SET last_seen_at = '2000-01-01 00:00:00.000000' WHERE key = 'u000'"


@pytest.mark.parametrize(
    ("statement", "do", "named"),
    [
        (DAMAGED_DOCUMENT, lambda index: index.add([("u000", "another text")]), "document"),
        (DAMAGED_DOCUMENT, lambda index: index.add([CORPUS[5]]), "document"),
        (DAMAGED_DOCUMENT, lambda index: index.remove(["u000"]), "document"),
        (DAMAGED_DOCUMENT, lambda index: index.show("u000"), "document"),
        (DAMAGED_DOCUMENT, lambda index: index.export(index.path.parent / "e"), "document"),
        (DAMAGED_DOCUMENT, lambda index: index.reindex(index.path.parent / "r"), "document"),
        (OLD_DOCUMENT, lambda index: index.expire(datetime(2001, 1, 1)), "document"),
        (OLD_BATCH, lambda index: index.expire(datetime(2001, 1, 1)), "batch"),
        (OLD_BATCH, lambda index: index.export(index.path.parent / "e"), "batch"),
        ("UPDATE state SET next_doc_id = 777", lambda index: index.add([("new", "text")]), "state"),
        ("UPDATE state SET uuid = uuid", lambda index: index.add([("new", "text")]), ""),
        (
            "UPDATE batch SET n_added = 9 WHERE batch_id = 3",
            lambda index: index.add([("new", "text")]),
            "batch",
        ),
        ("UPDATE batch SET n_added = 1", lambda index: index.batches(), "batch"),
        ("UPDATE edge_state SET recall_lost = 0.5", lambda index: index.update_clusters(), "edge"),
        (
            "UPDATE edge SET similarity = 0.99",
            lambda index: index.export(index.path.parent / "e"),
            "edge",
        ),
        (DAMAGED_TEXT, lambda index: index.show("f001-1"), "a stored text is not the one"),
        (DAMAGED_TEXT, lambda index: index.export(index.path.parent / "e"), "a stored text"),
        (DAMAGED_TEXT, lambda index: index.reindex(index.path.parent / "r"), "a stored text"),
    ],
)
def test_damage_is_neither_answered_from_nor_made_good(
    path: Path, statement: str, do: Callable[[Index], object], named: str
) -> None:
    assert CORPUS[5][0] == "u000"
    change(path, statement)
    before = findings(path)
    with Index.open(path) as index:
        if not named:  # nothing was damaged: the test's way of doing it harms nothing
            do(index)
            assert before == "" and index.check() == []
            return
        with pytest.raises(DamageError, match=f"table {named}|{named}"):
            do(index)
    assert findings(path) == before != ""


def test_a_cut_signature_file_is_refused_and_not_a_crash(path: Path) -> None:
    file = path / "signatures.npy"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(LshdbError, match="rows need"):
        Index.open(path)


@pytest.mark.usefixtures("no_orders")
def test_a_posting_of_no_signature_is_not_answered_from(path: Path) -> None:
    change(path, "UPDATE band SET signature_id = 999 WHERE signature_id = 0")
    questions: list[Callable[[Index], object]] = [
        lambda index: index.query(CORPUS[0][1]),
        lambda index: list(index.pairs()),
        lambda index: list(index.pairs(since=1)),
    ]
    with Index.open(path) as index:
        for question in questions:
            with pytest.raises(LshdbError, match="names signature 999"):
                question(index)


@pytest.mark.sqlite("pages of its file")
def test_a_garbled_database_is_findings_and_no_crash(path: Path) -> None:
    rng = random.Random(2)
    file = path / "index.db"
    good = file.read_bytes()
    seen = 0
    for _ in range(30):
        bad = bytearray(good)
        for _ in range(6):
            place = rng.randrange(8192, len(bad))
            bad[place : place + 64] = rng.randbytes(64)
        file.write_bytes(bad[: len(good)])
        try:
            seen += bool(findings(path))
        except LshdbError:
            seen += 1
    assert seen >= 10  # the rest fell on free space, or on columns that have no checksum
    file.write_bytes(good)
    assert findings(path) == ""


@pytest.mark.parametrize(
    "statement", ["DELETE FROM state", "UPDATE parameter SET value = '{' WHERE name = 'k'"]
)
def test_missing_state_and_garbled_parameters_are_damage(path: Path, statement: str) -> None:
    change(path, statement)
    with pytest.raises(DamageError):
        Index.open(path)


@pytest.mark.sqlite("texts in its file")
def test_a_schema_that_is_no_utf8_any_more_is_damage(make_index: Callable[..., Index]) -> None:
    """SQLite's message quotes the schema, and the driver cannot decode that."""
    index = make_index()
    index.add([("a", "some words")])
    index.close()
    database = index.path / "index.db"
    sound = database.read_bytes()
    assert b"tabledocumentdocument" in sound
    damaged = sound.replace(b"tabledocumentdocument", b"table\xe5(cumentdocument")
    database.write_bytes(damaged.replace(b"CREATE TABLE document", b"CREATE TABLX document"))
    try:
        with pytest.raises(DamageError):
            Index.open(index.path)
    finally:
        database.write_bytes(sound)


@pytest.mark.sqlite("any column takes any type")
def test_a_parameter_whose_name_is_no_text_any_more_is_refused(
    make_index: Callable[..., Index],
) -> None:
    index = make_index()
    index.close()
    with sqlite3.connect(index.path / "index.db") as database:
        database.execute("UPDATE parameter SET name = CAST(name AS BLOB) WHERE name = 'k'")
    try:
        with pytest.raises(ParameterMismatchError):
            Index.open(index.path)
    finally:
        database.execute("UPDATE parameter SET name = 'k' WHERE CAST(name AS TEXT) = 'k'")
        database.commit()
        database.close()


def test_rows_that_are_added_to_a_damaged_block_do_not_make_it_good(path: Path) -> None:
    file = path / "signatures.npy"
    bad = bytearray(file.read_bytes())
    bad[700] ^= 4
    file.write_bytes(bad)
    with Index.open(path) as index:
        assert {one.kind for one in index.check()} >= {"signatures"}
        with contextlib.suppress(DamageError):  # the first block tells the file from another's
            index.add([("another", "words that are in the same block of rows")])
        assert {one.kind for one in index.check()} >= {"signatures"}


def test_findings_are_the_same_whatever_the_memory_and_the_threads(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_bytes = "BLOB" if is_sqlite(path) else "bytea"
    for statement in (
        "UPDATE band SET b0 = 7, b1 = 7, b2 = 7, b3 = 7, b4 = 7, b5 = 7, b6 = 7, b7 = 7 "
        "WHERE signature_id IN (1, 5, 9)",
        "DELETE FROM band WHERE signature_id = 7",
        f"UPDATE content SET body = CAST('x' AS {of_bytes}) WHERE doc_id IN (2, 11)",
        "UPDATE document SET n_shingles = 0 WHERE doc_id = 4",
    ):
        change(path, statement)
    expected = findings(path)
    assert expected.count("table band, row") == 20, "the first twenty, in order"
    for name, most, workers in (("_READ_BYTES", 1, 2), ("_READ_BYTES", 2**13, 1)):
        monkeypatch.setattr(f"lshdb.maintain.check.signature_checks.{name}", most)
        monkeypatch.setattr("lshdb.maintain.check.choose_workers", lambda _, n=workers: n)
        assert findings(path) == expected


def test_numbers_of_commits_that_are_gone_are_found_and_mended(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with Index.create(path) as index:
        index.add([("a", "a text of some words to find again")])
    change(path, "DELETE FROM segment")
    with Index.open(path) as index:
        (finding,) = index.check(quick=True)
        assert finding.where == "table segment" and "0 signatures; 1 are" in finding.what
        index.add([("b", "another text of other words to find")])
        assert index.check() == []
        assert index.query("another text of other words to find")[0].key == "b"


@pytest.mark.parametrize("number", [-1, 2**63 - 1])
@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("batch", "batch_id"), ("batch", "n_added"), ("cursor", "batch_id"),
        ("edge_state", "hot_buckets"), ("signature_release", "release_id"),
    ],
)  # fmt: skip
def test_numbers_that_are_not_written_are_damage_wherever_they_come_up(
    path: Path, table: str, column: str, number: int
) -> None:
    """With the checksum of their row: an answer, or an error of ours, and never a traceback."""
    with Index.open(path) as index:
        index.advance("m")
        index.add([("late", "some words of a late text")], night="n")
        index.remove(["late"])
    with raw(path) as execute:
        answer = execute(f"SELECT * FROM {table} ORDER BY 1 DESC")
        names, row = [name for name, *_ in answer.description], list(answer.fetchone())
        before = row[0]
        row[names.index(column)] = number
        execute(f"UPDATE {table} SET {column} = ? WHERE {names[0]} = ?", (number, before))
        if "checksum" in names:
            execute(
                f"UPDATE {table} SET checksum = ? WHERE {names[0]} = ?",
                (row_checksum(row[:-1]), row[0]),
            )
    questions: list[Callable[[Index], object]] = [
        Index.stats, Index.batches, Index.cursors, lambda index: list(index.pairs()),
        lambda index: list(index.pairs(since="last")), lambda index: list(index.clusters()),
        lambda index: index.add([("new", "some words of a new text, and some more")]),
        lambda index: index.remove(["u000"]), Index.compact,
    ]  # fmt: skip
    with Index.open(path) as index:
        with contextlib.suppress(DamageError):
            assert table == "signature_release" or index.check()
        for question in questions:
            with contextlib.suppress(DamageError):
                question(index)


@pytest.mark.sqlite("codes of its errors")
@pytest.mark.parametrize(
    ("code", "is_passing"),
    [
        (sqlite3.SQLITE_FULL, True), (sqlite3.SQLITE_BUSY, True),
        (sqlite3.SQLITE_CANTOPEN | 7 << 8, True), (sqlite3.SQLITE_IOERR, False),
        (sqlite3.SQLITE_ERROR, False), (sqlite3.SQLITE_CORRUPT, False),
    ],
)  # fmt: skip
def test_what_a_failure_of_the_moment_ends_is_no_finding(
    code: int, is_passing: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = sqlite3.OperationalError("it failed")
    error.sqlite_errorcode = code
    with Index.open(path) as index:
        failure = index._store.database.translation(error)

        def fail(_: object) -> Iterator[Finding]:
            raise failure
            yield

        monkeypatch.setattr("lshdb.maintain.check.count_findings", fail)
        if is_passing:
            with pytest.raises(DatabaseError, match="it failed"):
                index.check(quick=True)
        else:
            assert "it failed" in index.check(quick=True)[0].what
