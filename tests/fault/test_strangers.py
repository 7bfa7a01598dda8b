"""An index that a stranger made: hostile values in every table, asked over HTTP and in Datasette.

A row's checksum is set to 0, which no reader compares. What lies in the file may be refused, in an
answer of ours, but it may not run, not leave the folder, and not break the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from datasette.app import Datasette
from datasette.plugins import pm

from lshdb import Document, Index, LshdbError, Tokenizer, TokenizerError
from lshdb.exchange import datasette_plugin
from lshdb.serve.application import make_application
from tests.asgi import ask
from tests.conftest import family_corpus
from tests.fault.strange_rows import columns

pytestmark = pytest.mark.sqlite("edits the file of SQLite")

SCRIPT = "<script>alert(1)</script>"
VALUES: list[Any] = [
    SCRIPT, "../../../../etc/passwd", "", None, -1, 0, 7, 2**63 - 1, -(2**63), 1e308, float("inf"),
    b"\xff\xfe", b"", "\0", "\u202e\x1b[31m", "9" * 400, "{}", "[" * 5_000, b"\0" * 5_000,
    "x" * 200_000, f'["{SCRIPT}"]', f'{{"{SCRIPT}": "{SCRIPT}"}}',
]  # fmt: skip
KEY = f'a/b?c="d"&{SCRIPT}'
PATHS = [
    "/", "/?text=some+words+of+a+text", "/similar?key=KEY", "/pair?key1=KEY&key2=f000-0",
    "/document?key=KEY", "/clusters", "/cluster?label=KEY", "/buckets", "/bucket?band=0", "/index",
    "/api/documents?key=KEY", "/api/clusters", "/api/stats", "/health", "/metrics",
]  # fmt: skip


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with a row in every table, and with what the library itself lets in."""
    path = tmp_path_factory.mktemp("hostile") / "x.lshdb"
    corpus = family_corpus(7, families=3)
    with Index.create(path, threshold=0.5) as index:
        index.add(
            [
                Document(KEY, f"{SCRIPT} {corpus[0][1]}", SCRIPT, {SCRIPT: SCRIPT, "year": 1999}),
                *corpus,
            ],
            source=SCRIPT, night="press",
        )  # fmt: skip
        index.add([("f000-0", corpus[0][1] + " and more"), ("copy", corpus[5][1])])
        assert list(index.clusters())
        index.advance("press", 1)
    return path


def plant(path: Path, table: str, column: str, value: Any) -> bool:
    """Put a value into each row, or into the first; whether it went in."""
    with contextlib.closing(sqlite3.connect(path / "index.db")) as database:
        database.execute("PRAGMA foreign_keys=OFF")
        database.execute("PRAGMA ignore_check_constraints=ON")
        for which in ("", f" WHERE rowid = (SELECT min(rowid) FROM {table})"):
            with contextlib.suppress(sqlite3.Error):
                database.execute(f'UPDATE {table} SET "{column}" = ?{which}', (value,))
                break
        else:
            return False
        if column != "checksum":
            with contextlib.suppress(sqlite3.OperationalError):  # most tables have none
                database.execute(f"UPDATE {table} SET checksum = 0")
        database.commit()
    return True


async def served(path: Path) -> list[int]:
    """The statuses of the server's answers; an error of any other kind is raised."""
    statuses = []
    try:
        index = Index.open(path)
    except LshdbError:
        return [0]
    with index:
        app = make_application(index)
        for place in PATHS:
            for accept in ("text/html", "application/json"):
                answer = await ask(
                    app, "GET", place.replace("KEY", quote(KEY)), headers={"accept": accept}
                )
                statuses.append(answer.status)
                assert answer.status != 500, (place, answer.body)
                assert b"root:" not in answer.body
                if "html" in answer.headers.get("content-type", ""):
                    assert SCRIPT.encode() not in answer.body, place
        body = {"text": "some words of a text", "with_text": True, "with_fields": True}
        for place, asked in (("/api/query", body), ("/api/explain", {"key1": KEY, "key2": "copy"})):
            answer = await ask(app, "POST", place, asked)
            statuses.append(answer.status)
            assert answer.status != 500, (place, answer.body)
    return statuses


