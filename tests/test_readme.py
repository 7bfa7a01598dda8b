"""The README is executed: its session, its SQL and its Python give what stands there."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from lshdb import Index
from tests.cli.conftest import environment
from tests.conftest import family_corpus
from tests.postgres import PostgresUrl

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def block(name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n```\w+\n(.*?)```", README, re.DOTALL)
    if found is None:
        raise LookupError(name)
    return found[1]


def matches(expected: str, given: str) -> bool:
    """Equal, where ``...`` in what is expected stands for anything within a line."""
    pattern = re.escape(expected.rstrip()).replace(re.escape("..."), "[^\n]*")
    return re.fullmatch(pattern, given.rstrip()) is not None


def run(command: str, folder: Path, **extra: str) -> str:
    words = shlex.split(command)
    if words[0] == "lshdb":
        words[:1] = [sys.executable, "-m", "lshdb"]
    done = subprocess.run(
        words,
        env=environment(**extra),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize(
    ("name", "at_least"),
    [
        ("session", 9),
        ("vectors", 4),
        ("shingling", 3),
        ("explaining", 3),
        ("joining", 5),
        ("contract", 5),
        ("transfers", 12),
        ("elsewhere", 7),
    ],
)
def test_session(tmp_path: Path, name: str, at_least: int) -> None:
    hold_session(block(name), at_least, tmp_path)


def test_session_in_postgres(
    tmp_path: Path, postgres_url: PostgresUrl, postgres_schema: str
) -> None:
    """With the README's service file, and a schema of another name."""
    settings = psycopg.conninfo.conninfo_to_dict(postgres_url.psycopg)
    lines = [f"{name}={value}" for name, value in settings.items()]
    (tmp_path / "services").write_text("\n".join(["[press]", *lines, ""]))
    session = block("postgres").replace("press_week", postgres_schema)
    hold_session(session, 6, tmp_path, PGSERVICEFILE=str(tmp_path / "services"))


def hold_session(session: str, at_least: int, folder: Path, **environment: str) -> None:
    steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE)
    assert len(steps) >= at_least
    for command, expected in steps:
        if command.startswith("cat "):
            (folder / command.removeprefix("cat ")).write_text(expected)
        given = run(command, folder, **environment)
        assert matches(expected, given), f"$ {command}\n{given}"


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("python", ["a 0.615 exact", "b 0.615 exact", "a b 0.857 exact"]),
        ("python: tokenizer", ["a 1.0"]),
    ],
)
def test_python_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, lines: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block(name), "README.md", "exec"), {})
    assert printed.getvalue().splitlines() == lines


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An index of several runs, the last add in two batches."""
    monkeypatch.setattr("lshdb.storage.runs.posting_runs.RUN_ROWS", 1)
    monkeypatch.setattr("lshdb.storage.transactions.writer.FAN_IN", 100)
    corpus = family_corpus(7)
    index = Index.create(tmp_path / "x.lshdb", threshold=0.5)
    index.add([("mon-1", corpus[0][1] + " and more"), *corpus[:60]])
    index.add(corpus[60:100])
    index.add(corpus[60:100])
    monkeypatch.setattr("lshdb.ingest.add.BATCH_DOCUMENTS", 40)
    index.add([*corpus[100:], ("new", corpus[3][1])])
    yield index
    index.close()


def postings(index: Index) -> dict[int, set[str]]:
    """Keys by bucket, the slow way."""
    rows = index.sql("SELECT bucket_key, key FROM document_bucket").rows
    buckets: dict[int, set[str]] = {}
    for bucket_key, key in rows:
        buckets.setdefault(bucket_key, set()).add(key)
    return buckets


def ask(index: Index, name: str) -> tuple[list[tuple[object, ...]], list[str]]:
    """Rows by the standard library's own module, and the plan."""
    database = sqlite3.connect(index.path / "index.db")
    statement = block(f"sql: {name}")
    plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}")]
    rows = database.execute(statement).fetchall()
    database.close()
    assert index.stats().runs >= 4
    return rows, plan


