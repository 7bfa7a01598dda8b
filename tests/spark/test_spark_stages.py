"""The stages that need no session: pairs and leaders of sorted buckets; components in rounds."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as sf

from lshdb import CreateOptions, DamageError
from lshdb.search.components import connect, represent
from lshdb.signatures.families import family_of
from lshdb.spark import candidate_pairs, comparison, grouping, merged_buckets, pairing
from lshdb.spark.signing import Recipe, gathered

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning")


def one_id(number: int) -> bytes:
    """A number as a short id."""
    return number.to_bytes(8, "big") + bytes(8)


def postings(buckets: dict[int, list[int]], rng: random.Random, size: int) -> list[pa.RecordBatch]:
    """Postings in no order, in batches of so many rows."""
    rows = [(key, one_id(member)) for key in buckets for member in buckets[key]]
    rng.shuffle(rows)
    return [
        pa.RecordBatch.from_arrays(
            [pa.array(column) for column in zip(*rows[at : at + size], strict=True)],
            names=["bucket", "signature_id"],
        )
        for at in range(0, len(rows), size)
    ]


def sent(batches: Iterable[pa.RecordBatch], size: int) -> list[pa.RecordBatch]:
    """What arrives of ranges: their rows in order of range, in batches of so many."""
    rows = [row for batch in pairing._ranged_batches(batches) for row in batch.to_pylist()]
    table = pa.Table.from_pylist(sorted(rows, key=lambda row: row["range"]))
    return table.combine_chunks().to_batches(max_chunksize=size)


@pytest.mark.fast
@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize("most", [None, 2, 5])
def test_each_bucket_is_paired_or_given_out_in_pieces(
    size: int, most: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairing, "PIECE", 4)
    monkeypatch.setattr(candidate_pairs, "PIECE", 4)
    monkeypatch.setattr(candidate_pairs, "HEAD", 3)
    monkeypatch.setattr(pairing, "SENT", 4 * size)
    rng = random.Random(size)
    keys = [1, 2, 2 + 2**24, 3 + 2**24, 2**31, 7 << 32, (7 << 32) + 1, 2**32, 255 * 2**32 - 1]
    buckets = {
        key: [rng.randrange(200) for _ in range(n)]  # some members come twice
        for key, n in zip(keys, [1, 2, 9, 1, 3, 30, 5, 2, 12], strict=True)
    }
    expected, large = set(), {}
    for key, members in buckets.items():
        ids = sorted(set(members))
        if most is None or len(ids) <= most:
            expected |= {(one_id(a), one_id(b)) for a, b in itertools.combinations(ids, 2)}
        else:
            large[key] = ids
    pairs, given, sizes, again = set(), [], {}, []
    for batch in pairing._paired_batches(most, sent(postings(buckets, rng, size), size)):
        for row in batch.to_pylist():
            if row["right"] is not None:
                pairs.add((row["left"], row["right"]))
            elif row["members"] is not None:
                given += [row, row]
            elif row["left"] is not None:
                again.append((row["bucket"], row["left"]))
            else:
                sizes[row["bucket"]] = row["number"]
    assert pairs == expected
    assert sizes == {key: len(ids) for key, ids in large.items()}
    # What came twice is told of the first band and the last one, once.
    assert sorted(again) == sorted(
        (key, one_id(member))
        for key, members in buckets.items()
        for member, n in Counter(members).items()
        if n > 1 and key < 2**32
    )
    alike: dict[bytes, list[list[int]]] = {}
    for ids in large.values():
        alike.setdefault(one_id(ids[0]), []).append(ids)
    rows = [
        (row["first"], row["first"], row["number"], row["members"],
         max(map(len, alike[row["first"]])))
        for row in rng.sample(given, len(given))
    ]  # fmt: skip
    names = ["first", "root", "number", "members", "most"]
    cut = [
        row
        for several in rows
        for batch in candidate_pairs._piece_batches(
            [pa.RecordBatch.from_arrays([pa.array([value]) for value in several], names)]
        )
        for row in batch.to_pylist()
    ]
    cut.sort(key=lambda row: (row["first"], row["piece"]))
    pieces: dict[bytes, list[list[bytes]]] = {}
    for batch in candidate_pairs._member_batches([pa.RecordBatch.from_pylist(cut)] if cut else []):
        (first,), (_,) = (set(batch[name].to_pylist()) for name in ("first", "piece"))
        pieces.setdefault(first, []).append(batch["signature_id"].to_pylist())
    assert set(pieces) == set(alike)
    for first, taken_as_one in alike.items():
        most_members = max(map(len, taken_as_one))
        assert len(pieces[first]) == 2 ** math.ceil(math.log2(math.ceil(most_members / 4)))
        assert all(piece == sorted(set(piece)) for piece in pieces[first])
        heads = {one_id(member) for ids in taken_as_one for member in ids[:3]}
        members = {one_id(member) for ids in taken_as_one for member in ids}
        found = Counter(member for piece in pieces[first] for member in piece)
        assert found.keys() == members
        assert {member for member, n in found.items() if n > 1} <= heads
        assert all(found[member] == len(pieces[first]) for member in heads)


@pytest.mark.fast
@pytest.mark.parametrize("size", [1, 2, 1000])
def test_keys_in_arrays_and_numbers_as_ids_are_the_same_postings(size: int) -> None:
    keys = [[5 + 2**20, 2**39], [5 + 2**20, 7], [254 << 32, 7]]
    ids = [1, 2**40, 3]
    expected = sorted(
        (key >> 24, (key % 2**24).to_bytes(3, "little") + one_id(number)[:8])
        for several, number in zip(keys, ids, strict=True)
        for key in several
    )
    whole = pa.RecordBatch.from_arrays([pa.array(keys), pa.array(ids)], ["bucket", "signature_id"])
    flat = pa.RecordBatch.from_pylist(
        [
            {"bucket": key, "signature_id": one_id(number)}
            for several, number in zip(keys, ids, strict=True)
            for key in several
        ]
    )
    for batch in (whole, flat, pa.concat_batches([whole, whole]).slice(3)):
        parts = [batch.slice(at, size) for at in range(0, len(batch), size)]
        found = [
            (row["range"], row["postings"][at : at + 11])
            for row in itertools.chain.from_iterable(
                out.to_pylist() for out in pairing._ranged_batches(parts)
            )
            for at in range(0, len(row["postings"]), 11)
        ]
        assert sorted(found) == expected


@pytest.mark.fast
@pytest.mark.parametrize("kind", ["hashes", "numbers", "alike", "halves"])
def test_ids_are_put_in_order_and_spread_evenly(kind: str) -> None:
    rng = random.Random(2)
    numbers = {
        "hashes": [rng.randrange(2**128) for _ in range(4000)],
        "numbers": list(range(4000)),
        "alike": [rng.randrange(40) for _ in range(4000)],
        "halves": [rng.randrange(40) * 2**64 + rng.randrange(2**64) for _ in range(4000)],
    }[kind]
    rng.shuffle(numbers)
    ids = pairing.ids_of(pa.array([number.to_bytes(16, "big") for number in numbers]))
    assert ids[pairing.order_of(ids)].tolist() == sorted(ids.tolist())
    if kind != "alike":
        counts = np.bincount(candidate_pairs._hashed(ids, 3), minlength=8)
        assert len(counts) == 8 and (abs(counts - 500) < 100).all()


@pytest.mark.fast
@pytest.mark.parametrize("size", [1, 1000])
def test_pairs_of_a_small_bucket_are_at_home_with_its_first_member(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairing, "HOMELY", 3)
    buckets = {1: [7, 9, 5], 2: [9, 7], 3: [1, 2, 3, 4]}
    homes: dict[tuple[int, int], set[int | None]] = {}
    rows = sent(postings(buckets, random.Random(size), size), size)
    for batch in pairing._paired_batches(None, rows):
        for row in batch.to_pylist():
            left, right = (int.from_bytes(row[end][:8], "big") for end in ("left", "right"))
            homes.setdefault((left, right), set()).add(row["home"])
    large = {pair: {None} for pair in itertools.combinations([1, 2, 3, 4], 2)}
    assert homes == {(5, 7): {5}, (5, 9): {5}, (7, 9): {5, 7}} | large


@pytest.mark.fast
@pytest.mark.parametrize("most", [0, 100])
def test_copies_of_a_body_are_left_out_of_a_cell(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task forgets them where it has met too many."""
    monkeypatch.setattr(comparison, "_KNOWN", most)
    rows = [(b"a", 1), (b"a", 1), (b"b", 1), (b"a", 2), (b"b", 1), (b"a", 1)]
    whole = pa.RecordBatch.from_pylist([{"signature_id": a, "cell": b} for a, b in rows])
    batches = comparison._once_batches([whole.slice(0, 4), whole.slice(4)])
    left = [(row["signature_id"], row["cell"]) for out in batches for row in out.to_pylist()]
    assert sorted(left[:3]) == [(b"a", 1), (b"a", 2), (b"b", 1)]
    assert left[3:] == ([(b"b", 1), (b"a", 1)] if most == 0 else [])


