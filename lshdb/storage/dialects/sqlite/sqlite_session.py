"""One open transaction on an SQLite database: its statements, its posting runs, a check of columns.

Lists of values travel as one JSON parameter (``json_each``), so that the text of a statement, and
with it the prepared statement, does not depend on their number.

A posting run is one table, in key order, and the view ``posting`` is over them all. A compound
SELECT has at most 500 arms, so there are never more runs than that.

The check looks for values of undeclared types: SQLite stores any value in any column, and so does
damage.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sqlite3
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from lshdb.arrays import np
from lshdb.params.bucket_layout import CONTENT_BAND, range_of_band
from lshdb.storage.dialects.base import (
    BAND_SQL,
    NOT_CONTENT_SQL,
    NUMBERS,
    Database,
    RunTables,
    Session,
)
from lshdb.storage.dialects.sqlite.connections import Connection, copy_database
from lshdb.storage.place.own_files import new_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lshdb.storage.dialects.sqlite.sqlite_database import SqliteDatabase

__all__ = ["SqliteRunTables", "SqliteSession"]

PARAMETERS_A_STATEMENT = 2_000 if sqlite3.sqlite_version_info >= (3, 32) else 999
"""More gain nothing: preparing a statement takes 0.6 us a parameter."""

STAGE = "stage"
"""Name of the attached database from which rows are copied."""
_FEW_ROWS = 1_000
_STATE_SQL = (
    "SELECT signature_file, n_signatures, next_doc_id, (SELECT group_concat(table_name) FROM "
    "(SELECT table_name FROM run ORDER BY run_id)), (SELECT group_concat(value) FROM parameter "
    "WHERE name IN ('bands', 'recall', 'rows', 'threshold') ORDER BY name) FROM state"
)


class SqliteSession(Session):
    """One open transaction; the connection is the driver's."""

    database: SqliteDatabase

    def __init__(
        self, database: SqliteDatabase, connection: Connection | Any, *, is_reader: bool
    ) -> None:
        super().__init__(database, is_reader=is_reader)
        self._connection = connection
        self._run = connection.execute

    @functools.cached_property
    def run_tables(self) -> SqliteRunTables:
        """The posting runs in this transaction."""
        return SqliteRunTables(self)

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Any]:
        """Run one statement; SQLite computes rows as they are taken anyway."""
        rows: Iterator[Any] = self.execute(sql, parameters)
        return rows

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement once for each row of parameters."""
        self._connection.executemany(sql, rows)

    def insert_rows(
        self,
        table: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        or_ignore: bool = False,
    ) -> None:
        """Insert rows, several per statement: a quarter to a third faster than executemany.

        OR FAIL spares the copy of every changed page that SQLite would keep to undo the statement
        alone: an error undoes the whole transaction.
        """
        part = iter(rows)
        execute = self._connection.execute
        into = f"OR {'IGNORE' if or_ignore else 'FAIL'} INTO {table}"
        step = PARAMETERS_A_STATEMENT // len(columns)
        whole = _insertion(into, columns, step)
        while taken := list(itertools.islice(part, step)):
            statement = whole if len(taken) == step else _insertion(into, columns, len(taken))
            execute(statement, list(itertools.chain.from_iterable(taken)))

    def insert_columns(
        self, table: str, names: Sequence[str], columns: Sequence[Sequence[Any]]
    ) -> None:
        """Insert rows; many of them without the interpreter's lock, few as :meth:`insert_rows`."""
        if len(columns[0]) > _FEW_ROWS and self.stages:
            columns = self._insert_staged(table, names, columns)
        width, n_rows = len(names), len(columns[0])
        step = PARAMETERS_A_STATEMENT // width
        into = f"OR FAIL INTO {table}"
        whole = _insertion(into, names, min(step, n_rows))
        for start in range(0, n_rows, step):
            count = min(step, n_rows - start)
            flat: list[Any] = [None] * (count * width)
            for place, column in enumerate(columns):
                flat[place::width] = column[start : start + count]
            statement = whole if count == step else _insertion(into, names, count)
            self._connection.execute(statement, flat)

    def _insert_staged(
        self, table: str, names: Sequence[str], columns: Sequence[Sequence[Any]]
    ) -> Sequence[Sequence[Any]]:
        """Insert the rows that can be staged; return the others."""
        from lshdb.storage.dialects.sqlite import staged_rows as staged

        made = staged.database_of_rows(names, columns)
        if made is None:
            return columns
        database, left = made
        self.stage(database)
        del database
        try:
            self.execute(
                f"INSERT OR FAIL INTO {table} ({', '.join(names)}) "
                f"SELECT * FROM {STAGE}.{staged.STAGED_ROWS}"
            )
        finally:  # detaching would have to wait for the end of the transaction
            self.unstage()
        return [[column[place] for place in left] for column in columns]

    def insert_pairs(self, table: str, columns: tuple[str, str], pairs: NDArray[np.int64]) -> None:
        """Insert rows of two whole numbers, shape (n, 2): three times as fast as executemany."""
        step = PARAMETERS_A_STATEMENT // 2
        into = f"OR FAIL INTO {table}"
        whole = _insertion(into, columns, step)
        execute = self._connection.execute
        for start in range(0, len(pairs), step):
            part = pairs[start : start + step]
            rest = whole if len(part) == step else _insertion(into, columns, len(part))
            execute(rest, part.reshape(-1).tolist())

    @functools.cached_property
    def stages(self) -> bool:
        """Whether :meth:`stage` can be called: not if SQLite was compiled without that."""
        return hasattr(self._connection, "deserialize")

    def stage(self, database: NDArray[np.uint8]) -> None:
        """Attach a database in memory, in place of the one before; SQLite makes its own copy."""
        names = {name for _, name, _ in self.execute("PRAGMA database_list")}
        if STAGE not in names:
            self.execute(f"ATTACH ':memory:' AS {STAGE}")
        self._connection.deserialize(database.data, name=STAGE)

    def unstage(self) -> None:
        """Free what is attached; a file is closed."""
        from lshdb.storage.dialects.sqlite.staged_database import empty_database

        self.stage(empty_database())

    @contextlib.contextmanager
    def staged_file(self, path: Path) -> Iterator[None]:
        """Attach a database file in place of the one before; only in the block."""
        self.unstage()  # one that this transaction has read cannot be detached
        self.execute(f"DETACH {STAGE}")
        self.execute(f"ATTACH ? AS {STAGE}", (str(path),))
        try:
            yield
        finally:
            self.unstage()

    def in_list(self, column: str) -> str:
        """Return a condition: the column is one of the values in the encoded list."""
        return f"{column} IN (SELECT value FROM json_each(?))"

    def listed(self) -> str:
        """Return a table of the values in the encoded list."""
        return "json_each(?) AS listed"

    def encode_list(self, values: Iterable[Any] | NDArray[np.int64]) -> str:
        """Encode values as JSON."""
        if isinstance(values, np.ndarray):
            return orjson.dumps(
                np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY
            ).decode()
        return orjson.dumps(list(values)).decode()

    def state(self) -> tuple[str, int, int, str, str] | None:
        """Return what a snapshot begins with, in one statement.

        A reader keeps it for as long as nobody commits: it takes 12 us, and more pages.
        """
        connection = self._connection
        if self.is_reader and connection.kept and connection.kept[0] == connection.version:
            kept: tuple[str, int, int, str, str] = connection.kept[1]
            return kept
        row = self.execute(_STATE_SQL).fetchone()
        if row is None:
            return None
        state = (*row[:3], row[3] or "", row[4])
        if self.is_reader:
            connection.kept = connection.version, state
        return state

    def structure(self) -> Iterator[str]:
        """Yield findings of SQLite's own check of its pages and indexes."""
        for (finding,) in self.execute("PRAGMA integrity_check"):
            if finding != "ok":
                yield str(finding)

    def misplaced_values(self) -> Iterator[str]:
        """Yield findings: columns with values of another type, or numbers of missing signatures.

        One pass over every table, the small ones and those of documents before the posting runs.
        """
        tables = self.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' "
            "ORDER BY name LIKE 'posting_run_%', name"
        ).fetchall()
        for (table,) in tables:
            columns = self.execute(f'PRAGMA table_info("{table}")').fetchall()
            conditions = {
                name: _is_wrong(name, declared, may_be_null=not (not_null or key))
                for _, name, declared, not_null, _, key in columns
                if declared.startswith(tuple(_TYPES))
            }
            counts = ", ".join(f"sum({condition})" for condition in conditions.values())
            if not conditions:
                continue
            row = self.execute(f'SELECT {counts} FROM "{table}"').fetchone()
            for name, count in zip(conditions, row, strict=True):
                if count:
                    yield f"{count} values in the column {name} of the table {table} are impossible"

    def free_bytes(self) -> int:
        """Return the bytes of pages that hold nothing."""
        row = self.execute(
            "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"
        ).fetchone()
        return int(row[0])

    def keys_by_index(self) -> Iterator[tuple[int, str]]:
        """Yield (doc_id, key); the index of a unique column holds its values once more."""
        rows: Iterator[tuple[int, str]] = self.execute(
            "SELECT doc_id, key FROM document INDEXED BY sqlite_autoindex_document_1"
        )
        return rows

    def copy_whole(self, target: Database) -> bool:
        """Copy the file as this transaction sees it, if the target is a file too."""
        if not isinstance(target, type(self.database)):
            return False
        copy_database(self._connection, target.path)
        return True


