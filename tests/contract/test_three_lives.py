"""One life of an index, three times: on SQLite, on Postgres, and in a dataset that Spark leads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

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
    "SELECT * FROM posting ORDER BY bucket_key, signature_id",
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


def test_the_three_say_the_same(both: Both, tmp_path: Path, spark: Any) -> None:
    """Counts, lines and stored rows; and the dataset comes back as an index of either database."""
    from lshdb.spark.dataset_index import Index

    def frame(documents: Iterable[tuple[str, str]]) -> Any:
        rows = [(key, body, place) for place, (key, body) in enumerate(documents)]
        return spark.createDataFrame(rows, "id string, text string, place int")

    many = Index.create(str(tmp_path / "d"), threshold=0.5, documents=1)
    second = [*SECOND, *TWICE, ("", "of no key")]
    done = [
        many.add(frame(FIRST[::-1]), source="x"),
        many.add(frame(second), order="place", night="monday"),
    ]
    assert done[1].rejected == 2 and done[1].replaced == 2 and done[1].unchanged == 4
    gone = many.remove(REMOVED)
    assert (gone.removed, gone.missing, gone.batches) == (2, ["not there"], [3])
    pairs, since = rows(many.pairs()), rows(many.pairs(since=2))
    assert pairs != since != []
    found = sorted((row["cluster"], row["size"], row["key"]) for row in many.clusters().collect())
    kept = {row["key"]: row["kept_key"] for row in many.dedup().collect()}
    assert many.check() == []
    for place in both.places:
        one = place.create("one", threshold=0.5)
        assert counts(one.add(FIRST, source="x")) == counts(done[0])
        assert counts(one.add(second, night="monday")) == counts(done[1])
        other = one.remove(REMOVED)
        assert (gone.removed, gone.missing) == (other.removed, other.missing)
        assert lines(one) == pairs
        assert lines(one, since=2) == since
        assert clusters(one) == found
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
