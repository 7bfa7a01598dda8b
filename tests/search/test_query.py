"""The answer to one query, and to many."""

from __future__ import annotations

import contextlib
import errno
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb import DamageError, Index, LshdbError
from lshdb.storage.bands import postings
from lshdb.storage.transactions.snapshot import Snapshot
from tests.conftest import edited, family_corpus
from tests.without_kernel import use_reference


@pytest.mark.fast
def test_an_answer_says_what_top_left_out(tmp_path: Path) -> None:
    text = "one two three four five six seven eight nine ten"
    with Index.create(tmp_path / "a.lshdb") as index:
        index.add([(str(number), text) for number in range(7)])
        hits = index.query(text, top=5)
        assert isinstance(hits, list) and len(hits) == 5 and hits.truncated == 2
        assert index.query(text, top=7).truncated == index.query(text, top=None).truncated == 0
        assert index.query(key="0", top=1).truncated == 5
        assert index.query("").truncated == index.query("of other words altogether").truncated == 0
        answers = dict(index.query_many([("a", text), ("b", ""), ("c", "nothing")], top=1))
        assert [hits.truncated for hits in answers.values()] == [6, 0, 0]
        assert index.query(text, top=5, recall=0.9).truncated == 0


_SCRIPTS = {
    "words": lambda text: text,
    "accents": lambda text: text.replace("e", "\u00c9").replace("a", "a\u0308"),
    "han": lambda text: text.translate({ord(one): 0x4E00 + 7 * ord(one) for one in "abcdefgh12"}),
    "tokens": lambda text: text.split(),
    "sets": lambda text: frozenset(text.split()),
}


@pytest.mark.parametrize("script", _SCRIPTS)
@pytest.mark.parametrize("options", [{}, {"k": 2, "bag": True, "scheme": "universal"}])
@pytest.mark.long(when=lambda script, options: bool(options) and script not in ("han", "sets"))
def test_a_query_in_few_calls_answers_as_one_step_by_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, options: dict[str, Any]
) -> None:
    written, rng = _SCRIPTS[script], random.Random(5)
    corpus = [(key, written(text)) for key, text in family_corpus(5)]
    asked = [written(edited(rng, text, 1)) for _, text in family_corpus(5)[::3]]
    asked += [written(""), written("one"), *(body for _, body in corpus[::7])]

    def answers() -> list[Any]:
        found: list[Any] = []
        for verify in ("none", "signature", "exact"):
            how = {"verify": verify, "threshold": 0.4}
            for body in asked:
                found += [index.query(body, top=top, **how) for top in (None, 1)]
            found += [index.query(key=key, **how) for key, _ in corpus[1::10]]
        return [(list(hits), hits.truncated) for hits in found]

    with Index.create(tmp_path / "a.lshdb", threshold=0.4, **options) as index:
        index.add(corpus)
        index.remove([key for key, _ in corpus[::10]])
        at_once = answers()
        assert sum(bool(hits) for hits, _ in at_once) > 100
        use_reference(monkeypatch)
        assert answers() == at_once


@pytest.mark.parametrize("gathered", [2**20, 5])
@pytest.mark.parametrize("is_by_sql", [False, True])
def test_queries_asked_together_are_answered_as_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gathered: int, is_by_sql: bool
) -> None:
    """From frozen orders and by SQL, however many candidates are gathered at once."""
    monkeypatch.setattr(postings, "_GATHERED", gathered)
    if is_by_sql:
        monkeypatch.setattr(Snapshot, "_cover", lambda *_: None)
    corpus = family_corpus(5)
    asked: list[Any] = [body for _, body in corpus] + ["", corpus[0][1], {"of", "tokens"}, "one"]
    with Index.create(tmp_path / "a.lshdb", threshold=0.4) as index:
        index.add(corpus)
        index.remove([key for key, _ in corpus[::10]])
        for verify in ("none", "signature", "exact"):
            alone = [index.query(body, top=2, verify=verify) for body in asked]
            assert sum(map(len, alone)) > 50
            for workers in (1, 2):
                together = index.query_many(asked, top=2, verify=verify, workers=workers)
                found = [(list(hits), hits.truncated) for _, hits in together]
                assert found == [(list(hits), hits.truncated) for hits in alone]


