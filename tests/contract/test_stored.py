"""``lshdb sql`` on every table and view: the same columns, in the same order, and the same rows."""

from __future__ import annotations

from typing import Any

import pytest

from lshdb import Index, QueryError
from tests.contract.conftest import Both

pytestmark = pytest.mark.fast

# Each with what orders its rows.
TABLES = {
    "state": "1", "parameter": "1", "batch": "1", "document": "1", "content": "1",
    "signature_block": "1", "band": "1", "signature_release": "1",
    "edge": "1, 2", "edge_state": "1", "cluster_member": "1", "unfinished_add": "1",
    "night": "1", "cursor": "1", "kept_field": "1", "segment": "1", "text_dictionary": "1",
}  # fmt: skip
VIEWS = {
    "posting": "1, 2, 3", "bucket": "1, 2", "bucket_size": "1, 2",
    "cluster": "doc_id", "neighbor": "1, 2", "new_document": "doc_id",
    "document_bucket": "doc_id, band", "cursor_document": "doc_id",
    "document_field": "doc_id, name", "document_time": "doc_id",
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
    """But for what either database needs beside."""
    everything = {*TABLES, *VIEWS, "alembic_version"}

    def names(place: Any) -> set[str]:
        statement = (
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            if place.name == "sqlite"
            else "SELECT relname::text FROM pg_class WHERE relkind IN ('r', 'v', 'p') "
            "AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
        )
        found = {name for (name,) in asked(place, "a", statement)[1]}
        return {name for name in found if not name.startswith("sqlite_")}

    sqlite, postgres = (names(place) for place in lived.places)
    assert sqlite == everything
    assert postgres == everything | {"commit_mark"}


STATEMENTS: dict[str, tuple[str, Any]] = {
    "question marks": ("SELECT key FROM document WHERE doc_id < ? AND key > ? ORDER BY 1", (9, "")),
    "numbers": ("SELECT key FROM document WHERE doc_id = ?1 OR n_chars = ?1 ORDER BY 1", (3,)),
    "names": (
        "SELECT key, ':no' FROM document WHERE doc_id BETWEEN :low AND :high ORDER BY 1",
        {"low": 2, "high": 5},
    ),
    "bytes": ("SELECT count(*) FROM document WHERE content_hash = ?", (bytes(16),)),
    "null": ("SELECT count(*) FROM document WHERE signature_id IS NULL", ()),
    "sums": ("SELECT sum(n_rows), count(*), min(n_rows), max(n_rows) FROM signature_block", ()),
    "a sum of nothing": ("SELECT sum(n_rows) FROM signature_block WHERE first_row < 0", ()),
    "a division": ("SELECT CAST(sum(n_chars) AS bigint) / count(*) FROM document", ()),
    "fractions": ("SELECT avg(similarity) > 0.5, max(similarity) FROM edge", ()),
    "texts": ("SELECT key || ' and ' || source FROM document ORDER BY key", ()),
    "an order of texts": ("SELECT key FROM document ORDER BY key DESC", ()),
    "a join": (
        "SELECT one.key, other.key FROM document_bucket AS one JOIN document_bucket AS other "
        "USING (band, bucket) WHERE one.doc_id < other.doc_id GROUP BY 1, 2 ORDER BY 1, 2",
        (),
    ),
    "common tables": (
        "WITH large AS (SELECT band, bucket FROM bucket WHERE size > 2) "
        "SELECT count(*) FROM posting JOIN large USING (band, bucket)",
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
        "DELETE FROM document", "INSERT INTO segment VALUES (9, 1)", "DROP TABLE band",
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
