"""Contraction against a plain dictionary: links, counts, loops, rounds, and what is no link."""

from __future__ import annotations

import gzip
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lshdb.disksort.sorted_rows as scratch
from lshdb import Index, InputError, ParameterError, Rejected
from lshdb.transient.contraction import Contraction

Make = Callable[..., Index]
Link = tuple[str, str, int]

CHAIN = [
    # Neighbours share 4 of 6 words; those two apart 3 of 7.
    ("a", "w1 w2 w3 w4 w5"),
    ("b", "w2 w3 w4 w5 w6"),
    ("c", "w3 w4 w5 w6 w7"),
    ("d", "w4 w5 w6 w7 w8"),
    ("A", "W1 w2 w3 w4 w5"),
    ("lone", "x y z"),
    ("empty", ""),
]

# Three levels: q mirrors p; so b mirrors a, which link to them; so d mirrors c.
CASCADE = [
    ("p", "x"), ("p", "y"), ("q", "x"), ("q", "y"),
    ("a", "p"), ("a", "s"), ("b", "q"), ("b", "s"),
    ("c", "a"), ("c", "t"), ("d", "b"), ("d", "t"),
    ("e", "d"), ("e", "c"), ("e", "e"),
]  # fmt: skip


def sure(make_index: Make, threshold: float = 0.6, **more: object) -> Index:
    """An index that misses nothing worth the name: a band a slot."""
    return make_index("c.lshdb", threshold=threshold, bands=128, rows=1, k=1, **more)


def written(folder: Path, links: Iterable[tuple[object, ...]]) -> Path:
    path = folder / "links.tsv"
    path.write_text("".join("\t".join(map(str, link)) + "\n" for link in links))
    return path


def by_dict(
    links: Iterable[Link], representative: dict[str, str], *, drop_loops: bool = False
) -> list[Link]:
    sums: Counter[tuple[str, str]] = Counter()
    for source, target, count in links:
        sums[representative.get(source, source), representative.get(target, target)] += count
    found = [(*pair, count) for pair, count in sums.items()]
    return sorted(link for link in found if not (drop_loops and link[0] == link[1]))


def mirrors(links: Iterable[Link], threshold: float) -> dict[str, str]:
    """What each host becomes by its links, by brute force: components, the smallest key of each."""
    sets: dict[str, set[str]] = {}
    for source, target, _ in links:
        if source != target:
            sets.setdefault(source, set()).add(target)
    root = {host: host for host in sets}

    def top(host: str) -> str:
        while root[host] != host:
            host = root[host]
        return host

    for one, ones in sets.items():
        for other, others in sets.items():
            if len(ones & others) >= threshold * len(ones | others):
                low, high = sorted((top(one), top(other)))
                root[high] = low
    return {host: top(host) for host in sets if top(host) != host}


def everything(contraction: Contraction) -> tuple[list[Link], dict[str, str], tuple[int, ...]]:
    with contraction:
        return list(contraction), dict(contraction.mapping), contraction.merged


def test_links_are_folded_and_counted(make_index: Make, tmp_path: Path) -> None:
    index = sure(make_index)
    index.add(CHAIN)
    links = [
        ("a", "lone"), ("b", "lone", 3), ("A", "lone", 1), ("lone", "d"), ("c", "b"), ("d", "d", 2),
        ("nobody", "c"), ("nobody", "nowhere"), ("empty", "lone"), ("b", "\U0001f600"),
        ("b", "\uffff"),
    ]  # fmt: skip
    path = written(tmp_path, links)
    found, mapping, merged = everything(index.contract(path))
    expected = [
        ("a", "a", 3), ("a", "lone", 5), ("a", "\uffff", 1), ("a", "\U0001f600", 1),
        ("empty", "lone", 1), ("lone", "a", 1), ("nobody", "a", 1), ("nobody", "nowhere", 1),
    ]  # fmt: skip
    assert found == expected
    assert mapping == dict.fromkeys("Abcd", "a")
    assert merged == (4,)
    without_loops, mapping, _ = everything(index.contract(path, drop_loops=True))
    assert without_loops == expected[1:]
    assert mapping == dict.fromkeys("Abcd", "a")


def test_representatives_are_those_of_clusters(make_index: Make, tmp_path: Path) -> None:
    index = sure(make_index, 0.4)
    index.add(CHAIN)
    path = written(tmp_path, ((key, key) for key, _ in CHAIN))
    for how in (
        {},
        {"threshold": 0.6},
        {"threshold": 0.3},
        {"threshold": 1.0},
        {"linkage": "representative"},
        {"linkage": "representative", "threshold": 0.6},
    ):
        expected = {
            key: one.label
            for one in index.clusters(**how)  # type: ignore[arg-type]
            for key in one.keys
            if key != one.label
        }
        found, mapping, merged = everything(index.contract(path, **how))  # type: ignore[arg-type]
        assert mapping == expected
        assert merged == (len(expected),)
        assert found == by_dict([(key, key, 1) for key, _ in CHAIN], expected)
    assert len(expected) == 3


