"""Data frames of Spark give the lines of one machine, whatever their partitions and order."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pyspark.errors import PySparkException

import lshdb.spark
from lshdb import Index, LshdbError, ParameterError
from lshdb.spark import (
    cached_frames,
    comparison,
    hash_filter,
    named_jobs,
    signing,
    spanning_pairs,
)
from tests.answers import WORDLESS
from tests.conftest import edited, family_corpus, make_text
from tests.field_values import COLUMNS, UNORDERED, table
from tests.search.test_loss import crowded

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:distutils:DeprecationWarning"),
]


SCRIPTS = [
    "Η γρήγορη καφέ αλεπού πηδά πάνω από το τεμπέλικο σκυλί κάθε πρωί του χειμώνα στο χωριό",
    "Быстрая коричневая лиса прыгает через ленивую собаку каждое утро зимой в деревне у реки",
    "素早い茶色の狐は 毎朝 冬の村で 怠け者の犬を 飛び越える そして 川の ほとりで 眠る",
    "Straße ﬁnden naïve café co\u0301te ２０２６ Ⅻ und viele andere Wörter in einem langen Satz",
]


def corpus(seed: int = 7) -> list[tuple[str, str]]:
    """Families, copies, texts without shingles and other scripts; sorted by key."""
    rng = random.Random(seed)
    documents = family_corpus(seed, families=14, size=4)
    for number, text in enumerate(SCRIPTS):
        documents.append((f"s{number}", text))
        documents.append((f"s{number}-copy", "  " + text.upper()))
        documents.append((f"ключ{number}", edited(rng, text, 1)))
    documents += [("empty", ""), ("empty-2", " "), ("short", "two words"), ("short-2", "Two words")]
    return sorted(documents, key=lambda document: document[0].encode())


def frame(
    spark: Any, documents: Iterable[tuple[Any, ...]], kind: str = "string", n: int = 3
) -> Any:
    rows = list(documents)
    random.Random(1).shuffle(rows)
    return spark.createDataFrame(rows, f"id string, text {kind}").repartition(n)


def lines(df: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in df.collect())


def answers(index: Index, keep: str) -> dict[str, list[tuple[Any, ...]]]:
    """What one machine answers, in the columns of a data frame."""
    return {
        "pairs": sorted((p.key1, p.key2, p.similarity, p.method) for p in index.pairs()),
        "clusters": sorted((c.label, len(c.keys), key) for c in index.clusters() for key in c.keys),
        "dedup": sorted(
            (d.key, "keep" if d.keep else "drop", d.kept_key, d.similarity, d.method)
            for d in index.dedup(keep=keep)
        ),
        "neighbors": sorted(
            (n.key, n.rank, n.neighbor, n.similarity, n.method) for n in index.neighbors(top=3)
        ),
    }


def test_words_give_the_lines_of_one_machine(spark: Any, tmp_path: Path) -> None:
    documents = [*corpus(), *WORDLESS, ("unseen 1", "\u200b"), ("unseen 2", "\u200b")]
    with Index.create(tmp_path / "one.lshdb", threshold=0.5) as index:
        index.add(documents)
        expected = answers(index, "longest")
    assert ("dots 1", "dots 2", 1.0, "exact") in expected["pairs"]
    df = frame(spark, documents)
    assert len(expected["pairs"]) > 50
    assert lines(lshdb.spark.pairs(df, threshold=0.5)) == expected["pairs"]
    assert lines(lshdb.spark.clusters(df, threshold=0.5)) == expected["clusters"]
    found = lshdb.spark.dedup(df, keep="longest", threshold=0.5)
    assert sorted(tuple(row) for row in found.collect()) == expected["dedup"]
    assert lines(lshdb.spark.neighbors(df, top=3, threshold=0.5)) == expected["neighbors"]


OTHERS: list[dict[str, Any]] = [
    {"unit": "char", "k": 4, "threshold": 0.6},
    {"bag": True, "scheme": "universal", "k": 2, "threshold": 0.4, "store_text": False},
]


@pytest.mark.parametrize("parameters", OTHERS, ids=["char-exact", "bag-universal-signature"])
def test_other_texts_give_the_same_pairs(
    spark: Any, tmp_path: Path, parameters: dict[str, Any]
) -> None:
    documents = corpus(11)
    with Index.create(tmp_path / "one.lshdb", **parameters) as index:
        index.add(documents)
        expected = answers_of_pairs(index)
    assert len(expected) > 30
    assert lines(lshdb.spark.pairs(frame(spark, documents, n=1), **parameters)) == expected


def test_vectors_give_the_same_pairs_and_distances(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(30, 8))
    vectors = [
        (f"v{place:02d}-{copy}", (centre + copy * 0.05 * rng.normal(size=8)).tolist())
        for place, centre in enumerate(centres)
        for copy in range(3)
    ]
    df = frame(spark, vectors, "array<float>")
    for parameters in ({"metric": "cosine", "threshold": 0.95}, {"metric": "l2", "threshold": 0.4}):
        with Index.create(tmp_path / f"{parameters['metric']}.lshdb", dim=8, **parameters) as index:
            index.add([(key, np.array(vector, np.float32)) for key, vector in vectors])
            expected = answers_of_pairs(index)
        assert len(expected) > 20
        found = lines(lshdb.spark.pairs(df, dim=8, **parameters))
        # Sums are rounded differently where a pair is the other way round.
        assert [pair[:2] for pair in found] == [pair[:2] for pair in expected]
        numbers = [[pair[2], *pair[4:]] for pair in found]
        assert np.allclose(numbers, [[pair[2], *pair[4:]] for pair in expected], rtol=0, atol=1e-12)


def answers_of_pairs(index: Index) -> list[tuple[Any, ...]]:
    more = index.params.kind.is_distance
    return sorted(
        (p.key1, p.key2, p.similarity, p.method, *([p.distance] if more else []))
        for p in index.pairs()
    )


def test_what_is_no_document_is_rejected_and_ends_nothing(spark: Any) -> None:
    text = make_text(random.Random(5), 40)
    rows = [
        ("a", text, 2), ("b", text + " more", 1), ("a", "other words that come earlier", 1),
        (None, text, 1), ("", text, 1), ("k" * 1025, text, 1), ("nul\0", text, 1), ("c", None, 1),
    ]  # fmt: skip
    df = spark.createDataFrame(rows, "id string, text string, night int").repartition(3)
    found = {(row.key, row.reason) for row in lshdb.spark.rejected(df, order="night").collect()}
    assert found == {
        ("a", "the key 'a' came before in this input; the first one counts"),
        (None, "the key is null"), ("", "the key is empty"), ("c", "the body is null"),
        ("k" * 1025, "the key has 1,025 bytes in UTF-8, at most 1,024 are allowed"),
        ("nul\0", "the key holds a NUL at character 4"),
    }  # fmt: skip
    # The document "a" that counts is the older one, which is like no other.
    assert lines(lshdb.spark.clusters(df, order="night")) == []


@pytest.mark.parametrize("form", ["binary", "invalid", "array<binary>"])
@pytest.mark.long(when=lambda form: form == "binary")
def test_binary_keys_and_texts_are_read_and_other_bytes_end_nothing(spark: Any, form: str) -> None:
    text = b"the same words stand here once more and again"
    rows = [(b"a", text), (b"b", text), (b"c", b"caf\xe9 " + text), (b"\xff", text), (b"e", None)]
    df = spark.createDataFrame(rows, "id binary, text binary")
    if form == "invalid":  # Spark keeps any bytes as a string
        df = df.selectExpr("cast(id as string) id", "cast(text as string) text")
    elif form == "array<binary>":
        df = df.selectExpr("id", "if(text is null, null, array(text, id)) text")
        df = df.selectExpr("id", "transform(text, (one, i) -> if(i = 1, binary('x'), one)) text")
    pairs = [(row.key1, row.key2) for row in lshdb.spark.pairs(df, threshold=0.9).collect()]
    assert [set(pair) for pair in pairs] == [{"a", "b"}]
    rejected = {(row.key, row.reason) for row in lshdb.spark.rejected(df).collect()}
    assert {reason.partition(" at")[0] for _, reason in rejected} == {
        "the body is not valid UTF-8", "the key is not valid UTF-8", "the body is null",
    }  # fmt: skip
    assert {key for key, _ in rejected} == {"c", None, "e"}


def test_whole_decimals_are_keys(spark: Any) -> None:
    df = spark.sql(
        "select cast(id as decimal(38, 0)) id, 'some words that are the same' text from range(2)"
    )
    (pair,) = lshdb.spark.pairs(df).collect()
    assert {pair.key1, pair.key2} == {"0", "1"}
    with pytest.raises(ParameterError, match=r"decimal\(5,2\); expected strings, whole numbers"):
        lshdb.spark.pairs(df.withColumn("id", df["id"].cast("decimal(5, 2)")))


@pytest.mark.long
def test_what_is_rejected_joins_nothing(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is like both of two unlike documents has a key that came before."""
    words = make_text(random.Random(3), 60).split()

    def text(*changed: int) -> str:
        return " ".join("new" if at in changed else word for at, word in enumerate(words))

    rows = [("a", text(2), 1), ("b", text(2, 30), 2), ("c", text(30), 1), ("b", "other words", 1)]
    df = spark.createDataFrame(rows, "id string, text string, night int")
    alone = df.where("night = 2 OR id != 'b'")
    sizes = [row.size for row in lshdb.spark.clusters(alone, order="night").collect()]
    assert sizes == [3] * 3
    for many in (spanning_pairs.MANY, 0):
        monkeypatch.setattr(spanning_pairs, "MANY", many)
        monkeypatch.setattr(spanning_pairs, "SAVED", 1)
        assert lines(lshdb.spark.clusters(df, order="night")) == []


