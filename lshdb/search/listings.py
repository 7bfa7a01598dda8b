"""The answer to a question about many documents: items as they are found, as often as you like."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, TypeVar

from lshdb.errors import IndexChangedError
from lshdb.search.handle import ATTEMPTS, Handle
from lshdb.signatures.family import Family
from lshdb.storage.store import Store

__all__ = ["Listing"]

_Item = TypeVar("_Item", covariant=True)


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
    """

    def __init__(self, handle: Handle, **said: Any) -> None:
        self._handle = handle
        self._said = {"index": str(handle.now[0].path), **said}
        self._begun: Iterator[_Item] | None = None
        self._is_spent = False

    @abstractmethod
    def _items(self, store: Store, family: Family) -> Iterator[_Item]:
        """Yield the items from one state of the index."""

    def __iter__(self) -> Iterator[_Item]:
        begun, self._begun = self._begun, None
        if begun is None or self._is_spent:
            self._is_spent = False
            return self._iterate()
        return begun

    def __next__(self) -> _Item:
        if self._begun is None:
            self._begun = self._iterate()
        try:
            return next(self._begun)
        except StopIteration:
            self._is_spent = True
            raise

    def _iterate(self) -> Iterator[_Item]:
        """Iterate once; begin again if the index was rebanded before the first item."""
        for attempt in range(ATTEMPTS):
            store, family = self._handle.now
            items = self._items(store, family)
            try:
                first = next(items)
            except StopIteration:
                return
            except IndexChangedError:
                if attempt == ATTEMPTS - 1:
                    raise
                self._handle.reopen(store)
                continue
            yield first
            del first
            yield from items
            return

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self._said.items())
        return f"{type(self).__name__}({said})"
