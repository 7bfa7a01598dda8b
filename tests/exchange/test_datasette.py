"""The plugin for Datasette, in a real Datasette: every table, view and page of an index."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import html
import re
import sqlite3
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from datasette.app import Datasette
from datasette.plugins import pm

from lshdb import Document, Index
from lshdb.exchange import datasette_plugin
from tests.conftest import family_corpus

pytestmark = pytest.mark.sqlite("Datasette opens files of SQLite")
sqlite3.enable_callback_tracebacks(False)  # Datasette turns them on, for every test that follows
ROOT = Path(__file__).parents[2]
STRANGE = 'a/b?c="d"&<script>alert(1)</script> é'


@pytest.fixture(scope="module", autouse=True)
def plugin() -> None:
    """Registered by its entry point, once the package was installed with it."""
    given = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert given["datasette"] == {"lshdb": datasette_plugin.__name__}
    if not pm.is_registered(datasette_plugin):
        pm.register(datasette_plugin)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("datasette") / "x.lshdb"
    corpus = family_corpus(7)
    with Index.create(path, threshold=0.5) as index:
        index.add([("mon-1", corpus[0][1] + " and more"), *corpus[:60]])
        index.add([Document(STRANGE, "a < b & c " * 3_000, "x", {"year": 1999})], night="press")
        assert list(index.clusters())
        index.advance("press", 1)
    return path


def get(path: Path, *addresses: str, **settings: Any) -> list[Any]:
    async def ask() -> list[Any]:
        served = Datasette([str(path / "index.db")], **settings)
        return [await served.client.get(address) for address in addresses]

    return asyncio.run(ask())


def page_of(key: str) -> str:
    return "/-/lshdb/index?" + urlencode({"key": key})


def names(path: Path) -> Iterator[str]:
    with contextlib.closing(sqlite3.connect(path / "index.db")) as connection, connection:
        rows = connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND name NOT LIKE 'sqlite%'"
        ).fetchall()
    yield from (name for (name,) in rows)


def test_what_people_read_has_a_title_and_the_rest_is_hidden(path: Path, tmp_path: Path) -> None:
    there = set(names(path))
    shown, hidden = set(datasette_plugin._SHOWN), set(datasette_plugin._HIDDEN)
    assert shown | hidden == there and not shown & hidden
    pages = get(path, "/index", "/index/neighbor", "/index/edge", "/index.json", "/",
                settings={"base_url": "/x/"})  # fmt: skip
    assert "Near-duplicate index" in pages[0].text
    begin = pages[0].text.partition("Begin with ")[2].partition(".")[0]
    views = ["new_document", "neighbor", "cluster", "document_field"]
    assert re.findall(r'href="(.*?)"', begin) == [f"/x/index/{view}" for view in views]
    assert "Similar documents" in pages[1].text and "stored them last" in pages[1].text
    assert "For lshdb alone" in pages[2].text
    tables = {each["name"]: each["hidden"] for each in pages[3].json()["tables"]}
    assert {name for name, is_hidden in tables.items() if is_hidden} == hidden
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as connection, connection:
        connection.execute("CREATE TABLE edge (a)")
    assert (
        "Near-duplicate"
        not in asyncio.run(Datasette([str(tmp_path / "other.db")]).client.get("/other")).text
    )


def test_every_table_and_view_is_shown(path: Path) -> None:
    there = list(names(path))
    assert {"new_document", "neighbor", "document_field", "cursor_document", "posting"} <= {*there}
    shown = get(path, "/", "/index", *(f"/index/{name}" for name in there))
    assert {one.status_code for one in shown} == {200}
    for name, one in zip(there, shown[2:], strict=True):
        if name in {"new_document", "neighbor", "posting", "bucket", "cursor_document"}:
            assert re.search(r"[1-9]\d* rows?\b", one.text), name


def test_texts_in_a_statement(path: Path) -> None:
    statement = "SELECT key, text(doc_id) AS body FROM document WHERE key = 'mon-1'"
    (found,) = get(path, f"/index.json?sql={quote(statement)}&_shape=array")
    with Index.open(path) as index:
        assert found.json() == [{"key": "mon-1", "body": index.show("mon-1").body}]


def test_a_document_with_its_similar_ones_and_its_cluster(path: Path) -> None:
    (page,) = get(path, page_of("mon-1"))
    assert page.status_code == 200
    with Index.open(path) as index:
        near = {row[0] for row in index.sql("SELECT neighbor FROM neighbor WHERE key = 'mon-1'")}
        assert str(index.show("mon-1").body) in html.unescape(page.text)
    linked = {html.unescape(one) for one in re.findall(r'\?key=[^"]*">([^<]+)<', page.text)}
    assert near and near <= linked
    assert "In no cluster" not in page.text and "As of 20" in page.text


def test_a_strange_key_is_quoted_and_its_fields_are_shown(path: Path) -> None:
    (page,) = get(path, page_of(STRANGE))
    assert page.status_code == 200
    assert "<script>alert" not in page.text and STRANGE in html.unescape(page.text)
    assert "<td>1999</td>" in page.text
    assert "The first 20,000 of 30,000" in page.text.replace("\n", " ")
    assert "a &lt; b &amp; c" in page.text
    assert "In no cluster" in page.text
    (table,) = get(path, "/index/new_document")
    assert "<script>alert" not in table.text
    link = html.unescape(re.search(r'href="(/-/lshdb/index\?key=a[^"]*)"', table.text)[1])  # type: ignore[index]
    assert get(path, link)[0].text == page.text


def test_what_is_not_there(path: Path, tmp_path: Path) -> None:
    missing, other, empty = get(path, page_of("nobody"), "/-/lshdb/nowhere?key=a", page_of(""))
    assert missing.status_code == other.status_code == empty.status_code == 404
    assert "there is no document with the key" in html.unescape(missing.text)
    plain = tmp_path / "index.db"
    with contextlib.closing(sqlite3.connect(plain)) as connection, connection:
        connection.execute("CREATE TABLE document (key)")
        connection.execute("INSERT INTO document VALUES ('mon-1')")
    page, table, queries = get(
        tmp_path, page_of("mon-1"), "/index/document", "/index/lshdb_largest"
    )
    assert page.status_code == queries.status_code == 404
    assert table.status_code == 200 and "/-/lshdb" not in table.text


def test_permissions_of_the_tables_hold_for_the_page(path: Path) -> None:
    for denied in ({"tables": {"content": {"allow": False}}}, {"allow": False}):
        (page,) = get(path, page_of("mon-1"), metadata={"databases": {"index": denied}})
        assert page.status_code == 403
        assert "As of" not in page.text


def test_the_queries_of_the_guide(path: Path) -> None:
    queries = datasette_plugin._queries()
    assert {"lshdb_largest", "lshdb_sharing", "lshdb_new", "lshdb_texts"} <= {*queries}
    assert queries["lshdb_largest"]["title"] == "The ten largest buckets, and the keys in them"
    addresses = [f"/index/{name}.json?key=mon-1&_shape=array" for name in queries]
    for name, found in zip(queries, get(path, *addresses), strict=True):
        assert found.status_code == 200, (name, found.text)
        assert found.json() or name == "lshdb_new", name
    pages = get(path, *(f"/index/{name}?key=mon-1" for name in queries))
    assert {page.status_code for page in pages} == {200}


def test_an_index_without_clusters_says_so(tmp_path: Path) -> None:
    with Index.create(tmp_path / "x.lshdb", store_text=False) as index:
        index.add([("a", "some words")])
    (page,) = get(tmp_path / "x.lshdb", page_of("a"))
    assert page.status_code == 200
    assert "lshdb clusters" in page.text and "No text is stored" in page.text


def test_distances(tmp_path: Path) -> None:
    import numpy as np

    with Index.create(tmp_path / "x.lshdb", metric="l2", dim=4, threshold=2.0, width=4.0) as index:
        index.add([("a", np.zeros(4)), ("b", np.array([0.5, 0, 0, 0]))])
        assert list(index.clusters())
    (page,) = get(tmp_path / "x.lshdb", page_of("a"))
    assert "<th>distance</th>" in page.text and "<td>0.5</td>" in page.text


def test_nothing_is_written(path: Path) -> None:
    before = hashlib.sha256((path / "index.db").read_bytes()).digest()
    refused = get(path, "/index?sql=" + quote("DELETE FROM document"))[0]
    assert refused.status_code in {400, 500}
    get(path, page_of("mon-1"))
    assert hashlib.sha256((path / "index.db").read_bytes()).digest() == before