def test_without_update_as_clusters_say(make_index: Make, tmp_path: Path) -> None:
    index = sure(make_index)
    index.add(CHAIN)
    path = written(tmp_path, ((key, key) for key, _ in [*CHAIN, ("new", "")]))
    with pytest.raises(ParameterError, match="no verified edges"):
        index.contract(path, update=False)
    index.update_clusters()
    index.remove(["a"])  # after which the cluster was called
    index.add([("b", "something else"), ("new", CHAIN[2][1]), ("like b", "something else")])
    for how in ({}, {"threshold": 0.65}, {"linkage": "representative"}):
        expected = {
            key: one.label
            for one in index.clusters(update=False, **how)  # type: ignore[arg-type]
            for key in one.keys
            if key != one.label
        }
        _, mapping, _ = everything(index.contract(path, update=False, **how))  # type: ignore[arg-type]
        assert mapping == {key: label for key, label in expected.items() if key != "like b"}
        assert "new" in mapping


def hosts(links: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for source, target in links:
        found.setdefault(source, []).append(target)
    return list(found.items())


@pytest.mark.parametrize("unit", ["token", "word"])
def test_mirrors_cascade(make_index: Make, tmp_path: Path, unit: str) -> None:
    index = sure(make_index, 0.8, unit=unit)
    index.add(hosts(CASCADE))
    path = written(tmp_path, CASCADE)
    once, mapping, merged = everything(index.contract(path))
    assert mapping == {"q": "p"}
    assert merged == (1,)
    assert ("b", "p", 1) in once and ("d", "b", 1) in once
    found, mapping, merged = everything(index.contract(path, repeat=True))
    assert found == [
        ("a", "p", 2), ("a", "s", 2), ("c", "a", 2), ("c", "t", 2), ("e", "c", 2), ("e", "e", 1),
        ("p", "x", 2), ("p", "y", 2),
    ]  # fmt: skip
    assert mapping == {"b": "a", "d": "c", "q": "p"}
    assert merged == (1, 1, 1, 0)
    with index.contract(path, repeat=True, drop_loops=True) as without_loops:
        assert list(without_loops) == [link for link in found if link[0] != link[1]]
        assert without_loops.rounds == 4


def test_the_mapping_is_of_all_rounds_together(make_index: Make, tmp_path: Path) -> None:
    """What a round merges may be merged again, with something that sorts before it."""
    links = [
        ("m", "1"), ("m", "2"), ("n", "1"), ("n", "2"),  # n becomes m, with what they link to
        ("c", "1"), ("c", "v"), ("n", "u"), ("m", "w"),
        ("u", "9"), ("v", "9"), ("w", "9"),
    ]  # fmt: skip
    index = sure(make_index, 0.5, unit="token")
    index.add(hosts(links))
    _, mapping, merged = everything(index.contract(written(tmp_path, links), repeat=True))
    # n has {1, 2, u} and m {1, 2, w}; c, with {1, v}, is like them only once u, v and w are one.
    assert mapping == {"m": "c", "n": "c", "v": "u", "w": "u"}
    assert merged == (3, 1, 0)


KEYS = [f"h{number}" for number in range(9)] + ["é", "\U0001f600", "\uffff"]
LINKS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS), st.integers(1, 5)), max_size=60
)


@given(LINKS, st.sampled_from([0.4, 0.6, 0.9]), st.booleans(), st.sampled_from([1, 4, 10_000]))
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_as_a_dictionary_does(
    links: list[Link], threshold: float, drop_loops: bool, chunk: int
) -> None:
    expected, replaced, merged = links, {}, ()
    while True:
        step = mirrors(expected, threshold)
        replaced = {node: step.get(last, last) for node, last in replaced.items()} | step
        expected = by_dict(expected, step, drop_loops=drop_loops)
        merged = (*merged, len(step))
        if not step:
            break
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(scratch, "_CHUNK", chunk)
        patch.setattr("lshdb.transient.contraction._LINKS", chunk)
        folder = Path(name)
        path = written(folder, links)
        with Index.create(
            folder / "i", threshold=threshold, bands=128, rows=1, unit="token", k=1
        ) as index:
            index.add(hosts(sorted({(one, other) for one, other, _ in links if one != other})))
            assert everything(index.contract(path, repeat=True, drop_loops=drop_loops)) == (
                expected,
                replaced,
                merged,
            )


