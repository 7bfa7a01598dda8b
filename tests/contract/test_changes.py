"""Every change leaves the same index behind, and says the same of what it did."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lshdb import (
    ConflictError,
    Index,
    KeyNotFoundError,
    LshdbError,
    Rejected,
    TooManyRejectedError,
)
from tests.answers import answers
from tests.conftest import family_corpus
from tests.contract.conftest import Both, Place
from tests.contract.test_answers import numbers
from tests.sizes import set_sizes

CORPUS = family_corpus(4, families=5)
TOMORROW = datetime.now(UTC) + timedelta(days=1)


def held(index: Index) -> Any:
    """All that an index holds and says."""
    return answers(index), numbers(index)


def refused(kind: type[LshdbError], do: Any) -> tuple[str, str | None]:
    with pytest.raises(kind) as caught:
        do()
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize("key", ["a\0b", "a\ud800", "\0"])
def test_what_cannot_be_a_key_is_not_there(both: Both, key: str) -> None:
    """Though one of the databases refuses to be asked for it."""

    def live(place: Place) -> Any:
        with place.create("a", threshold=0.5) as index:
            index.add(CORPUS[:9])
            there = CORPUS[0][0]
            return [
                key in index,
                refused(KeyNotFoundError, lambda: index.query(key=key)),
                refused(KeyNotFoundError, lambda: index.show(key)),
                refused(KeyNotFoundError, lambda: index.explain(there, key)),
                index.texts([there, key]),
                index.remove([key, there]),
                len(index),
            ]

    both.same(live)


def test_adds_and_removes(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaced, skipped, refused, unchanged, copied and rejected documents, over many batches."""
    set_sizes(monkeypatch, batch_documents=7)

    def live(place: Place) -> Any:
        said: list[Any] = []
        with place.create("a", threshold=0.5) as index:
            bad = [("", "no key"), Rejected("line 3", "no good"), ("a\0", "x"), ("b", "a\0b")]
            said.append(index.add([*CORPUS, *bad], source="first", on_reject=said.append))
            changed = [(CORPUS[0][0], "quite another text " * 3), CORPUS[1]]
            for how in ("skip", "replace"):
                said.append(index.add(changed, on_conflict=how))
            other = [("new", "in none of it"), (CORPUS[2][0], "third")]
            said.append(refused(ConflictError, lambda: index.add(other, on_conflict="error")))
            said.append(refused(TooManyRejectedError, lambda: index.add(bad, max_errors=1)))
            said.append(index.add([("copy", CORPUS[4][1].upper()), ("tokens", ["a", "b"])]))
            said.append(index.remove([CORPUS[5][0], "none", CORPUS[6][0], CORPUS[5][0]]))
            said.append(index.add([]))
            said.append(index.expire(TOMORROW - timedelta(days=9)))
            said.append(index.expire(TOMORROW, dry_run=True))
            said.append(index.update_clusters())
            said.append(held(index))
            said.append(index.expire(TOMORROW))
            said.append(numbers(index))
        return said

    said = both.same(live)
    first = said[3]
    assert (first["added"], first["rejected"], first["batches"]) == (28, 3, [1, 2, 3, 4])
    assert "documents 0" in said[-1]


def test_compact_and_reband(both: Both) -> None:
    def live(place: Place) -> Any:
        with place.create("a", threshold=0.6) as index:
            index.add(CORPUS)
            index.update_clusters()
            index.remove([key for key, _ in CORPUS[::3]])
            first = index.compact()
            kept = held(index)
        second = Index.reband(place.folder / "a", threshold=0.4)
        with Index.open(place.folder / "a") as index:
            said = [(one.params, one.signatures, one.dropped) for one in (first, second)]
            return said, kept, held(index)

    (first, second), _, _ = both.same(live)
    assert first[2] > 0 and second[2] == 0
    assert second[0]["threshold"] == 0.4


def test_merge_and_reindex(both: Both) -> None:
    """Also of what lies on the other database."""
    sqlite, postgres = both.places

    def live(place: Place) -> Any:
        with (
            place.create("a", threshold=0.5) as index,
            Index.create(place.folder / "b", threshold=0.5, **sqlite.database()) as one,
            Index.create(place.folder / "c", threshold=0.5, **postgres.database()) as other,
        ):
            index.add(CORPUS[:12])
            one.add([*CORPUS[8:20], (CORPUS[1][0], "of the second")])
            other.add(CORPUS[18:])
            said = [index.merge(one, on_conflict="skip"), index.merge(one, other)]
            said.append(index.reindex(place.folder / "chars", unit="char", **place.database()))
            with Index.open(place.folder / "chars") as chars:
                return said, held(index), held(chars), chars.params.items()

    both.same(live)


def test_exports_and_copies_go_both_ways(lived: Both, both: Both) -> None:
    """Of each to each: all answers as before, and the exports the same byte for byte."""
    exports = []
    for source in lived.places:
        with Index.open(source.folder / "a") as index:
            before = held(index)
            folder = both.places[0].folder / f"files of {source.name}"
            index.export(folder)
            dataset = both.places[0].folder / f"dataset of {source.name}"
            index.export(dataset, format="delta")
            exports.append(
                {
                    file.name: file.read_bytes()
                    for file in folder.iterdir()
                    if file.name in ("signatures.npy", "postings.npy")
                }
            )
            for target in both.places:
                path = target.folder / f"copy of {source.name}"
                index.copy(path, **target.database())
                with Index.open(path) as copy:
                    assert held(copy)[0] == before[0]
                    copy.add([("later", "one more document than there was")])
                    assert copy.check() == []
                for name, exported in (("import", folder), ("import of dataset", dataset)):
                    path = target.folder / f"{name} of {source.name}"
                    with Index.from_export(exported, path, **target.database()) as again:
                        assert held(again)[0] == before[0]
                        assert again.check() == []
    assert exports[0] == exports[1] and len(exports[0]) == 2


def test_what_is_not_there_or_not_as_expected(both: Both) -> None:
    def live(place: Place) -> Any:
        place.create("a", k=4).close()
        said = []
        for how in ({"k": 5}, {"threshold": 0.9}, {"unit": "char"}):
            said.append(refused(LshdbError, lambda: Index.open(place.folder / "a", **how)))  # noqa: B023
        said.append(refused(LshdbError, lambda: Index.open(place.folder / "none")))
        said.append(refused(LshdbError, lambda: place.create("a")))
        with Index.open(place.folder / "a", k=4) as index:
            for ask in (
                lambda: index.show("none"), lambda: index.query(key="none"),
                lambda: index.explain("none", "neither"), lambda: index.query("x", threshold=2.0),
                lambda: list(index.pairs(since=9)), lambda: list(index.dedup(keep="best")),
            ):  # fmt: skip
                said.append(refused(LshdbError, ask))
        said.append(Index.upgrade(place.folder / "a"))
        return said

    said = both.same(live)
    assert said[-1][0] == said[-1][1]
