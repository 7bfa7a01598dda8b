"""The clock of this machine, set by a test: it dates an index, and ages count back from it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import lshdb.search.since
import lshdb.storage.tables.records

__all__ = ["TODAY", "Clock", "set_clock"]

TODAY = datetime(2026, 3, 1, 3, tzinfo=UTC)


class Clock:
    """The clock of this machine, which a test sets."""

    def __init__(self) -> None:
        self.now = TODAY

    def night(self, number: int, **error: float) -> None:
        self.now = TODAY + timedelta(days=number, **error)


def set_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Put another clock in the place of the system's."""
    clock = Clock()

    class Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, datetime)

    class Moved(datetime, metaclass=Kind):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return clock.now.astimezone(tz)

    for module in (lshdb.storage.tables.records, lshdb.search.since):
        monkeypatch.setattr(module, "datetime", Moved)
    return clock
