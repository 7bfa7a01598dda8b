"""However many long texts an index in Postgres has, few are in memory at a time.

The driver holds an answer whole before its first row is seen, so an answer may not have many texts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lshdb import Index
from tests.postgres import PostgresUrl, fresh_schema

PACKED_BYTES, FAMILY = 100_000, 30


def documents() -> Iterator[tuple[str, str]]:
    """Two families of long texts, which compress to half."""
    rng = random.Random(1)
    for family in "ab":
        body = rng.randbytes(PACKED_BYTES).hex()
        for number in range(FAMILY):
            yield f"{family}{number:02d}", f"{body} {number}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, postgres_url: PostgresUrl) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("long") / "x.lshdb"
    with fresh_schema(postgres_url) as schema:
        with Index.create(
            path, database=postgres_url.lshdb, schema=schema, unit="char", k=12, num_perm=32
        ) as index:
            index.add(documents())
        yield path


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the answers that the driver gets, in bytes."""
    sizes: list[int] = []

    def watched(kind: type[Any], name: str) -> None:
        method = getattr(kind, name)

        def call(cursor: Any, *arguments: Any, **options: Any) -> Any:
            result = method(cursor, *arguments, **options)
            got = cursor.pgresult
            sizes.append(
                sum(
                    len(got.get_value(row, column) or b"")
                    for row in range(got.ntuples)
                    for column in range(got.nfields)
                )
                if got is not None
                else 0
            )
            return result

        monkeypatch.setattr(kind, name, call)

    watched(psycopg.RawCursor, "execute")
    watched(psycopg.RawServerCursor, "fetchmany")
    return sizes


QUESTIONS: dict[str, Callable[[Index, Path], object]] = {
    "pairs": lambda index, _: list(index.pairs()),
    "query": lambda index, _: list(index.query(next(documents())[1], top=None)),
    "export": lambda index, folder: index.export(folder / "export"),
    "copy": lambda index, folder: index.copy(folder / "copy"),
    "check": lambda index, _: index.check(),
    "sql": lambda index, _: list(index.sql("SELECT body FROM content").rows),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_of_the_server_has_few_texts(
    question: str, place: Path, tmp_path: Path, answers: list[int]
) -> None:
    with Index.open(place) as index:
        QUESTIONS[question](index, tmp_path)
    assert sum(answers) > FAMILY * PACKED_BYTES, "texts were read"
    assert max(answers) < 2 * 2**20 + 8 * PACKED_BYTES, "a user gets bytes as pairs of digits"