@pytest.mark.parametrize("top", [1, 10, None])
def test_ties_are_in_order_of_key_and_at_a_threshold_count(tmp_path: Path, top: int | None) -> None:
    text = " ".join(f"word{number}" for number in range(12))
    others = [text.replace("word11", f"other{number}") for number in range(6)]
    with Index.create(tmp_path / "a.lshdb", threshold=0.5, k=1) as index:
        index.add([(f"k{9 - number}", other) for number, other in enumerate(others)])
        for verify in ("signature", "exact"):
            hits = index.query(others[0] + " more", verify=verify, top=None)
            assert [hit.key for hit in hits] == sorted(
                [hit.key for hit in hits], key=lambda key: (-dict(_levels(hits))[key], key)
            )
        level = 11 / 13
        at = index.query(others[0], verify="exact", threshold=level, top=top)
        assert [hit.key for hit in at] == ["k9", "k4", "k5", "k6", "k7", "k8"][:top]
        above = index.query(others[0], verify="exact", threshold=level + 1e-12, top=top)
        assert [hit.key for hit in above] == ["k9"]


def _levels(hits: Any) -> list[tuple[str, float]]:
    return [(hit.key, hit.similarity) for hit in hits]


def _cut_rows(path: Path) -> None:
    with open(path / "signatures.npy", "r+b") as file:
        file.truncate(128 + 512 * 5)


@pytest.mark.parametrize("verify", ["signature", "exact"])
def test_a_row_file_that_is_cut_while_it_is_open(tmp_path: Path, verify: Any) -> None:
    corpus = family_corpus(5)
    with Index.create(tmp_path / "a.lshdb") as index:
        index.add(corpus)
        assert index.query(corpus[60][1], verify=verify)
        _cut_rows(tmp_path / "a.lshdb")
        with pytest.raises(DamageError, match=r"signatures\.npy"):
            index.query(corpus[60][1], verify=verify)
        with pytest.raises(DamageError, match=r"signatures\.npy"):
            list(index.query_many(corpus[60:70], verify=verify, workers=2))


@pytest.mark.sqlite("a row of its file")
def test_a_candidate_without_its_text_is_damage(tmp_path: Path) -> None:
    corpus = family_corpus(5)
    with Index.create(tmp_path / "a.lshdb") as index:
        index.add(corpus)
        with (
            contextlib.closing(sqlite3.connect(tmp_path / "a.lshdb" / "index.db")) as database,
            database,
        ):
            database.execute(
                "DELETE FROM content WHERE doc_id = (SELECT doc_id FROM document WHERE key = ?)",
                (corpus[1][0],),
            )
        assert index.query(corpus[0][1], verify="signature")
        with pytest.raises(DamageError, match="the text of signature 1 is missing"):
            index.query(corpus[0][1], verify="exact")
        with pytest.raises(DamageError, match="the text of signature 1 is missing"):
            list(index.query_many(corpus[:4], verify="exact", workers=2))


@pytest.mark.sqlite("it answers a query in one step")
def test_rows_that_cannot_be_read_are_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the next attempt would succeed."""
    text = "some words of a text that is there"

    def failing(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("lshdb.signatures.family.Family.agreeing", failing)
    with Index.create(tmp_path / "x") as index:
        index.add([("a", text), ("b", "and another one of them")])
        with pytest.raises(LshdbError, match=r"signatures\.npy cannot be read: Input/output error"):
            index.query(text)


@pytest.mark.parametrize("n_similar", [1, 3, 30])
@pytest.mark.parametrize("n_words", [20, 9_000])
def test_texts_that_come_with_their_documents_or_not_give_one_answer(
    make_index: Callable[..., Index], n_similar: int, n_words: int
) -> None:
    """Few or many candidates, short texts or long ones, with copies and removed documents."""
    index = make_index(threshold=0.5)
    words = [f"w{number}" for number in range(n_words)]
    texts = [" ".join([*words[:-2], f"x{number}", *words[-2:]]) for number in range(n_similar)]
    index.add((f"t{number}", text) for number, text in enumerate(texts))
    index.add((f"copy{number}", text) for number, text in enumerate(texts))
    index.remove(["t0", "copy0"] if n_similar > 1 else ["t0"])
    query = " ".join(words)
    hits = index.query(query, top=None)
    ((_, expected),) = index.query_many([query], top=None, workers=2)
    assert hits == expected and len(hits) == max(2 * n_similar - 2, 1)
    assert hits.n_shingles == index.count_shingles(query)
    assert index.query(key=hits[0].key).n_shingles is None
