"""``agree`` and ``differ``: which pairs count, against a plain look at every pair."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lshdb import Document, Index, ParameterError, read_documents
from lshdb.search.agreement import normalised
from tests.conftest import family_corpus

ASKED: list[dict[str, Any]] = [
    {"agree": "year"}, {"agree": "doi,year"}, {"agree": ["pages", "doi", "year"]},
    {"differ": "doi"}, {"agree": "year", "differ": "doi"}, {"differ": ["doi", "year"]},
]  # fmt: skip


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("pages", "123-9", "123-129"), ("pages", "123–129", "123 - 129"),
        ("pages", "e123-9", "E123-E129"), ("pages", "1123-34", "1123-1134"),
        ("doi", "https://doi.org/10.1/AB", "10.1/ab"), ("doi", "doi: 10.1/ab", "10.1/AB"),
        ("doi", "http://dx.doi.org/10.1/ab", "10.1/ab"),
        ("journal", "J. Clin.  Oncol.", "j clin oncol"), ("year", 2019, "2019"),
        ("year", 2019.0, 2019), ("authors", ["Müller, A."], ["müller a"]),
        ("title", "A\u00a0B\nC", "a b c"), ("x", None, ""), ("x", [], "..."),
        ("title", "Re\xadport: E\u0301te\u0301", "report \xe9t\xe9"), ("x", "a_b", "A b"),
    ],
)  # fmt: skip
def test_values_that_are_equal(name: str, one: object, other: object) -> None:
    assert normalised(name, one) == normalised(name, other)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("pages", "123-9", "123-139"), ("pages", "123", "123-9"), ("doi", "10.1/12", "10.11/2"),
        ("year", 2019, 2020), ("authors", ["A", "B"], ["B", "A"]), ("x", "123-9", "123-129"),
        ("x", 0, None), ("x", False, None), ("x", "1.5", 15),
        ("title", "\u0932\u0921\u093c\u0915\u093e", "\u0932\u0921\u093c\u0915\u0940"),
        ("authors", ["\u0e17\u0e35"], ["\u0e17\u0e31"]),
    ],
)  # fmt: skip
def test_values_that_differ(name: str, one: object, other: object) -> None:
    assert normalised(name, one) != normalised(name, other)


Fields = dict[str, dict[str, Any] | None]


@pytest.fixture(scope="module")
def fields() -> Fields:
    """Fields of each document of the corpus; some missing, some written in another way."""
    rng = random.Random(3)
    found: Fields = {}
    for key, _ in _corpus():
        number = rng.randrange(3)
        given = {
            "year": rng.choice([2001, "2001", 2002, 2003, 2004, None]),
            "doi": rng.choice([f"10.1/{number}", f"https://doi.org/10.1/{number}", "", None]),
            "pages": rng.choice(["12-9", "12-19", "12–19", "13-19"]),
        }
        found[key] = {name: one for name, one in given.items() if one is not None}
        if rng.random() < 0.04:
            found[key] = None
    return found


def _corpus() -> list[tuple[str, str]]:
    """Families of similar texts, and groups of exact copies."""
    corpus = family_corpus(5, families=12)
    return [*corpus, *((f"{key}-again{n}", text) for key, text in corpus[:20] for n in range(3))]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, fields: Fields) -> Iterator[Index]:
    with Index.create(tmp_path_factory.mktemp("agree") / "x.lshdb", threshold=0.5) as index:
        corpus = _corpus()
        for part in (corpus[:70], corpus[70:]):
            index.add([Document(key, text, "", fields[key]) for key, text in part])
        yield index


def allowed(fields: Fields, one: str, other: str, asked: dict[str, Any]) -> bool:
    """By the words of the documentation, and in another way than the code."""

    def values(name: str) -> tuple[str, str]:
        mine, theirs = (normalised(name, (fields[key] or {}).get(name)) for key in (one, other))
        return mine, theirs

    def names(given: Any) -> list[str]:
        return given.split(",") if isinstance(given, str) else list(given)

    def is_different(name: str) -> bool:
        mine, theirs = values(name)
        return "" not in (mine, theirs) and mine != theirs

    if any(is_different(name) for name in names(asked.get("agree", []))):
        return False
    differ = names(asked.get("differ", []))
    return not differ or any(is_different(name) for name in differ)


def true_pairs(index: Index, fields: Fields, asked: dict[str, Any]) -> set[frozenset[str]]:
    return {
        frozenset((pair.key1, pair.key2))
        for pair in index.pairs()
        if allowed(fields, pair.key1, pair.key2, asked)
    }


@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize("since", [None, 2])
def test_pairs(index: Index, fields: Fields, asked: dict[str, Any], since: int | None) -> None:
    every = list(index.pairs(since=since))
    found = list(index.pairs(**asked, since=since))
    expected = [pair for pair in every if allowed(fields, pair.key1, pair.key2, asked)]
    assert sorted((one.key1, one.key2, one.similarity) for one in found) == sorted(
        (one.key1, one.key2, one.similarity) for one in expected
    )
    assert 0 < len(found) < len(every)


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_clusters_are_components_of_what_is_left(
    index: Index, fields: Fields, asked: dict[str, Any]
) -> None:
    order = [key for key, _ in _corpus()]
    parent = {key: key for key in order}

    def root(key: str) -> str:
        while parent[key] != key:
            key = parent[key]
        return key

    for one, other in map(tuple, true_pairs(index, fields, asked)):
        first, second = sorted((root(one), root(other)), key=order.index)
        parent[second] = first
    groups: dict[str, list[str]] = {}
    for key in order:
        groups.setdefault(root(key), []).append(key)
    expected = {label: tuple(keys) for label, keys in groups.items() if len(keys) > 1}
    found = list(index.clusters(**asked))
    assert {one.label: one.keys for one in found} == expected
    sizes = [len(one.keys) for one in found]
    assert sizes == sorted(sizes, reverse=True)
    plain = {one.label: one.keys for one in index.clusters()}
    assert expected != plain
    large = [one for one in found if len(one.keys) >= 4]
    assert list(index.clusters(**asked, min_size=4)) == large
    with_new = {one.label for one in index.clusters(**asked, since=2)}
    assert with_new == {
        label for label, keys in expected.items() if any(order.index(key) >= 70 for key in keys)
    }


def greedy(order: list[str], pairs: set[frozenset[str]], preferred: list[str]) -> dict[str, str]:
    """Each dropped document with the most preferred kept one that it is paired with."""
    kept: list[str] = []
    dropped: dict[str, str] = {}
    for key in preferred:
        standing = [one for one in kept if frozenset((one, key)) in pairs]
        if standing:
            dropped[key] = standing[0]
        else:
            kept.append(key)
    return dropped


@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize("keep", ["first", "last"])
def test_dedup_drops_only_for_such_pairs(
    index: Index, fields: Fields, asked: dict[str, Any], keep: str
) -> None:
    order = [key for key, _ in _corpus()]
    pairs = true_pairs(index, fields, asked)
    expected = greedy(order, pairs, order if keep == "first" else order[::-1])
    found = {one.key: one.kept_key for one in index.dedup(keep=keep, only="drop", **asked)}
    assert found == expected
    kept = set(order) - set(found)
    assert not any(frozenset(two) in pairs for two in itertools.combinations(kept, 2))


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_dedup_against_older_ones(index: Index, fields: Fields, asked: dict[str, Any]) -> None:
    order = [key for key, _ in _corpus()]
    old, new = set(order[:70]), order[70:]
    pairs = true_pairs(index, fields, asked)
    expected = {key for key in new if any(frozenset((key, one)) in pairs for one in old)}
    found = list(index.dedup(only="drop", against=True, since=2, **asked))
    assert {one.key for one in found} == expected
    assert all(one.kept_key in old and frozenset((one.key, one.kept_key)) in pairs for one in found)


@pytest.mark.parametrize("asked", ASKED[:3], ids=str)
def test_representatives_are_paired_with_their_members(
    index: Index, fields: Fields, asked: dict[str, Any]
) -> None:
    pairs = true_pairs(index, fields, asked)
    found = list(index.clusters(**asked, linkage="representative"))
    labels = [one.label for one in found]
    assert found
    for one in found:
        assert all(frozenset((one.label, key)) in pairs for key in one.keys if key != one.label)
    assert not any(frozenset(two) in pairs for two in itertools.combinations(labels, 2))


def test_filtered_lines(index: Index, fields: Fields, tmp_path: Path) -> None:
    import json

    lines = [json.dumps({"id": key, "text": text}) + "\n" for key, text in _corpus()]
    (tmp_path / "x.jsonl").write_text("".join(lines))
    dropped = {one.key for one in index.dedup(only="drop", agree="year")}
    kept = [json.loads(one)["id"] for one in index.filter(tmp_path / "x.jsonl", agree="year")]
    assert kept == [key for key, _ in _corpus() if key not in dropped]
    index.dedup_files([tmp_path / "x.jsonl"], tmp_path / "y.jsonl", agree="year")
    written = [json.loads(one)["id"] for one in (tmp_path / "y.jsonl").read_text().splitlines()]
    assert written == kept
    with pytest.raises(ParameterError, match="marks name the clusters of all pairs"):
        index.dedup_files([tmp_path / "x.jsonl"], tmp_path / "z.jsonl", agree="year", mark=True)


def test_a_cap_counts_what_it_leaves_out_of_all_pairs(index: Index) -> None:
    plain, asked = index.pairs(max_bucket=3), index.pairs(max_bucket=3, agree="year")
    assert len(list(plain)) > len(list(asked)) > 0
    assert plain.loss is not None and asked.loss == plain.loss


def test_wrong_names(index: Index, tmp_path: Path) -> None:
    for ask in (index.pairs, index.clusters, index.dedup):
        with pytest.raises(ParameterError, match="no document has the kept field 'yaer'") as raised:
            ask(agree="yaer")  # type: ignore[operator]
        assert "the kept fields are doi, pages, year" in raised.value.message
        assert "--keep-fields" in str(raised.value.hint)
        with pytest.raises(ParameterError, match="'year' can either agree or differ"):
            ask(agree=["doi", "year"], differ="year")  # type: ignore[operator]
        for wrong in ("year,", [""], [1], 7):
            with pytest.raises((ParameterError, TypeError)):
                ask(agree=wrong)  # type: ignore[operator]
    with Index.create(tmp_path / "y.lshdb") as bare:
        bare.add([("a", "some text")])
        with pytest.raises(ParameterError, match="none are kept"):
            bare.pairs(agree="source")


def test_fields_that_readers_of_references_make_are_known(tmp_path: Path) -> None:
    """Also where no record has them, as the DOI of references before there were DOIs."""
    text = "the council voted on monday to close the old bridge"
    references = tmp_path / "all.ris"
    references.write_text(
        "".join(f"TY  - JOUR\nID  - {key}\nTI  - {text}\nPY  - {year}\nER  - \n\n"
                for key, year in (("a", 1954), ("b", 1954), ("c", 1961)))
    )  # fmt: skip
    with Index.create(tmp_path / "y.lshdb") as bare:
        bare.add(read_documents([references]))
        assert len([*bare.pairs(agree="doi,issue,authors")]) == 3
        assert [cluster.keys for cluster in bare.clusters(agree="doi,year")] == [("a", "b")]
        assert [*bare.clusters(differ="doi")] == []
        assert [one.key for one in bare.dedup(agree="doi", only="keep")] == ["a"]
        assert [one.key for one in bare.dedup(keep="field:doi", only="keep")] == ["a"]
        assert bare.vote(bare.query(text), "doi") == []
        with pytest.raises(ParameterError, match="no document has the kept field 'isbn'"):
            bare.clusters(agree="doi,isbn")


def test_pairs_come_before_all_are_found(index: Index) -> None:
    found = index.pairs(agree="year")
    assert next(iter(found)) is not None


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_dedup_compares_what_a_cap_left_out(
    fields: Fields, asked: dict[str, Any], tmp_path: Path
) -> None:
    """Documents that are kept because fields disagree are looked up in large buckets, too."""
    corpus = _corpus()
    with Index.create(tmp_path / "x.lshdb", threshold=0.5) as index:
        index.add([Document(key, text, "", fields[key]) for key, text in corpus])
        pairs = true_pairs(index, fields, asked)
        index.update_clusters(max_bucket=2)
        kept = [one.key for one in index.dedup(only="keep", **asked)]
        assert not any(frozenset(two) in pairs for two in itertools.combinations(kept, 2))
        assert len(kept) < len(corpus)


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_large_groups_are_looked_at_by_value(
    index: Index, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And give the same."""
    expected = [sorted(index.clusters(**asked), key=str), list(index.dedup(**asked))]
    monkeypatch.setattr("lshdb.groups.agreed_units._FEW", 0)
    assert [sorted(index.clusters(**asked), key=str), list(index.dedup(**asked))] == expected
