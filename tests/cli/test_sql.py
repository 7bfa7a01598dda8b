"""``lshdb sql``: any SELECT, and nothing that is none."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run, sound


def test_columns_are_those_of_the_result(run: Run, index_path: Path) -> None:
    statement = "SELECT key, n_shingles AS shingles FROM document WHERE key <> ? ORDER BY key"
    statement = statement.replace("?", "'copy'")
    assert run("sql", index_path, statement, "--format", "csv").stdout == (
        "key,shingles\nbase,56\nnear,58\nother,56\n"
    )
    table = run("sql", index_path, statement, "--format", "table")
    assert table.stdout.splitlines()[2] == "base         56"
    assert table.stderr == "3 rows\n"


@pytest.mark.sqlite("in its SQL")
def test_values_of_every_kind(run: Run, index_path: Path) -> None:
    statement = (
        "SELECT 1 AS a, 2 AS a, NULL AS n, x'00ff' AS blob, 0.1 AS f, 9223372036854775807 AS i"
    )
    (line,) = run("sql", index_path, statement, "--format", "jsonl").stdout.splitlines()
    assert json.loads(line) == {
        "a": 1, "a_2": 2, "n": None, "blob": "00ff", "f": 0.1, "i": 2**63 - 1,
    }  # fmt: skip
    assert run("sql", index_path, statement).stdout == "1\t2\t\t00ff\t0.1\t9223372036854775807\n"


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO parameter VALUES ('x', '1')",
        "DELETE FROM document",
        "UPDATE document SET key = 'x'",
        "DROP TABLE document",
        "CREATE TABLE t (x)",
        "ATTACH '{folder}/other.db' AS other",
        "VACUUM INTO '{folder}/copy.db'",
        "PRAGMA journal_mode=DELETE",
        "PRAGMA user_version",
        "BEGIN IMMEDIATE",
        "SELECT load_extension('{folder}/x')",
        "SELECT 1; DELETE FROM document",
        "SELECT nothing FROM nowhere",
        "",
        "/* only a remark */",
    ],
)
def test_everything_else_is_refused(
    run: Run, index_path: Path, tmp_path: Path, statement: str
) -> None:
    def digests() -> dict[str, str]:
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in index_path.iterdir()
            if not path.name.endswith("-shm")  # nor an empty log: who reads makes both
            and not (path.name.endswith("-wal") and path.stat().st_size == 0)
        }

    before = digests()
    result = run("sql", index_path, statement.format(folder=tmp_path), code=1)
    assert result.stderr.startswith("error: ") and "hint: " in result.stderr
    assert result.stdout == ""
    assert digests() == before
    assert {path.name for path in tmp_path.iterdir()} == {"news.lshdb"}
    assert sound(index_path)


@pytest.mark.sqlite("in its SQL")
def test_no_rows(run: Run, index_path: Path) -> None:
    statement = "SELECT key FROM document WHERE 0"
    assert run("sql", index_path, statement).stdout == ""
    assert run("sql", index_path, statement, "--format", "table").stderr == "no rows\n"
    assert run("sql", index_path, statement, "--format", "csv").stdout == "key\n"


@pytest.mark.parametrize("timeout", [(), ("--timeout", "600")])
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, b"interrupted\n"), (signal.SIGTERM, 143, b"terminated\n")],
)
def test_a_signal_in_the_middle_of_a_long_statement(
    start: Callable[..., subprocess.Popen[bytes]], index_path: Path, timeout: tuple[str, ...],
    number: signal.Signals, code: int, said: bytes,
) -> None:  # fmt: skip
    statement = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000000000) "
        "SELECT count(*) FROM n"
    )
    child = start("sql", index_path, statement, *timeout)
    time.sleep(1.5)  # it is in the database by now, and says nothing by which to tell
    assert child.poll() is None
    child.send_signal(number)
    assert child.wait(timeout=30) == code
    assert child.stderr and child.stderr.read() == said
