"""What an add remembers of its contents never hides one that is there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lshdb import Index
from lshdb.ingest.written import WrittenContents, WrittenDocuments
from lshdb.storage.dialects.sqlite import SqliteDatabase
from tests.conftest import family_corpus
from tests.sizes import set_sizes

Make = Callable[..., Index]


def test_what_was_remembered_is_suspected_and_little_else() -> None:
    rng = np.random.default_rng(3)
    keys = rng.integers(255 << 32, 256 << 32, 40_000)
    written = WrittenContents(bits=20)
    assert not written.suspected(keys).any()
    written.remember(keys[:20_000])
    assert written.suspected(keys[:20_000]).all()
    assert written.suspected(keys[20_000:]).mean() < 0.01


def test_a_full_filter_is_followed_by_another() -> None:
    keys = np.random.default_rng(4).integers(255 << 32, 256 << 32, 300_000)
    written = WrittenContents(bits=20)
    for part in np.split(keys[:200_000], 20):
        written.remember(part)
    assert written.suspected(keys[:200_000]).all()
    assert written.suspected(keys[200_000:]).mean() < 0.02


@pytest.mark.parametrize("bits", [3, 20])
def test_copies_are_found_in_whichever_batch_they_come(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, bits: int
) -> None:
    """Copies of documents from before the add, of its earlier batches and of this one."""
    set_sizes(monkeypatch, batch_documents=7)
    monkeypatch.setattr("lshdb.ingest.pipeline.WrittenContents", lambda: WrittenContents(bits=bits))
    corpus = family_corpus(51)
    index = make_index(threshold=0.5)
    index.add(corpus[:50])
    index.add([(f"again-{key}", text) for key, text in corpus] + corpus)
    distinct = {index.show(key).document.content_hash for key, _ in corpus}
    assert index.stats().signatures == len(distinct)
    for key, _ in corpus:
        assert f"again-{key}" in index.show(key).copies


def test_a_key_that_was_written_is_suspected_and_few_others() -> None:
    keys = [f"k{number}" for number in range(40_000)]
    written = WrittenDocuments(is_all=True, bits=20)
    assert written.suspected(keys, remembers=False) == []
    assert written.suspected(keys[::2], remembers=True) == []
    assert {*keys[::2]} <= {*written.suspected(keys, remembers=False)}
    assert len(written.suspected(keys[1::2], remembers=False)) < 200
    others = WrittenDocuments(is_all=False)
    assert others.suspected(keys, remembers=True) == keys
    assert others.suspected(keys[1::2], remembers=False) == keys[1::2]


@pytest.mark.parametrize("bits", [3, 20])
@pytest.mark.parametrize("there", [False, True])
def test_keys_are_known_in_whichever_batch_they_come(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, bits: int, there: bool
) -> None:
    """Documents from before the add, of its earlier batches and of this one."""
    set_sizes(monkeypatch, batch_documents=7)
    monkeypatch.setattr(
        "lshdb.ingest.pipeline.WrittenDocuments",
        lambda *, is_all: WrittenDocuments(is_all=is_all, bits=bits),
    )
    corpus = family_corpus(51)
    index = make_index(threshold=0.5)
    if there:
        index.add([*corpus[:9], ("other", "a text of its own")])
    again = [(key, f"{text} and more") for key, text in corpus[::3]]
    result = index.add([*corpus[:30], *again, *corpus])
    assert (result.documents, result.rejected) == (len(corpus), len(again) + 30)
    assert result.unchanged == (9 if there else 0)
    assert index.add(corpus).documents == len(corpus)
    assert index.check() == []


@pytest.mark.sqlite("its log")
@pytest.mark.parametrize("workers", [1, 2])
def test_the_log_of_a_long_add_is_brought_in_between_its_batches(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """By another thread than the one that reads the next batch, if there is one."""
    set_sizes(monkeypatch, batch_documents=300, commit_postings=0)
    index = make_index()
    log = Path(index.path, "index.db-wal")
    sizes, threads = [], set()
    checkpoint = SqliteDatabase.checkpoint

    def noted(database: SqliteDatabase) -> None:
        threads.add(threading.current_thread() is threading.main_thread())
        checkpoint(database)

    monkeypatch.setattr(SqliteDatabase, "checkpoint", noted)
    index.add([("first", "a text of its own")])
    index.add(
        ((f"k{number}", f"text {number} has some words of its own") for number in range(2_100)),
        on_commit=lambda _: sizes.append(log.stat().st_size),
        workers=workers,
    )
    assert len(sizes) == 7 and max(sizes) < 2 * sizes[0]
    assert (workers > 1) == (False in threads)
