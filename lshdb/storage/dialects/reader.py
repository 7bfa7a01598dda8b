"""Connections that only read: for our own questions, and for statements of the user."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from lshdb.storage.dialects.base import Session

__all__ = ["Answer", "GuardedReader", "Reader", "TimedOut"]

Ids = NDArray[np.int64]


class TimedOut(Exception):
    """A user's statement worked for longer than its timeout."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one statement finds in some buckets, in one state.

    Attributes
    ----------
    state : tuple
        As :meth:`Session.state` gives it.
    postings : dict
        In how many of the buckets each candidate lies.
    documents : dict
        (doc_id, key, batch_id) of the documents of each candidate, in order; empty if no document
        has that signature.
    bodies : dict
        The first document of each candidate, if asked for: form, packed body, length in characters,
        doc_id.
    """

    state: tuple[str, int, int, str, str]
    postings: dict[int, int]
    documents: dict[int, list[tuple[int, str, int]]]
    bodies: dict[int, tuple[str, bytes, int, int]]


class Reader(ABC):
    """A connection that only reads.

    Attributes
    ----------
    is_fleeting : bool
        It serves one transaction, and is then opened again.
    """

    is_fleeting: bool = False

    @abstractmethod
    def begin(self) -> Session:
        """Begin a transaction that sees one committed state."""

    def ask(self, keys: Ids, *, with_bodies: bool) -> Answer | None:
        """Return what lies in some distinct buckets, with documents and, if wanted, texts.

        None if it is better to ask step by step, in a transaction: always so for a database in this
        process.
        """
        return None

    @abstractmethod
    def end(self) -> None:
        """End the transaction, if there is one."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


class GuardedReader(ABC):
    """One statement of the user, on a connection that can only read."""

    @abstractmethod
    def run(
        self, statement: str, parameters: Sequence[Any] | Mapping[str, Any]
    ) -> tuple[tuple[str, ...], Iterator[tuple[Any, ...]]] | None:
        """Return the names of the columns, and the rows; None if the statement gives no rows.

        Raises
        ------
        TimedOut
            Also from the rows.
        Exception
            An error of the driver: the statement is refused, or fails; also from the rows.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""