def test_marks_name_what_is_kept_instead_in_the_order_asked_for(spark: Any, is_long: bool) -> None:
    """Of columns that have the names of our own, too."""
    text = make_text(random.Random(6), 60)
    rows = [(1, text, 9), (2, text + " end", 5), (3, None, 1), (4, "quite another thing", 1)]
    df = spark.createDataFrame(rows, "`the key` int, lshdb_decision string, lshdb_kept_key int")
    asked = {"key": "the key", "text": "lshdb_decision", "order": "lshdb_kept_key"}
    if is_long:
        kept = lshdb.spark.deduplicate(df, **asked).collect()
        assert sorted(row["the key"] for row in kept) == [2, 3, 4]
    marked = lshdb.spark.deduplicate(df, mark=True, keep="field:lshdb_kept_key", **asked)
    similarity = 56 / 57
    assert sorted(tuple(row) for row in marked.drop("lshdb_decision").collect()) == [
        (1, 9, True, "2", None, None), (2, 5, False, "2", "1", similarity),
        (3, 1, True, None, None, None), (4, 1, True, None, None, None),
    ]  # fmt: skip
    with pytest.raises(ParameterError, match="already: it is marked"):
        lshdb.spark.deduplicate(marked, mark=True, **asked)


@pytest.mark.long
def test_a_large_bucket_is_one_cluster_and_is_told_of(spark: Any) -> None:
    rng = random.Random(8)
    text = make_text(rng, 200)
    documents = [(f"n{number:03d}", edited(rng, text, 1)) for number in range(60)]
    df = frame(spark, documents)
    asked: dict[str, Any] = {"max_bucket": 10, "threshold": 0.8}
    assert {row.size for row in lshdb.spark.clusters(df, **asked).collect()} == {60}
    found = lines(lshdb.spark.pairs(df, **asked))
    assert 59 <= len(found) < 60 * 59 / 2 / 4
    again = frame(spark, reversed(documents), n=1)
    assert lines(lshdb.spark.pairs(again, **asked)) == found
    found = lines(lshdb.spark.large_buckets(df, **asked))
    assert found and all(size > 10 for _, size in found)


