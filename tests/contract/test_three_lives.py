"""One life of an index, three times: on SQLite, on Postgres, and in a dataset that Spark leads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import Index as OneMachine
from lshdb.dataset.commits import Dataset
from tests.conftest import family_corpus
from tests.contract.conftest import Both

pytest.importorskip("pyspark")
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

CORPUS = [(key, body) for key, body in family_corpus(3, families=6) if isinstance(body, str)]
FIRST = sorted(CORPUS[:16])
TWICE = [(CORPUS[20][0], "of a key that came before")]
SECOND = list(
    {
        **dict(CORPUS[:11:-1]),
        CORPUS[0][0]: CORPUS[5][1],  # another text, which is there
        CORPUS[1][0]: "of something else altogether",
        "copy": CORPUS[7][1],
        "empty": "",
    }.items()
)
"""Not in the order of their keys."""
REMOVED = [CORPUS[2][0], CORPUS[12][0], "not there"]
STORED = (
    "SELECT doc_id, key, signature_id, content_hash, body_hash, n_shingles, n_chars, source, "
    "batch_id FROM document ORDER BY doc_id",
    "SELECT release_id, signature_id, batch_id FROM signature_release ORDER BY release_id",
    "SELECT batch_id, add_id, source, n_added, n_replaced, n_unchanged, n_copies, n_rejected, "
    "n_removed FROM batch ORDER BY batch_id",
    "SELECT * FROM posting ORDER BY 1, 2, 3",
    "SELECT add_id, name FROM night",
)

Line = tuple[str, str, float, str]


def lines(index: OneMachine, **question: Any) -> list[Line]:
    return sorted((p.key1, p.key2, p.similarity, p.method) for p in index.pairs(**question))


def rows(frame: Any) -> list[Line]:
    return sorted(map(tuple, frame.collect()))


def clusters(index: OneMachine) -> list[tuple[str, int, str]]:
    found = index.clusters()
    return sorted((each.label, len(each.keys), key) for each in found for key in each.keys)


def stored(index: OneMachine) -> list[list[tuple[object, ...]]]:
    return [list(index.sql(statement).rows) for statement in STORED]


def counts(done: Any) -> tuple[Any, ...]:
    names = ("added", "replaced", "unchanged", "copies", "rejected", "short", "batches")
    return tuple(getattr(done, name) for name in names)


def test_the_three_say_the_same(both: Both, tmp_path: Path, spark: Any, is_long: bool) -> None:
    """Counts, lines and stored rows; and the dataset comes back as an index of either database."""
    from lshdb.spark.dataset_index import Index

    def frame(documents: Iterable[tuple[str, str]]) -> Any:
        rows = [(key, body, place) for place, (key, body) in enumerate(documents)]
        return spark.createDataFrame(rows, "id string, text string, place int")

    many = Index.create(str(tmp_path / "d"), threshold=0.5)
    second = [*SECOND, *TWICE, ("", "of no key")]
    done = [
        many.add(frame(FIRST[::-1]), source="x"),
        many.add(frame(second), order="place", night="monday"),
    ]
    assert done[1].rejected == 2 and done[1].replaced == 2 and done[1].unchanged == 4
    gone = many.remove(REMOVED)
    assert (gone.removed, gone.missing, gone.batches) == (2, ["not there"], [3])
    pairs = rows(many.pairs())
    assert pairs != []
    if is_long:
        found = sorted((row.cluster, row.size, row.key) for row in many.clusters().collect())
        since = rows(many.pairs(since=2))
        assert pairs != since != []
        kept = {row["key"]: row["kept_key"] for row in many.dedup().collect()}
        assert many.check() == []
    for place in both.places:
        one = place.create("one", threshold=0.5)
        assert counts(one.add(FIRST, source="x")) == counts(done[0])
        assert counts(one.add(second, night="monday")) == counts(done[1])
        other = one.remove(REMOVED)
        assert (gone.removed, gone.missing) == (other.removed, other.missing)
        assert lines(one) == pairs
        if is_long:
            assert clusters(one) == found
            assert lines(one, since=2) == since
            assert {each.key: each.kept_key for each in one.dedup()} == kept
        back_to = place.folder / "back"
        with OneMachine.from_export(tmp_path / "d", back_to, **place.database()) as back:
            assert stored(back) == stored(one)
            assert back.check() == []
            assert lines(back) == pairs
        one.export(place.folder / "out", format="delta")
        one.close()
        with OneMachine.from_export(place.folder / "out", place.folder / "again") as again:
            assert lines(again) == pairs
    reasons = Dataset.open(many.path).table("rejected").to_pyarrow_table().to_pylist()
    assert sorted((row["batch_id"], row["key"]) for row in reasons) == [(2, ""), (2, TWICE[0][0])]


def vectors(seed: int) -> list[tuple[str, list[float]]]:
    """Groups of three that are near to each other, one of which came before."""
    rng = np.random.default_rng(seed)
    found = []
    for place, centre in enumerate(rng.normal(size=(6, 8))):
        for member in range(3):
            point = np.abs(centre + 0.05 * member * rng.normal(size=8)).astype(np.float32)
            found.append((f"v{place}-{member}", point.tolist()))
    return found


def bits(seed: int) -> list[tuple[str, bytes]]:
    """Groups of three strings of bits that differ in a few, and one of which none is set."""
    rng = np.random.default_rng(seed)
    found = [("empty", bytes(8))]
    for place, centre in enumerate(rng.integers(0, 2, size=(6, 64))):
        for member in range(3):
            one = centre.copy()
            one[rng.integers(0, 64, size=2 * member)] ^= 1
            found.append((f"v{place}-{member}", np.packbits(one).tobytes()))
    return found[::-1]


def digits(seed: int) -> list[tuple[str, str]]:
    """The same in hexadecimal digits."""
    return [(key, one.hex()) for key, one in bits(seed)]


METALS = ("chrome", "cobalt", "copper", "gold", "iron", "lead", "nickel", "tin", "zinc")


def weights(seed: int) -> list[tuple[str, dict[str, float]]]:
    """Groups of three weighted sets in which a few weights differ."""
    rng = np.random.default_rng(seed)
    found = []
    for place in range(6):
        centre = {f"{metal} {place}": float(rng.integers(1, 9)) for metal in METALS}
        for member in range(3):
            changed = {f"{metal} {place}": 0.5 for metal in METALS[:member]}
            found.append((f"v{place}-{member}", centre | changed))
    return found


def tokens(seed: int) -> list[tuple[str, Any]]:
    """Groups of three lists of tokens; of the first ten documents some are texts or sets."""
    rng = np.random.default_rng(seed)
    found: list[tuple[str, Any]] = []
    for place in range(6):
        centre = [f"{place} {token}" for token in "abcdefghij"]
        for member in range(3):
            body = [*rng.permutation(centre).tolist(), *"xyz"[:member]]
            found.append((f"v{place}-{member}", body))
    found[1:3] = [(key, frozenset(body)) for key, body in found[1:3]]
    found[3] = ("v1-0", "a text of its own")
    return found


Case = tuple[str, Any, dict[str, Any]]
L2: Case = ("array<double>", vectors, {"metric": "l2", "dim": 8, "threshold": 0.6})
OTHERS: dict[str, Case] = {
    "cosine": ("array<float>", vectors, {"metric": "cosine", "dim": 8, "threshold": 0.98}),
    "l1": (
        "array<float>",
        vectors,
        {"metric": "l1", "dim": 8, "threshold": 1.5, "dtype": "float64"},
    ),
    "hamming": ("string", digits, {"metric": "hamming", "dim": 64, "threshold": 5}),
    "bits": ("binary", bits, {"metric": "jaccard-bits", "dim": 64, "threshold": 0.7}),
    "weights": ("map<string,double>", weights, {"metric": "weighted-jaccard"}),
    "tokens": ("array<string>", tokens, {"k": 1, "threshold": 0.6}),
    "tokens-in-order": ("array<string>", tokens, {"k": 2, "threshold": 0.1}),
}
"""The type of a column, what fills it, and parameters."""
Numbers = list[tuple[Any, ...]]


def rounded(found: Iterable[tuple[Any, ...]]) -> Numbers:
    """Lines in their order, without the digits that rounding decides."""
    return sorted(tuple(round(v, 12) if type(v) is float else v for v in line) for line in found)


def similar(index: OneMachine, **question: Any) -> Numbers:
    """The pairs of one machine, in the columns of a data frame."""
    return rounded(
        (pair.key1, pair.key2, pair.similarity, pair.method, *_distance(pair))
        for pair in index.pairs(**question)
    )


def _distance(found: Any) -> list[float]:
    return [] if found.distance is None else [found.distance]


@pytest.mark.long
def test_a_life_of_vectors(tmp_path: Path, spark: Any) -> None:
    """The same counts, lines and rows as on one machine, which can go on with what Spark made."""
    from lshdb.spark.dataset_index import Index

    kind, make, parameters = L2
    documents = make(1)
    first, rest = documents[:12], documents[12:]
    second = sorted([*rest, ("v0-0", documents[4][1]), ("v0-1", rest[5][1]), *first[2:4]])
    asked = {"q": documents[0][1], "r": documents[13][1]}

    def frame(some: Iterable[tuple[str, Any]]) -> Any:
        return spark.createDataFrame(list(some), f"id string, text {kind}")

    many = Index.create(str(tmp_path / "d"), **parameters)
    with OneMachine.create(tmp_path / "one", **parameters) as one:
        assert counts(many.add(frame(first))) == counts(one.add(first))
        done = many.add(frame([*second, ("short", [1.0]), ("none", None)]))
        assert done.rejected == 2 and done.replaced == 2
        done.rejected = 0
        assert counts(done) == counts(one.add(second))
        assert many.remove(["v1-1"]).removed == one.remove(["v1-1"]).removed == 1
        assert rounded(many.pairs(since=2).collect()) == similar(one, since=2) != similar(one)
        found = [(row["cluster"], row["size"], row["key"]) for row in many.clusters().collect()]
        assert sorted(found) == clusters(one) != []
        found = {row["key"]: row["kept_key"] for row in many.dedup(keep="last").collect()}
        assert found == {each.key: each.kept_key for each in one.dedup(keep="last")}
        hits = [
            (key, hit.key, hit.similarity, hit.method, hit.distance)
            for key, body in asked.items()
            for hit in one.query(body, top=99)
        ]
        assert rounded(many.query(frame(asked.items())).collect()) == rounded(hits) != []
        assert many.check() == []
        with OneMachine.from_export(tmp_path / "d", tmp_path / "back") as back:
            documents, releases, _, postings, _ = stored(one)  # all but how many were rejected
            assert stored(back)[:2] + stored(back)[3:4] == [documents, releases, postings]
            assert back.check() == []
            assert list(back.pairs()) == list(one.pairs()) != []
            assert list(back.sql("SELECT DISTINCT n_unassigned FROM document")) == [(0,)]


@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.long(when=lambda case: case != "hamming")
def test_others_go_on(case: str, tmp_path: Path, spark: Any) -> None:
    """An index of one machine gets the same rows from Spark as from an add there."""
    from lshdb.spark.dataset_index import Index

    kind, make, parameters = OTHERS[case]
    documents = make(2)
    more = sorted(documents[9:])
    if case == "tokens":
        more[0] = (more[0][0], more[0][1][::-1])  # unchanged: with k=1 tokens have no order
    with OneMachine.create(tmp_path / "one", **parameters) as one:
        one.add(documents[:10])
        one.export(tmp_path / "d", format="delta")
        many = Index.open(str(tmp_path / "d"), **parameters)
        done = many.add(spark.createDataFrame(more[::-1], f"id string, text {kind}"))
        assert counts(done) == counts(one.add(more))
        assert done.unchanged == 1
        assert rounded(many.pairs().collect()) == similar(one) != []
        with OneMachine.from_export(tmp_path / "d", tmp_path / "back") as back:
            assert stored(back) == stored(one)
            assert back.check() == []
            assert list(back.pairs()) == list(one.pairs())
