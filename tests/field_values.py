"""Columns of values to choose by: one that is missing, a smaller one and a larger one.

The order of their JSON texts, of their bytes or of their wall clocks is another one than theirs.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

import pyarrow as pa

TEXT = "the council voted on monday to close the old bridge over the river for repairs"
KEYS = ["none", "small", "large"]

_NEW_YORK, _BERLIN = 3_600 * 4 * 10**6, 10**6  # microseconds
COLUMNS: dict[str, Any] = {
    "whole": pa.array([None, 9, 10], pa.int32()),
    "unsigned": pa.array([None, 2**63 - 1, 2**64 - 1], pa.uint64()),
    "negative": pa.array([None, -10, -9], pa.int64()),
    "float": pa.array([float("nan"), -float("inf"), 1e-300]),
    "infinite": pa.array([float("nan"), 1e308, float("inf")]),
    "half": pa.array([None, 9, 10], pa.float16()),
    "bool": pa.array([None, False, True]),
    "decimal": pa.array([None, decimal.Decimal("9.90"), decimal.Decimal("10.10")]),
    "long decimal": pa.array(
        [None, decimal.Decimal(10**30), decimal.Decimal(10**30 + 1)], pa.decimal128(38, 0)
    ),
    "date": pa.array([None, datetime.date(1999, 12, 31), datetime.date(2024, 1, 10)]),
    "date64": pa.array([None, 9 * 86_400_000, 10 * 86_400_000], pa.date64()),
    "far date": pa.array([None, 2_932_896, 2_932_897], pa.date32()),
    "seconds": pa.array([None, 9, 10], pa.timestamp("s")),
    "nanoseconds": pa.array([None, 1_500, 1_501], pa.timestamp("ns")),
    "zone": pa.array([None, 9, 10], pa.timestamp("us", "America/New_York")),
    # An hour that comes twice: 1:30 in summer, then 1:10 in winter.
    "end of summer": pa.array(
        [None, 1_699_162_200_000_000, 1_699_164_600_000_000],
        pa.timestamp("us", "America/New_York"),
    ),
    "unknown zone": pa.array([None, 9, 10], pa.timestamp("us", "Nowhere/Else")),
    "year 10000": pa.array(
        [None, 253_402_300_799_000_000, 253_402_300_800_000_000], pa.timestamp("us")
    ),
    "before Christ": pa.array([None, -(10**17), -62_135_596_800_000_000], pa.timestamp("us")),
    "time": pa.array([None, 1_000_000_001, 36_000_000_000_000], pa.time64("ns")),
    "duration": pa.array([None, 9 * 86_400 * 10**6, 10 * 86_400 * 10**6], pa.duration("us")),
    "negative duration": pa.array([None, -(10**12), 1], pa.duration("ns")),
    "uuid": pa.ExtensionArray.from_storage(
        pa.uuid(),
        pa.array([None, uuid.UUID(int=9 << 120).bytes, uuid.UUID(int=10 << 120).bytes],
                 pa.binary(16)),
    ),
    "text": pa.array([None, "Zürich", "zoo"]),
    "dictionary": pa.array([None, 9, 10]).dictionary_encode(),
    "binary": pa.array([None, b"a", b"b"]),
    "cells": pa.array([" ", "9", "10"]),
    "numbers as texts": pa.array(["NaN", "1e5", "+100000.5"]),
    "dates and instants": pa.array(["", "2024-01-09", "2024-01-09T01:00:00+00:30"]),
    "zones as texts": pa.array([None, "2024-01-09T05:00:00+02:00", "2024-01-09 03:00:00.1Z"]),
    "years": pa.array([None, "9999-12-31", "+10000-01-01"]),
    "durations as texts": pa.array([None, "9 days, 0:00:00", "P10D"]),
    "times of day": pa.array([None, "9:59", "10:00:01"]),
    "dates of mail": pa.array(
        [None, "Tue, 9 Jan 2024 05:00:00 +0200", "Mon, 8 Jan 2024 23:00:00 -0500"]
    ),
    "words": pa.array([None, "false", "True"]),
    "beyond floats": pa.array([None, "1e400", "1e401"]),
}  # fmt: skip

UNORDERED: dict[str, tuple[Any, str]] = {
    "structure": (pa.array([None, {"a": 1}, {"a": 2}]), "object"),
    "list": (pa.array([None, [1], [2]]), "array"),
    "map": (pa.array([None, [("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64())), "object"),
    "bytes": (pa.array([None, b"\xff", b"\xfe"]), "binary"),
    "mixed": (pa.array([None, "9", "ten"]), "a number, and document .* a text"),
    "numbers and dates": (
        pa.array([None, "2024", "2024-05-17"]),
        "a number, and document .* a dat",
    ),
    "times and durations": (pa.array([None, "2024-05-17", "P9D"]), "a date .* a duration"),
    "decimal commas": (pa.array([None, "9,5", "10,5"]), "form that is not read"),
    "German dates": (pa.array([None, "09.05.2026", "10.04.2026"]), "form that is not read"),
    "versions": (pa.array([None, "1.9.0", "1.10.0"]), "form that is not read"),
    "months": (pa.array([None, "P1M", "P2M"]), "form that is not read"),
}
"""Columns whose values cannot be compared, and what is said of them."""


def table(column: Any) -> pa.Table:
    """Three copies of one text with the values of a column, and another document."""
    other = pa.nulls(1, column.type)
    if isinstance(column, pa.DictionaryArray):
        column, other = column.dictionary_decode(), other.dictionary_decode()
        return table(column).set_column(2, "v", table(column).column("v").dictionary_encode())
    return pa.table(
        {
            "id": [*KEYS, "other"],
            "text": [TEXT, TEXT, TEXT, "volunteers have planted four hundred trees along the road"],
            "v": pa.chunked_array([column, other]),
        }
    )
