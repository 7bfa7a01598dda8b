"""An index in a dataset that Spark leads, against one on one machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lshdb import DamageError, FormatError, LockedError, ParameterError
from lshdb import Index as OneMachine
from lshdb.dataset.commits import Change, Dataset, StoredFile
from lshdb.dataset.table_files import NewFile
from lshdb.storage.orders import freezing
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


@pytest.mark.long
def test_a_dataset_that_only_spark_reaches(
    make_index: Callable[..., OneMachine], tmp_path: Path, spark: Any
) -> None:
    """By a URI: written and described by Spark, with nothing left beside it."""
    from lshdb.spark.dataset_index import Index

    one, many = (
        make_index("one", threshold=0.5),
        Index.create(f"file://{tmp_path}/d", threshold=0.5),
    )
    for documents in (FIRST, [*MORE, (FIRST[0][0], FIRST[5][1])]):
        one.add(documents)
        many.add(spark.createDataFrame(documents, "id string, text string"))
        assert not (tmp_path / "d" / "_staging").exists()
    assert many.remove(FIRST[2][0]).removed == one.remove([FIRST[2][0]]).removed == 1
    assert rows(many.pairs()) == lines(one) != []
    assert rows(many.pairs(since=2)) == lines(one, since=2)
    many.compact()
    many.vacuum()
    assert many.check() == []
    with OneMachine.from_export(many.path, tmp_path / "back") as back:
        assert lines(back) == lines(one)
        assert back.check() == []


@pytest.mark.long
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


@pytest.mark.long
def test_nights_are_segments_that_are_merged_when_they_are_many(
    make_index: Callable[..., OneMachine],
    tmp_path: Path,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A question about one night reads the files of its buckets, and says what one machine does."""
    from lshdb.spark import dataset_add, dataset_frames
    from lshdb.spark.dataset_index import Index

    monkeypatch.setattr(dataset_add, "MANY", 16)
    monkeypatch.setattr(freezing, "MOST_PARTS", 2)
    monkeypatch.setattr(dataset_frames, "FILE_POSTINGS", 60)
    many, one = Index.create(str(tmp_path / "d"), threshold=0.5), make_index("one", threshold=0.5)
    n_segments = []
    last = [*MORE, FIRST[0], (FIRST[1][0], FIRST[2][1])]
    nights = (FIRST[:8], FIRST[8:12], FIRST[12:], last)
    for night in nights:
        result = many.add(spark.createDataFrame(night, "id string, text string"))
        one.add(sorted(night))
        segments = Dataset.open(many.path).segments()
        n_segments.append(len(segments))
    assert (result.replaced, result.unchanged) == (1, 1)
    assert n_segments == [1, 2, 1, 2] and min(map(len, segments.values())) > 1
    frames = dataset_frames.Frames(spark, Dataset.open(many.path))
    postings = frames.read("postings")
    key = postings.agg({"bucket_key": "max"}).collect()[0][0]
    keys = spark.createDataFrame([(key,), (1,), (None,)], "bucket_key bigint")
    of_key = sorted(map(tuple, postings.where(f"bucket_key = {key}").collect()))
    read = frames.rows_having("postings", keys)
    assert sorted(map(tuple, read.collect())) == of_key
    assert len(read.inputFiles()) <= len(segments) < len(postings.inputFiles()) / 2
    since = len(nights)
    assert rows(many.pairs(since=since)) == lines(one, since=since) != []
    assert many.compact()["postings"] > 1
    assert list(Dataset.open(many.path).segments()) == [0]
    assert many.check() == []


def as_format_1(path: Path) -> None:
    """Write the tables that format 2 has changed as format 1 had them."""
    import deltalake
    import pyarrow as pa

    def stored(name: str) -> list[dict[str, Any]]:
        table: list[dict[str, Any]] = (
            deltalake.DeltaTable(path / name).to_pyarrow_table().to_pylist()
        )
        return table

    old = {"format": 1, "posting_shift": 39, "postings_version": 0}
    commits = pa.Table.from_pylist([row | old for row in stored("commits")])
    rows = [row | {"bucket_range": row["bucket_key"] >> 39} for row in stored("postings")]
    postings = pa.Table.from_pylist(rows).drop(["segment"])
    for name, table, by in (("commits", commits, None), ("postings", postings, ["bucket_range"])):
        shutil.rmtree(path / name)
        deltalake.write_deltalake(path / name, table, partition_by=by)


