"""Indexes that earlier versions wrote answer for ever as they did when they were made.

Those of format 1 are refused until ``upgrade`` signs them anew. ``answers.json`` has the answers,
which are the same in all formats; of format 2 on, signatures have 16 bits a slot.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sqlite3
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import inspect

from lshdb import DamageError, FormatError, Index, ParameterError
from lshdb.params.index_params import FORMAT
from lshdb.storage.tables.migrations import SCHEMA_REVISION
from lshdb.storage.tables.records import time_of_document
from lshdb.storage.tables.schema import metadata
from lshdb.storage.transactions.store import Store
from tests.golden import (
    make_index,
    make_index_families,
    make_index_kinds,
    make_index_passages,
    make_index_postgres,
)
from tests.golden.make_index import make_documents
from tests.golden.make_index_families import SETTINGS, make_bodies
from tests.postgres import PostgresUrl
from tests.raw import raw

FORMAT_1 = Path(__file__).with_name("format1")
OLD = sorted(path for path in FORMAT_1.rglob("*.tar.gz") if path.parent.name != "postgres")
ANSWERS = make_index.FOLDER
FAMILIES, PASSAGES = make_index_families.FOLDER, make_index_passages.FOLDER
KINDS = make_index_kinds.FOLDER
POSTGRES = make_index_postgres.FOLDER
REVISIONS = [f"{number:04d}" for number in range(1, int(SCHEMA_REVISION) + 1)]
UPGRADED = ("0006", "0007")
"""Revisions of format 1 that ``upgrade`` reads."""
HISTORY = {
    "batch": "batch_id, add_id, started_at, finished_at, source, n_added, n_replaced, n_unchanged, "
    "n_copies, n_rejected, n_removed, unicode_version",
    "document": "key, body_hash, source, batch_id, "
    f"{time_of_document('added_at')}, {time_of_document('last_seen_at')}",
    "night": "add_id, name",
    "cursor": "name, batch_id, advanced_at",
    "unfinished_add": "add_id",
}


def unpack(archive: Path, folder: Path, name: str = "golden.lshdb") -> Path:
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as packed:
        if hasattr(tarfile, "data_filter"):  # of CPython 3.11.4
            packed.extraction_filter = tarfile.data_filter
        packed.extractall(folder)
    return folder / name


def history_of(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """What is kept of an index besides texts, in the order of documents."""
    with raw(path) as execute:
        return {
            table: [
                tuple(bytes(value) if isinstance(value, memoryview) else value for value in row)
                for row in execute(
                    f"SELECT {columns} FROM {table} ORDER BY "
                    + ("doc_id" if table == "document" else columns.partition(",")[0])
                ).fetchall()
            ]
            for table, columns in HISTORY.items()
        }


def change_rows(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path / "index.db")) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def contents_of(path: Path) -> dict[str, bytes]:
    """Bytes of an index's files but the log's, which opening the database makes."""
    return {
        file.name: file.read_bytes()
        for file in path.iterdir()
        if file.is_file() and not file.name.startswith("index.db-")
    }


def rows_of(index: Index, keys: tuple[str, ...]) -> list[list[int]]:
    """The signatures of some documents."""
    (file,) = index.path.glob("signatures*.npy")
    rows = np.load(file, allow_pickle=False)
    ids = [index.show(key).document.signature_id for key in keys]
    return [rows[number].tolist() for number in ids if number is not None]


def low_halves(index: Index, slots: list[int]) -> list[int]:
    """What is left of slots of 32 bits; all of words of 32 single bits."""
    if index.params.slot_bits == 1:
        return [half for word in slots for half in (word & 0xFFFF, word >> 16)]
    return [slot & 0xFFFF for slot in slots]


def answers(index: Index) -> dict[str, Any]:
    """What is asked of each golden index; sorted, similarities to nine digits."""
    first, other = index.show("family0/0"), index.show("日本")
    return {
        "pairs": sorted(
            [*sorted((pair.key1, pair.key2)), round(pair.similarity, 9), pair.method]
            for pair in index.pairs(threshold=0.6)
        ),
        "clusters": [list(cluster.keys) for cluster in index.clusters(threshold=0.6)],
        "query": [
            [match.key, round(match.similarity, 9)]
            for match in index.query(str(make_documents()[0][1]), top=5)
        ],
        "content": first.document.content_hash.hex(),
        "shingles": [first.document.n_shingles, other.document.n_shingles],
        "signatures": rows_of(index, ("family0/0", "tokens", "日本")),
    }


WAYS: dict[str, Callable[[Path], object]] = {
    "open": Index.open,
    "upgrade": Index.upgrade,
    "repair": Index.repair,
}


@pytest.mark.fast
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("archive", OLD, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_an_index_of_format_1_is_refused(archive: Path, way: str, tmp_path: Path) -> None:
    revision = archive.name.removesuffix(".tar.gz")
    if way == "upgrade" and revision in UPGRADED:
        pytest.skip("it is brought up to date")
    unpack(archive, tmp_path)
    paths = sorted(tmp_path.iterdir())
    assert paths
    for path in paths:
        before = contents_of(path)
        with pytest.raises(FormatError) as caught:
            WAYS[way](path)
        hint = str(caught.value.hint)
        if way == "upgrade":
            assert f"format 1 and schema revision {revision}" in caught.value.message
            assert hint == "lshdb add makes a new index of the same documents"
        else:
            said = f"the index {path} has format 1; this version reads format {FORMAT}"
            assert caught.value.message == said
            assert f"lshdb upgrade {path} signs its stored texts anew" in hint
        assert contents_of(path) == before


def check_upgraded(path: Path, revision: str) -> None:
    before = history_of(path)
    assert Index.upgrade(path) == (f"{revision} of format 1", SCHEMA_REVISION)
    assert Index.upgrade(path) == (SCHEMA_REVISION, SCHEMA_REVISION)
    assert history_of(path) == before
    names = {file.name.partition(".")[0] for file in path.iterdir()}
    assert names <= {"index", "lock", "orders", "signatures", "vectors"}
    with (
        contextlib.closing(Store.open(path)) as store,
        contextlib.closing(store.database.open_writer()) as writer,
        writer.transaction(),
    ):
        tables = {*inspect(writer.alchemy).get_table_names()} - {"mine"}
    # Marks of commits are Postgres's.
    assert tables ^ {*metadata.tables, "band", "alembic_version"} <= {"commit_mark"}
    assert len([*path.glob("signatures*")]) == 1
    assert not [*path.glob("orders.0.*")]


def check_texts(path: Path) -> None:
    documents = dict(make_documents())
    documents["family5/2"] = "something else that is like nothing here at all"
    removed = documents.pop("family4/2")
    with Index.open(path) as index:
        assert index.check() == []
        expected = json.loads((ANSWERS / "answers.json").read_text("utf-8"))
        expected["signatures"] = [low_halves(index, slots) for slots in expected["signatures"]]
        assert answers(index) == expected
        for key, body in documents.items():
            assert index.show(key).body == body
        assert [(cursor.name, cursor.batch_id) for cursor in index.cursors()] == [("press", 1)]
        (field,) = next(index.sql("SELECT value FROM document_field WHERE key = 'family0/1'").rows)
        assert str(field) == "1"
        index.add([("family4/2", removed), ("family5/2", documents["family4/1"])])
        assert index.check() == []
        assert ("family4/0", "family4/2") in [(pair.key1, pair.key2) for pair in index.pairs()]


@pytest.mark.parametrize("revision", UPGRADED)
def test_texts_are_signed_anew(revision: str, tmp_path: Path) -> None:
    path = unpack(FORMAT_1 / f"{revision}.tar.gz", tmp_path)
    check_upgraded(path, revision)
    check_texts(path)


def check_bodies(path: Path, metric: str) -> None:
    bodies = dict(make_bodies(metric))
    removed = bodies.pop("family4/2")
    with Index.open(path) as index:
        assert index.check() == []
        expected = json.loads((FAMILIES / "answers.json").read_text("utf-8"))[metric]
        expected["signatures"] = [low_halves(index, slots) for slots in expected["signatures"]]
        for vector_file in path.glob("vectors*.npy"):
            vectors = np.load(vector_file, allow_pickle=False)
            ids = [index.show(key).document.signature_id for key in ("family0/0", "family3/1")]
            assert [vectors[number].tolist() for number in ids] == expected.pop("vectors")
        assert "vectors" not in expected
        assert {
            "pairs": sorted(
                [*sorted((pair.key1, pair.key2)), round(pair.similarity, 9), pair.method]
                for pair in index.pairs()
            ),
            "clusters": [list(cluster.keys) for cluster in index.clusters()],
            "query": [
                [match.key, round(match.similarity, 9)]
                for match in index.query(dict(make_bodies(metric))["family0/0"], top=5, recall=0.9)
            ],
            "signatures": rows_of(index, ("family0/0", "family3/1")),
        } == expected
        index.add([("family4/2", removed), ("family5/2", bodies["family4/1"])])
        assert index.check() == []
        counts = index.add(bodies.items())
        assert (counts.unchanged, counts.replaced) == (17, 1)


@pytest.mark.parametrize("metric", SETTINGS)
@pytest.mark.parametrize("revision", UPGRADED)
def test_vectors_bits_and_weights_are_signed_anew(
    revision: str, metric: str, tmp_path: Path
) -> None:
    path = unpack(FORMAT_1 / "families" / f"{revision}.tar.gz", tmp_path, f"{metric}.lshdb")
    check_upgraded(path, revision)
    check_bodies(path, metric)


@pytest.mark.parametrize("revision", UPGRADED)
def test_passages_are_signed_anew(revision: str, tmp_path: Path) -> None:
    path = unpack(FORMAT_1 / "passages" / f"{revision}.tar.gz", tmp_path)
    check_upgraded(path, revision)
    check_passages(path)


def check_passages(path: Path) -> None:
    documents = make_index_passages.DOCUMENTS
    with Index.open(path, passages=(20, 10), threshold=0.3) as index:
        assert index.check() == []
        # Through JSON, which has lists alone.
        asked = json.loads(json.dumps(make_index_passages.answers(index)))
        assert asked == json.loads((PASSAGES / "answers.json").read_text("utf-8"))
        again = index.add(documents.items())
        assert (again.added, again.replaced, again.stale) == (0, 0, 0)
        changed = index.add([("a", documents["a#0-9"])])
        assert changed.stale and index.check() == []


def unpack_postgres(
    archive: Path, folder: Path, metric: str, url: PostgresUrl, schema: str
) -> Path:
    """Unpack an index whose database is in a new schema of a server."""
    import psycopg

    path = unpack(archive, folder, make_index_postgres.NAMES[metric])
    with psycopg.connect(url.psycopg) as server:
        server.execute(f'CREATE SCHEMA "{schema}"'.encode())
        server.execute(f'SET search_path TO "{schema}"'.encode())
        server.execute((path / "index.sql").read_bytes())
    (path / "index.sql").unlink()
    description = path / "index.toml"
    text = description.read_text("utf-8").replace("DATABASE", url.lshdb)
    description.write_text(text.replace("SCHEMA", schema), "utf-8")
    return path


@pytest.mark.parametrize("metric", ["jaccard", "cosine"])
def test_an_index_in_postgres_is_signed_anew(
    metric: str, tmp_path: Path, postgres_url: PostgresUrl, postgres_schema: str
) -> None:
    archive = FORMAT_1 / "postgres" / "0006.tar.gz"
    path = unpack_postgres(archive, tmp_path, metric, postgres_url, postgres_schema)
    with raw(path) as execute:
        execute("CREATE TABLE mine AS SELECT 1 AS number")
    check_upgraded(path, "0006")
    with raw(path) as execute:
        assert execute("SELECT number FROM mine").fetchall() == [(1,)]
    if metric == "jaccard":
        check_texts(path)
    else:
        check_bodies(path, metric)


def test_what_is_the_users_own_stays(tmp_path: Path) -> None:
    path = unpack(FORMAT_1 / "0006.tar.gz", tmp_path)
    change_rows(path, "CREATE TABLE mine AS SELECT 1 AS number")
    change_rows(path, "CREATE VIEW keys AS SELECT key FROM document")
    others = ("posting_run_mine", "posting_run_1; DROP TABLE mine")
    change_rows(path, *(f'CREATE TABLE "{name}" AS SELECT 2 AS number' for name in others))
    Index.upgrade(path)
    with Index.open(path) as index:
        assert list(index.sql("SELECT number FROM mine").rows) == [(1,)]
        for name in others:
            assert list(index.sql(f'SELECT number FROM "{name}"').rows) == [(2,)]
        assert next(index.sql("SELECT count(*) FROM keys").rows) == (21,)
        assert index.check() == []


def test_an_interrupted_add_stays_one(tmp_path: Path) -> None:
    path = unpack(FORMAT_1 / "0006.tar.gz", tmp_path)
    change_rows(path, "INSERT INTO unfinished_add VALUES (3)")
    check_upgraded(path, "0006")
    with Index.open(path) as index:
        assert [batch.batch_id for batch in index.batches() if not batch.has_ended] == [3]


def test_an_index_without_texts_is_refused(tmp_path: Path) -> None:
    path = unpack(FORMAT_1 / "0006.tar.gz", tmp_path)
    change_rows(path, "UPDATE parameter SET value = 'false' WHERE name = 'store_text'")
    description = path / "index.toml"
    text = description.read_text("utf-8")
    description.write_text(text.replace("store_text = true", "store_text = false"), "utf-8")
    before = contents_of(path)
    with pytest.raises(FormatError, match="was made without texts") as caught:
        Index.upgrade(path)
    assert caught.value.hint == "lshdb add makes a new index of the same documents"
    assert contents_of(path) == before


DAMAGE = {
    "a document": "UPDATE document SET source = 'another' WHERE doc_id = 7",
    "a text": "UPDATE content SET body = (SELECT body FROM content WHERE doc_id = 8) "
    "WHERE doc_id = 7",
    "a missing text": "DELETE FROM content WHERE doc_id = 7",
    "fields": "UPDATE kept_field SET fields = '{\"place\": 9}' WHERE doc_id = 7",
    "a batch": "UPDATE batch SET n_added = 9 WHERE batch_id = 1",
    "a night": "UPDATE night SET name = 'friday'",
    "a cursor": "UPDATE cursor SET batch_id = 0",
    "the state": "UPDATE state SET created_at = 'never'",
    "the revision": "DELETE FROM alembic_version",
    "a parameter": "UPDATE parameter SET value = 'nothing' WHERE name = 'k'",
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_index_stays_as_it_is(what: str, tmp_path: Path) -> None:
    path = unpack(FORMAT_1 / "0006.tar.gz", tmp_path)
    change_rows(path, DAMAGE[what])
    before = contents_of(path)
    with pytest.raises(DamageError) as caught:
        Index.upgrade(path)
    hint = "restore the index from a copy; or lshdb add makes a new index of the same documents"
    assert caught.value.hint == hint
    assert contents_of(path) == before


@pytest.mark.parametrize(
    ("statement", "line", "error"),
    [
        ("UPDATE parameter SET value = '999' WHERE name = 'bands'", "bands = 999", ParameterError),
        ("INSERT INTO parameter VALUES ('colour', '1')", "colour = 1", FormatError),
    ],
)
def test_a_parameter_that_cannot_be_is_named(
    tmp_path: Path, statement: str, line: str, error: type[Exception]
) -> None:
    """Even where both places say the same."""
    path = unpack(FORMAT_1 / "0006.tar.gz", tmp_path)
    change_rows(path, statement)
    description = path / "index.toml"
    name = line.partition(" ")[0]
    lines = description.read_text("utf-8").splitlines()
    lines = [each for each in lines if not each.startswith(f"{name} = ")]
    description.write_text("\n".join([*lines, line, ""]), "utf-8")
    before = contents_of(path)
    with pytest.raises(error, match=name):
        Index.upgrade(path)
    assert contents_of(path) == before


def test_a_foreign_vector_file_is_noticed(tmp_path: Path) -> None:
    path = unpack(FORMAT_1 / "families" / "0006.tar.gz", tmp_path, "cosine.lshdb")
    shutil.copy(tmp_path / "l1.lshdb" / "vectors.npy", path / "vectors.npy")
    with pytest.raises(DamageError):
        Index.upgrade(path)


def test_there_is_an_archive_for_every_schema() -> None:
    for folder in (ANSWERS, FAMILIES, PASSAGES, KINDS, POSTGRES):
        names = sorted(path.name for path in folder.glob("*.tar.gz"))
        assert names == [f"{revision}.tar.gz" for revision in REVISIONS]


def unpack_current(folder: Path, revision: str, tmp_path: Path, name: str = "golden.lshdb") -> Path:
    return brought_up_to_date(unpack(folder / f"{revision}.tar.gz", tmp_path, name), revision)


def brought_up_to_date(path: Path, revision: str) -> Path:
    before = history_of(path)
    assert Index.upgrade(path) == (revision, SCHEMA_REVISION)
    assert history_of(path) == before
    return path


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_index_of_texts(revision: str, tmp_path: Path) -> None:
    check_texts(unpack_current(ANSWERS, revision, tmp_path))


@pytest.mark.parametrize("metric", SETTINGS)
@pytest.mark.parametrize("revision", REVISIONS)
def test_an_index_of_vectors_bits_or_weights(revision: str, metric: str, tmp_path: Path) -> None:
    check_bodies(unpack_current(FAMILIES, revision, tmp_path, f"{metric}.lshdb"), metric)


@pytest.mark.parametrize("metric", make_index_postgres.NAMES)
@pytest.mark.parametrize("revision", REVISIONS)
def test_an_index_in_postgres(
    revision: str, metric: str, tmp_path: Path, postgres_url: PostgresUrl, postgres_schema: str
) -> None:
    archive = POSTGRES / f"{revision}.tar.gz"
    path = unpack_postgres(archive, tmp_path, metric, postgres_url, postgres_schema)
    brought_up_to_date(path, revision)
    with Index.open(path) as index, index._store.reading() as snapshot:
        assert snapshot.order_files(), "its order files are not used"
    if metric == "jaccard":
        check_texts(path)
    else:
        check_bodies(path, metric)


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_index_of_passages(revision: str, tmp_path: Path) -> None:
    check_passages(unpack_current(PASSAGES, revision, tmp_path))


@pytest.mark.parametrize("kind", make_index_kinds.KINDS)
@pytest.mark.parametrize("revision", REVISIONS)
def test_an_index_of_another_kind(revision: str, kind: str, tmp_path: Path) -> None:
    path = unpack_current(KINDS, revision, tmp_path, f"{kind}.lshdb")
    expected = json.loads((KINDS / "answers.json").read_text("utf-8"))[kind]
    bodies = make_index_kinds.make_bodies(kind)
    with Index.open(path) as index:
        assert index.check() == []
        with index._store.reading() as snapshot:
            assert snapshot.order_files(), "its order files are not used"
        assert json.loads(json.dumps(make_index_kinds.answers(index, kind))) == expected
        assert index.fields(["family0/0"]) == {"family0/0": {"year": -44}}
        again = index.add(bodies)
        assert (again.added, again.unchanged) == (1, len(bodies) - 1)
        assert index.check() == []
