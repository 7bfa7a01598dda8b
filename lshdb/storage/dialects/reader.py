"""Connections that only read: for questions, and for statements of the user's own."""

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
    """A statement of the user's own worked for longer than it was given."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one statement says of some buckets, in one state.

    Attributes
    ----------
    state : tuple
        As :meth:`Session.state` gives it.
    postings : dict
        How many of the buckets each candidate lies in.
    documents : dict
        (doc_id, key, batch_id) of the documents of each candidate, in order; empty for one that no
        document has.
    bodies : dict
        Of the first document of each candidate, where they were asked for: form, packed body,
        length in characters, doc_id.
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
        It is good for one transaction and then opened anew.
    """

    is_fleeting: bool = False

    @abstractmethod
    def begin(self) -> Session:
        """Begin a transaction that sees one committed state."""

    def ask(self, keys: Ids, *, with_bodies: bool) -> Answer | None:
        """What lies in some distinct buckets, with documents and, if wanted, texts.

        None where that is better asked bit by bit, in a transaction: always where the database is
        in this process.
        """
        return None

    @abstractmethod
    def end(self) -> None:
        """End the transaction, if there is one."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


class GuardedReader(ABC):
    """One statement of the user's own, on a connection on which reading is all that is possible."""

    @abstractmethod
    def run(
        self, statement: str, parameters: Sequence[Any] | Mapping[str, Any]
    ) -> tuple[tuple[str, ...], Iterator[tuple[Any, ...]]] | None:
        """Names of the columns, and the rows; None where the statement gives no rows.

        Raises
        ------
        TimedOut
            Also from the rows.
        Exception
            One of the driver's: the statement is refused, or fails; also from the rows.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""
