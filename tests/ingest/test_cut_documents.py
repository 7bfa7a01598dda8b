"""An index of passages: windows come in together, and none of an earlier text stays."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lshdb import (
    ConflictError,
    DatabaseError,
    Document,
    Index,
    KeyNotFoundError,
    ParameterError,
    ParameterMismatchError,
    Rejected,
)
from lshdb.shingling import cut_windows, window_key
from tests.sizes import set_sizes

Make = Callable[..., Index]

WINDOW = (10, 5)


def text(seed: object, n: int = 43) -> str:
    rng = random.Random(str(seed))
    return " ".join(f"w{rng.randrange(1000)}" for _ in range(n))


def windows(documents: dict[str, str], window: tuple[int, int] = WINDOW) -> dict[str, str]:
    """What an index of these documents holds."""
    return {
        window_key(key, start, end): body[start:end]
        for key, body in documents.items()
        for start, end in cut_windows(body, *window)
    }


def held(index: Index) -> dict[str, str]:
    return index.texts(list(index))


def counts(result: Any) -> tuple[int, int, int, int, int]:
    return result.cut, result.added, result.replaced, result.unchanged, result.stale


def test_windows_of_documents_are_what_is_added(make_index: Make) -> None:
    index = make_index(passages=WINDOW)
    documents = {"a": text(1), "b#0-7": text(2), "b": text(3), "short": "two words", "none": "!"}
    result = index.add(documents.items())
    assert held(index) == windows(documents)
    assert counts(result) == (5, len(index), 0, 0, 0)
    assert index.texts(list(documents)) == documents
    assert all(key in index for key in documents) and "c" not in index
    assert index.params.threshold == 0.3


def test_the_same_documents_again_change_nothing(make_index: Make) -> None:
    index = make_index(passages=WINDOW)
    documents = {"a": text(1), "b": text(2)}
    index.add(documents.items())
    n = len(index)
    again = index.add(documents.items())
    assert counts(again) == (2, 0, 0, n, 0)
    assert [index.show(key).document.batch_id for key in index] == [1] * n


def test_a_changed_document_leaves_no_window_behind(make_index: Make) -> None:
    index = make_index(passages=WINDOW)
    documents = {"a": text(1), "a#1": text(2), "b": text(3)}
    index.add(documents.items())
    for changed in (documents["a"] + " more words", "short now", text(4, 90), text(1)):
        documents["a"] = changed
        result = index.add([("a", changed)])
        assert result.cut == 1 and result.stale
        assert held(index) == windows(documents)
        assert index.check() == []
        assert len(index) == len(windows(documents))


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["a", "a#0-9", "b"]),
            st.text(alphabet="ab \n", max_size=60),
            max_size=3,
        ),
        max_size=5,
    ),
    st.sampled_from(["replace", "skip"]),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_index_after_some_adds_is_one_of_what_they_leave(
    tmp_path_factory: pytest.TempPathFactory, adds: list[dict[str, str]], how: Any
) -> None:
    """Also with documents whose keys look like windows of others, in batches of few windows."""
    expected: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as patch:
        set_sizes(patch, batch_documents=3)
        with Index.create(tmp_path_factory.mktemp("x") / "a", passages=(3, 2), k=2) as index:
            for some in adds:
                index.add(some.items(), on_conflict=how)
                expected = {**some, **expected} if how == "skip" else {**expected, **some}
            assert held(index) == windows(expected, (3, 2))
            assert index.check() == []


def test_windows_of_one_document_are_one_batch(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_sizes(monkeypatch, batch_documents=4)
    index = make_index(passages=WINDOW)
    result = index.add([("a", text(1, 500)), ("b", "x"), ("c", text(2, 500))])
    assert len(result.batches) == 2
    of = {key: index.show(key).document.batch_id for key in index}
    assert {batch for key, batch in of.items() if key.startswith("a#")} == {1}
    assert {batch for key, batch in of.items() if key.startswith("c#")} == {2}


def test_a_failed_change_leaves_the_earlier_text(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old windows go with the commit that brings the new ones, or not at all."""
    index = make_index(passages=WINDOW)
    documents = {"a": text(1), "b": text(2)}
    index.add(documents.items())

    def fail(*args: object, **options: object) -> None:
        raise OSError("no more")

    with monkeypatch.context() as patch:
        patch.setattr("lshdb.storage.transactions.changes.WriteTransaction.put_bodies", fail)
        with pytest.raises(DatabaseError, match="no more"):
            index.add([("a", text(7, 80))])
    assert held(index) == windows(documents)
    assert index.texts(["a"]) == {"a": documents["a"]}


@pytest.mark.parametrize("batch_size", [3, 40_000])
def test_a_key_that_comes_twice_counts_once(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, batch_size: int
) -> None:
    set_sizes(monkeypatch, batch_documents=batch_size)
    index = make_index(passages=WINDOW)
    seen: list[Rejected] = []
    documents = [("a", text(1)), ("b", text(2)), ("a", text(3)), ("a", text(1))]
    result = index.add(documents, on_reject=seen.append)
    assert held(index) == windows(dict(documents[:2]))
    assert result.rejected == 2
    assert [one.reason for one in seen] == [
        "the key 'a' came before in this input; the first one counts"
    ] * 2


def test_conflicts_are_of_documents(make_index: Make) -> None:
    index = make_index(passages=WINDOW)
    documents = {"a": text(1), "b": text(2)}
    index.add(documents.items())
    grown = documents["a"] + " and more of it"
    result = index.add([("a", grown), ("b", documents["b"])], on_conflict="skip")
    assert counts(result) == (2, 0, 0, len(index), 0)
    with pytest.raises(ConflictError, match="the key 'a' is in the index already"):
        index.add([("a", grown)], on_conflict="error")
    index.add(documents.items(), on_conflict="error")
    assert held(index) == windows(documents)


