"""An open index, how questions are put to it, and the questions that need no search.

The two parts of an open index are its store, and the family of hash functions of its parameters. A
reband by another process changes the parameters of an open index. The store notices this when a
transaction begins, before it reads anything. The handle then opens the index again and asks the
question again. It replaces both parts together, so no thread sees a store with the family of
another.

A question about many documents is answered by a :class:`Listing`: items as they are found, as often
as you like. The functions at the end look things up: keys, the number of documents, batches,
signatures.
"""

from __future__ import annotations

import copy
import functools
import itertools
import operator
import threading
import weakref
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Generic, ParamSpec, Self, TypeVar

from lshdb.arguments import checks_names
from lshdb.arrays import np
from lshdb.documents.document import validate_key
from lshdb.errors import IndexChangedError, LshdbError, ParameterError
from lshdb.params.index_params import IndexParams, check_expected
from lshdb.phases.phase import OnProgress, heard, telling
from lshdb.result_tables import Columns, ResultTable, blocks_of, columns_of, html_table
from lshdb.signatures.band_orders import BandOrders
from lshdb.signatures.families import family_of
from lshdb.signatures.family import Family
from lshdb.storage.dialects import DatabasePlace
from lshdb.storage.tables.records import StoredBatch
from lshdb.storage.transactions.index_state import OpenIndex, while_open
from lshdb.storage.transactions.store import Store
from lshdb.tokenizers import Tokenizer, given_tokenizer, splitter

if TYPE_CHECKING:
    from lshdb.params.options import CreateOptions

__all__ = [
    "ATTEMPTS",
    "Handle",
    "Keys",
    "Listing",
    "count_documents",
    "current_store",
    "has_key",
    "list_batches",
    "map_signatures",
    "require_whole_documents",
    "tells",
]

PREVIEW_ROWS = 10
ATTEMPTS = 5
"""How often a question is asked if the index changes each time."""

LONGEST_WAIT = 0.05
"""Seconds that a thread waits for its turn before it asks all the same."""

_Asked = ParamSpec("_Asked")
_Result = TypeVar("_Result")
_Item = TypeVar("_Item", covariant=True)
_Part = TypeVar("_Part")
_Block = TypeVar("_Block", covariant=True)


