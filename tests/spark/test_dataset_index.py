"""An index in a dataset that Spark leads, against one on one machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lshdb import DamageError, LockedError, ParameterError
from lshdb import Index as OneMachine
from lshdb.dataset.commits import Change, Dataset, StoredFile
from lshdb.dataset.table_files import NewFile
from tests.conftest import family_corpus

pytest.importorskip("pyspark")
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

CORPUS = [(key, body) for key, body in family_corpus(3, families=6) if isinstance(body, str)]
FIRST = sorted(CORPUS[:16])
MORE = sorted(CORPUS[:11:-1][:6])
Line = tuple[str, str, float, str]


def lines(index: OneMachine, **question: Any) -> list[Line]:
    return sorted((p.key1, p.key2, p.similarity, p.method) for p in index.pairs(**question))


def rows(frame: Any) -> list[Line]:
    return sorted(map(tuple, frame.collect()))


def test_a_dataset_of_one_machine_goes_on(
    make_index: Callable[..., OneMachine], tmp_path: Path, spark: Any
) -> None:
    """Exported, asked, added to by two writers, compacted; what is removed is found no more."""
    from lshdb.spark.dataset_index import Index

    one = make_index("one", threshold=0.5)
    one.add(FIRST)
    one.export(tmp_path / "d", format="delta")
    many = Index.open(str(tmp_path / "d"))
    texts = {"q": FIRST[3][1] + " and a little more", "r": "nothing that is there"}
    asked = spark.createDataFrame(list(texts.items()), "id string, text string")
    found = []
    for _ in range(2):
        hits = [("q", hit.key, hit.similarity, "exact") for hit in one.query(texts["q"], top=99)]
        assert rows(many.query(asked)) == sorted(hits) != found
        found = sorted(hits)
        assert many.remove(FIRST[3][0]).removed == one.remove([FIRST[3][0]]).removed
    late = Change(Dataset.open(many.path))
    many.add(spark.createDataFrame(MORE, "id string, text string"))
    with pytest.raises(LockedError, match="another writer"):
        late.commit("nothing")
    one.add(MORE)
    assert set(many.compact()) == {"documents", "signatures", "postings"}
    many.vacuum(retention_hours=0)
    assert rows(many.pairs(verify="signature")) == lines(one, verify="signature")


@pytest.mark.parametrize("metric", ["jaccard", "hamming"])
def test_a_check_finds_what_was_not_added(
    make_index: Callable[..., OneMachine], tmp_path: Path, spark: Any, metric: str
) -> None:
    from pyspark.sql import functions as sf

    from lshdb.spark.dataset_frames import Frames
    from lshdb.spark.dataset_index import Index

    parameters: dict[str, Any] = {"dim": 16, "threshold": 1} if metric == "hamming" else {}
    one = make_index("one", metric=metric, **parameters)
    one.add([("a", "0101"), ("b", "0f0f")])
    one.export(tmp_path / "d", format="delta")
    many = Index.open(str(tmp_path / "d"), spark=spark)
    assert many.check() == []
    name, column, changed = {
        "jaccard": ("documents", "text", sf.lit("0103")),
        "hamming": ("signatures", "vector", sf.lit(bytes([1, 3]))),
    }[metric]
    dataset = Dataset.open(many.path)
    frames, change = Frames(spark, dataset), Change(dataset)
    rows = frames.read(name)
    is_first = sf.col("signature_id") == 0
    rows = rows.withColumn(column, sf.when(is_first, changed).otherwise(rows[column]))
    change.new[name] = frames.write(name, rows.orderBy("signature_id"))
    change.gone[name] = {one.file.path for one in dataset.files(name)}
    change.commit("damage")
    assert many.check() == ["1 documents have other bodies than those that were added"]


def test_signatures_are_read_from_their_files_alone(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand files, by a plan that does not grow with their number."""
    from lshdb.spark import dataset_frames

    files = [
        StoredFile(f"/none/{n:04d}", NewFile(f"{n:04d}", 1, 10, {}, {"signature_id": 10 * n}, {}))
        for n in range(1000)
    ]
    read: list[str] = []

    def read_files(_frames: Any, _name: str, files: list[StoredFile]) -> Any:
        read.extend(file.uri for file in files)
        return spark.range(0).toDF("signature_id")

    def no_literal(_value: Any) -> Any:
        raise AssertionError("a literal for a file")

    monkeypatch.setattr(dataset_frames.Frames, "_read_files", read_files)
    monkeypatch.setattr(dataset_frames.sf, "lit", no_literal)
    dataset = SimpleNamespace(files=lambda _name: files[::-1])
    numbers = spark.createDataFrame([(9,), (10,), (9995,), (9999,)], "signature_id bigint")
    dataset_frames.Frames(spark, dataset).signatures_of(numbers)  # type: ignore[arg-type]
    assert sorted(read) == ["/none/0000", "/none/0001", "/none/0999"]


def test_a_file_that_another_program_removed_is_named(tmp_path: Path, spark: Any) -> None:
    from lshdb.spark.dataset_index import Index

    many = Index.create(str(tmp_path / "e"), documents=1)
    many.add(spark.createDataFrame(FIRST[:2], "id string, text string"))
    (file,) = Dataset.open(many.path).files("documents")
    Path(file.uri).unlink()
    with pytest.raises(
        DamageError, match=f"{many.path}/documents is missing.*{Path(file.uri).name}"
    ):
        many.pairs()


def test_refusals(tmp_path: Path, spark: Any) -> None:
    from lshdb.spark.dataset_index import Index

    many = Index.create(str(tmp_path / "e"), documents=1)
    with pytest.raises(ParameterError, match="no column 'words'"):
        many.add(spark.createDataFrame(FIRST[:1], "id string, text string"), text="words")
    with pytest.raises(ParameterError, match="'text' is of type int; expected strings, arrays"):
        many.add(spark.createDataFrame([("a", 1)], "id string, text int"))
    with pytest.raises(ParameterError, match="there is no batch 4; the index has 0"):
        many.pairs(since=4)