BAD = [
    (b"a", "one cell"),
    (b"a b 3", "one cell"),
    (b"a\tb\t1\t", "4 cells"),
    (b"\tb", "source: the key is empty"),
    (b"a\t", "target: the key is empty"),
    (b"a\tb\t", "the count is ''"),
    (b"a\tb\t0", "the count is '0'"),
    (b"a\tb\t-1", "the count is '-1'"),
    (b"a\tb\t1.0", "the count is '1.0'"),
    (b"a\tb\t 1", "the count is ' 1'"),
    ("a\tb\t٣".encode(), "the count is '٣'"),
    (b"a\tb\t9007199254740993", "from 1 to 9,007,199,254,740,992"),
    (b"a\tb\t" + b"9" * 200, "the count is"),
    (b"a\tb\xff", "not valid UTF-8 at byte 4"),
    (b"a\0\tb", "holds a NUL"),
    (b"a" * 1025 + b"\tb", "source: the key has 1,025 bytes"),
    (b"a\t" + b"b" * 5000, "the line has 5,002 bytes"),
]


def test_bad_lines_are_reported_and_stepped_over(make_index: Make, tmp_path: Path) -> None:
    index = sure(make_index)
    path = tmp_path / "bad.tsv"
    good = [b"\xef\xbb\xbfb\ta", b"", b"  ", b"b\ta\t2\r", b"b\t" + b"k" * 1024]
    path.write_bytes(b"\n".join([*good, *(line for line, _ in BAD), b"b\ta\t9007199254740992"]))
    rejected: list[Rejected] = []
    with index.contract(path, on_reject=rejected.append) as found:
        assert list(found) == [("b", "a", 2**53 + 3), ("b", "k" * 1024, 1)]
        assert (found.n_read, found.rejected) == (4, len(BAD))
    assert [each.source for each in rejected] == [
        f"{path}:{number}" for number in range(len(good) + 1, len(good) + len(BAD) + 1)
    ]
    for each, (_, reason) in zip(rejected, BAD, strict=True):
        assert reason in each.reason


def test_a_sum_beyond_64_bits_is_refused(make_index: Make, tmp_path: Path) -> None:
    index = sure(make_index)
    path = written(tmp_path, [("a", "b", 2**53)] * 1023)
    [(_, _, count)] = index.contract(path)
    assert count == 1023 * 2**53
    with pytest.raises(InputError, match="add up to more than"):
        index.contract(written(tmp_path, [("a", "b", 2**53)] * 1024))


def test_compressed_and_standard_input(
    make_index: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = sure(make_index)
    index.add(CHAIN)
    links = written(tmp_path, [("b", "c"), ("a", "lone")] * 3)
    expected = [("a", "a", 3), ("a", "lone", 3)]
    packed = tmp_path / "links.tsv.gz"
    packed.write_bytes(gzip.compress(links.read_bytes()))
    assert list(index.contract(links)) == expected
    assert list(index.contract(packed)) == expected
    stdin = io.TextIOWrapper(io.BytesIO(links.read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert list(index.contract("-")) == expected
    stdin.close()
    with pytest.raises(InputError, match="standard input is closed"):
        index.contract("-")
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(InputError, match="only the part before that was read"):
        index.contract(packed)


def test_what_cannot_be_done_is_said_first(make_index: Make, tmp_path: Path) -> None:
    index = sure(make_index)
    links = written(tmp_path, [("a", "b")])
    (tmp_path / "empty").mkdir()
    (tmp_path / "more.tsv").touch()
    for path, reason in (
        (tmp_path / "nothing", "no such file"),
        (tmp_path / "empty", "holds no file"),
        (tmp_path, "more than one file"),
    ):
        with pytest.raises(InputError, match=reason):
            index.contract(path)
    with pytest.raises(ParameterError, match="linkage is 'x'"):
        index.contract(links, linkage="x")
    with pytest.raises(ParameterError, match="threshold is 0"):
        index.contract(tmp_path / "nothing", threshold=0)
    for name, how in (
        ("k", {"k": 2}),
        ("char", {"unit": "char", "k": 1}),
        ("bag", {"k": 1, "bag": True}),
    ):
        other = make_index(name, **how)
        with pytest.raises(ParameterError, match="a set of single tokens"):
            other.contract(links, repeat=True)
        assert list(other.contract(links)) == [("a", "b", 1)]


def test_memory_is_a_chunk_and_temporary_files_go(
    make_index: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "_CHUNK", 10)
    monkeypatch.setattr("lshdb.transient.contraction._LINKS", 10)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    held = 0
    put = scratch._SortedRows._put

    def watched(rows: scratch._SortedRows, row: Link) -> None:
        nonlocal held
        put(rows, row)
        held = max(held, len(rows._rows))

    monkeypatch.setattr(scratch._SortedRows, "_put", watched)
    index = sure(make_index, 0.8, unit="token")
    links = [(f"{name}{place}", f"x{place}") for place in range(500) for name in "mn"]
    index.add(hosts(links))
    found = index.contract(written(tmp_path, links), repeat=True)
    assert held < 10
    assert list(found) == sorted((f"m{place}", f"x{place}", 2) for place in range(500))
    assert found.merged == (500, 0)
    assert list((tmp_path / "temporary").iterdir()) == []
    assert len(list(found.mapping)) == 500
    del found  # which closes its connections: an open one would be warned of
