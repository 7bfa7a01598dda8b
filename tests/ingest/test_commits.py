"""One commit takes the batches at hand: what it holds, where it ends, and what an error leaves."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from lshdb import AddResult, ConflictError, Index, TooManyRejectedError, read_documents
from tests.sizes import set_sizes

Make = Callable[..., Index]
SIZE = 10
COPIES = [(f"copy{i}", f"text {i // 3} of a family, with words of its own") for i in range(45)]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    set_sizes(monkeypatch, batch_documents=SIZE)


def commits(index: Index, documents: Iterable[Any], *, workers: int = 1) -> list[list[int]]:
    """The batches that there are after each commit of an add."""
    found: list[list[int]] = []
    index.add(
        documents, on_commit=lambda result: found.append(list(result.batches)), workers=workers
    )
    return found


def stored(index: Index) -> list[Any]:
    """All that does not depend on commits: documents, signatures, postings."""
    documents = "SELECT doc_id, key, signature_id, hex(content_hash), batch_id FROM document"
    postings = "SELECT * FROM posting ORDER BY 1, 2, 3"
    return [list(index.sql(documents).rows), list(index.sql(postings).rows), list(index.pairs())]


@pytest.mark.sqlite("Postgres commits each batch")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_list_is_one_commit_and_the_same_index(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Contents of another batch of the same commit share its signatures."""
    together, apart = make_index("together"), make_index("apart")
    monkeypatch.setattr("lshdb.ingest.ahead.Ahead.waits", True)
    assert commits(together, COPIES, workers=workers) == [[1, 2, 3, 4, 5]]
    assert together.stats().signatures == 15
    assert {batch.add_id for batch in together.batches()} == {1}
    assert together.check() == []
    set_sizes(monkeypatch, commit_postings=0)
    assert len(commits(apart, COPIES, workers=workers)) == 5
    assert stored(together) == stored(apart)


@pytest.mark.sqlite("Postgres commits each batch")
def test_nothing_waits_for_threads_that_have_something_to_do(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lshdb.ingest.ahead.Ahead.waits", False)
    assert len(commits(make_index(), COPIES)) == 5


@pytest.mark.sqlite("Postgres commits each batch")
@pytest.mark.parametrize(
    ("name", "most", "expected"),
    [
        ("commit_postings", 2 * SIZE * 17, [[1, 2], [1, 2, 3, 4], [1, 2, 3, 4, 5]]),
        ("commit_characters", 2 * SIZE * 35, [[1, 2], [1, 2, 3, 4], [1, 2, 3, 4, 5]]),
        ("commit_seconds", 0.0, [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5]]),
    ],
)
def test_a_commit_ends(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, name: str, most: float, expected: Any
) -> None:
    set_sizes(monkeypatch, **{name: most})
    index = make_index()
    documents = [(f"key{i:02}", f"{i:02} words in a text of 35 characters") for i in range(45)]
    assert commits(index, documents) == expected
    assert index.check() == []


@pytest.mark.sqlite("Postgres commits each batch")
def test_files_are_at_hand_and_generators_are_not(make_index: Make, tmp_path: Any) -> None:
    """Whoever makes documents one by one may take hours for the next: nothing waits for it."""
    (tmp_path / "lines.jsonl").write_text(
        "".join(f'{{"id": "{key}", "text": "{text}"}}\n' for key, text in COPIES)
    )
    assert len(commits(make_index("a"), read_documents([tmp_path / "lines.jsonl"]))) == 1
    assert len(commits(make_index("b"), iter(COPIES))) == 5


@pytest.mark.sqlite("Postgres commits each batch")
def test_a_key_that_came_in_the_same_commit_is_rejected(make_index: Make) -> None:
    index = make_index()
    again = ("copy3", "another text for a key of the first batch")
    result = index.add([("", "no key"), *COPIES[:40], again, *COPIES[40:], again], workers=1)
    assert (result.added, result.rejected, result.batches) == (45, 3, [1, 2, 3, 4, 5])
    assert index.show("copy3").body == COPIES[3][1]
    assert [batch.n_rejected for batch in index.batches()] == [1, 0, 0, 0, 2]


@pytest.mark.sqlite("Postgres commits each batch")
def test_an_error_in_a_batch_leaves_those_before_it(make_index: Make) -> None:
    index = make_index()
    index.add([("copy33", "this text is there")])
    seen: list[AddResult] = []
    with pytest.raises(ConflictError, match="copy33"):
        index.add(COPIES, on_conflict="error", on_commit=seen.append, workers=1)
    assert [result.documents for result in seen] == [30]
    assert index.stats().documents == 31
    assert index.check() == []
    assert index.add(COPIES, on_conflict="skip").resumed == 30


class Stopped(Exception):
    """The input breaks off."""


@pytest.mark.sqlite("Postgres commits each batch")
@pytest.mark.parametrize("error", [Stopped, KeyboardInterrupt])
def test_what_was_written_is_committed_when_the_input_breaks_off(
    make_index: Make, error: type[BaseException]
) -> None:
    class Broken(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            yield from COPIES[:25]
            raise error

    index = make_index()
    with pytest.raises(error):
        index.add(Broken(COPIES), workers=1)
    assert index.stats().documents == 20
    assert index.check() == []


@pytest.mark.sqlite("Postgres commits each batch")
def test_the_limit_of_rejections_counts_documents_that_are_in(make_index: Make) -> None:
    index = make_index()
    with pytest.raises(TooManyRejectedError, match="20 documents committed before"):
        index.add([*COPIES[:20], ("", "no key"), *COPIES[20:]], max_errors=0, workers=1)
    assert index.stats().documents == 20
