"""What ``since`` means: the first batch of what counts as new.

``since`` is a batch's number; ``"last"``, the last add that changed something, with the other adds
of its night; a moment, as a ``datetime``, a date (``"2026-11-22"``) or a time ago (``"8h"``); or
``"@name"``, what a cursor has not seen.

A cursor stands on the newest batch that its reader has seen. It is set only after the answer has
been written, so a reader that fails gets the same pairs again: each at least once, none never.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeAlias

from lshdb.arguments import check_moment, check_name, parse_moment
from lshdb.errors import ParameterError
from lshdb.handle import Listing
from lshdb.signatures.family import Family
from lshdb.storage.tables.records import Cursor, as_timestamp, timestamp
from lshdb.storage.transactions.changes import WriteTransaction
from lshdb.storage.transactions.index_state import IndexState, OpenIndex
from lshdb.storage.transactions.store import Store
from lshdb.storage.transactions.writer import Writer

__all__ = [
    "Since",
    "advance_cursor",
    "check_since",
    "first_new_batch",
    "list_cursors",
    "remove_cursor",
]

Since: TypeAlias = int | str | datetime | None

_FORMS = (
    "a batch's number, 'last', @CURSOR, a date such as 2026-01-31 or 2026-01-31 06:00 (UTC), or a "
    "time ago such as 8h or 7d"
)


def check_since(store: OpenIndex, since: Since) -> None:
    """Raise ParameterError if there is no such batch or cursor, or if the form is unknown.

    Raises
    ------
    ParameterError
    """
    if since is not None and since != "last":
        with store.reading() as snapshot:
            first_new_batch(snapshot, since)


def first_new_batch(snapshot: IndexState, since: Since) -> int | None:
    """Return the number of the first new batch, perhaps one past the newest; None for None.

    Raises
    ------
    ParameterError
        There is no such batch or cursor, the form is unknown, or a moment is before the year 1.
    """
    if since is None:
        return None
    if isinstance(since, datetime):
        return snapshot.batch_from(as_timestamp(check_moment("since", since)), timestamp())
    if isinstance(since, str):
        if since == "last":
            return snapshot.last_add()
        if since.startswith("@"):
            return _cursor(snapshot, since.removeprefix("@")).batch_id + 1
        moment = parse_moment("since", since, _FORMS, now=datetime.now(UTC))
        return snapshot.batch_from(as_timestamp(moment), timestamp())
    newest = snapshot.newest_batch()
    if type(since) is not int or not 1 <= since <= newest:
        raise ParameterError(
            f"there is no batch {since!r}; the index has {newest}",
            hint="lshdb batches lists them",
        )
    return since


def _cursor(snapshot: IndexState, name: str) -> Cursor:
    cursors = {cursor.name: cursor for cursor in snapshot.cursors()}
    if name not in cursors:
        existing = f"; there are {', '.join(cursors)}" if cursors else ""
        raise ParameterError(
            f"there is no cursor {name!r}{existing}",
            hint=f"--since @{name} --advance makes it, and begins with everything; in Python "
            f"index.advance({name!r}, 0)",
        )
    return cursors[name]


def list_cursors(store: Store, _: Family) -> list[Cursor]:
    """Return all cursors, by name."""
    with store.reading() as snapshot:
        return snapshot.cursors()


def advance_cursor(
    store: Store, _: Family, name: str, to: int | Listing[object] | None, *, lock_timeout: float
) -> Cursor:
    """Set a cursor; see :meth:`lshdb.Index.advance`."""
    check_name("name", name)
    if isinstance(to, Listing) and not to.is_of(store):
        raise ParameterError(
            f"the answer is one of another index than {store.path}, whose batches have other "
            "numbers, so the cursor stays where it is",
            hint="advance the cursor of the index that you asked",
        )
    position = to.newest_batch if isinstance(to, Listing) else to
    if position is None and to is not None:
        raise ParameterError(
            "the answer was not read to its end, so the cursor stays where it is",
            hint="iterate over it to the end first; an answer of join or query_many, which know "
            "no since, moves no cursor",
        )

    def work(transaction: WriteTransaction) -> Cursor:
        newest = transaction.snapshot.newest_batch()
        positions = {
            stored_cursor.name: stored_cursor.batch_id
            for stored_cursor in transaction.snapshot.cursors()
        }
        target = newest if position is None else position
        if type(target) is not int or not 0 <= target <= newest:
            raise ParameterError(
                f"there is no batch {target!r}; the index has {newest}",
                hint="lshdb batches lists them; 0 is the beginning",
            )
        if isinstance(to, Listing):  # another reader of this cursor may have come further
            target = max(target, positions.get(name, 0))
        cursor = Cursor(name, target, timestamp())
        if positions.get(name) != target:
            transaction.set_cursor(cursor.name, cursor.batch_id, cursor.advanced_at)
        return cursor

    with Writer(store, lock_timeout=lock_timeout, needs_signatures=False) as writer:
        return writer.commit(work)


def remove_cursor(store: Store, _: Family, name: str, *, lock_timeout: float) -> bool:
    """Remove a cursor; see :meth:`lshdb.Index.remove_cursor`."""
    check_name("name", name)
    with Writer(store, lock_timeout=lock_timeout, needs_signatures=False) as writer:
        return writer.commit(lambda transaction: transaction.remove_cursor(name))
