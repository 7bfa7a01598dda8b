"""Times as they are stored: UTC, ISO 8601 with a blank, microseconds; they sort as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["as_timestamp", "timestamp", "timestamp_after"]

_FORM = "%Y-%m-%d %H:%M:%S.%f"


def timestamp() -> str:
    """Now."""
    return as_timestamp(datetime.now(UTC))


def as_timestamp(moment: datetime) -> str:
    """A moment, taken for UTC where it names no zone."""
    utc = moment if moment.tzinfo is None else moment.astimezone(UTC)
    return utc.replace(tzinfo=None).isoformat(" ", "microseconds")


def timestamp_after(earlier: str | None) -> str:
    """Now, or a microsecond after ``earlier`` where the clock has not got past it."""
    now = timestamp()
    if earlier is None or now > earlier:
        return now
    return (datetime.strptime(earlier, _FORM) + timedelta(microseconds=1)).strftime(_FORM)