def _insertion(into: str, columns: Sequence[str], n_rows: int) -> str:
    """Return an INSERT of this many rows at once."""
    row = "(" + ",".join("?" * len(columns)) + ")"
    return f"INSERT {into} ({', '.join(columns)}) VALUES " + ",".join([row] * n_rows)


_FEW_POSTINGS = 20_000
_MEMORY_POSTINGS = 1_000_000
"""More are staged in a file. In memory they take 17 bytes each, and 17 more in SQLite's copy."""
_FEW_KEYS = 256
_FIRST_KEY, _LAST_KEY = -(2**63), 2**63 - 1
Ids: TypeAlias = "NDArray[np.int64]"
_Block: TypeAlias = "tuple[Ids, Ids]"


class SqliteRunTables(RunTables):
    """The tables of posting runs, inside one transaction."""

    posting_bytes = 16
    # A key of 8 bytes, a signature id of 1 to 5, their types, a share of a page.
    merged_at_once = 16
    # As sorted streams, 1.7 M postings/s. More go through an external sort, 0.54 M/s, because the
    # streams of a compound SELECT are nested.

    def __init__(self, session: SqliteSession) -> None:
        self._session = session

    # Writing

    def create(self, run_id: int, table: str, *, is_active: bool) -> None:
        """Make a table that is a B-tree in key order and nothing else."""
        from lshdb.storage.tables.run_tables import sqlite_run

        self._session.execute(sqlite_run(table))

    def insert(self, run_id: int, table: str, keys: Ids, signature_ids: Ids) -> None:
        """Insert sorted postings; many of them without the interpreter's lock."""
        if not (len(keys) > _FEW_POSTINGS and self._session.stages):
            pairs = np.column_stack([keys, signature_ids])
            self._session.insert_pairs(table, ("bucket_key", "signature_id"), pairs)
            return
        from lshdb.storage.dialects.sqlite import staged_postings as staged
        from lshdb.storage.tables.run_tables import sqlite_run

        statement = sqlite_run(staged.STAGED_TABLE)
        self._session.stage(staged.database_of_postings(statement, keys, signature_ids))
        try:
            self._copy_staged(table)
        finally:  # detaching would have to wait for the end of the transaction
            self._session.unstage()

    def load(self, run_id: int, table: str, blocks: Iterable[_Block], *, below: int) -> None:
        """Insert sorted postings into a new run, by one statement.

        SQLite copies records as they are only into an empty table; another statement would insert
        one by one, in half as much time again. So where there are many, a file takes them first.
        """
        blocks = iter(blocks)
        held: deque[_Block] = deque()
        while sum(len(keys) for keys, _ in held) <= _MEMORY_POSTINGS:
            block = next(blocks, None)
            if block is None:
                if held:
                    self.insert(run_id, table, *map(np.concatenate, zip(*held, strict=True)))
                return
            held.append(block)
        blocks = itertools.chain(_emptied(held), blocks)
        path = self._session.database.staging
        if path is None or not self._session.stages:
            super().load(run_id, table, blocks, below=below)
            return
        from lshdb.storage.dialects.sqlite import staged_postings as staged
        from lshdb.storage.tables.run_tables import sqlite_run

        with new_file(path) as descriptor:
            statement = sqlite_run(staged.STAGED_TABLE)
            staged.write_database(descriptor, statement, blocks, below=below)
            with self._session.staged_file(path):
                self._copy_staged(table)

    def _copy_staged(self, table: str) -> None:
        """Insert what is staged.

        SELECT * lets SQLite copy records as they are, if the table is empty. OR FAIL spares the
        copies of pages that it would keep to undo the statement alone.
        """
        from lshdb.storage.dialects.sqlite.staged_postings import STAGED_TABLE

        self._session.execute(f"INSERT OR FAIL INTO {table} SELECT * FROM {STAGE}.{STAGED_TABLE}")

    def merge(self, run_id: int, target: str, sources: Sequence[str]) -> None:
        """Insert all postings of some runs into a new one, in key order."""
        arms = _arms(sources, "")
        if len(sources) > self.merged_at_once:
            arms = f"SELECT bucket_key, signature_id FROM ({arms})"
        self._session.execute(f"INSERT INTO {target} {arms} ORDER BY 1, 2")

    def complete(self, run_id: int, table: str) -> None:
        """Do nothing: the table is its own index."""

    def publish(self, tables: Sequence[str]) -> None:
        """Make the view ``posting`` again over these runs."""
        from lshdb.storage.tables.run_tables import sqlite_view

        for statement in sqlite_view(tables):
            self._session.execute(statement)

    def retire(self, tables: Sequence[str]) -> None:
        """Drop tables; readers that began before still see them."""
        from lshdb.storage.tables.run_tables import sqlite_drop_run

        for table in tables:
            self._session.execute(sqlite_drop_run(table))

    def bucket_sizes(self, table: str) -> list[tuple[int, int, int]]:
        """Count shared buckets by size; the rest of a band's postings are alone in theirs.

        Nearly all buckets hold one posting, and sorting them by band and size took two thirds of
        the time: .31 s for 460,000 postings, and .16 s so.
        """
        sizes: list[tuple[int, int, int]] = self._session.execute(
            f"SELECT band, size, count(*) FROM (SELECT {BAND_SQL} AS band, count(*) AS size "
            f"FROM {table} WHERE {NOT_CONTENT_SQL} GROUP BY bucket_key HAVING count(*) > 1) "
            "GROUP BY band, size"
        ).fetchall()
        shared: Counter[int] = Counter()
        for band, size, n_buckets in sizes:
            shared[band] += size * n_buckets
        for band in range(CONTENT_BAND):
            (count,) = self._session.execute(
                f"SELECT count(*) FROM {table} WHERE bucket_key BETWEEN ? AND ?",
                range_of_band(band),
            ).fetchone()
            if count > shared[band]:
                sizes.append((band, 1, count - shared[band]))
        return sizes

    # Reading

    def names(self) -> set[str]:
        """Return the names of the tables."""
        rows = self._session.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'posting_run_[0-9]*'"
        )
        return {name for (name,) in rows}

    def counts(self, table: str, keys: Ids) -> dict[int, int]:
        """Return the number of postings of some buckets; one look-up each."""
        rows = self._session.execute(
            f"SELECT bucket_key, count(*) FROM {table} "
            f"WHERE {self._session.in_list('bucket_key')} GROUP BY bucket_key",
            (self._session.encode_list(keys),),
        )
        return dict(iter(rows))

    def of(self, tables: Sequence[str], keys: Ids) -> tuple[Ids, Ids]:
        """Return the postings of some buckets; one look-up a key and run.

        CROSS JOIN keeps a long list outside, and its keys are looked up as they come. IN would
        first put them into a separate table, again for each run, which takes a third of the time.
        """
        if len(keys) <= _FEW_KEYS:
            marks = ",".join(f"?{number + 1}" for number in range(len(keys)))
            sql = _arms(tables, f" WHERE bucket_key IN ({marks})")
            rows = self._session.execute(sql, tuple(keys.tolist()))
        else:
            sql = " UNION ALL ".join(
                f"SELECT bucket_key, signature_id FROM json_each(?1) CROSS JOIN {table} "
                "ON bucket_key = value"
                for table in tables
            )
            rows = self._session.execute(sql, (self._session.encode_list(keys),))
        flat = np.fromiter(itertools.chain.from_iterable(rows.fetchall()), dtype=np.int64)
        return flat[0::2], flat[1::2]

    def members(self, tables: Sequence[str], keys: Ids) -> Ids:
        """Return the signature ids of some buckets, fetched as one text.

        5,600 buckets of 63,000 postings take 38 ms; rows as in :meth:`of` take 81.
        """
        sql = " UNION ALL ".join(
            f"SELECT signature_id FROM json_each(?1) CROSS JOIN {table} ON bucket_key = value"
            for table in tables
        )
        (found,) = self._session.execute(
            f"SELECT group_concat(signature_id) FROM ({sql})", (self._session.encode_list(keys),)
        ).fetchone()
        return np.array(found.split(",") if found else [], dtype=np.int64)

    def shared(self, tables: Sequence[str], first: int, last: int, *, above: int = 1) -> Ids:
        """Return the postings of shared buckets in a range, fetched as one text.

        It is one value rather than a row a bucket, because the driver gives up the interpreter's
        lock for each row and must get it back. Keys are grouped first, then the members of the few
        shared ones are looked up: two thirds of the time of gathering members while grouping.
        """
        return self._shared(tables, "bucket_key BETWEEN ?1 AND ?2", (first, last), above)

    def shared_of(self, tables: Sequence[str], keys: Ids) -> Ids:
        """Return the postings of those of some buckets that are shared."""
        condition = "bucket_key IN (SELECT value FROM json_each(?1))"
        return self._shared(tables, condition, (self._session.encode_list(keys),))

    def _shared(
        self, tables: Sequence[str], condition: str, parameters: tuple[Any, ...], above: int = 1
    ) -> Ids:
        keys = " UNION ALL ".join(
            f"SELECT bucket_key FROM {table} WHERE {condition}" for table in tables
        )
        members = " UNION ALL ".join(
            f"SELECT shared.bucket_key || ',' || {table}.signature_id AS posting "
            f"FROM shared CROSS JOIN {table} ON {table}.bucket_key = shared.bucket_key"
            for table in tables
        )
        (groups,) = self._session.execute(
            f"WITH shared AS MATERIALIZED (SELECT bucket_key FROM ({keys}) "
            f"GROUP BY bucket_key HAVING count(*) > {above:d}) "
            f"SELECT group_concat(posting) FROM ({members})",
            parameters,
        ).fetchone()
        flat = np.array(groups.split(",") if groups else [], dtype=np.int64).reshape(-1, 2)
        return flat[np.lexsort((flat[:, 1], flat[:, 0]))]

    def between(self, table: str, first: int, last: int, *, block: int) -> Iterator[Ids]:
        """Yield the postings of a run in a range, each block fetched as two texts.

        .25 us a posting, of which half is without the interpreter's lock; rows take .59.
        """
        below = "" if last == _LAST_KEY else f"AND bucket_key <= {last:d} "  # text is above it
        sql = (
            "SELECT json_group_array(bucket_key), json_group_array(signature_id) FROM "
            f"(SELECT bucket_key, signature_id FROM {table} WHERE (bucket_key, signature_id) > "
            f"(?, ?) {below}ORDER BY 1, 2 LIMIT {block:d})"
        )
        after = first, _FIRST_KEY
        while True:
            columns = map(orjson.loads, self._session.execute(sql, after).fetchone())
            keys, signature_ids = map(np.array, columns)
            if not len(keys):
                return
            if keys.dtype != np.int64 or signature_ids.dtype != np.int64:
                raise ValueError(f"the table {table} holds values that are no whole numbers")
            yield np.column_stack([keys, signature_ids])
            before, after = after, (int(keys[-1]), int(signature_ids[-1]))
            if after <= before:
                raise ValueError(f"the table {table} is not in order")

    def in_order(self, tables: Sequence[str], *, contents: bool, block: int) -> Iterator[Ids]:
        """Yield every posting in order, from merged streams or, if there are many, a sort."""
        arms = _arms(tables, "" if contents else f" WHERE {NOT_CONTENT_SQL}")
        if len(tables) > self.merged_at_once:
            arms = f"SELECT bucket_key, signature_id FROM ({arms})"
        rows = self._session.execute(f"{arms} ORDER BY 1, 2")
        while taken := list(itertools.islice(rows, block)):
            flat = itertools.chain.from_iterable(taken)
            yield np.fromiter(flat, dtype=np.int64, count=2 * len(taken)).reshape(-1, 2)


def _emptied(held: deque[_Block]) -> Iterator[_Block]:
    while held:
        yield held.popleft()


def _arms(tables: Sequence[str], condition: str) -> str:
    head = "SELECT bucket_key, signature_id FROM "
    return head + f"{condition} UNION ALL {head}".join(tables) + condition


_TYPES = {
    "INTEGER": "'integer'", "BOOLEAN": "'integer'", "TEXT": "'text'", "VARCHAR(32)": "'text'",
    "BLOB": "'blob'", "FLOAT": "'real', 'integer'",
}  # fmt: skip


def _is_wrong(name: str, declared: str, *, may_be_null: bool) -> str:
    types = _TYPES[declared] + (", 'null'" if may_be_null else "")
    wrong = f"typeof({name}) NOT IN ({types})"
    if name in NUMBERS:
        first, last = NUMBERS[name]
        wrong += f" OR coalesce((SELECT {name} NOT BETWEEN {first} AND {last} FROM state), 0)"
    return wrong