@pytest.mark.parametrize("kind", ["plain", "crowded", "twice", "nothing"])
@pytest.mark.long(when=lambda kind: kind != "crowded")
def test_answers_from_common_stages_are_those_of_each_question(
    spark: Any, kind: str, is_long: bool
) -> None:
    """Though some stages have run, and are planned for what was counted then."""
    asked: dict[str, Any] = {"threshold": 0.5, "k": 2, "max_bucket": 4}
    if kind == "plain":
        documents = family_corpus(5, families=8, size=3)
        asked["max_bucket"] = 100
    elif kind == "crowded":
        documents = crowded(3)
    elif kind == "twice":
        documents = family_corpus(6, families=6, size=3)
        documents += [(key, f"{text} again") for key, text in documents[::2]] + [("null", None)]
        asked["max_bucket"] = 100
    else:
        documents = [("a", None), ("b", "one word after another"), ("c", "")]
    df = frame(spark, documents)
    answers = lshdb.spark.Answers(df, **asked)
    met = answers._stages.shared.counts
    assert (met.large > 0, met.repeated > 0) == (kind == "crowded", kind == "twice")
    assert (met.pairs > 0) == (kind != "nothing")
    questions = {
        "plain": ["pairs", "neighbors"],
        "crowded": ["pairs", "deduplicate", "large_buckets", "clusters"],
        "twice": ["pairs", "clusters"],
        "nothing": ["pairs", "dedup"],
    }
    asking = questions[kind] if is_long else questions[kind][-1:]
    for name in asking:
        found = lines(getattr(answers, name)())
        assert found == lines(getattr(lshdb.spark, name)(df, **asked))
        if name in ("pairs", "neighbors"):
            assert bool(found) == (kind != "nothing")
        elif kind == "crowded":
            assert found
    rejected = {key: value for key, value in asked.items() if key != "max_bucket"}
    assert lines(answers.rejected()) == lines(lshdb.spark.rejected(df, **rejected))
    repeated = len(documents) - len({key for key, _ in documents})
    assert answers.rejected().count() == repeated + (kind in ("twice", "nothing"))
    if kind == "crowded" and is_long:
        assert answers.loss() == lshdb.spark.loss(df, **asked)


