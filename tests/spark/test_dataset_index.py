"""A life of an index in a dataset, which Spark leads, and the same life on one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index as OneMachine
from lshdb import LockedError, ParameterError
from lshdb.dataset.commits import Change, Dataset
from tests.conftest import family_corpus

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


def test_the_life_of_an_index(
    make_index: Callable[..., OneMachine], tmp_path: Path, spark: Any
) -> None:
    """The same counts, lines and stored rows as on one machine, and back there."""
    from lshdb.spark.dataset_index import Index

    def frame(documents: Iterable[tuple[str, str]]) -> Any:
        rows = [(key, body, place) for place, (key, body) in enumerate(documents)]
        return spark.createDataFrame(rows, "id string, text string, place int")

    one = make_index("one", threshold=0.5)
    many = Index.create(str(tmp_path / "d"), threshold=0.5, documents=1)
    assert counts(many.add(frame(FIRST[::-1]), source="x")) == counts(one.add(FIRST, source="x"))
    second = [*SECOND, *TWICE, ("", "of no key")]
    done = one.add(second, night="monday")
    assert done.rejected == 2 and done.replaced == 2 and done.unchanged == 4
    assert counts(many.add(frame(second), order="place", night="monday")) == counts(done)
    gone, other = many.remove(REMOVED), one.remove(REMOVED)
    assert (gone.removed, gone.missing, gone.batches) == (2, ["not there"], [3])
    assert (gone.removed, gone.missing) == (other.removed, other.missing)
    assert rows(many.pairs()) == lines(one)
    assert rows(many.pairs(since=2)) == lines(one, since=2) != lines(one)
    found = sorted((row["cluster"], row["size"], row["key"]) for row in many.clusters().collect())
    assert found == clusters(one)
    kept = {row["key"]: row["kept_key"] for row in many.dedup().collect()}
    assert kept == {one.key: one.kept_key for one in one.dedup()}
    assert many.check() == []
    with OneMachine.from_export(tmp_path / "d", tmp_path / "back") as back:
        assert stored(back) == stored(one)
        assert back.check() == []
        assert lines(back) == lines(one)
    reasons = Dataset.open(many.path).table("rejected").to_pyarrow_table().to_pylist()
    assert sorted((row["batch_id"], row["key"]) for row in reasons) == [(2, ""), (2, TWICE[0][0])]


def test_a_dataset_of_one_machine_goes_on(
    make_index: Callable[..., OneMachine], tmp_path: Path, spark: Any
) -> None:
    """Exported, asked, added to by two writers, compacted."""
    from lshdb.spark.dataset_index import Index

    one = make_index("one", threshold=0.5)
    one.add(FIRST)
    one.export(tmp_path / "d", format="delta")
    many = Index.open(str(tmp_path / "d"))
    texts = {"q": FIRST[3][1] + " and a little more", "r": "nothing that is there"}
    found = many.query(spark.createDataFrame(list(texts.items()), "id string, text string"))
    hits = [("q", hit.key, hit.similarity, "exact") for hit in one.query(texts["q"], top=99)]
    assert sorted(map(tuple, found.collect())) == sorted(hits) != []
    late, more = Change(Dataset.open(many.path)), sorted(SECOND[:6])
    many.add(spark.createDataFrame(more, "id string, text string"))
    with pytest.raises(LockedError, match="another writer"):
        late.commit("nothing")
    one.add(more)
    assert set(many.compact()) == {"documents", "signatures", "postings"}
    many.vacuum(retention_hours=0)
    assert rows(many.pairs(verify="signature")) == lines(one, verify="signature")


def test_refusals(make_index: Callable[..., OneMachine], tmp_path: Path, spark: Any) -> None:
    from lshdb.spark.dataset_index import Index

    one = make_index("one", metric="cosine", dim=4)
    one.add([("v", [1.0, 2.0, 3.0, 4.0])])
    one.export(tmp_path / "d", format="delta")
    with pytest.raises(ParameterError, match="is cosine; Spark takes datasets of texts"):
        Index.open(str(tmp_path / "d"))
    many = Index.create(str(tmp_path / "e"), documents=1)
    with pytest.raises(ParameterError, match="no column 'words'"):
        many.add(spark.createDataFrame(FIRST[:1], "id string, text string"), text="words")
    with pytest.raises(ParameterError, match="expected strings"):
        many.add(spark.createDataFrame([("a", ["x"])], "id string, text array<string>"))
    with pytest.raises(ParameterError, match="there is no batch 4; the index has 0"):
        many.pairs(since=4)
    words = make_index("two")
    words.add([("tokens", ["one", "two"])])
    words.export(tmp_path / "f", format="delta")
    tokens = Index.open(str(tmp_path / "f"))
    with pytest.raises(ParameterError, match="came in as tokens"):
        tokens.pairs()
