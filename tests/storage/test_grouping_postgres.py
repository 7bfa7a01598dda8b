"""On Postgres the server groups postings into buckets, and only shared ones travel."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from numpy.typing import NDArray

from lshdb import Index
from lshdb.storage.dialects.postgresql.postgres_runs import PostgresRunTables
from tests.conftest import edited, make_text
from tests.postgres import PostgresUrl, fresh_schema

Pairs = set[tuple[str, str]]


@pytest.fixture
def index_path(tmp_path: Path, postgres_url: PostgresUrl) -> Iterator[Path]:
    """An index whose statements the server logs, opened where there are no frozen orders."""
    rng = random.Random(7)
    made = [(f"d{number}", make_text(rng, 40)) for number in range(300)]
    made += [(f"e{number}", edited(rng, made[number][1], 1)) for number in range(40)]
    path, elsewhere = tmp_path / "x.lshdb", tmp_path / "elsewhere.lshdb"
    url = f"{postgres_url.lshdb}&options=-c%20log_statement%3Dall"
    with fresh_schema(postgres_url) as schema:
        with Index.create(path, database=url, schema=schema) as index:
            index.add(made[:200])
            index.add(made[200:])
        elsewhere.mkdir()
        shutil.copy(path / "index.toml", elsewhere)
        yield elsewhere


def log_of(url: PostgresUrl) -> Path:
    """The server's log, if it is the tests' own."""
    log = Path(parse_qs(urlsplit(url.psycopg).query).get("host", ["/nowhere"])[0]) / "log"
    if not log.exists():
        pytest.skip("the log of a server that was given is not read")
    return log


def pairs_of(index: Index, **options: object) -> Pairs:
    return {(pair.key1, pair.key2) for pair in index.pairs(verify="none", **options)}  # type: ignore[arg-type]


def by_sql(index: Index) -> Pairs:
    """The candidate pairs of a user's own GROUP BY."""
    rows = index.sql(
        "SELECT string_agg(key, ' ' ORDER BY doc_id) FROM posting "
        "JOIN document USING (signature_id) GROUP BY bucket_key HAVING count(*) > 1"
    )
    found: Pairs = set()
    for (keys,) in rows:
        members = keys.split(" ")
        found |= {(one, other) for n, one in enumerate(members) for other in members[n + 1 :]}
    return found


def test_the_server_groups_and_only_shared_buckets_travel(
    index_path: Path, postgres_url: PostgresUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    travelled: list[NDArray[np.int64]] = []
    arrays = PostgresRunTables._arrays

    def noted(self: PostgresRunTables, *arguments: object) -> object:
        keys, members = arrays(self, *arguments)  # type: ignore[arg-type]
        travelled.append(keys)
        return keys, members

    monkeypatch.setattr(PostgresRunTables, "_arrays", noted)
    log = log_of(postgres_url)
    for options in ({}, {"since": "last"}):
        before = log.stat().st_size
        travelled.clear()
        with Index.open(index_path) as index:
            found = pairs_of(index, **options)
            assert found and found <= by_sql(index)
            assert options or found == by_sql(index)
            assert index.stats().signatures == 340
        with log.open("rb") as file:
            file.seek(before)
            said = file.read().decode()
        assert "GROUP BY bucket_key HAVING count(*) > 1" in said
        keys, sizes = np.unique(np.concatenate(travelled), return_counts=True)
        assert len(keys) and sizes.min() > 1, "a bucket of one has travelled"