def test_answers_keep_by_a_column_that_was_named(spark: Any) -> None:
    text = make_text(random.Random(6), 60)
    rows = [("a", text, 1), ("b", text, 2), ("c", "other words than those before it", 3)]
    df = spark.createDataFrame(rows, "id string, text string, score int")
    answers = lshdb.spark.Answers(df, value="score")
    kept = {row.key for row in answers.dedup(keep="field:score", only="keep").collect()}
    assert kept == {"b", "c"}
    with pytest.raises(ParameterError, match="the column 'score' was not read") as told:
        lshdb.spark.Answers(df).dedup(keep="field:score")
    assert "value='score'" in (told.value.hint or "")


def test_values_decide_as_on_one_machine(spark: Any, is_long: bool) -> None:
    """Here a few types; what executors make of all of them is compared without Spark."""
    some = ("float", "cells", "decimal", "duration", "end of summer", "binary")
    for name in some if is_long else some[:2]:
        answers = lshdb.spark.Answers(spark.createDataFrame(table(COLUMNS[name])), value="v")
        for keep, kept in (("field:v", "large"), ("field:-v", "small")):
            found = {row.key for row in answers.dedup(keep=keep, only="keep").collect()}
            assert found == {kept, "other"}, (name, keep)


@pytest.mark.parametrize("name", COLUMNS)
def test_executors_make_bytes_that_sort_as_values_do(name: str) -> None:
    nothing, small, large = signing.order_keys(COLUMNS[name]).to_pylist()
    assert nothing is None and small < large and small[:1] == large[:1]


@pytest.mark.parametrize("name", ["structure", "map", "bytes", "mixed"])
def test_values_without_an_order_are_refused(spark: Any, name: str) -> None:
    column, said = UNORDERED[name]
    df = spark.createDataFrame(table(column))
    if name in ("structure", "map"):
        said = "it is of type (struct|map)<"
    with pytest.raises(ParameterError, match=f"'field:v', and its values cannot .*{said}"):
        lshdb.spark.dedup(df, keep="field:v")


