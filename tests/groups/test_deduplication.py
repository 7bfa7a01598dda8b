"""What is kept, what is dropped and why; and the lines of a file that survive."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lshdb import Document, Index, InputError, ParameterError
from tests.brute import brute_pairs
from tests.conftest import family_corpus

Make = Callable[..., Index]

CHAIN = {
    "a": "w1 w2 w3 w4 w5",
    "b": "w2 w3 w4 w5 w6",
    "c": "w3 w4 w5 w6 w7",
    "d": "x1 x2 x3",
    "e": "W1 w2 w3   w4 w5",
}
"""a and e are copies; b is like both and like c; c is not like a."""


def chain(make_index: Make) -> Index:
    index = make_index(threshold=0.6, k=1, bands=128, rows=1)
    index.add(CHAIN.items())
    return index


def dropped(index: Index, **how: object) -> dict[str, str | None]:
    return {one.key: one.kept_key for one in index.dedup(only="drop", **how)}  # type: ignore[arg-type]


def greedy(order: list[str], linked: dict[frozenset[str], float]) -> dict[str, str]:
    """The plain way: in order of preference, keep what nothing kept repeats."""
    kept: list[str] = []
    gone: dict[str, str] = {}
    for key in order:
        by = next((one for one in kept if frozenset((one, key)) in linked), None)
        if by is None:
            kept.append(key)
        else:
            gone[key] = by
    return gone


def test_the_first_is_kept_and_a_chain_is_not_followed(make_index: Make) -> None:
    index = chain(make_index)
    found = list(index.dedup())
    assert [one.key for one in found] == list(CHAIN)
    assert [(one.key, one.keep, one.kept_key, one.similarity, one.method) for one in found] == [
        ("a", True, None, None, None),
        ("b", False, "a", 4 / 6, "exact"),
        ("c", True, None, None, None),
        ("d", True, None, None, None),
        ("e", False, "a", 1.0, "exact"),
    ]


def test_other_ways_to_choose(make_index: Make) -> None:
    index = chain(make_index)
    assert dropped(index, keep="last") == {"a": "e", "b": "e"}
    assert dropped(index, keep="longest") == {"a": "e", "b": "e"}
    assert dropped(index, keep="shortest") == {"b": "a", "e": "a"}
    assert dropped(index, keep="field:n_chars") == dropped(index, keep="longest")
    assert dropped(index, keep="field:-n_chars") == dropped(index, keep="shortest")
    assert dropped(index, keep="field:key") == {"a": "e", "b": "e"}
    assert [one.key for one in index.dedup(keep="first", only="keep")] == ["a", "c", "d"]
    for wrong in ("best", "field:", "field:score", "field:body_hash"):
        with pytest.raises(ParameterError, match="keep is"):
            dropped(index, keep=wrong)
    with pytest.raises(ParameterError, match="only is 'x'"):
        list(index.dedup(only="x"))


@pytest.mark.parametrize("keep", ["first", "last", "longest", "shortest"])
@pytest.mark.parametrize("threshold", [0.4, 0.7])
def test_the_choice_is_that_of_the_plain_way(make_index: Make, keep: str, threshold: float) -> None:
    corpus = dict(family_corpus(21))
    index = make_index(threshold=0.4, bands=128, rows=1)
    index.add(corpus.items())
    linked = {
        frozenset((one, other)): similarity
        for one, other, similarity in brute_pairs(corpus.items(), threshold)
    }
    order = list(corpus)
    if keep == "last":
        order.reverse()
    elif keep != "first":
        order.sort(key=lambda key: len(corpus[key]), reverse=keep == "longest")
    # Copies speak with one voice, that of the most preferred of them.
    gone = {one.key: one for one in index.dedup(keep=keep, threshold=threshold, only="drop")}
    assert gone.keys() == greedy(order, linked).keys()
    for key, one in gone.items():
        assert one.kept_key not in gone
        assert round(one.similarity or 0, 9) == linked[frozenset((key, one.kept_key or ""))]


def test_against_drops_only_what_is_new_and_only_for_what_is_older(make_index: Make) -> None:
    index = chain(make_index)
    index.add(
        [
            ("n1", "w1 w2 w3 w4 w5"),  # a copy of a and e
            ("n2", "w2 w3 w4 w5 w7"),  # like a, b, c and e alike
            ("n3", "y1 y2 y3 y4 y5"),
            ("n4", "y1 y2 y3 y4 y6"),  # like n3, which is new as well
        ]
    )
    found = {
        one.key: (one.kept_key, one.similarity) for one in index.dedup(against=True, only="drop")
    }
    assert found == {"n1": ("a", 1.0), "n2": ("a", 4 / 6)}
    assert dropped(index, against=True, since=1) == {}
    assert dropped(index, against=True, since=2) == dropped(index, against=True, since="last")
    assert "n4" in dropped(index)
    with pytest.raises(ParameterError, match="against"):
        list(index.dedup(since=1))
    with pytest.raises(ParameterError, match="no batch 9"):
        list(index.dedup(against=True, since=9))


def test_neighbors_are_ranked_and_follow_the_index(make_index: Make) -> None:
    index = chain(make_index)

    def found(**how: int) -> list[tuple[str, int, str, float]]:
        return [
            (one.key, one.rank, one.neighbor, round(one.similarity, 3))
            for one in index.neighbors(**how)  # type: ignore[arg-type]
        ]

    assert sorted(found()) == [
        ("a", 1, "e", 1.0), ("a", 2, "b", 0.667),
        ("b", 1, "a", 0.667), ("b", 2, "c", 0.667), ("b", 3, "e", 0.667),
        ("c", 1, "b", 0.667),
        ("e", 1, "a", 1.0), ("e", 2, "b", 0.667),
    ]  # fmt: skip
    assert len(found(top=1)) == 4
    index.remove(["b"])
    index.add([("f", "w3 w4 w5 w6 w8")])
    assert sorted(found()) == [("a", 1, "e", 1.0), ("c", 1, "f", 0.667), ("e", 1, "a", 1.0),
                               ("f", 1, "c", 0.667)]  # fmt: skip
    rows = {tuple(row) for row in index.sql("SELECT key, neighbor FROM neighbor").rows}
    assert rows == {(key, other) for key, _, other, _ in found()}
    with pytest.raises(ParameterError, match="top is 0"):
        list(index.neighbors(top=0))


def test_neighbors_are_those_of_queries(make_index: Make) -> None:
    corpus = dict(family_corpus(22))
    index = make_index(threshold=0.4, bands=128, rows=1)
    index.add(corpus.items())
    for top in (1, 3, 10):
        listed: dict[str, list[float]] = {}
        for one in index.neighbors(top=top):
            listed.setdefault(one.key, []).append(round(one.similarity, 9))
        for key in corpus:
            hits = index.query(key=key, top=top)
            assert listed.get(key, []) == [round(hit.similarity, 9) for hit in hits]


LINES = [
    b'{"id": "a", "text": "w1 w2 w3 w4 w5", "score": 1}\r\n',
    b"\n",
    b'{"id":"b","text":"w2 w3 w4 w5 w6","score":7}\n',
    b"no json\n",
    b'{ "id": "e",  "text": "W1 w2 w3   w4 w5", "score": "6.5"}\n',
    b'{"id": "stranger", "text": "w1 w2 w3 w4 w5"}\n',
    b'{"id": 5, "text": "w1 w2 w3 w4 w5"}',
]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_lines_that_survive_are_as_they_were(
    make_index: Make, tmp_path: Path, suffix: str
) -> None:
    index = chain(make_index)
    index.add([("5", "w1 w2 w3 w4 w5")])
    file = tmp_path / f"in.jsonl{suffix}"
    data = b"\xef\xbb\xbf" + b"".join(LINES)
    file.write_bytes(gzip.compress(data) if suffix else data)
    lines = index.filter(file)
    assert b"".join(lines) == b"\xef\xbb\xbf" + b"".join([LINES[0], LINES[1], LINES[3], LINES[5]])
    assert (lines.counts.kept, lines.counts.dropped, lines.counts.unknown) == (4, 3, 2)
    # By a field of the lines: numbers, also in texts, before none.
    kept = [
        json.loads(line)["id"]
        for line in index.filter(file, keep="field:score")
        if line.startswith(b"{")
    ]
    assert kept == ["b", "stranger"]
    with pytest.raises(InputError, match="no such file"):
        list(index.filter(tmp_path / "none.jsonl"))
    with pytest.raises(ParameterError, match="only once"):
        list(index.filter("-", keep="field:score"))


def test_a_document_of_another_file_is_chosen_by_the_field_that_the_index_has(
    make_index: Make, tmp_path: Path
) -> None:
    text = "w1 w2 w3 w4 w5"
    index = make_index(threshold=0.5)
    index.add(Document(key, text, fields={"score": score}) for key, score in (("a", 9), ("b", 1)))
    for key, kept in (("a", True), ("b", False)):
        file = tmp_path / f"{key}.jsonl"
        file.write_bytes(b'{"id": "%b", "score": %d}\n' % (key.encode(), 9 if kept else 1))
        assert bool(list(index.filter(file, keep="field:score"))) == kept
        assert bool(list(index.filter(file, keep="field:-score"))) != kept
        with pytest.raises(ParameterError, match="no record has a field 'scores'"):
            list(index.filter(file, keep="field:scores"))


@pytest.mark.parametrize(
    ("data", "said", "hint"),
    [
        (
            b"id,text\na,w1 w2\nb,w3 w4\n",
            "is not a JSON Lines file; it looks like CSV",
            "JSON Lines",
        ),
        (b"PAR1\x15\x04binary\n\x00PAR1", "looks like a Parquet file", "--input parquet"),
        (bytes(range(256)) * 50, "is not a JSON Lines file", "one JSON object per line"),
        (b'[{"id": "q"},\n{"id": "b"}]', "is a JSON array", "jq"),
        (b'{\n  "id": "a"\n}\n', "looks like a JSON object", "JSON Lines"),
        (b'{"key": "a", "text": "x"}\n' * 3, "none of the 3 lines of", "'key', 'text'"),
        (b'{"id": "x"}\n{"id": "y"}\n\n', "none of the 2 lines of", "added to this index"),
        (b'{"id": "x"}\n' * 3000, "none of the 3,000 lines of", "added to this index"),
    ],
)
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_file_without_a_document_of_the_index_is_refused(
    make_index: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    data: bytes,
    said: str,
    hint: str,
    is_stream: bool,
) -> None:
    index = chain(make_index)
    file = tmp_path / "in.jsonl"
    file.write_bytes(data)
    given: list[bytes] = []
    with open(file) as stream, pytest.raises(InputError) as caught:
        monkeypatch.setattr("sys.stdin", stream)
        for line in index.filter("-" if is_stream else file):
            given.append(line)
    assert given == []
    if not is_stream:
        assert said in caught.value.message and str(file) in caught.value.message
    elif "3,000" in said:
        assert "none of the first 1,000 lines of standard input" in caught.value.message
    assert is_stream or hint in (caught.value.hint or "")


def test_a_late_document_of_the_index_is_enough(make_index: Make, tmp_path: Path) -> None:
    """Of a file all lines are looked at, as its oldest documents may have been removed."""
    index = chain(make_index)
    file = tmp_path / "in.jsonl"
    file.write_bytes(b'{"id": "x"}\n' * 3000 + LINES[2])
    lines = index.filter(file)
    assert len(list(lines)) == 3001 - lines.counts.dropped
    assert lines.counts.unknown == 3000 and lines.counts.is_doubtful
    file.write_bytes(LINES[2] + b'{"id": "x"}\n' * 99)
    lines = index.filter(file)
    list(lines)
    assert lines.counts.unknown == 99 and not lines.counts.is_doubtful
    for nothing in (b"", b"\n \n"):
        file.write_bytes(nothing)
        assert b"".join(index.filter(file)) == nothing


def test_a_file_that_breaks_off_is_said_to(make_index: Make, tmp_path: Path) -> None:
    index = chain(make_index)
    whole = gzip.compress(b"".join(LINES) * 1000)
    (tmp_path / "in.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="only the part before that was read"):
        list(index.filter(tmp_path / "in.jsonl.gz"))


def test_a_line_over_the_limit_is_passed_on(
    tmp_path: Path, make_index: Callable[..., Index]
) -> None:
    """It can be no document at that limit, so nothing says that it repeats anything."""
    index = make_index()
    text = "one two three four five six seven eight"
    index.add([("a", text), ("b", text)])
    lines = [
        json.dumps({"id": "a", "text": text}) + "\n",
        json.dumps({"id": "b", "text": text}) + "\n",
        json.dumps({"id": "b", "text": text, "more": "x" * 700_000}) + "\n",
    ]
    file = tmp_path / "in.jsonl"
    file.write_text("".join(lines))
    kept = index.filter(file, max_document_bytes=500_000)
    assert b"".join(kept).decode() == lines[0] + lines[2]
    counts = kept.counts
    assert (counts.kept, counts.dropped, counts.unknown, counts.too_long) == (2, 1, 1, 1)
    for wrong in (0, 1.5, "9", True):
        with pytest.raises(ParameterError, match="max_document_bytes"):
            index.filter(file, max_document_bytes=wrong)
