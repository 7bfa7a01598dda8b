"""The life of an index in Postgres whose connection is cut again and again, at places of its own.

One index goes on through all cuts, as a new one for each would take ten times as long. Each change
is made with a cut at a place, looked at, made again without, and looked at again; the next time it
is cut a little later, until it comes to its end before the cut.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from lshdb import Index, LshdbError
from tests.fault.proxy import CLIENT, SERVER, Cut, Proxy
from tests.fault.soundness import documents_of, faults_of
from tests.fault.steps import STEPS, State, Work
from tests.fault.writer import Expected

__all__ = ["CHANGES", "MAKINGS", "Life", "making_trial", "places"]

CHANGES = (
    "add_few", "add_batches", "replace", "remove", "cluster", "merge", "compact", "reband",
)  # fmt: skip
COMMIT = b"COMMIT\0"
"""In the client's statement, and in what the server says when it is done."""
MOST_DOCUMENTS = 120
_BATCHES = {"add_few", "add_batches", "replace", "remove", "merge"}
"""What writes a batch for each state."""


MAKINGS = ("create", "add_new", "copy")
"""What makes an index."""


def places(*, stride: int, commits: int = 0) -> Iterator[Cut]:
    """Before, at and after each of the first COMMITs, and then all over; without end.

    Every so many messages, of either side in turn, which still arrive or do not.
    """
    for nth in range(1, commits + 1):
        for sender in (CLIENT, SERVER):
            for is_sent in (False, True):
                yield Cut(sender, nth, is_sent=is_sent, saying=COMMIT)
    for number in itertools.count():
        nth = 1 + number * stride // 4
        yield Cut((CLIENT, SERVER)[number % 2], nth, is_sent=number % 4 < 2)


class Life:
    """An index, and what it holds.

    Parameters
    ----------
    proxy : Proxy
        The way to its database.
    path : Path
    schema : str

    Attributes
    ----------
    documents : dict or None
    outcomes : Counter
        Of all trials: (change, "done", the error's name or "not reached").
    """

    def __init__(self, proxy: Proxy, path: Path, schema: str) -> None:
        self.proxy = proxy
        self.path = path
        self.place = {"database": proxy.url.lshdb, "schema": schema}
        self.documents: State = None
        self.outcomes: Counter[tuple[str, str]] = Counter()

    def make(self, *changes: str) -> None:
        """Make changes that nothing stands in the way of."""
        self.proxy.arm(None)
        for change in changes:
            work = Work(self.path, self.documents, lambda kind, what: None, self.place)
            STEPS[change](work)
            self.documents = work.documents

    def trial(self, change: str, cut: Cut, *, asks: bool = False) -> bool:
        """Make a change whose connection is cut; then again. Whether it came to the cut.

        Raises
        ------
        AssertionError
            The index is not what it may be.
        """
        if change == "cluster":
            self.make("add_few")  # else there is nothing to do
        expected = Expected(self.documents)
        batches = self._batches()
        before, states = self.documents, self._states(change)
        self.proxy.arm(cut)
        error = attempt(change, self.path, expected, self.place)
        happened = self.proxy.happened
        self.proxy.arm(None)
        outcome = type(error).__name__ if error else "done" if happened else "not reached"
        self.outcomes[change, outcome] += 1
        what = f"{change}, {cut}: {error}"
        assert faults_of(self.path, expected.allowed) == [], what
        if self.path.exists():
            with Index.open(self.path) as index:
                now = documents_of(index)
            if error is not None and "is not in" in error.message:
                assert now == expected.state, what
            if error is not None and not cut.stays_away:
                assert "not known" not in error.message, what
            if change in _BATCHES:
                reached = [n for n, state in enumerate([before, *states]) if state == now]
                assert self._batches() - batches in reached, what
        again = Expected(before)
        assert (problem := attempt(change, self.path, again, self.place)) is None, (
            f"{what}; then {problem}"
        )
        assert faults_of(self.path, again.allowed[:1], asks=asks) == [], what
        self.documents = again.state
        if len(self.documents or {}) > MOST_DOCUMENTS:
            self.make("expire", "expire", "expire", "compact")
        return happened

    def _states(self, change: str) -> list[dict[str, Any]]:
        """What the index will hold after each commit: asked of a change that stops there."""
        states: list[dict[str, Any]] = []

        class _Enough(Exception):
            pass

        def say(kind: str, what: Any) -> None:
            if kind == "intend":
                states.extend(what)
                raise _Enough

        with contextlib.suppress(_Enough):
            STEPS[change](Work(self.path, self.documents, say, self.place))
        return states

    def _batches(self) -> int:
        if not self.path.exists():
            return 0
        self.proxy.arm(None)
        with Index.open(self.path) as index:
            return int(next(iter(index.sql("SELECT count(*) FROM batch").rows))[0])


def attempt(
    change: str, path: Path, expected: Expected, place: dict[str, str]
) -> LshdbError | None:
    """Make a change; the error that a user would see."""
    try:
        STEPS[change](Work(path, expected.state, expected.mark, place))
    except LshdbError as error:
        assert error.hint, error.message
        assert "Traceback" not in error.message, error.message
        return error
    return None


def making_trial(making: str, cut: Cut, proxy: Proxy, path: Path, schema: str) -> str:
    """Make an index by a way that is cut; then again; and remove it. What came of it.

    Raises
    ------
    AssertionError
        Half of an index is there, or what is left stands in the way of making it again.
    """
    expected, place = Expected(None), {"database": proxy.url.lshdb, "schema": schema}
    proxy.arm(cut)
    error = attempt(making, path, expected, place)
    happened = proxy.happened
    proxy.arm(None)
    outcome = type(error).__name__ if error else "done" if happened else "not reached"
    what = f"{making}, {cut}: {error}"
    assert faults_of(path, expected.allowed) == [], what
    if not path.exists():
        again = Expected(None)
        problem = attempt(making, path, again, place)
        assert problem is None, f"{what}; then {problem}"
        assert faults_of(path, again.allowed[:1]) == [], what
    shutil.rmtree(path)
    assert not list(path.parent.glob(f".{path.name}*")), what
    with psycopg.connect(proxy.url.psycopg, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute(f'DROP SCHEMA "{schema}" CASCADE'.encode())
    return outcome