def test_a_dataset_of_format_1_is_upgraded(
    make_index: Callable[..., OneMachine],
    tmp_path: Path,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
    is_long: bool,
) -> None:
    """Its postings lay in ranges of keys; a driver that dies meanwhile leaves it as it was."""
    if not is_long:
        pytest.skip("half a minute on a busy machine: --faults=long")
    from lshdb.spark.dataset_index import Index

    def die(*_: Any) -> None:
        raise OSError("the driver died")

    one, path = make_index("one", threshold=0.5), tmp_path / "d"
    one.add(FIRST)
    one.export(path, format="delta")
    as_format_1(path)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="died"):
        patch.setattr("lshdb.dataset.commits._append", die)
        Index.upgrade(str(path))
    with pytest.raises(
        FormatError, match="has format 1; Spark asks and adds to format 2"
    ) as caught:
        Index.open(str(path))
    assert caught.value.hint == f"lshdb spark upgrade --index {path}"
    with OneMachine.from_export(path, tmp_path / "back") as back:
        assert lines(back) == lines(one)
    assert Index.upgrade(str(path)) == (1, 2)
    assert Index.upgrade(str(path)) == (2, 2)
    many = Index.open(str(path))
    many.add(spark.createDataFrame(MORE, "id string, text string"))
    many.vacuum(retention_hours=0)
    one.add(MORE)
    assert rows(many.pairs()) == lines(one)
    assert many.check() == [] == list((path / "postings").glob("bucket_range=*/*"))


@pytest.mark.parametrize("metric", ["jaccard", pytest.param("hamming", marks=pytest.mark.long)])
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

    ranges = [({"signature_id": 10 * n}, {"signature_id": 10 * n + 9}) for n in range(1000)]
    files = [
        StoredFile(f"/none/{n:04d}", NewFile(f"{n:04d}", 1, 10, *ends))
        for n, ends in enumerate(ranges)
    ]
    read: list[str] = []

    def read_files(_frames: Any, _name: str, files: list[StoredFile]) -> Any:
        read.extend(file.uri for file in files)
        return spark.range(0).toDF("signature_id")

    def no_literal(_value: Any) -> Any:
        raise AssertionError("a literal for a file")

    monkeypatch.setattr(dataset_frames.Frames, "read_files", read_files)
    monkeypatch.setattr(dataset_frames, "rows_among", lambda rows, *_: rows)
    monkeypatch.setattr(dataset_frames.sf, "lit", no_literal)
    dataset = SimpleNamespace(files=lambda _name: files[::-1])
    numbers = spark.createDataFrame([(9,), (10,), (9995,), (9999,)], "signature_id bigint")
    frames = dataset_frames.Frames(spark, dataset)  # type: ignore[arg-type]
    frames.rows_having("signatures", numbers)
    assert sorted(read) == ["/none/0000", "/none/0001", "/none/0999"]


def test_a_file_that_another_program_removed_is_named(tmp_path: Path, spark: Any) -> None:
    from lshdb.spark.dataset_index import Index

    many = Index.create(str(tmp_path / "e"))
    many.add(spark.createDataFrame(FIRST[:2], "id string, text string"))
    (file,) = Dataset.open(many.path).files("documents")
    Path(file.uri).unlink()
    with pytest.raises(
        DamageError, match=f"{many.path}/documents is missing.*{Path(file.uri).name}"
    ):
        many.pairs()


def test_refusals(tmp_path: Path, spark: Any) -> None:
    from lshdb.spark.dataset_index import Index

    many = Index.create(str(tmp_path / "e"))
    with pytest.raises(ParameterError, match="no column 'words'"):
        many.add(spark.createDataFrame(FIRST[:1], "id string, text string"), text="words")
    with pytest.raises(ParameterError, match="'text' is of type int; expected strings, arrays"):
        many.add(spark.createDataFrame([("a", 1)], "id string, text int"))
    with pytest.raises(ParameterError, match="there is no batch 4; the index has 0"):
        many.pairs(since=4)