@pytest.mark.parametrize("kind", ["alike", "crowded"])
@pytest.mark.long(when=lambda kind: kind == "crowded")
def test_a_forest_of_candidates_gives_the_clusters_of_all_pairs(
    spark: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Where pairs of the forest fail, and only there, those that they left apart are compared."""
    rng = random.Random(9)
    asked: dict[str, Any] = {"threshold": 0.5, "k": 2}
    if kind == "alike":
        text = make_text(rng, 200)
        documents = [(f"n{number:02d}", edited(rng, text, 1)) for number in range(40)]
    else:
        documents = crowded(3, families=6, boilerplate=20)
        documents += [(f"{key} again", edited(rng, text, 3)) for key, text in documents[::3]]
        asked |= {"threshold": 0.7, "bands": 32, "rows": 3}
    df = frame(spark, documents)
    expected = lines(lshdb.spark.clusters(df, **asked))
    assert expected
    compared: list[int] = []

    def verified(pairs: Any, by: Any, **known: Any) -> Any:
        compared.append(pairs.count())
        assert known.get("n", compared[-1]) == compared[-1]
        return comparison.verified(pairs, by, **known)

    monkeypatch.setattr(spanning_pairs, "MANY", 0)
    monkeypatch.setattr(spanning_pairs, "SAVED", 1)
    monkeypatch.setattr(spanning_pairs, "verified", verified)
    assert lines(lshdb.spark.clusters(df, **asked)) == expected
    if kind == "alike":
        assert compared == [39]
    else:
        assert len(compared) == 2 and compared[0] < len(documents)


@pytest.mark.long
def test_no_two_that_are_kept_are_a_pair_though_buckets_are_large(spark: Any) -> None:
    """Leaders that are dropped for something else leave apart what was like them."""
    documents = crowded(3)
    df, asked = frame(spark, documents), {"threshold": 0.5, "k": 2}
    everything = {tuple(row)[:2] for row in lshdb.spark.pairs(df, **asked).collect()}
    rows = lshdb.spark.dedup(df, keep="longest", max_bucket=2, **asked).collect()
    kept = {row.key for row in rows if row.decision == "keep"}
    assert len(rows) == len(documents)
    assert [pair for pair in everything if kept.issuperset(pair)] == []
    for row in rows:
        if row.decision == "drop":
            assert row.kept_key in kept
            assert tuple(sorted((row.key, row.kept_key))) in everything


@pytest.mark.long
def test_what_is_kept_is_in_few_pieces_and_is_released(spark: Any) -> None:
    """Spark shuffles into more pieces than such a corpus has use for."""

    def there() -> dict[int, int]:
        held = dict(spark.sparkContext._jsc.getPersistentRDDs())
        return {number: rows.getNumPartitions() for number, rows in held.items()}

    lshdb.spark.release()
    before, df = there(), frame(spark, family_corpus(5, families=4))
    spark.conf.set("spark.sql.shuffle.partitions", "9")
    try:
        found = lines(lshdb.spark.pairs(df))
        kept = {number: n for number, n in there().items() if number not in before}
        assert kept and max(kept.values()) <= 4  # documents come in two parts
        lshdb.spark.release()
        assert there().keys() <= before.keys()
        assert lines(lshdb.spark.pairs(df)) == found != []
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        lshdb.spark.release()


def test_what_is_kept_is_a_leaf_of_the_plans_that_read_it(spark: Any) -> None:
    """Without that, the plan of the last stage has the first one in it some fifty times."""
    lshdb.spark.release()
    try:
        found = lshdb.spark.pairs(frame(spark, family_corpus(5, families=2)))
        leaves = found._jdf.queryExecution().logical().collectLeaves()
        names = [leaves.apply(place).nodeName() for place in range(leaves.size())]
        assert {*names} == {"InMemoryRelation"} and len(names) < 10
        rows = cached_frames.persisted(spark.range(3))
        assert rows._jdf.queryExecution().logical().nodeName() == "InMemoryRelation"
        assert rows.join(rows.toDF("other")).count() == 9
    finally:
        lshdb.spark.release()


@pytest.mark.parametrize(("fewest", "most", "n"), [(64, 64, None), (2**25, 2**31, None),
                                                   (64, 2**31, None), (64, 2**31, 40)])  # fmt: skip
@pytest.mark.long(when=lambda fewest, n: fewest == 64 and n is None)
def test_few_rows_are_all_that_are_wanted_and_the_others_are_the_rest(
    spark: Any, monkeypatch: pytest.MonkeyPatch, fewest: int, most: int, n: int | None
) -> None:
    """With 64 bits most rows are taken for wanted, and none is in both parts or in neither.

    With 16 bits and more for each value, by their number, one other row in twenty is.
    """
    monkeypatch.setattr(hash_filter, "FEWEST_BITS", fewest)
    monkeypatch.setattr(hash_filter, "MOST_BITS", most)
    values = [*range(400), *range(40), None]
    rows = spark.createDataFrame([(str(v) if v is not None else None, v) for v in values],
                                 "name string, number int")  # fmt: skip
    wanted = spark.createDataFrame([(str(v),) for v in range(0, 120, 3)], "wanted string")
    among, not_among = hash_filter.rows_among, hash_filter.rows_not_among
    few = [row.number for row in among(rows, "name", wanted, n=n).collect()]
    other = [row.number for row in not_among(rows, "name", wanted, n=n).collect()]
    assert sorted(few + other) == sorted(value for value in values if value is not None)
    assert set(range(0, 120, 3)) <= set(few) and not set(few) & set(other)
    if most == 64:
        assert len(set(few)) > 100
    else:
        assert len(set(few)) < (41 if fewest > 64 else 40 + 360 / 10)
    none = wanted.where("wanted = 'x'")
    assert hash_filter.rows_among(rows, "name", none).count() == 0
    assert hash_filter.rows_not_among(rows, "name", none).count() == 440


def test_tasks_here_run_this_python_unless_another_is_named(
    spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The ``python3`` of the PATH has no lshdb where a notebook's environment is not on it."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    context = spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", "python3")
    df = frame(spark, [("a", "b")])
    lshdb.spark.rejected(df)
    assert context.pythonExec == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    monkeypatch.setattr(context, "pythonExec", "/opt/python")
    lshdb.spark.rejected(df)
    assert context.pythonExec == "/opt/python"
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(context, "pythonExec", str(bare))
    with pytest.raises(LshdbError, match=f"tasks run {bare}, which has no lshdb"):
        lshdb.spark.rejected(df)
    with (
        pytest.raises(LshdbError, match="executors run has no lshdb") as caught,
        lshdb.spark.sparks_errors(),
    ):
        raise PySparkException("Traceback\nModuleNotFoundError: No module named 'lshdb'")
    assert "PYSPARK_PYTHON" in str(caught.value.hint)


def test_what_was_made_of_other_rows_is_released_before_them(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark would plan it anew for each of them: 26 s for an answer that was never computed."""
    asked, released = [], []
    persist, unpersist = type(spark.range(1)).persist, type(spark.range(1)).unpersist

    def noted(rows: Any, *arguments: Any) -> Any:
        asked.append(rows.columns)
        return persist(rows, *arguments)

    def noted_too(rows: Any) -> Any:
        released.append(rows.columns)
        return unpersist(rows)

    monkeypatch.setattr(type(spark.range(1)), "persist", noted)
    monkeypatch.setattr(type(spark.range(1)), "unpersist", noted_too)
    lshdb.spark.pairs(frame(spark, [("a", "b")]))
    lshdb.spark.release(spark)
    assert len(asked) > 3
    assert released == asked[::-1]


def test_mistakes_are_named_at_once(spark: Any) -> None:
    df = spark.createDataFrame([("a", "b", 1.5)], "name string, text string, weight double")
    with pytest.raises(ParameterError, match="no column 'id'; the columns are: 'name', 'text'"):
        lshdb.spark.pairs(df)
    with pytest.raises(ParameterError, match="'weight' is of type double; expected strings"):
        lshdb.spark.pairs(df, key="weight")
    with pytest.raises(ParameterError, match="threshold is 2"):
        lshdb.spark.pairs(df, key="name", threshold=2)
    with pytest.raises(ParameterError, match="keep is 'best'"):
        lshdb.spark.dedup(df, key="name", keep="best")
    with pytest.raises(ParameterError, match="of type list; expected a data frame of Spark"):
        lshdb.spark.pairs([("a", "b")])  # type: ignore[arg-type]


def test_what_runs_is_named_and_counted(
    spark: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each stage has a description of its own, and a line of the log; the caller's comes back."""
    documents = [*family_corpus(5, families=2, size=3), ("null", None)]
    context, told = spark.sparkContext, []
    set_description = type(context).setJobDescription

    def noted(context: Any, words: str) -> None:
        told.append(words)
        set_description(context, words)

    monkeypatch.setattr(type(context), "setJobDescription", noted)
    set_description(context, "mine")
    try:
        with caplog.at_level("INFO", logger="lshdb.spark"):
            answers = lshdb.spark.Answers(frame(spark, documents), threshold=0.5)
            answers.clusters()
            counts = answers.metrics()
        assert context.getLocalProperty("spark.job.description") == "mine"
        assert context.getLocalProperty("spark.jobGroup.id") is None
    finally:
        context.setLocalProperty("spark.job.description", None)
    assert told == [
        f"lshdb: {words}"
        for words in (
            "signing, cutting and pairing", "comparing pairs", "connecting pairs", "counting",
        )
    ]  # fmt: skip
    assert lshdb.spark.running() == ""
    n = len(documents)
    assert (counts["rows"], counts["documents"], counts["rejected"]) == (n, n - 1, 1)
    assert counts["candidates"] >= counts["verified"] > 3
    assert counts["postings"] % (n - 1) == 0 < counts["postings"]
    lines = [record.getMessage() for record in caplog.records]
    assert f", verified {counts['verified']}" in lines[-1]
    assert any(line.startswith("signing, cutting and pairing: ") for line in lines)
    assert counts["shuffled"] > counts["postings"]
    assert context.statusTracker().getJobIdsForGroup("lshdb: connecting pairs")


def test_the_tasks_that_run_are_counted_and_the_callers_group_stays(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = {1: SimpleNamespace(numTasks=200, numCompletedTasks=37), 2: None}
    tracker = SimpleNamespace(getActiveStageIds=lambda: list(stages), getStageInfo=stages.get)
    context = spark.sparkContext
    monkeypatch.setattr(type(context), "statusTracker", lambda _: tracker)
    context.setLocalProperty("spark.jobGroup.id", "mine")
    try:
        with named_jobs.named_job(spark, "comparing pairs"):
            assert lshdb.spark.running() == "comparing pairs, 37 of 200 tasks"
            assert context.getLocalProperty("spark.jobGroup.id") == "mine"
            del stages[1]
            assert lshdb.spark.running() == "comparing pairs"
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


def test_a_component_keeps_one_document_whatever_it_is_like(spark: Any) -> None:
    """Of a chain whose ends are unlike: two by representatives, and the longest by components."""
    words = make_text(random.Random(3), 60).split()

    def text(*changed: int) -> str:
        return " ".join("new" if at in changed else word for at, word in enumerate(words))

    rows = [("a", text(2)), ("b", text(2, 30)), ("c", text(30)), ("c2", text(30)), ("d", "other")]
    answers = lshdb.spark.Answers(spark.createDataFrame(rows, "id string, text string"))
    assert len(answers.dedup(only="keep").collect()) == 3
    dropped = answers.dedup(only="drop", linkage="component", keep="last").collect()
    assert sorted(map(tuple, dropped)) == [
        ("a", "drop", "c2", None, None), ("b", "drop", "c2", None, None),
        ("c", "drop", "c2", 1.0, "exact"),
    ]  # fmt: skip