async def browsed(path: Path, *tables: str) -> list[int]:
    """The statuses of Datasette's answers: its own pages of tables, and the plugin's."""
    datasette = Datasette([str(path / "index.db")])
    statuses = []
    for place in (
        f"/-/lshdb/index?key={quote(KEY)}", "/-/lshdb/index?key=copy",
        "/index?sql=SELECT+text(doc_id)+FROM+document", *(f"/index/{table}" for table in tables),
    ):  # fmt: skip
        answer = await datasette.client.get(place)
        statuses.append(answer.status_code)
        assert SCRIPT not in answer.text, place
    return statuses


@pytest.fixture(scope="module", autouse=True)
def plugin() -> None:
    if not pm.is_registered(datasette_plugin):
        pm.register(datasette_plugin)


def test_what_the_library_lets_in_is_shown_as_text(hostile: Path) -> None:
    assert {*asyncio.run(served(hostile))} <= {200, 404, 400}
    assert {*asyncio.run(browsed(hostile, "document", "kept_field", "batch", "cursor"))} == {200}


def test_a_cluster_whose_number_is_none_is_damage(hostile: Path, tmp_path: Path) -> None:
    path = shutil.copytree(hostile, tmp_path / "x.lshdb")
    assert plant(path, "cluster_member", "label", SCRIPT)
    assert {*asyncio.run(served(path))} <= {200, 404, 400, 503}


def test_hostile_values_in_every_table(hostile: Path, tmp_path: Path, is_long: bool) -> None:
    places = columns(hostile)
    assert {"document", "content", "band", "edge", "cursor", "night"} <= {t for t, _ in places}
    cases = [(table, column, value) for table, column in places for value in VALUES]
    if not is_long:
        cases = random.Random(3).sample(cases, 2)
    path = tmp_path / "x.lshdb"
    n_planted = 0
    for table, column, value in cases:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(hostile, path)
        if not plant(path, table, column, value):
            continue
        n_planted += 1
        try:
            asyncio.run(served(path))
            asyncio.run(browsed(path, table))
        except Exception as error:
            raise AssertionError(f"{table}.{column} = {value!r:.60}: {error!r}") from error
        assert {file.name for file in tmp_path.iterdir()} == {"x.lshdb"}
    assert n_planted > len(cases) // 2


def test_a_tokenizer_that_a_stranger_names_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a path nor a module is looked up, also where it could be imported."""
    path, mark = tmp_path / "x.lshdb", tmp_path / "it-ran"
    tokenizer = Tokenizer(str.split, name="plain", version="1")
    with Index.create(path, unit="tokenizer", tokenizer=tokenizer, k=1) as index:
        index.add([("a", "some words")])
    toml = (path / "index.toml").read_text()
    for folder in (tmp_path, path):
        (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w')\nsplit = str.split\n")
        (folder / "evil.pkl").write_bytes(b"cposix\nsystem\n(S'touch %s'\ntR." % bytes(mark))
        monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(tmp_path)
    before = {*sys.modules}
    for name in (
        "evil", "evil:split", "evil.py", "./evil.py", f"{path}/evil.py", "evil.pkl", "os:system",
        f"file://{path}/evil.pkl", "https://localhost:1/evil", "../evil", "__import__('evil')",
    ):  # fmt: skip
        with contextlib.closing(sqlite3.connect(path / "index.db")) as database, database:
            values = (json.dumps(f"{name} 1"), "tokenizer")
            database.execute("UPDATE parameter SET value = ? WHERE name = ?", values)
        (path / "index.toml").write_text(toml.replace('"plain 1"', json.dumps(f"{name} 1")))
        with Index.open(path) as index:
            for ask in (index.query, lambda text: index.add([("b", text)])):
                with pytest.raises(TokenizerError, match=r"no tokenizer .* is installed"):
                    ask("some words")
        with pytest.raises(TokenizerError, match=r"no tokenizer .* is installed"):
            Index.open(path, tokenizer=name)
    assert not mark.exists()
    assert not any("evil" in module for module in {*sys.modules} - before)