def assert_reads_once(plan: list[str]) -> None:
    """Every run is read from end to end at most once, and no other table is, nor indexed ad hoc."""
    scans = [step.split()[1] for step in plan if step.startswith("SCAN ")]
    runs = [table for table in scans if table.startswith("posting_run_")]
    assert len(runs) == len(set(runs)), plan
    assert "document" not in scans
    assert not any("AUTOMATIC" in step and re.search("posting|document", step) for step in plan)


@pytest.mark.sqlite("opens its file")
def test_sql_largest_buckets(index: Index) -> None:
    rows, plan = ask(index, "largest")
    assert_reads_once(plan)
    buckets = postings(index)
    assert len(rows) == 10
    by_signature = sorted(
        (row[0] for row in index.sql("SELECT size FROM bucket").rows), reverse=True
    )
    assert [row[2] for row in rows] == by_signature[:10]
    for band, bucket, _, keys in rows:
        assert set(str(keys).split()) == buckets[int(band) << 56 | int(bucket)]  # type: ignore[call-overload]


@pytest.mark.sqlite("opens its file")
def test_sql_sharing_a_bucket(index: Index) -> None:
    rows, plan = ask(index, "sharing")
    assert_reads_once(plan)
    expected = {
        key for members in postings(index).values() if "mon-1" in members for key in members
    }
    assert len(expected) > 2
    assert sorted(key for (key,) in rows) == sorted(expected)


@pytest.mark.sqlite("opens its file")
def test_sql_sizes_by_band(index: Index) -> None:
    rows, plan = ask(index, "sizes")
    assert_reads_once(plan)
    assert sum(int(count) for _, _, count in rows) == len(postings(index))  # type: ignore[call-overload]
    assert {band for band, _, _ in rows} == set(range(index.params.bands))
    n_signatures = index.stats().signatures
    for band in range(index.params.bands):
        assert sum(size * count for b, size, count in rows if b == band) == n_signatures  # type: ignore[operator]


@pytest.mark.sqlite("opens its file")
def test_sql_new_beside_old(index: Index) -> None:
    rows, plan = ask(index, "new")
    assert_reads_once(plan)
    (first,) = index.sql("SELECT min(batch_id) FROM new_document").rows
    batch = dict(index.sql("SELECT key, batch_id FROM document").rows)
    expected = {
        (new, old)
        for members in postings(index).values()
        for new in members
        for old in members
        if batch[new] >= first[0] > batch[old]
    }
    assert ("new", corpus_key := family_corpus(7)[3][0]) in expected, corpus_key
    assert set(rows) == expected
    assert len(rows) == len(expected)


def test_format_page_and_its_example() -> None:
    """The worked example of docs/format.md is computed again."""
    import hashlib

    from lshdb.shingling import SPACELESS_RANGES, canonical_content, shingle_hashes
    from lshdb.signatures import sign
    from lshdb.signatures.banding import bucket_keys, content_keys

    page = (ROOT / "docs" / "format.md").read_text()
    content = canonical_content("To be, or  not TO be!")
    digest = hashlib.blake2b(str(content).encode(), digest_size=16, person=b"text").digest()
    hashes = shingle_hashes(content, unit="word", k=2, bag=False)
    row = sign([hashes], scheme="fss", num_perm=8, seed=1)
    keys = bucket_keys(row, bands=2, rows=3)[0]
    for stage, value in (
        ("canonical content", f"`{content}`"),
        ("content hash", f"`{digest.hex()}`"),
        ("hashes, sorted", ", ".join(f"`{value:016x}`" for value in hashes.tolist())),
        ("signature", ", ".join(f"`{value:08x}`" for value in row[0].tolist())),
        ("bucket keys", ", ".join(f"`{value}`" for value in keys.tolist())),
        ("content band key", f"`{content_keys([digest])[0]}`"),
    ):
        assert f"| {stage} | {value} |" in page
    ranges = {
        tuple(int(end, 16) for end in found)
        for found in re.findall(r"\b([0-9A-F]{4,5})-([0-9A-F]{4,5})\b", page)
    }
    assert ranges == set(SPACELESS_RANGES)
