"""The order of values, and what is kept of them, against Python's own numbers and times."""

from __future__ import annotations

import datetime
import enum
import json
import uuid
import zoneinfo
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lshdb.documents.document import json_fields
from lshdb.documents.values import iso_duration, iso_instant, json_value, kind_of, order_key

pytestmark = pytest.mark.fast

NUMBERS = st.one_of(
    st.integers(-(10**4), 10**4),
    st.integers(-(2**80), 2**80),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
    st.decimals(allow_nan=False, allow_infinity=False),
)
ZONES = st.sampled_from(
    [None, datetime.UTC, *map(zoneinfo.ZoneInfo, ["Europe/Berlin", "Asia/Kathmandu"])]
)
NAN = {"nan", "NaN", "NAN", "-nan", "-NaN"}
TIMES = st.datetimes(datetime.datetime(2, 1, 1), datetime.datetime(9998, 1, 1), timezones=ZONES)


def exact(number: Any) -> Decimal:
    """The decimal number that a JSON text of the number is."""
    return Decimal(repr(number)) if isinstance(number, float) else Decimal(number)


@given(NUMBERS, NUMBERS)
def test_numbers_sort_as_numbers_also_in_texts(one: Any, other: Any) -> None:
    keys = [order_key(json_value(number)) for number in (one, other)]
    assert keys == [order_key(str(number)) for number in (one, other)]
    assert None not in keys and keys[0][:1] == b"n"  # type: ignore[index]
    assert (keys[0] < keys[1]) == (exact(one) < exact(other))  # type: ignore[operator]
    assert (keys[0] == keys[1]) == (exact(one) == exact(other))
    lowest, highest = order_key("-Infinity"), order_key(float("inf"))
    assert lowest < keys[0] < highest  # type: ignore[operator]


@given(TIMES, TIMES)
def test_times_sort_as_instants(one: datetime.datetime, other: datetime.datetime) -> None:
    def instant(time: datetime.datetime) -> datetime.datetime:
        return time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)

    keys = [order_key(json_value(time)) for time in (one, other)]
    spaced = [order_key(str(time)) for time in (one, other)]
    assert keys == spaced and keys[0][:1] == b"t"  # type: ignore[index]
    one, other = instant(one).astimezone(datetime.UTC), instant(other).astimezone(datetime.UTC)
    assert (keys[0] < keys[1]) == (one < other)  # type: ignore[operator]
    assert (keys[0] == keys[1]) == (one == other)