@pytest.mark.parametrize(("method", "n"), [("exact", None), ("none", 3)])
def test_contents_with_one_short_id_are_compared_each_by_itself(
    spark: Any, method: str, n: int | None
) -> None:
    """The ends of few pairs are broadcast; the bodies of any number are joined with them."""
    params = CreateOptions(threshold=0.5, k=1).params()
    words = [f"w{number}" for number in range(40)]
    texts = {
        b"a" * 16: words, b"a" * 8 + b"b" * 8: words[:35], b"a" * 8 + b"c" * 8: ["other"],
        b"d" * 16: words[5:],
    }  # fmt: skip
    family = family_of(params)
    signed, _ = family.sign_contents(family.contents([" ".join(text) for text in texts.values()]))
    rows = [
        (key, row.tobytes(), 9, " ".join(text))
        for (key, text), row in zip(texts.items(), signed, strict=True)
    ]
    df = spark.createDataFrame(
        [*rows, *rows], "signature_id binary, signature binary, n_chars bigint, body string"
    )
    by = comparison.Comparison(df, Recipe(params), method, params.level)
    a, d = (pairing.ids_of(pa.array([key]))[0].tobytes() for key in (b"a" * 16, b"d" * 16))
    pairs = spark.createDataFrame([(a, d), (a, d), (a, a)], "left binary, right binary")
    edges = comparison.verified(pairs, by, n=n).collect()
    named = sorted((bytes(row.left)[7:9], bytes(row.right)[7:9]) for row in edges)
    assert named == [(b"aa", b"ab"), (b"aa", b"dd"), (b"ab", b"dd")]