def test_a_document_is_removed_whole(make_index: Make) -> None:
    index = make_index(passages=WINDOW)
    documents = {"a": text(1), "a#1": text(2), "b": text(3)}
    index.add(documents.items())
    result = index.remove(["a", "none", "b#0-5"])
    assert result.removed == len(windows({"a": documents.pop("a")}))
    assert result.missing == ["none", "b#0-5"]
    assert held(index) == windows(documents)
    assert "a" not in index


def test_what_is_no_text_is_rejected(make_index: Make) -> None:
    index = make_index(passages=WINDOW)
    seen: list[Rejected] = []
    long = "k" * 1020
    index.add(
        [("a", ["some", "tokens"]), (long, text(1)), ("b", "fine"), ("", "c")],
        on_reject=seen.append,
    )
    assert "not a text" in seen[0].reason
    assert seen[1].reason.startswith("with the place of a window behind it, the key has 1,02")
    assert len(seen) == 3 and list(index) == ["b#0-4"]


def test_windows_keep_the_fields_of_their_document(make_index: Make) -> None:
    index = make_index(passages=WINDOW)
    index.add([Document("a", text(1), "here", {"year": 1999})])
    assert set(map(str, index.fields(list(index)).values())) == {"{'year': 1999}"}
    index.add([Document("a", text(1), "here", {"year": 2000})])
    assert set(map(str, index.fields(list(index)).values())) == {"{'year': 2000}"}


def test_the_window_belongs_to_the_index(make_index: Make, tmp_path: Path) -> None:
    index = make_index(passages="10:5")
    path = index.path
    index.close()
    for window in ("10:5", (10, 5)):
        Index.open(path, passages=window).close()
    with pytest.raises(ParameterMismatchError, match="passages = '10:5', but '20:5'"):
        Index.open(path, passages=(20, 5))
    make_index("whole").close()
    with pytest.raises(ParameterMismatchError, match="passages = '', but '10:5'"):
        Index.open(tmp_path / "whole", passages="10:5")
    assert "passages" not in (tmp_path / "whole" / "index.toml").read_text()
    assert 'passages = "10:5"' in (path / "index.toml").read_text()


@pytest.mark.parametrize(
    "given",
    ["10", "10:", "5:6", "1:1", "10:0", ":", "a:b", "10:5:1", (10,), (10.5, 1), 7, "0x10:1",
     "99999999:1"],
)  # fmt: skip
def test_impossible_windows_are_refused(tmp_path: Path, given: Any) -> None:
    with pytest.raises(ParameterError, match="expected words:step"):
        Index.create(tmp_path / "a", passages=given)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"unit": "line"}, "the index has unit line"),
        ({"unit": "url"}, "the index has unit url"),
        ({"metric": "cosine", "dim": 4}, "the index has metric cosine"),
        ({"metric": "weighted-jaccard"}, "the index has metric weighted-jaccard"),
        ({"store_text": False}, "texts must be stored"),
        ({"k": 11}, "shorter than a shingle"),
    ],
)
def test_indexes_that_cannot_have_windows(tmp_path: Path, options: Any, why: str) -> None:
    with pytest.raises(ParameterError, match=why):
        Index.create(tmp_path / "a", passages=WINDOW, **options)


def test_questions_about_whole_documents_are_refused(make_index: Make, tmp_path: Path) -> None:
    index = make_index(passages=WINDOW)
    index.add([("a", text(1))])
    asks: list[Callable[[], object]] = [
        index.update_clusters,
        index.clusters,
        index.dedup,
        index.neighbors,
        lambda: index.filter(tmp_path / "a.jsonl"),
        lambda: index.dedup_files([tmp_path], tmp_path / "out"),
    ]
    for ask in asks:
        with pytest.raises(ParameterError, match="needs whole documents"):
            ask()
    for say in (
        lambda: index.show("a"),
        lambda: index.query(key="a"),
        lambda: index.explain("a", body=text(1)),
        lambda: index.explain_page("a", body=text(1)),
        lambda: index.report(tmp_path / "a.html", cluster="a"),
    ):
        with pytest.raises(KeyNotFoundError, match="was cut into 8 windows"):
            say()
    with pytest.raises(ParameterError, match="mix windows of two texts"):
        index.merge(make_index("other", passages=WINDOW))


def test_an_index_of_whole_documents_is_cut_by_reindexing(make_index: Make, tmp_path: Path) -> None:
    documents = {"a": text(1), "b": text(2)}
    whole = make_index("whole")
    whole.add(documents.items())
    whole.reindex(tmp_path / "cut", passages=WINDOW, threshold=0.4)
    with Index.open(tmp_path / "cut") as cut:
        assert held(cut) == windows(documents) and cut.check() == []
        cut.reindex(tmp_path / "again", k=3)
        with pytest.raises(ParameterError, match="cannot be made of them"):
            cut.reindex(tmp_path / "no", passages=(20, 5))
        cut.export(tmp_path / "export")
    for path in ("again", "imported"):
        if path == "imported":
            Index.from_export(tmp_path / "export", tmp_path / path).close()
        with Index.open(tmp_path / path, passages=WINDOW) as other:
            assert held(other) == windows(documents)
            assert counts(other.add(documents.items()))[1:] == (0, 0, len(other), 0)