class _Turns:
    """Turns that threads take in the order in which they come.

    Nobody waits for longer than ``LONGEST_WAIT``, so a slow question, as of a cold disk, holds up
    no other for longer. A turn belongs to a lock of the asker's: if Ctrl-C comes between taking it
    and giving it back, it ends with the lock.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._holder: Callable[[], threading.Lock | None] = _nobody

    @property
    def is_taken(self) -> bool:
        """Whether somebody has the turn."""
        return self._holder() is not None

    def take(self, own: threading.Lock) -> None:
        """Wait for a turn; it may not come."""
        with self._guard:
            if not self.is_taken:
                self._holder = weakref.ref(own)
                return
            own.acquire()
            self._waiting.append(own)
        if not own.acquire(timeout=LONGEST_WAIT):
            self.give(own)

    def give(self, own: threading.Lock) -> None:
        """Give a turn, if it has come, to who has waited longest; wait for it no longer."""
        with self._guard:
            if self._holder() is own:
                self._holder = _nobody
                if self._waiting:
                    following = self._waiting.popleft()
                    self._holder = weakref.ref(following)
                    following.release()
            elif own in self._waiting:
                self._waiting.remove(own)


def _nobody() -> None:
    return None


class Handle:
    """Store and family, opened again after a reband.

    Parameters
    ----------
    store : Store
    tokenizer : Tokenizer, optional
        As for :meth:`lshdb.Index.open`.

    Attributes
    ----------
    now : tuple of Store and Family
    """

    def __init__(self, store: Store, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = tokenizer
        self._replacing = threading.Lock()
        self._turns = _Turns()
        self._former: weakref.WeakSet[Store] = weakref.WeakSet()  # iterators may read them
        self._is_closed = False
        self.now = store, self._family_of(store)

    @classmethod
    def create(
        cls,
        path: Path,
        options: CreateOptions,
        *,
        sample: Iterable[Any] | None,
        tokenizer: Tokenizer | str | None,
        place: DatabasePlace,
        index_bands: bool,
        deferred: bool,
        lock_timeout: float,
    ) -> Handle:
        """Create an index and open it; see :meth:`lshdb.Index.create`."""
        from lshdb.signatures.families import params_for

        tokenizer = given_tokenizer(tokenizer)
        recorded = tokenizer.recorded if tokenizer is not None else ""
        params = params_for(replace(options, tokenizer=recorded), sample)
        store = Store.create(
            path, params, place=place, deferred=deferred, lock_timeout=lock_timeout,
            state={"index_bands": int(index_bands)},
        )  # fmt: skip
        return cls._of(store, tokenizer)

    @classmethod
    def open(
        cls, path: Path, tokenizer: Tokenizer | str | None, expected: Mapping[str, Any]
    ) -> Handle:
        """Open an index; see :meth:`lshdb.Index.open`."""
        tokenizer, expected = given_tokenizer(tokenizer), dict(expected)
        if tokenizer is not None:
            expected["tokenizer"] = tokenizer.recorded
        store = Store.open(path)
        try:
            if "database" in expected:
                place = DatabasePlace(expected["database"], expected.pop("schema", None))
                expected["database"] = str(store.database_of(place))
            if expected:
                facts = {"database": str(store.database)}
                check_expected(store.directory.path, store.params, expected, facts=facts)
        except BaseException:
            store.close()
            raise
        return cls._of(store, tokenizer)

    @classmethod
    def _of(cls, store: Store, tokenizer: Tokenizer | None) -> Handle:
        try:
            return cls(store, tokenizer)
        except BaseException:
            store.close()
            raise

    def _family_of(self, store: Store) -> Family:
        store.use_orders(BandOrders(store.params.cut))
        return family_for(store.params, self._tokenizer)

    def ask(
        self,
        question: Callable[Concatenate[Store, Family, _Asked], _Result],
        *args: _Asked.args,
        **options: _Asked.kwargs,
    ) -> _Result:
        """Ask a question, and ask it again if the index was rebanded meanwhile.

        The question must raise IndexChangedError before it changes or consumes anything. Opening a
        snapshot or a writer does.
        """
        for _ in range(ATTEMPTS - 1):
            store, family = self.now
            try:
                return question(store, family, *args, **options)
            except IndexChangedError:
                self.reopen(store)
        return question(*self.now, *args, **options)

    def ask_in_turn(
        self,
        question: Callable[Concatenate[Store, Family, _Asked], _Result],
        *args: _Asked.args,
        **options: _Asked.kwargs,
    ) -> _Result:
        """Put a short question as :meth:`ask` does; threads that ask one take turns.

        SQLite's driver gives up Python's global lock at every row. Threads that take it from each
        other there spent a sixth to a quarter of their time on that: eight threads answered fewer
        queries than one. A server is asked once a question, and needs no turns.
        """
        if self.now[0].database.answers_at_once:
            return self.ask(question, *args, **options)
        own = threading.Lock()
        try:
            self._turns.take(own)
            return self.ask(question, *args, **options)
        finally:
            self._turns.give(own)

    def refresh(self) -> bool:
        """Open the index again if another one lies at its path; see :meth:`lshdb.Index.refresh`."""
        store = self.now[0]
        store.require_open()
        if not store.is_replaced():
            return False
        self.reopen(store)
        return True

    def reopen(self, stale: Store) -> None:
        """Open the index again, unless another thread has done so since ``stale`` was current.

        Iterators that read the stale store go on with the state they see.
        """
        with self._replacing:
            if self.now[0] is stale and not self._is_closed:
                store = Store.open(stale.path)
                self.now = store, self._family_of(store)
                self._former.add(stale)
                stale.retire()

    def close(self) -> None:
        """Close the store and those before it."""
        with self._replacing:
            self._is_closed = True
            for store in (*self._former, self.now[0]):
                store.close()


def family_for(params: IndexParams, tokenizer: Tokenizer | None) -> Family:
    """Return the hash functions of an index, with the tokenizer that it names.

    Raises
    ------
    TokenizerError, ParameterMismatchError
        The tokenizer is not installed, or is another one.
    """
    name = params.tokenizer
    return family_of(params, splitter(name, tokenizer) if name else None)


def require_whole_documents(store: OpenIndex, what: str) -> None:
    """Refuse a question that makes no sense of windows, in an index of passages.

    Raises
    ------
    ParameterError
    """
    if store.params.window is not None:
        raise ParameterError(
            f"{what} needs whole documents, and the index {store.path} keeps passages of them: "
            "neighbouring windows of one document would count as its near-duplicates",
            hint="lshdb pairs --by document lists the passages that documents share; for this "
            "question add the documents to an index without --passages",
        )


def tells(method: Callable[_Asked, _Result]) -> Callable[_Asked, _Result]:
    """Have the work of a method, and of a listing that it returns, tell ``on_progress``.

    The method has that parameter, and need not look at it.
    """
    checked = checks_names(method)

    @functools.wraps(method)
    def telling_method(*args: _Asked.args, **options: _Asked.kwargs) -> _Result:
        on_progress: Any = options.get("on_progress")
        if on_progress is None:
            return checked(*args, **options)
        if not callable(on_progress):
            raise ParameterError(
                f"on_progress is {on_progress!r:.80}, and cannot be called",
                hint="give a function of three arguments: done, total and unit; or "
                "lshdb.progress()",
            )
        with telling(on_progress):
            result = checked(*args, **options)
        if isinstance(result, Listing):
            result.telling(on_progress)
        return result

    return telling_method


class Listing(Iterator[_Item]):
    """Items as they are found.

    Every ``for`` loop and every ``iter()`` asks the question again and sees the index as it is
    then. ``next()`` works too: it begins an iteration, and the following loop takes it to its end.
    An iteration that has begun sees one state, whatever happens to the index meanwhile.

    Parameters
    ----------
    handle : Handle
        The index.
    **said
        What ``repr`` shows of the question.

    Attributes
    ----------
    newest_batch : int or None
        The newest batch in the state that was read; None before the last item of an iteration.
        :meth:`lshdb.Index.advance` sets a cursor to it.
    """

    def __init__(self, handle: Handle, **said: Any) -> None:
        self._handle = handle
        if "threshold" in said and said["threshold"] is None and said.get("recall") is None:
            said["threshold"] = handle.now[1].params.threshold
        self._said = {"index": str(handle.now[0].path), **said}
        self._begun: Iterator[_Item] | None = None
        self._is_spent = False
        self._on_progress: OnProgress | None = None
        self.newest_batch: int | None = None

    @abstractmethod
    def _items(self, store: Store, family: Family) -> Iterator[_Item]:
        """Yield the items from one state of the index."""

    def __iter__(self) -> Iterator[_Item]:
        iteration, self._begun = self._begun, None
        if iteration is None or self._is_spent:
            self._is_spent = False
            return self._iterate()
        return iteration

    def __next__(self) -> _Item:
        if self._begun is None:
            self._begun = self._iterate()
        try:
            return next(self._begun)
        except StopIteration:
            self._is_spent = True
            raise

    def _iterate(self) -> Iterator[_Item]:
        """Iterate once; nothing is asked before the first item is."""
        return self._asked(self._items)

    def is_of(self, store: Store) -> bool:
        """Return whether the question was put to this index, or to a copy of it."""
        return getattr(self._handle.now[0], "uuid", None) == store.uuid

    def telling(self, on_progress: OnProgress | None) -> Self:
        """Tell a function how far an iteration is; return the listing.

        Parameters
        ----------
        on_progress : callable, optional
            Called with what is done, the total (None if unknown) and the unit.
        """
        self._on_progress = on_progress
        return self

    def _asked(self, ask: Callable[[Store, Family], Iterator[_Part]]) -> Iterator[_Part]:
        """Yield what an answer to the question has."""
        parts = itertools.chain.from_iterable(self._parts(ask))
        return heard(parts, self._on_progress)

    def _parts(self, ask: Callable[[Store, Family], Iterator[_Part]]) -> Iterator[Iterable[_Part]]:
        """Yield the first item, then the others; ask again if the index was rebanded before it.

        The others are handed over as they are, so that an item passes through fewer hands.
        """
        for attempt in range(ATTEMPTS):
            store, family = self._handle.now
            items = ask(store, family)
            try:
                first = [next(items)]
            except StopIteration:
                return
            except IndexChangedError:
                if attempt == ATTEMPTS - 1:
                    raise
                self._handle.reopen(store)
                continue
            yield first
            del first
            yield items
            return

    def __repr__(self) -> str:
        said = {name: value for name, value in self._said.items() if value is not None}
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in said.items())})"


class ColumnListing(Listing[_Item], Generic[_Item, _Block]):
    """A listing whose items also come as columns, some thousand at once."""

    @abstractmethod
    def _columns(self, store: Store, family: Family) -> Iterator[_Block]:
        """Yield the items of one state in blocks, of which only those of queries may be empty."""

    def columns(self) -> Iterator[_Block]:
        """Yield the same items as columns of up to some thousand, which takes less time.

        Every call asks the question again, as every ``for`` loop does.

        Yields
        ------
        PairColumns, NeighborColumns, HitColumns or PassageColumns
            In the order of the loop.

        Raises
        ------
        LshdbError
            As the loop does.
        """
        return self._asked(self._columns)


class ListingTable(Listing[_Item], ResultTable):
    """A listing that is also a table, whose first rows a notebook shows."""

    ITEM: ClassVar[type]
    """What an item is: a dataclass, whose fields are the columns."""

    def _fields(self) -> Columns:
        """Return the columns of a table of the items: those of ``ITEM``, a dataclass."""
        return columns_of(self.ITEM, is_distance=self._handle.now[1].params.kind.is_distance)

    def _rows(self) -> Iterator[Sequence[Any]]:
        """Yield the row of each item."""
        return map(operator.attrgetter(*(name for name, _ in self._fields())), self._iterate())

    def _table(self) -> tuple[Columns, Iterator[list[Sequence[Any]]]]:
        return self._fields(), blocks_of(self._rows())

    def _repr_html_(self) -> str:
        """Return the first rows, for a notebook: the question is asked again."""
        listing = copy.copy(self)  # what the last loop says of itself stays
        listing._on_progress = None  # nobody follows the first rows
        names = [name for name, _ in listing._fields()]
        try:
            rows = list(itertools.islice(listing._rows(), PREVIEW_ROWS + 1))
        except LshdbError as error:
            return html_table(repr(self), names, [], note=str(error))
        note = f"the first {PREVIEW_ROWS}" if len(rows) > PREVIEW_ROWS else f"all {len(rows)}"
        return html_table(repr(self), names, rows[:PREVIEW_ROWS], note=note)


class ColumnTable(ColumnListing[_Item, _Block], ListingTable[_Item]):
    """A table whose rows are found as columns; items are made of them on demand."""

    EACH: ClassVar[Callable[[Any], Iterator[Any]]]
    """Yields the items of a block; ``values()`` of a block has the columns of its table."""

    @abstractmethod
    def _columns(self, store: Store, family: Family) -> Generator[_Block]:
        """Yield the items of one state, in blocks that are not empty."""

    def _table(self) -> tuple[Columns, Iterator[list[Sequence[Any]]]]:
        blocks: Iterator[Any] = self.columns()
        return self._fields(), (block.values() for block in blocks)

    def _items(self, store: Store, family: Family) -> Iterator[_Item]:
        """Yield the items of one state one by one."""
        with closing(self._columns(store, family)) as blocks:
            for block in blocks:
                for item in type(self).EACH(block):
                    yield item
                    if store.is_closed or not store.process.is_this:
                        store.require_open()  # as while_open does, without a call for each item


def current_store(store: Store, family: Family) -> Store:
    """Return the store itself; as a question, it opens a rebanded index again."""
    with store.reading():
        return store


class Keys(ListingTable[str]):
    """The keys of an index, in the order in which their documents were added."""

    def _fields(self) -> Columns:
        return [("key", "str")]

    def _rows(self) -> Iterator[Sequence[Any]]:
        return ((key,) for key in self._iterate())

    def _items(self, store: Store, family: Family) -> Iterator[str]:
        """Yield the keys of one state."""
        with store.reading() as snapshot:
            for _, key in while_open(store, snapshot.document_keys()):
                yield key


def count_documents(store: Store, family: Family) -> int:
    """Return the number of documents, from what each batch added and removed."""
    with store.reading() as snapshot:
        return snapshot.n_documents()


def has_key(store: Store, family: Family, key: object) -> bool:
    """Return whether a document has this key; False if it is not a valid key.

    In an index of passages windows have keys, and so do the documents that were cut.
    """
    if not isinstance(key, str) or validate_key(key) is not None:
        return False
    with store.reading() as snapshot:
        if key in snapshot.documents_of_keys([key]):
            return True
        if store.params.window is None:
            return False
        from lshdb.ingest.cut_documents import windows_of

        return bool(windows_of(snapshot, [key]))


def list_batches(store: Store, family: Family) -> list[StoredBatch]:
    """Return all batches, oldest first."""
    with store.reading() as snapshot:
        return list(snapshot.batches())


def map_signatures(store: Store, family: Family) -> np.memmap[Any, np.dtype[np.uint16]]:
    """Return the committed rows of the signature file as a read-only map.

    Raises
    ------
    SignaturesElsewhereError, DamageError
        The file is on another host, belongs to another index, or ends before a committed row.
    """
    with store.reading() as snapshot:
        return snapshot.signature_file.mapped(len(snapshot.signatures))
