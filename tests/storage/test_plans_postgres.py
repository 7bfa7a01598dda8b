"""The questions of docs/guides/sql.md are index look-ups on Postgres, as any session asks them.

A table may be read from end to end once where the question is about all of it: postings by
signature, or all buckets; twice where new documents meet old ones, as the server cannot know how
few are new. Nothing else may, and ``document`` never. A table of one row has no better way.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from lshdb import Index
from tests.conftest import edited, make_text
from tests.docs.blocks import block
from tests.postgres import PostgresUrl, fresh_schema


def documents(n: int) -> list[tuple[str, str]]:
    rng = random.Random(6)
    made = [(f"d{number:05d}", make_text(rng, 10)) for number in range(n * 9 // 10)]
    made += [
        (f"e{number:05d}", edited(rng, made[number][1], 1)) for number in range(n - len(made) - 1)
    ]
    rng.shuffle(made)
    return [("mon-1", made[0][1] + " and more"), *made]


@pytest.fixture(scope="module")
def session(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: PostgresUrl
) -> Iterator[psycopg.Connection[Any]]:
    """An ordinary session, as psql has it, on an index of several adds and clusters."""
    path = tmp_path_factory.mktemp("plans") / "x.lshdb"
    made = documents(10_000)
    with (
        fresh_schema(postgres_url) as schema,
        Index.create(path, database=postgres_url.lshdb, schema=schema, threshold=0.5, k=3,
                     num_perm=64) as index,
    ):  # fmt: skip
        for start in range(0, 9_000, 3_000):
            index.add(made[start : start + 3_000])
        index.add(made[9_000:9_995])
        index.add(made[9_995:])
        assert sum(1 for _ in index.clusters()) > 100
        with psycopg.connect(postgres_url.psycopg, autocommit=True) as connection:
            connection.execute(f'SET search_path = "{schema}"'.encode())
            yield connection


ONE_ROW = ("state", "edge_state")


def bands(session: psycopg.Connection[Any]) -> int:
    ((value,),) = session.execute("SELECT value FROM parameter WHERE name = 'bands'").fetchall()
    return int(value)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


def scans(session: psycopg.Connection[Any], statement: str) -> Counter[str]:
    """How often each table of more than one row is read from end to end, by whatever way."""
    row = session.execute(f"EXPLAIN (FORMAT JSON) {statement}".encode()).fetchone()
    assert row is not None
    return Counter(
        node["Relation Name"]
        for node in nodes(row[0][0]["Plan"])
        if (
            node["Node Type"] == "Seq Scan"
            or (node["Node Type"].startswith("Index") and "Index Cond" not in node)
        )
        and node["Relation Name"] not in ONE_ROW
    )


@pytest.mark.parametrize("name", ["largest", "sharing", "sizes", "new", "clusters", "neighbors"])
def test_a_question_of_the_guide(name: str, session: psycopg.Connection[Any]) -> None:
    statement = block("sql", name).text.strip().rstrip(";").replace("group_concat", "string_agg")
    read = scans(session, statement)
    allowed = {"largest": 1, "sharing": 1, "sizes": 1, "new": 2, "clusters": 0, "neighbors": 0}[
        name
    ]
    assert read["band"] <= allowed * bands(session), read
    if name not in ("clusters", "sharing"):  # which count, or may find, documents of every cluster
        assert "document" not in read
        assert "cluster_member" not in read
    assert "edge" not in read
    assert session.execute(statement.encode()).fetchall()


def test_pairs_of_a_band_read_it_twice(session: psycopg.Connection[Any]) -> None:
    statement = block("sql", "pairs").text.strip().rstrip(";")
    assert set(scans(session, statement)) <= {"band"}
    assert scans(session, statement)["band"] <= 2
    assert len(session.execute(statement.encode()).fetchall()) > 100


@pytest.mark.parametrize(
    "condition",
    [
        "bucket = (SELECT max(bucket) FROM posting)", "bucket IN (1, 2, 3)",
        "bucket = ANY(ARRAY[1, 2, 3])", "bucket BETWEEN 17 AND 18",
    ],
)  # fmt: skip
def test_postings_are_looked_up_by_their_bucket(
    condition: str, session: psycopg.Connection[Any]
) -> None:
    read = scans(session, f"SELECT signature_id FROM posting WHERE band = 3 AND {condition}")
    assert read["band"] <= bands(session), read  # for the largest bucket of all
    row = session.execute(
        f"EXPLAIN (FORMAT JSON) SELECT * FROM posting WHERE band = 3 AND {condition}".encode()
    ).fetchone()
    assert row is not None
    assert any("b3" in node.get("Index Cond", "") for node in nodes(row[0][0]["Plan"]))


@pytest.mark.parametrize("view", ["document_bucket", "neighbor", "cluster"])
def test_a_view_of_one_key_is_looked_up(view: str, session: psycopg.Connection[Any]) -> None:
    read = scans(session, f"SELECT * FROM {view} WHERE key = 'mon-1'")
    assert not {"document", "edge", "cluster_member"} & set(read), read
    assert all(n == 1 for n in read.values()), read
