"""Verified pairs of signatures: each once, each text once, whatever the memory and the file."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lshdb import DamageError, Index
from lshdb.params import IndexParams
from lshdb.search.candidates import LeftOut
from tests.brute import brute_pairs
from tests.conftest import edited, family_corpus, make_text, pair_set

Make = Callable[..., Index]


def test_rows_are_read_where_mapping_them_would_take_too_much(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = make_index(threshold=0.5)
    index.add(family_corpus(41))
    expected = pair_set(index)
    assert len(expected) > 50
    monkeypatch.setattr("lshdb.storage.snapshot.MAPPED_BYTES", 0)
    monkeypatch.setattr("lshdb.storage.signature_file.SignatureFile.rows", None)
    assert pair_set(index) == expected


def test_a_file_that_ends_too_early_is_damage(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = make_index(threshold=0.5)
    index.add(family_corpus(42))
    monkeypatch.setattr("lshdb.storage.snapshot.MAPPED_BYTES", 0)
    file = index.path / "signatures.npy"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamageError, match="ends before a row that is committed"):
        list(index.pairs())
    file.write_bytes(whole)


def test_pairs_come_once_however_few_are_remembered(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More pairs than places, so that most are overwritten before their next bucket."""
    import random

    rng = random.Random(5)
    base = make_text(rng, 60)
    corpus = [(f"d{number}", edited(rng, base, 2)) for number in range(90)]
    index = make_index(threshold=0.5, bands=64, rows=2)
    index.add(corpus)
    expected = {(*sorted(pair[:2]), pair[2]) for pair in brute_pairs(corpus, 0.5)}
    assert len(expected) > 3 * 1024
    for memory in (2**20, 2**28):  # 2^13 places and 2^21
        assert pair_set(index, memory=memory) == expected
    monkeypatch.setattr("lshdb.search.links._SPREAD", np.uint64(0))  # one place for all
    assert pair_set(index) == expected


def test_each_text_is_shingled_once(make_index: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from lshdb.search import verification

    index = make_index(threshold=0.3)
    index.add(family_corpus(43))
    plain = verification.shingle_content
    shingled: list[object] = []

    def counted(content, **how):  # type: ignore[no-untyped-def]
        shingled.append(content)
        return plain(content, **how)

    monkeypatch.setattr(verification, "shingle_content", counted)
    keys = {key for pair in pair_set(index) for key in pair[:2]}
    assert len(keys) < 2 * len(shingled)
    assert len(shingled) == len(set(map(str, shingled)))


def test_recall_lost_is_what_the_bands_left_out_would_have_found() -> None:
    params = IndexParams.choose(threshold=0.8)
    nothing, everything, half = LeftOut(9), LeftOut(9), LeftOut(9)
    bands = np.arange(params.bands)
    everything.count(bands, np.full(params.bands, 100), 0, 100)
    half.count(bands[::2], np.full(params.bands // 2, 100), 0, 100)
    assert nothing.recall_lost(params) == 0.0
    assert everything.recall_lost(params) == pytest.approx(params.recall_at(0.8))
    assert half.recall_lost(params) == pytest.approx(
        params.recall_at(0.8) - (1 - (1 - 0.8**params.rows) ** (params.bands / 2))
    )