@pytest.mark.fast
def test_a_pair_whose_rows_have_gone_is_told_of() -> None:
    ids = pairing.ids_of(pa.array([1, 2]))
    with pytest.raises(DamageError, match="1 pairs have a signature that is missing"):
        comparison._signature_pairs(ids, ids[[0, 0]], pairing.ids_of(pa.array([2, 3])))


@pytest.mark.long
def test_large_buckets_with_many_members_in_common_are_taken_as_one(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Halves of a family are, with a part of it; strangers, and a hundredth of them, are not."""
    rng = random.Random(4)
    family = [rng.getrandbits(60) for _ in range(40_000)]
    strangers = [rng.getrandbits(60) for _ in range(5_000)]
    buckets = [sorted(number for number in family if rng.random() < 0.5) for _ in range(6)]
    buckets += [sorted(rng.sample(family, 2_000)), sorted(strangers)]
    buckets += [sorted(strangers[:50] + [rng.getrandbits(60) for _ in range(5_000)])]
    buckets += [buckets[0][:1] + buckets[1][1:]]  # another one of the same first member
    sizes: dict[bytes, int] = {}
    rows: list[tuple[bytes, int, bytes | None]] = []
    for members in buckets:
        first, n = one_id(members[0]), len(members)
        sizes[first] = max(n, sizes.get(first, 0))
        ids = b"".join(one_id(member) for member in members[:100])
        rows += [(first, n, None), (first, 0, ids), (first, pairing.PIECE, ids)]
    rng.shuffle(rows)
    shared = spark.createDataFrame(rows, "first binary, number bigint, members binary")
    shared = shared.withColumn("bucket", sf.lit(1).cast("bigint"))

    def merged() -> dict[bytes, tuple[bytes, int]]:
        answer = merged_buckets.merged_buckets(shared).collect()
        return {bytes(row["first"]): (bytes(row["root"]), row["most"]) for row in answer}

    # Few enough to be compared each by itself.
    assert merged() == {first: (first, size) for first, size in sizes.items()}
    monkeypatch.setattr(merged_buckets, "MANY", 100_000)
    told = merged()
    assert told.keys() == sizes.keys()
    halves = {told[one_id(members[0])] for members in buckets[:7]}
    ((root, most),) = halves
    assert root == min(one_id(members[0]) for members in buckets[:7])
    assert 25_000 < most < 64_000  # of 39,400 or so
    assert told[one_id(min(strangers))] == (one_id(min(strangers)), 5_000)
    assert told[one_id(buckets[8][0])] == (one_id(buckets[8][0]), 5_050)


@pytest.mark.fast
@pytest.mark.parametrize("n", [merged_buckets.MOST, merged_buckets.MOST + 1])
def test_no_more_buckets_are_merged_than_the_pieces_have_room_for(n: int) -> None:
    head = b"".join(map(one_id, range(64)))
    rows = [
        {"near": b"x", "first": one_id(place), "size": 9, "heads": [head]} for place in range(n)
    ]
    batches = [pa.RecordBatch.from_pylist(part) for part in (rows[:5], rows[5:])]
    (batch,) = merged_buckets._merged_batches(9 * 200, batches)
    roots = set(batch["root"].to_pylist())
    assert batch.num_rows == n and len(roots) == (1 if n <= merged_buckets.MOST else n)
    assert list(merged_buckets._merged_batches(0, [])) == []


@pytest.mark.fast
def test_leaders_join_the_members_of_a_piece_that_are_alike() -> None:
    params = CreateOptions(threshold=0.8).params()
    rng = np.random.default_rng(1)
    kinds = rng.integers(2**16, size=(3, params.row_words), dtype=np.uint16)
    ids = rng.permutation(30)
    rows = kinds[ids % 3]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([0] * 30),
            pa.array([one_id(number) for number in ids.tolist()]),
            pa.array([row.tobytes() for row in rows]),
        ],
        names=["piece", "signature_id", "signature"],
    )
    found = [
        (int.from_bytes(row["left"][:8], "big"), int.from_bytes(row["right"][:8], "big"))
        for out in candidate_pairs._led_batches(
            params, 0.6, 10**6, False, [batch.slice(0, 11), batch.slice(11)]
        )
        for row in out.to_pylist()
    ]
    assert sorted(found) == sorted((number % 3, number) for number in range(3, 30))


@pytest.mark.fast
@pytest.mark.parametrize("most", [2, 5, 60, 1000])
def test_a_forest_has_the_components_of_all_pairs(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouping, "MOST_AT_ONCE", most)
    rng = random.Random(most)
    edges = [sorted(rng.sample(range(one, one + 9), 2)) for one in (10, 30, 50) for _ in range(40)]
    rng.shuffle(edges)
    whole = pa.RecordBatch.from_pylist(
        [{"left": one_id(left), "right": one_id(right)} for left, right in edges]
    )
    parts = [whole.slice(at, 7) for at in range(0, len(edges), 7)]
    forest = list(grouping._forest_batches(parts))

    def components(batches: list[pa.RecordBatch]) -> dict[bytes, bytes]:
        (found,) = grouping._connected_batches(batches)
        return {row["signature_id"]: row["root"] for row in found.to_pylist()}

    assert components(forest) == components(parts)
    rows = [(row["left"], row["right"]) for batch in forest for row in batch.to_pylist()]
    assert set(rows) <= {(one_id(left), one_id(right)) for left, right in edges}
    assert set(components(parts).values()) == {one_id(one) for one in (10, 30, 50)}
    if most >= 60:
        assert len(rows) == 24


def test_stars_are_the_components_of_one_task(
    spark: Any, monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    rng = random.Random(4)
    chain = [(number, number + 1) for number in range(100, 109)]
    rng.shuffle(chain)
    edges = [*chain, *((5, other) for other in (1, 9, 7)), (7, 9), (40, 41), (41, 42), (42, 40)]
    rows = [tuple(map(one_id, sorted(edge))) for edge in edges]
    df = spark.createDataFrame(rows, "left binary, right binary")
    found = sorted((bytes(a), bytes(b)) for a, b in grouping.stars(df).collect())
    assert found == sorted((bytes(a), bytes(b)) for a, b in grouping.components(df).collect())
    # Rounds, or one task, after each task has reduced its own.
    for most in (0, len(rows) - 1) if is_long else (0,):
        monkeypatch.setattr(grouping, "MOST_AT_ONCE", most)
        assert found == sorted((bytes(a), bytes(b)) for a, b in grouping.components(df).collect())
    assert {root for _, root in found} == {one_id(1), one_id(40), one_id(100)}


def starred(
    pairs: set[tuple[bytes, bytes]], *, is_large: bool, n_tasks: int, size: int
) -> tuple[list[tuple[bytes, bytes]], bool]:
    """Large or small stars as so many tasks find them; and whether one is open."""
    if is_large:
        arrows = sorted(pairs | {(other, node) for node, other in pairs})
    else:
        arrows = sorted((max(pair), min(pair)) for pair in pairs)
    found, is_open = [], False
    for task in range(n_tasks):
        rows = [row for row in arrows if int.from_bytes(row[0][:8], "big") * 7919 % n_tasks == task]
        batches = [
            pa.RecordBatch.from_arrays(
                [pa.array(column) for column in zip(*rows[at : at + size], strict=True)],
                names=["node", "neighbor"],
            )
            for at in range(0, len(rows), size)
        ]
        for batch in grouping._star_batches(is_large, batches):
            found += zip(*(column.to_pylist() for column in batch.columns[:2]), strict=True)
            is_open |= is_large and any(batch.column("is_open").to_pylist())
    return found, is_open


GRAPHS = {
    "path": [(number, number + 1) for number in range(60)],
    "hub": [(30, other) for other in range(60) if other != 30] + [(80, 59)],
    "grid": [(n, n + 1) for n in range(48) if n % 7 < 6] + [(n, n + 7) for n in range(42)],
    "random": [(n * n % 61, n * 7 % 59) for n in range(1, 90)],
    "dense": [(n * n % 97, n * 31 % 89) for n in range(1, 300)],
    "families": [
        pair for n in range(0, 60, 4) for pair in itertools.combinations(range(n, n + 4), 2)
    ],
    "pairs": [(n, n + 1) for n in range(0, 40, 2)],
    "none": [],
}


@pytest.mark.fast
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("most", "n_tasks"), [(1, 1), (2, 5), (7, 3), (1000, 1), (1000, 60)])
def test_stars_connect_whatever_a_task_has_at_once(
    graph: str, most: int, n_tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the neighbors of a node are in many parts; and there are never many more pairs."""
    monkeypatch.setattr(grouping, "MOST_AT_ONCE", most)
    numbers = list(range(100))
    random.Random(graph).shuffle(numbers)
    edges = [(numbers[a], numbers[b]) for a, b in GRAPHS[graph] if a != b]
    left, right = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    nodes, roots = connect(left, right)
    pairs = {(one_id(a), one_id(b)) for a, b in edges}
    for _round in range(20):
        large, is_open = starred(pairs, is_large=True, n_tasks=n_tasks, size=1 + most % 5)
        assert most < 1000 or len(large) <= len(pairs) + len(nodes)
        if not is_open:
            break
        small, _ = starred(set(large), is_large=False, n_tasks=n_tasks, size=1 + most % 5)
        pairs = set(small)
    assert not is_open
    assert set(large) == {
        (one_id(node), one_id(root))
        for node, root in zip(nodes.tolist(), roots.tolist(), strict=True)
        if node != root
    }


@pytest.mark.parametrize("most", [pytest.param(3, marks=pytest.mark.long), 40])
def test_representatives_in_rounds_are_those_of_one_task(
    spark: Any, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Of a chain, of one that many are like, of a family, and of a pair that a task decides."""
    rng = random.Random(5)
    pairs = [(number, number + 1) for number in range(9)]
    pairs += [(20, other) for other in range(21, 29)]
    pairs += [pair for pair in itertools.combinations(range(40, 60), 2) if rng.random() < 0.3]
    pairs += [(90, 91)]
    left, right = np.array(pairs).T
    nodes, roots = connect(left, right)
    turns = {node: rng.random() for node in nodes.tolist()} | {20: 2.0, 90: 0.0}
    order = np.array(sorted(turns, key=turns.__getitem__))
    _, chosen, _ = represent(order, left, right)
    ends = spark.createDataFrame(
        [
            (one_id(node), one_id(root), turns[node])
            for node, root in zip(nodes.tolist(), roots.tolist(), strict=True)
        ],
        "signature_id binary, root binary, turn double",
    )
    edges = spark.createDataFrame(
        [(one_id(a), one_id(b), (a + b) / 200) for a, b in pairs],
        "left binary, right binary, similarity double",
    )
    monkeypatch.setattr(grouping, "MOST_AT_ONCE", most)
    answer = grouping.representatives(ends, edges, [sf.col("turn")]).collect()
    assert {(bytes(row.signature_id), bytes(row.chosen)) for row in answer} == {
        (one_id(node), one_id(of)) for node, of in zip(nodes.tolist(), chosen.tolist(), strict=True)
    }
    for row in answer:
        node, of = (int.from_bytes(end[:8], "big") for end in (row.signature_id, row.chosen))
        assert row.similarity == (None if node == of else (node + of) / 200)


def tasks_of_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the group of each row, and the task that has it."""
    from pyspark import TaskContext

    for batch in batches:
        task = np.full(batch.num_rows, TaskContext.get().partitionId())  # type: ignore[union-attr]
        yield pa.RecordBatch.from_arrays([batch.column("root"), pa.array(task)], ["root", "task"])


def test_a_group_is_in_one_task_whatever_its_rows_come_from(spark: Any) -> None:
    """Also after joins by its own column, of which Spark finds out late that one side is small.

    Rows that ``repartition`` brings together are in several tasks then.
    """
    numbers = spark.createDataFrame([(n, n % 50) for n in range(400)], "number bigint, root bigint")
    roots = spark.createDataFrame([(n,) for n in range(25)], "root bigint").distinct()
    nodes, edges = (
        numbers.join(roots, "root", "semi").select("root", sf.lit(kind).alias("kind"))
        for kind in (0, 1)
    )
    groups = gathered(nodes.unionByName(edges), "root", order=["root", "kind"])
    tasks = groups.mapInArrow(tasks_of_groups, "root bigint, task bigint").distinct()
    assert sorted(row.root for row in tasks.collect()) == list(range(25))


def kept_rows(spark: Any) -> set[int]:
    """The numbers of what executors keep."""
    return set(spark.sparkContext._jsc.getPersistentRDDs())


def test_rounds_free_the_rows_of_former_rounds(spark: Any) -> None:
    rows = [(one_id(number), one_id(number + 1)) for number in range(30)]
    df = spark.createDataFrame(rows, "left binary, right binary")
    before = kept_rows(spark)
    assert {bytes(row.root) for row in grouping.stars(df).collect()} == {one_id(0)}
    assert len(kept_rows(spark) - before) == 1


@pytest.mark.parametrize("is_dynamic", [True, False])
def test_rows_that_go_with_their_executor_are_computed_again(
    spark: Any, monkeypatch: pytest.MonkeyPatch, is_dynamic: bool
) -> None:
    """Under dynamic allocation; else Spark says that they are lost."""
    monkeypatch.setattr(grouping, "_removes_executors", lambda _session: is_dynamic)
    before = kept_rows(spark)
    rows = grouping.cut(spark.range(5).repartition(2))
    lost = kept_rows(spark) - before
    assert lost
    for number in lost:
        spark.sparkContext._jsc.getPersistentRDDs()[number].unpersist(True)
    if is_dynamic:
        assert sorted(row.id for row in rows.collect()) == [0, 1, 2, 3, 4]
    else:
        with pytest.raises(Py4JJavaError, match="BLOCK_ID_NOT_FOUND"):
            rows.collect()
