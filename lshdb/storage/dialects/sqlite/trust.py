"""Whether a database has what its schema revision should have, checked before anything else.

A database from elsewhere can hold more than data: an endless view instead of ``posting`` or
``state``; a trigger on ``document`` that deletes what an add has just written. So ``sqlite_master``
is read first, and compared:

* There is no trigger.
* Anything with one of our names is what the migrations make, word by word (``new_schema.py``;
  blanks and quotes depend on which program wrote it, SQLAlchemy or SQLite).
* The table ``band`` has a column a band, and the views over it are those of as many bands
  (``tables/band_schema.py`` says the same by SQLAlchemy; a test compares).

Tables, views and indexes with the user's own names are allowed and never touched. That includes
indexes on our tables: an index changes no answer, SQLite calls no harmful function from a schema
(``trusted_schema`` is off), and ``integrity_check`` compares it.

If the revision is unknown, or a damaged index is to be repaired, only what would run is refused:
triggers, and views instead of tables.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from lshdb.storage.dialects.sqlite.new_schema import STATEMENTS
from lshdb.storage.tables.migrations import SCHEMA_REVISION
from lshdb.storage.tables.stored_columns import band_columns

__all__ = [
    "REVISION_TABLE",
    "Objects",
    "band_statements",
    "foreign_object",
    "words_of",
]

REVISION_TABLE = "alembic_version"

Objects = dict[str, tuple[str, str]]
"""By name: type and words of the statement."""

_WORD = re.compile(r"'(?:[^']|'')*'|[^\W]+|[^\s\w\"]")


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


_BAND_COLUMN = re.compile(r"\bb\d+ INTEGER")
_MADE = re.compile(r"CREATE (?:UNIQUE )?(TABLE|INDEX|VIEW) (\w+)")


def _made(statements: Iterable[str]) -> Objects:
    return {
        match[2].lower(): (match[1].lower(), words_of(match.string))
        for match in map(_MADE.match, statements)
        if match is not None
    }


_OBJECTS = _made(STATEMENTS)
"""What the migrations make."""


def band_statements(bands: int) -> tuple[str, ...]:
    """Return what makes the table ``band`` with this number of bands, and the views over it."""
    columns = list(enumerate(band_columns(bands)))
    number = "SELECT CAST({0} AS INTEGER) AS band, {1} AS bucket, "
    arm = number + "signature_id FROM band"
    group = number + "count(*) AS size FROM band GROUP BY {1}"
    return (
        "CREATE TABLE band (signature_id INTEGER NOT NULL, "
        f"{' '.join(f'{name} INTEGER,' for _, name in columns)} "
        "CONSTRAINT pk_band PRIMARY KEY (signature_id))",
        "CREATE VIEW posting AS " + " UNION ALL ".join(arm.format(*column) for column in columns),
        "CREATE VIEW bucket AS " + " UNION ALL ".join(group.format(*column) for column in columns),
        "CREATE VIEW bucket_size AS SELECT band, size, count(*) AS n_buckets "
        "FROM bucket GROUP BY band, size",
        "CREATE VIEW document_bucket AS SELECT document.key, document.doc_id, "
        "document.signature_id, document.batch_id, posting.band, posting.bucket "
        "FROM document JOIN posting ON posting.signature_id = document.signature_id",
    )


@functools.cache
def _band_objects(bands: int) -> Objects:
    return _made(band_statements(bands))


def foreign_object(
    rows: Iterable[tuple[object, object, object]], revision: object, *, is_damaged: bool = False
) -> str | None:
    """Describe the first object that is not as lshdb makes it; None if all are.

    Parameters
    ----------
    rows : iterable of (type, name, sql)
        Rows of ``sqlite_master``.
    revision : object
        The value in ``alembic_version``; None before it is known.
    is_damaged : bool
        Refuse only what would run.
    """
    objects: dict[str, tuple[str, str]] = {}
    for kind, name, sql in rows:
        if not (isinstance(kind, str) and isinstance(name, str)):
            return f"has an object {name!r} that is not valid"
        if kind == "trigger":
            return f"has the trigger {name}; an index has none"
        objects[name.lower()] = (kind, sql if isinstance(sql, str) else "")
    is_known = revision == SCHEMA_REVISION and not is_damaged
    n_bands = len(_BAND_COLUMN.findall(objects.get("band", ("", ""))[1])) if is_known else 1
    for name, (kind, words) in {**_OBJECTS, **_band_objects(n_bands or 1)}.items():
        if name not in objects:
            if is_known:
                return f"lacks the {kind} {name}"
            continue
        if kind != "table" and not is_known:
            continue
        actual, sql = objects[name]
        actual_words = words_of(sql)
        is_virtual = actual_words.upper().startswith("CREATE VIRTUAL")
        if actual != kind or (is_virtual and not is_known):
            return f"has a {'virtual table' if is_virtual else actual} {name}; expected a {kind}"
        if is_known and actual_words != words:
            return f"has a {kind} {name} that lshdb did not make: {actual_words[:200]}"
    return None
