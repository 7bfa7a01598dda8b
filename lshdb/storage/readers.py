"""Connections for reading, kept and used again."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from lshdb.errors import DatabaseError
from lshdb.storage.dialects.reading import Reader

__all__ = ["Readers"]

_FORKED: list[Any] = []
"""Connections of another process, which only that one may close."""

_Result = TypeVar("_Result")


class Readers:
    """The connections of one store; each is one thread's at a time.

    Parameters
    ----------
    open_reader : callable
        Opens another one.
    """

    def __init__(self, open_reader: Callable[[], Reader]) -> None:
        self._open = open_reader
        self._idle: list[Reader] = []
        self._is_closed = False
        self._process = os.getpid()

    def begin(self, work: Callable[[Reader], _Result]) -> tuple[Reader, _Result]:
        """Take a connection and do the first work on it; :meth:`put_back` gives it back.

        A server that was restarted has ended connections that nobody used meanwhile: where the work
        fails on one of those, it is done again on the next.
        """
        while True:
            try:
                reader, is_used = self._idle.pop(), True
            except IndexError:  # not asked first: another thread may take the last one meanwhile
                reader, is_used = self._open(), False
            try:
                return reader, work(reader)
            except BaseException as error:
                self.put_back(reader)
                if not (is_used and reader.is_fleeting and isinstance(error, DatabaseError)):
                    raise

    def put_back(self, reader: Reader) -> None:
        """End the transaction of a connection, if it has one, and keep it for the next time."""
        if self._process != os.getpid():
            _FORKED.append(reader)
            return
        reader.end()
        if self._is_closed or reader.is_fleeting:
            reader.close()
        else:
            self._idle.append(reader)

    def close_idle(self) -> None:
        """Close those that nobody uses."""
        if self._process != os.getpid():
            _FORKED.extend(self._idle)
            self._idle.clear()
        while self._idle:
            self._idle.pop().close()

    def close(self) -> None:
        """Close those that nobody uses, and the others when they are put back."""
        self._is_closed = True
        self.close_idle()
