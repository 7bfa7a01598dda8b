"""What a body may hold, and how long it takes to find out that it holds something else."""

from __future__ import annotations

import json
import random
import time
from urllib.parse import urlencode

import pytest

from lshdb.serve.answers import ExplainRequest, QueryRequest
from lshdb.serve.request_bodies import (
    MOST_FIELDS,
    MOST_VALUES,
    InvalidRequestError,
    form_fields,
    json_request,
)

pytestmark = pytest.mark.fast


def form_text(body: bytes) -> str:
    return form_fields(body)["text"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "two words",
        "a+b&c=d%41",
        "line\r\nand line",
        "é ü 日本 \U0001f389",
        "%",
        "%4",
        "\x00",
    ],
)
def test_the_text_of_a_form_goes_round(text: str) -> None:
    assert form_text(urlencode({"text": text}).encode()) == text.replace("\r\n", "\n")
    assert form_text(urlencode({"a": "1", "text": text, "b": "2"}).encode()) == text.replace(
        "\r\n", "\n"
    )


def test_escapes_are_not_cut_where_pieces_are(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = random.Random(1)
    for piece in range(3, 9):
        monkeypatch.setattr("lshdb.serve.request_bodies._PIECE", piece)
        for _ in range(200):
            text = "".join(drawn.choice("aé%日+ ") for _ in range(drawn.randrange(20)))
            assert form_text(urlencode({"text": text}).encode()) == text
    assert form_text(b"text=%%%%%%%zz%4") == "%%%%%%%zz%4"
    assert form_text(b"text=%ff") == "\ufffd"


@pytest.mark.parametrize("body", [b"", b"texts=a", b"a=1&b=2", b"&&&", b"text", b"x=text"])
def test_a_form_without_a_text(body: bytes) -> None:
    if body == b"text":
        assert form_text(body) == ""
        return
    with pytest.raises(InvalidRequestError, match="no field 'text'"):
        form_text(body)


LONG = 16 * 2**20
BOMBS = {
    "fields of a form": (None, b"text=x" + b"&a=1" * (LONG // 4), "more than 16 fields"),
    "escapes": (QueryRequest, b'{"text": "' + rb"\"" * (LONG // 2), "not JSON"),
    "lists": (QueryRequest, b'{"text": [' + b"[]," * (LONG // 3), "more than 1,000,000 values"),
    "numbers": (QueryRequest, b'{"vector": [' + b"0," * (LONG // 2), "more than 1,000,000 values"),
    "texts": (QueryRequest, b'{"text": [' + b'"",' * (LONG // 3), "more than 1,000,000 values"),
    "deep lists": (QueryRequest, b'{"text": ' + b"[" * LONG, "more than 1,000,000 values"),
    "deep": (QueryRequest, b'{"text": ' + b"[" * 500_000, "nested too deeply"),
    "deep objects": (QueryRequest, b'{"text": ' + b'{"a":' * 200_000, "nested too deeply"),
    "a long number": (QueryRequest, b'{"top": ' + b"1" * LONG + b"}", "number that is too long"),
    "names": (
        ExplainRequest,
        b"{" + b",".join(b'"n%d":1' % n for n in range(400_000)) + b"}",
        "n0: there is no such name",
    ),
    "wrong tokens": (QueryRequest, b'{"text": [' + b"1," * 900_000 + b"1]}", "text: expected a"),
    "wrong numbers": (
        QueryRequest,
        b'{"vector": [' + b'"1",' * 400_000 + b"1]}",
        "vector: expected a list of numbers",
    ),
    "quotes": (QueryRequest, b'"' * (LONG + 1), "more than 1,000,000 values"),
    "white space": (QueryRequest, b" " * LONG, "not JSON"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_with_the_reason_and_soon(name: str) -> None:
    model, body, reason = BOMBS[name]
    begun = time.thread_time()
    with pytest.raises(InvalidRequestError, match=reason) as refused:
        form_text(body) if model is None else json_request(body, model)
    assert time.thread_time() - begun < 3
    assert len(str(refused.value)) < 300


def test_as_many_values_as_may_be() -> None:
    asked = json_request(b'{"text": [' + b'"a",' * (MOST_VALUES // 2 - 10) + b'"a"]}', QueryRequest)
    assert len(asked.text) == MOST_VALUES // 2 - 9
    form = b"&".join([b"a=1"] * (MOST_FIELDS - 1) + [b"text=x"])
    assert form_text(form) == "x"


@pytest.mark.parametrize(
    ("asked", "body"),
    [
        ({"text": 'a, [b] {c} \\ " d'}, 'a, [b] {c} \\ " d'),
        ({"text": ["b", "a"]}, ["b", "a"]),
        ({"text": {"set": ["b", "a"]}}, frozenset({"a", "b"})),
        ({"vector": [1, 2.5]}, [1.0, 2.5]),
        ({"vector": "0101"}, "0101"),
        ({"vector": {"a": 1}}, {"a": 1.0}),
        ({"text": None, "vector": None, "key": "k"}, None),
    ],
)
def test_bodies_as_they_are_given(asked: object, body: object) -> None:
    assert json_request(json.dumps(asked).encode(), QueryRequest).body() == body


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\xff", "byte 0 is not UTF-8"),
        ('{"text": "a"}'.encode("utf-16"), "byte 0 is not UTF-8"),
        (b"[1]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b'{"text": {"set": "ab"}}', "text: expected"),
        (b'{"text": {"set": ["a"], "b": 1}}', "text: expected"),
        (b'{"vector": [true]}', "vector: expected"),
        (b'{"vector": {"a": "1"}}', "vector: expected"),
        (b'{"vector": [1' + b"0" * 400 + b"]}", "vector: a number is too large"),
        (b'{"top": 1.5}', "top: "),
        (b'{"threshold": NaN}', "threshold: "),
        (b'{"measure": "x"}', "measure: "),
        (b'{"recall": 0}', "recall: "),
    ],
)
def test_what_is_wrong_is_named(body: bytes, reason: str) -> None:
    with pytest.raises(InvalidRequestError, match=reason):
        json_request(body, QueryRequest)