@given(st.timedeltas(), st.timedeltas())
def test_durations_sort_by_their_length(one: Any, other: Any) -> None:
    keys = [order_key(json_value(length)) for length in (one, other)]
    assert keys == [order_key(str(length)) for length in (one, other)]
    assert (keys[0] < keys[1]) == (one < other)  # type: ignore[operator]
    assert (keys[0] == keys[1]) == (one == other)


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([1, 10**3, 10**6, 10**9]), st.booleans())
@example(-(2**63), 1, False)
@example(2**63 - 1, 1, True)
def test_a_time_of_any_year_comes_back(count: int, per_second: int, is_zoned: bool) -> None:
    text = iso_instant(count, per_second, is_zoned=is_zoned)
    key = order_key(text)
    assert key is not None and key[:1] == b"t", text
    assert int.from_bytes(key[1:]) - 2**127 == count * (10**9 // per_second)


@given(st.integers(-(2**63) * 10**9, 2**63 * 10**9))
def test_a_duration_of_any_length_comes_back(nanoseconds: int) -> None:
    key = order_key(iso_duration(nanoseconds))
    assert key is not None and int.from_bytes(key[1:]) - 2**127 == nanoseconds


@given(st.text(), st.text())
def test_any_text_has_a_key(one: str, other: str) -> None:
    keys = [order_key(one), order_key(other)]
    for key, text in zip(keys, (one, other), strict=True):
        assert (key is None) == (not text.strip() or text.strip() in NAN)
        assert key is None or kind_of(key)
    if all(key is not None and key[:1] == b"s" for key in keys):
        assert (keys[0] < keys[1]) == (one < other)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("a number", ["0", "-0", "1.", ".5", "+1", "1e5", "1E-5", " 9 ", "inf", "true", "0" * 900]),
        ("a date or a time", ["2024-05", "2024-01-09T24:00", "2016-12-31 23:59:60Z", "-0044-03-15",
                              "2024-01-09 05:00:00 UTC", "2024-01-09t05:00z", "2024-02-29",
                              "2024-01-09T05:00-05:00[America/New_York]", "9 Jan 2024",
                              "Wed Aug 27 13:08:45 +0000 2008"]),
        ("a duration or a time of day", ["PT0S", "-P1D", "P2W", "36:00:00", "9 days", "0:00:09.5"]),
        ("a text", ["a", "1a", "12-345-67", "30303030-3030-3030-3030-303030303030", "2024-00012",
                    "10.1000/182", "May I", "e5", "-", "2024-W03", "½", "９",
                    f"{'9' * 5_000} days", f"{'9' * 5_000}:00", f"1 Jan {'9' * 20}",
                    f"9 Jan 2024 {'9' * 40}:00:00"]),
        ("a number or a date in a form that is not read",
         ["9,5", "1.000.000", "1'000", "1_000", "9 %", "$9", "9.5.2024", "05/09/2024", "1900-02-29",
          "2024-13-01", "P1Y", "1.2.3", "10:05 pm", "9" * 1_001]),
    ],
)  # fmt: skip
def test_what_texts_are(kind: str, texts: list[str]) -> None:
    for text in texts:
        key = order_key(text)
        assert key is not None and kind_of(key)[0] == kind, text


@pytest.mark.parametrize(
    "ascending",
    [
        ["2024-01-09T23:00:00+02:00", "2024-01-09 21:30", "2024-01-09T22:00:00Z", "2024-01-10"],
        ["-0044-03-15", "0000-01-01", "0001-01-01", "9999-12-31T23:59:59", "+10000-01-01"],
        ["Mon, 8 Jan 2024 23:00:00 -0100", "9 Jan 2024 00:00:01 GMT", "2024-01-09T00:00:02"],
        ["-1 day, 23:59:59", "0:00:00", "PT0.5S", "00:01", "P1D", "25:00:00", "9 days 00:00:00"],
        [False, True, 1.5, "2", Decimal("2.0000000000000000000001"), 3],
    ],
)
def test_forms_are_compared_with_one_another(ascending: list[Any]) -> None:
    keys = [order_key(json_value(value)) for value in ascending]
    assert len(set(keys)) == len(keys) and keys == sorted(keys)  # type: ignore[type-var]


class Colour(enum.StrEnum):
    """A text of a class of its own."""

    RED = "red"


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (Colour.RED, "red"),
        (np.str_("x"), "x"),
        (np.bool_(True), True),
        (np.float32(0.5), 0.5),
        (np.int8(-1), -1),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float16("nan"), None),
        (np.array([[1.5, np.inf]]), [[1.5, "Infinity"]]),
        (np.datetime64("2024-01-09"), "2024-01-09"),
        (np.datetime64("NaT", "s"), None),
        (np.timedelta64(36, "h"), "P1DT12H"),
        (np.array(["2024-01-09", "NaT"], "M8[D]"), ["2024-01-09", None]),
        (2**64, str(2**64)),
        (-(2**63) - 1, str(-(2**63) - 1)),
        (Decimal("-Infinity"), "-Infinity"),
        (Decimal("sNaN"), None),
        (Decimal("1.50"), "1.50"),
        ({1: {None: (True,)}}, {"1": {"null": [True]}}),
        (b"caf\xc3\xa9", "café"),
        ("a\ud83d", "a\ufffd"),
        (datetime.time(1, 2), "01:02:00"),
        (datetime.timedelta(-1), "-P1D"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ],
)
def test_what_is_kept_of_a_value(value: Any, kept: Any) -> None:
    result = json_value(value)
    assert result == kept and type(result) is type(kept)
    assert json.loads(json_fields({"v": value})) == {"v": kept}
