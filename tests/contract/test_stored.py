"""``lshdb sql`` on every table and view: the same columns, in the same order, and the same rows."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from lshdb import Index, QueryError
from tests.contract.conftest import Both

pytestmark = pytest.mark.fast

# Each with what orders its rows.
TABLES = {
    "state": "1", "parameter": "1", "batch": "1", "document": "1", "content": "1",
    "signature_block": "1", "run": "1", "bucket_stat": "1, 2, 3", "signature_release": "1",
    "edge": "1, 2", "edge_state": "1", "cluster_member": "1", "unfinished_add": "1",
    "night": "1", "cursor": "1", "kept_field": "1", "segment": "1", "text_dictionary": "1",
}  # fmt: skip
VIEWS = {
    "posting": "bucket_key, signature_id", "bucket": "bucket_key", "bucket_size": "1, 2",
    "cluster": "doc_id", "neighbor": "1, 2", "new_document": "doc_id",
    "document_bucket": "doc_id, bucket_key", "cursor_document": "doc_id",
    "document_field": "doc_id, name",
}  # fmt: skip
_EMPTY = ("new_document", "unfinished_add", "text_dictionary")
OWN = {"checksum", "number"}
"""Of a row with a time in it, or drawn at random, so that it differs from one run to the next."""


def asked(place: Any, name: str, statement: str, parameters: Any = ()) -> Any:
    with Index.open(place.folder / name) as index:
        result = index.sql(statement, parameters)
        kept = [number for number, column in enumerate(result.columns) if column not in OWN]
        return result.columns, [tuple(row[number] for number in kept) for row in result.rows]


@pytest.mark.parametrize("table", [*TABLES, *VIEWS])
def test_a_table_or_view(lived: Both, table: str) -> None:
    order = {**TABLES, **VIEWS}[table]
    for name in ("a", "signed"):
        statement = f"SELECT * FROM {table} ORDER BY {order}"
        columns, rows = lived.same(lambda place: asked(place, name, statement))  # noqa: B023
        assert columns
        assert rows or name == "signed" or table in _EMPTY


def test_there_is_nothing_else(lived: Both) -> None:
    """But for the runs' own tables, and what either database needs beside."""
    everything = {*TABLES, *VIEWS, "alembic_version"}

    def names(place: Any) -> set[str]:
        statement = (
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            if place.name == "sqlite"
            else "SELECT relname::text FROM pg_class WHERE relkind IN ('r', 'v', 'p') "
            "AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
        )
        found = {name for (name,) in asked(place, "a", statement)[1]}
        return {name for name in found if not name.startswith(("posting_run_", "sqlite_"))}

    sqlite, postgres = (names(place) for place in lived.places)
    assert sqlite == everything | {"no_posting"}
    assert postgres == everything | {"stored_posting", "retired_run", "commit_mark"}


STATEMENTS: dict[str, tuple[str, Any]] = {
    "question marks": ("SELECT key FROM document WHERE doc_id < ? AND key > ? ORDER BY 1", (9, "")),
    "numbers": ("SELECT key FROM document WHERE doc_id = ?1 OR n_chars = ?1 ORDER BY 1", (3,)),
    "names": (
        "SELECT key, ':no' FROM document WHERE doc_id BETWEEN :low AND :high ORDER BY 1",
        {"low": 2, "high": 5},
    ),
    "bytes": ("SELECT count(*) FROM document WHERE content_hash = ?", (bytes(16),)),
    "null": ("SELECT count(*) FROM document WHERE signature_id IS NULL", ()),
    "sums": ("SELECT sum(n_rows), count(*), min(n_rows), max(n_rows) FROM run", ()),
    "a sum of nothing": ("SELECT sum(n_rows) FROM run WHERE run_id < 0", ()),
    "a division": ("SELECT CAST(sum(n_chars) AS bigint) / count(*) FROM document", ()),
    "fractions": ("SELECT avg(similarity) > 0.5, max(similarity) FROM edge", ()),
    "texts": ("SELECT key || ' and ' || source FROM document ORDER BY key", ()),
    "an order of texts": ("SELECT key FROM document ORDER BY key DESC", ()),
    "a join": (
        "SELECT one.key, other.key FROM document_bucket AS one JOIN document_bucket AS other "
        "USING (bucket_key) WHERE one.doc_id < other.doc_id GROUP BY 1, 2 ORDER BY 1, 2",
        (),
    ),
    "common tables": (
        "WITH large AS (SELECT bucket_key FROM bucket WHERE size > 2) "
        "SELECT count(*) FROM posting JOIN large USING (bucket_key)",
        (),
    ),
}


@pytest.mark.parametrize("what", STATEMENTS)
def test_a_statement_of_ones_own(lived: Both, what: str) -> None:
    statement, parameters = STATEMENTS[what]

    rows = lived.same(lambda place: asked(place, "a", statement, parameters)[1])
    assert rows


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM document", "INSERT INTO run VALUES (9, 'x', 1, 1, 0)", "DROP TABLE run",
        "UPDATE state SET n_signatures = 0", "CREATE TABLE x (y bigint)", "", "no SQL",
        "SELECT 1; DELETE FROM document", "SELECT * FROM nothing", "BEGIN", "COMMIT",
    ],
)  # fmt: skip
def test_a_statement_that_is_refused(lived: Both, statement: str) -> None:
    for place in lived.places:
        with Index.open(place.folder / "a") as index, pytest.raises(QueryError):
            list(index.sql(statement).rows)


def test_parameters_that_do_not_fit(lived: Both) -> None:
    for place in lived.places:
        with Index.open(place.folder / "a") as index:
            for parameters in ((), (1, 2), {"a": 1}):
                with pytest.raises(QueryError):
                    index.sql("SELECT key FROM document WHERE doc_id = ?", parameters)
            with pytest.raises(QueryError):
                index.sql("SELECT key FROM document WHERE doc_id = :a", {"b": 1})


def test_texts_and_fields_by_key(lived: Both) -> None:
    def contents(place: Any) -> Any:
        with Index.open(place.folder / "a") as index:
            return index.texts(index), index.fields(index)

    texts, fields = lived.same(contents)
    assert len(texts) == len(fields) > 3 and any(fields.values())


@pytest.mark.parametrize("block", [1, 7, 100_000])
def test_postings_between_two_keys(lived: Both, block: int) -> None:
    """Both ends are in. The view has no contents, whose keys are below 0."""
    statement = "SELECT bucket_key, signature_id FROM posting ORDER BY 1, 2"
    _, rows = lived.same(lambda place: asked(place, "a", statement))
    keys = [row[0] for row in rows]
    ranges = (keys[0], keys[-1]), (keys[20], keys[40]), (keys[3] + 1, keys[50] - 1)

    def between(place: Any) -> list[list[tuple[int, int]]]:
        with Index.open(place.folder / "a") as index, index._store.reading() as snapshot:
            found = []
            for first, last in (*ranges, (-(2**63), -1), (-(2**63), 2**63 - 1)):
                taken: list[tuple[int, int]] = []
                for table in snapshot.run_tables:
                    blocks = snapshot.session.run_tables.between(table, first, last, block=block)
                    parts = [[(int(key), int(one)) for key, one in part] for part in blocks]
                    assert all(0 < len(part) <= block for part in parts)
                    of_table = list(itertools.chain.from_iterable(parts))
                    assert of_table == sorted(of_table)
                    taken += of_table
                found.append(sorted(taken))
            return found

    *found, contents, everything = lived.same(between)
    assert found == [[row for row in rows if first <= row[0] <= last] for first, last in ranges]
    assert contents
    assert everything == contents + rows
