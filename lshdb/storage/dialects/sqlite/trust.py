"""Whether a database has what its schema revision should have, before anything else is asked of it.

A database that came from elsewhere can be planted with more than data: a view without end in the
place of ``posting`` or ``state``, which would be asked for ever; a trigger on ``document`` that
deletes what an add has just written. So ``sqlite_master`` is read first, and compared:

* There is no trigger.
* What has one of our names is what the migrations make, word by word (``frozen_schemas.py``; how
  blanks and quotes stand depends on who wrote it, SQLAlchemy or SQLite).
* Tables of posting runs have their two columns, and the view ``posting`` shows such tables.

Tables, views and indexes under names of the user's own are allowed and never touched. That holds
for indexes on our tables, too: an index changes no answer, SQLite calls no function from a schema
that could do harm (``trusted_schema`` is off), and ``integrity_check`` compares it.

Of a revision that is not known, or where a damaged index is to be repaired, only that is refused
which would run: triggers, and views in the place of tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lshdb.storage.dialects.run_tables import BAND_SQL, BUCKET_SQL, NOT_CONTENT_SQL
from lshdb.storage.dialects.sqlite.frozen_schemas import FROZEN

__all__ = ["REVISION_TABLE", "Objects", "foreign_object", "own_objects", "words_of"]

REVISION_TABLE = "alembic_version"

Objects = dict[str, tuple[str, str]]
"""By name: type and words of the statement."""

_WORD = re.compile(r"'(?:[^']|'')*'|[^\W]+|[^\s\w\"]")
_RUN_NAME = re.compile(r"posting_run_\d{1,19}")


def words_of(sql: str) -> str:
    """A statement without what blanks and quotes of names may differ in."""
    return " ".join(_WORD.findall(sql))


_RUN = re.compile(
    r"CREATE TABLE \w+ \( bucket_key \w+( NOT NULL)? , signature_id \w+( NOT NULL)?"
    r"( , PRIMARY KEY \( bucket_key , signature_id \))? \)( WITHOUT ROWID)?"
)
"""Two columns, and nothing that is worked out; what is no run of ours otherwise ``check`` says."""
_NO_POSTING = words_of(
    "CREATE VIEW posting AS SELECT 0 AS band, 0 AS bucket, 0 AS bucket_key, 0 AS signature_id "
    "WHERE 0"
)
_ARM = words_of(f"SELECT {BAND_SQL} AS band, {BUCKET_SQL} AS bucket, bucket_key, signature_id FROM")
_CONDITION = words_of(f"WHERE {NOT_CONTENT_SQL}")
_ONE_ARM = re.compile(rf"{re.escape(_ARM)} (posting_run_\d+) {re.escape(_CONDITION)}")
_VIEW = words_of("CREATE VIEW posting AS") + " "


def own_objects(rows: Iterable[tuple[str, str, str | None]]) -> Objects:
    """What of ``type, name, sql`` has one of our names, and is not made as the index grows."""
    return {
        name.lower(): (kind, words_of(sql))
        for kind, name, sql in rows
        if sql is not None and not _RUN_NAME.fullmatch(name.lower()) and name != "posting"
    }


def foreign_object(
    rows: Iterable[tuple[object, object, object]], revision: object, *, is_damaged: bool = False
) -> str | None:
    """What is not as it should be, in words; None where all is.

    Parameters
    ----------
    rows : iterable of (type, name, sql)
        Of ``sqlite_master``.
    revision : object
        What ``alembic_version`` says; None before that is known.
    is_damaged : bool
        Refuse only what would run.
    """
    there: dict[str, tuple[str, str | None]] = {}
    for kind, name, sql in rows:
        if not (isinstance(kind, str) and isinstance(name, str)):
            return f"has an object {name!r} that cannot be"
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
            return f"has a {_named(*found)} {name}; expected is a table"
        return None
    kind, words = expected[name]
    if found is None:
        return f"lacks the {kind} {name}"
    if found[0] != kind:
        return f"has a {_named(*found)} {name}; expected is a {kind}"
    if found[1] is None or words_of(found[1]) != words:
        return f"has a {kind} {name} that lshdb did not make: {words_of(found[1] or '')[:200]}"
    return None


def _run_fault(there: dict[str, tuple[str, str | None]]) -> str | None:
    """What is wrong with the tables of runs, and the view over them."""
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
    found = [_ONE_ARM.fullmatch(arm) for arm in arms]
    return all(one is not None and one[1] in there for one in found)


def _is_virtual(sql: str | None) -> bool:
    return sql is not None and words_of(sql).upper().startswith("CREATE VIRTUAL")


def _named(kind: str, sql: str | None) -> str:
    return "virtual table" if _is_virtual(sql) else kind
