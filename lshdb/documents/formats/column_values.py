"""The values of a column of Arrow as JSON has them, whatever the column holds.

pyarrow makes objects of Python, which have no years after 9999, no nanoseconds and no zones that
the machine does not know, and then fails for all rows at once. So times and durations are written
from their numbers, and what is nested is taken apart. A text that is not UTF-8 is null; so one bad
value costs itself.
"""

from __future__ import annotations

import datetime
import itertools
import zoneinfo
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

from lshdb.documents.values import iso_duration, iso_instant, json_value

__all__ = ["json_values"]

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86_400


def json_values(arrow: Any, column: Any) -> list[Any]:
    """Return the values of a column as :func:`~lshdb.documents.values.json_value` gives them.

    What JSON has nothing for, as binary values that are not UTF-8, stays what it is in Python.

    Parameters
    ----------
    arrow : module
        pyarrow.
    """
    types, kind = arrow.types, column.type
    if types.is_dictionary(kind):
        return json_values(arrow, column.dictionary_decode())
    if types.is_run_end_encoded(kind):
        return json_values(arrow, arrow.compute.run_end_decode(column))
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_duration(kind):
        write = _writer(types, kind)
        size = arrow.int32() if types.is_date32(kind) else arrow.int64()
        counts = column.cast(size).to_pylist()
        return [None if count is None else write(count) for count in counts]
    if types.is_time64(kind) and kind.unit == "ns":
        counts = column.cast(arrow.int64()).to_pylist()
        return [None if count is None else iso_instant(count, 10**9)[11:] for count in counts]
    if types.is_map(kind):
        members = zip(
            *(_within(arrow, column, child) for child in (column.keys, column.items)), strict=True
        )
        return [
            None if keys is None else dict(zip(map(_name, keys), values, strict=True))
            for keys, values in members
        ]
    if types.is_list(kind) or types.is_large_list(kind):
        return _within(arrow, column, column.values)
    if types.is_fixed_size_list(kind):
        items = iter(json_values(arrow, column.flatten()))
        return [
            list(itertools.islice(items, kind.list_size)) if is_there else None
            for is_there in column.is_valid().to_pylist()
        ]
    if types.is_struct(kind):
        names = [kind.field(i).name for i in range(kind.num_fields)]
        children = [json_values(arrow, child) for child in column.flatten()]
        rows = zip(*children, strict=True) if children else [()] * len(column)
        return [
            dict(zip(names, row, strict=True)) if is_there else None
            for row, is_there in zip(rows, column.is_valid().to_pylist(), strict=True)
        ]
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError):
        values = [_alone(value) for value in column]
    return [_as_json(value) for value in values]


def _alone(value: Any) -> Any:
    """Return a value of Python; None for one that Python cannot hold."""
    try:
        return value.as_py()
    except (ValueError, OverflowError):  # also of a text that is not UTF-8
        return None


def _as_json(value: Any) -> Any:
    try:
        return json_value(value)
    except TypeError:
        return value


def _within(arrow: Any, column: Any, child: Any) -> list[Any]:
    """Return lists of the values of a child of a column of lists or maps."""
    ends = column.offsets.to_pylist()
    values = json_values(arrow, child[ends[0] : ends[-1]])
    return [
        values[start - ends[0] : end - ends[0]] if is_there else None
        for start, end, is_there in zip(ends, ends[1:], column.is_valid().to_pylist(), strict=False)
    ]


def _name(key: Any) -> str:
    """Return the name of a member of an object for a key of a map."""
    return key if isinstance(key, str) else orjson.dumps(key).decode()


def _writer(types: Any, kind: Any) -> Callable[[int], str]:
    """Return what writes the numbers of a type of times or durations."""
    if types.is_date(kind):
        per_day = 1 if types.is_date32(kind) else _DAY * 1_000
        return lambda count: iso_instant(count // per_day * _DAY, 1).partition("T")[0]
    per_second = _PER_SECOND[kind.unit]
    if types.is_duration(kind):
        return lambda count: iso_duration(count * (10**9 // per_second))
    return partial(
        iso_instant, per_second=per_second, zone=_zone(kind.tz), is_zoned=kind.tz is not None
    )


def _zone(name: str | None) -> datetime.tzinfo | None:
    """Return a zone by its name or its distance from UTC; None if it is not known here."""
    if name is None or name == "UTC":
        return None
    try:
        if name[:1] in "+-":
            return datetime.datetime.strptime(name, "%z").tzinfo
        return zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # a ZoneInfoNotFoundError is a KeyError
        return None
