"""An index in a dataset that Spark leads, against one on one machine."""

from __future__ import annotations

from collections.abc import Callable
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
