"""Whether a database has what its schema revision should have, checked before anything else.

A database from elsewhere can hold more than data: an endless view instead of ``posting`` or
``state``; a trigger on ``document`` that deletes what an add has just written. So ``sqlite_master``
is read first, and compared:

* There is no trigger.
* Anything with one of our names is what the migrations make, word by word (``frozen_schemas.py``;
  blanks and quotes depend on which program wrote it, SQLAlchemy or SQLite).
* Tables of posting runs have their two columns, and the view ``posting`` shows such tables.

Tables, views and indexes with the user's own names are allowed and never touched. That includes
indexes on our tables: an index changes no answer, SQLite calls no harmful function from a schema
(``trusted_schema`` is off), and ``integrity_check`` compares it.

If the revision is unknown, or a damaged index is to be repaired, only what would run is refused:
triggers, and views instead of tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lshdb.storage.dialects.base import BAND_SQL, BUCKET_SQL, NOT_CONTENT_SQL
from lshdb.storage.dialects.sqlite.frozen_schemas import FROZEN

__all__ = [
    "REVISION_TABLE",
    "Objects",
    "foreign_object",
    "own_objects",
    "words_of",
]

REVISION_TABLE = "alembic_version"

Objects = dict[str, tuple[str, str]]
"""By name: type and words of the statement."""

_WORD = re.compile(r"'(?:[^']|'')*'|[^\W]+|[^\s\w\"]")
_RUN_NAME = re.compile(r"posting_run_\d{1,19}")


def words_of(sql: str) -> str:
    """Return a statement without differences in blanks and quotes of names.

    The bucket keys of format 1 were laid out in another way; its views read like today's.
    """
    words = " ".join(_WORD.findall(sql))
    for format1, today in _LAYOUTS.items():
        words = words.replace(format1, today)
    return words


_LAYOUTS = {
    " > > 56 & 255": " > > 32",
    f" & {2**56 - 1} ": f" & {2**32 - 1} ",
    f" NOT BETWEEN - {2**56} AND - 1": f" < {255 << 32}",
}


_RUN = re.compile(
    r"CREATE TABLE \w+ \( bucket_key \w+( NOT NULL)? , signature_id \w+( NOT NULL)?"
    r"( , PRIMARY KEY \( bucket_key , signature_id \))? \)( WITHOUT ROWID)?"
)
"""Two columns, and nothing computed; ``check`` finds what else keeps a table from being a run."""
_POSTING_TYPES = "SELECT band, bucket, bucket_key, signature_id FROM no_posting"
"""The first part of the view ``posting``: an empty table, whose columns have types."""
_TYPED_COLUMNS = (
    f"CAST({BAND_SQL} AS INTEGER) AS band, CAST({BUCKET_SQL} AS INTEGER) AS bucket, "
    "bucket_key, signature_id"
)
"""The columns of the other parts; ``storage/tables/run_tables.py`` makes them."""
_NO_POSTING = words_of(
    "CREATE VIEW posting AS SELECT 0 AS band, 0 AS bucket, 0 AS bucket_key, 0 AS signature_id "
    "WHERE 0"
)
_ARM = words_of(f"SELECT {BAND_SQL} AS band, {BUCKET_SQL} AS bucket, bucket_key, signature_id FROM")
_TYPED_ARM = words_of(f"SELECT {_TYPED_COLUMNS} FROM")
_CONDITION = words_of(f"WHERE {NOT_CONTENT_SQL}")
_ONE_ARM = re.compile(
    rf"({re.escape(_ARM)}|{re.escape(_TYPED_ARM)}) (posting_run_\d+) {re.escape(_CONDITION)}"
)
_VIEW = words_of("CREATE VIEW posting AS") + " "


def own_objects(rows: Iterable[tuple[str, str, str | None]]) -> Objects:
    """Return the objects with our names, except those that are made as the index grows."""
    return {
        name.lower(): (kind, words_of(sql))
        for kind, name, sql in rows
        if sql is not None and not _RUN_NAME.fullmatch(name.lower()) and name != "posting"
    }


def foreign_object(
    rows: Iterable[tuple[object, object, object]], revision: object, *, is_damaged: bool = False
) -> str | None:
    """Describe what is not as it should be; None if everything is.

    Parameters
    ----------
    rows : iterable of (type, name, sql)
        Rows of ``sqlite_master``.
    revision : object
        The value in ``alembic_version``; None before it is known.
    is_damaged : bool
        Refuse only what would run.
    """
    there: dict[str, tuple[str, str | None]] = {}
    for kind, name, sql in rows:
        if not (isinstance(kind, str) and isinstance(name, str)):
            return f"has an object {name!r} that is not valid"
        if kind == "trigger":
            return f"has the trigger {name}; an index has none"
        there[name.lower()] = (kind, sql if isinstance(sql, str) else None)
    expected = FROZEN.get(revision) if isinstance(revision, str) else None
    names = _TABLES if expected is None or is_damaged else expected
    for name in names:
        fault = _fault(there, name, None if names is _TABLES else expected)
        if fault:
            return fault
    return _run_fault(there)


_TABLES = sorted(
    {name for one in FROZEN.values() for name, (kind, _) in one.items() if kind == "table"}
)


def _fault(
    there: dict[str, tuple[str, str | None]], name: str, expected: Objects | None
) -> str | None:
    found = there.get(name)
    if expected is None:
        if found is not None and (found[0] != "table" or _is_virtual(found[1])):
            return f"has a {_named(*found)} {name}; expected a table"
        return None
    kind, words = expected[name]
    if found is None:
        return f"lacks the {kind} {name}"
    if found[0] != kind:
        return f"has a {_named(*found)} {name}; expected a {kind}"
    if found[1] is None or words_of(found[1]) != words:
        return f"has a {kind} {name} that lshdb did not make: {words_of(found[1] or '')[:200]}"
    return None


def _run_fault(there: dict[str, tuple[str, str | None]]) -> str | None:
    """Describe what is wrong with the tables of runs, and the view over them."""
    for name, (kind, sql) in there.items():
        if _RUN_NAME.fullmatch(name) and (
            kind != "table" or not _RUN.fullmatch(words_of(sql or ""))
        ):
            return f"has a {kind} {name} that lshdb did not make"
    kind, sql = there.get("posting", ("view", None))
    if kind != "view" or (sql is not None and not _is_posting(words_of(sql), there)):
        return f"has a {kind} posting that lshdb did not make"
    return None


def _is_posting(words: str, there: dict[str, tuple[str, str | None]]) -> bool:
    if words == _NO_POSTING:
        return True
    if not words.startswith(_VIEW):
        return False
    arms = words.removeprefix(_VIEW).split(" UNION ALL ")
    if arms[0] == words_of(_POSTING_TYPES):  # from schema 0006 on
        del arms[0]
    found = [_ONE_ARM.fullmatch(arm) for arm in arms]
    return all(one is not None and one[2] in there for one in found)


def _is_virtual(sql: str | None) -> bool:
    return sql is not None and words_of(sql).upper().startswith("CREATE VIRTUAL")


def _named(kind: str, sql: str | None) -> str:
    return "virtual table" if _is_virtual(sql) else kind
