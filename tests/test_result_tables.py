"""Answers as tables of Arrow, pandas and polars, and what a notebook shows of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index, LshdbError, QueryError

TEXTS = [
    ("a", "one two three four five six seven eight <b>"),
    ("b", "one two three four five six seven eight nine"),
    ("c", "nothing of all this is said here by anybody"),
]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with Index.create(tmp_path / "x.lshdb", threshold=0.5, k=2) as index:
        index.add(TEXTS)
        yield index


def answers(index: Index) -> dict[str, Any]:
    return {
        "pairs": index.pairs(),
        "clusters": index.clusters(),
        "dedup": index.dedup(),
        "neighbors": index.neighbors(),
        "query_many": index.query_many([text for _, text in TEXTS]),
        "sql": index.sql("SELECT key, n_chars FROM document ORDER BY doc_id"),
    }


def rows_of(answer: Any) -> list[tuple[Any, ...]]:
    rows = []
    for item in answer:
        if isinstance(item, tuple):  # of a statement, or a query and its hits
            query, hits = item if isinstance(item[1], list) else (None, None)
            if hits is None:
                rows.append(item)
            else:
                rows += [(query, hit.key, hit.similarity, hit.method) for hit in hits]
        else:
            names = [name for name in type(item).__slots__ if name != "distance"]
            rows.append(tuple(getattr(item, name) for name in names))
    return rows


@pytest.mark.parametrize("name", ["pairs", "clusters", "dedup", "neighbors", "query_many", "sql"])
def test_every_library_has_the_rows_of_the_loop(name: str, index: Index) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("polars")
    expected = rows_of(answers(index)[name])
    assert expected
    arrow = answers(index)[name].to_arrow()
    as_tuples = [tuple(row.values()) for row in arrow.to_pylist()]
    listed = [tuple(list(v) if isinstance(v, tuple) else v for v in row) for row in expected]
    assert as_tuples == listed
    assert "distance" not in arrow.column_names
    frame = answers(index)[name].to_polars()
    assert [tuple(row) for row in frame.rows()] == listed
    assert frame.columns == arrow.column_names
    pandas = answers(index)[name].to_pandas()
    assert list(pandas.columns) == arrow.column_names
    assert len(pandas) == len(expected) and pandas.iloc[:, 0].tolist() == [r[0] for r in expected]
    assert pyarrow.table(answers(index)[name]) == arrow  # by the PyCapsule protocol


def test_an_empty_answer_has_the_same_columns(index: Index) -> None:
    pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    some, none = index.pairs(), index.pairs(threshold=1.0)
    assert len(none.to_arrow()) == 0 and none.to_arrow().schema == some.to_arrow().schema
    assert none.to_polars().schema == some.to_polars().schema
    assert none.to_pandas()["similarity"].dtype == "float64"


def test_a_distance_is_a_column_where_the_metric_is_one(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with Index.create(tmp_path / "v.lshdb", metric="l2", dim=2, threshold=1.0) as index:
        index.add([("a", [0.0, 0.0]), ("b", [0.0, 0.5])])
        assert index.pairs().to_arrow().to_pylist()[0]["distance"] == 0.5
        assert "distance" in index.query_many([[0.0, 0.0]]).to_arrow().column_names


def test_columns_with_one_name_both_come(index: Index) -> None:
    pytest.importorskip("pyarrow")
    statement = "SELECT key AS k, n_chars AS k FROM document"
    assert index.sql(statement).to_arrow().column_names == ["k", "k"]
    frame = index.sql(statement).to_pandas()
    assert list(frame.columns) == ["k", "k"] and frame.iloc[0, 0] == "a"


def test_rows_of_a_statement_are_had_once(index: Index) -> None:
    pytest.importorskip("pyarrow")
    result = index.sql("SELECT key FROM document")
    assert len(result.to_arrow()) == 3
    with pytest.raises(QueryError):
        result.to_arrow()


def test_a_notebook_shows_the_first_rows_and_changes_nothing(index: Index) -> None:
    index.add((f"d{n}", TEXTS[0][1]) for n in range(20))
    pairs = index.pairs()
    first = next(pairs)
    page = pairs._repr_html_()
    assert page.count("<tr>") == 11 and "the first 10" in page and "PairSearch" in page
    assert [first, *pairs] == list(pairs)  # the loop goes on where it was
    index.advance("reader", to=pairs)
    assert pairs._repr_html_() and pairs.newest_batch is not None
    hits = index.query(TEXTS[0][1], top=2)
    assert hits._repr_html_().count("<tr>") == 3 and "more" in hits._repr_html_()
    assert repr(pairs).endswith("x.lshdb', threshold=0.5, measure='similarity')")


def test_the_hits_of_a_query_are_a_table(index: Index) -> None:
    arrow = pytest.importorskip("pyarrow")
    hits = index.query(TEXTS[0][1])
    assert arrow.RecordBatchReader.from_stream(hits).read_all().to_pylist() == [
        {"key": hit.key, "similarity": hit.similarity, "method": hit.method} for hit in hits
    ]
    assert index.query("").to_arrow().num_rows == 0 < len(hits)


def test_what_a_stranger_wrote_is_text_in_a_page(index: Index) -> None:
    index.add([("<script>alert(1)</script>", TEXTS[0][1])])
    for answer in (index.pairs(), index.clusters(), index.dedup(), index.query(TEXTS[0][1])):
        assert "<script" not in answer._repr_html_() and "&lt;script" in answer._repr_html_()


def test_explanations_and_statistics_are_short(index: Index) -> None:
    index.add([("<b>", TEXTS[0][1])])
    explanation = index.explain(TEXTS[0][0], "<b>")
    assert repr(explanation) == (
        f"Explanation({TEXTS[0][0]!r}, '<b>', similarity 1 (exact), threshold 0.5, found)"
    )
    page = explanation._repr_html_()
    assert "<b>" not in page and "shingles in both" in page and "bands that agree" in page
    stats = index.stats()
    assert repr(stats).startswith("IndexStats('") and "4 documents, threshold 0.5, " in repr(stats)
    assert len(repr(stats)) < 200 and "<td>exact copies</td><td>1</td>" in stats._repr_html_()


def test_an_index_says_how_large_it_is_and_whether_it_is_open(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "x.lshdb", threshold=0.5)
    index.add(TEXTS)
    assert repr(index).endswith("x.lshdb', 3 documents, threshold 0.5)")
    assert "<td>0.5, 0.99</td>" in index._repr_html_()
    pairs = index.pairs()
    index.close()
    assert repr(index).endswith("x.lshdb', closed)") and "closed" in index._repr_html_()
    assert "closed" in pairs._repr_html_()
    with pytest.raises(LshdbError):
        pairs.to_pandas()
