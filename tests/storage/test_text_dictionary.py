"""The dictionary with which the texts of an index are compressed: trained once, and kept."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lshdb import DamageError, Index
from lshdb.ingest import add_sizes
from lshdb.storage.tables.bodies import (
    WITHOUT_DICTIONARY,
    BodyCodec,
    codec_of,
    hash_body,
    needs_dictionary,
    size_of_body,
    train_dictionary,
)
from tests.raw import change

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MakeIndex = Callable[..., Index]


def stories(n: int, *, seed: int = 1, words: int = 60) -> list[tuple[str, str]]:
    """Texts of one vocabulary: about 400 bytes each."""
    rng, letters = random.Random(seed), random.Random(0)
    vocabulary = ["".join(letters.choices("abcdefghij", k=6)) for _ in range(800)]
    return [(f"{seed}-{i}", " ".join(rng.choices(vocabulary, k=words))) for i in range(n)]


def trained(seed: int = 1) -> BodyCodec:
    dictionary = train_dictionary(text.encode() for _, text in stories(500, seed=seed))
    assert dictionary
    return BodyCodec(dictionary)


def dictionary_of(index: Index) -> bytes:
    rows = list(index.sql("SELECT body FROM text_dictionary"))
    return bytes(rows[0][0]) if rows else b""


def texts_of(index: Index) -> dict[str, Any]:
    return index.texts(key for (key,) in list(index.sql("SELECT key FROM document")))


@pytest.mark.fast
@pytest.mark.parametrize("size", [0, 1, 30, 40, 41, 42, 200, 201, 4096, 4097, 70_000, 2**20 + 5])
def test_bodies_of_any_length_come_back(size: int) -> None:
    codec = trained()
    text = " ".join(text for _, text in stories(1 + size // 300))[:size]
    raw = text.encode()
    packed = codec.pack(raw)
    assert codec.unpack("text", packed, hash_body("text", raw), n_chars=size) == text
    assert codec.pack_many([raw]) == [packed]
    assert codec.are_as_written([("text", packed, hash_body("text", raw))]) == [size <= 2**20]
    assert zstd.decompress(packed, zstd_dict=zstd.ZstdDict(codec.dictionary)) == raw
    assert needs_dictionary(packed) == (size > 40)
    assert size_of_body(packed) == (size if 0 < size <= 2**20 else size_of_body(packed))


@pytest.mark.fast
def test_what_was_packed_without_a_dictionary_is_read_with_one() -> None:
    for size in (10, 300, 9000):
        raw = b"some words " * (size // 11)
        assert trained().unpack("text", WITHOUT_DICTIONARY.pack(raw)) == raw.decode()


@pytest.mark.fast
def test_it_halves_short_texts() -> None:
    codec = trained()
    raws = [text[:130].encode() for _, text in stories(400, seed=1)[:400]]
    with_dictionary = sum(map(len, codec.pack_many(raws)))
    assert with_dictionary < 0.65 * sum(map(len, WITHOUT_DICTIONARY.pack_many(raws)))


@pytest.mark.fast
def test_another_or_no_dictionary_is_damage_and_no_other_text() -> None:
    raw = stories(1)[0][1].encode()
    packed = trained().pack(raw)
    for other in (WITHOUT_DICTIONARY, trained(seed=2)):
        with pytest.raises(DamageError, match="cannot be decoded"):
            other.unpack("text", packed, n_chars=len(raw))
        assert other.are_as_written([("text", packed, hash_body("text", raw))]) == [False]


@pytest.mark.fast
def test_a_flipped_bit_is_damage() -> None:
    codec, raw = trained(), stories(1)[0][1].encode()
    packed = codec.pack(raw)
    for bit in range(8 * len(packed)):
        flipped = bytearray(packed)
        flipped[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(DamageError):
            assert codec.unpack("text", bytes(flipped), n_chars=len(raw)) == raw.decode()


@pytest.mark.fast
def test_too_few_texts_have_none_and_texts_of_noise_may() -> None:
    assert train_dictionary([]) is None
    assert train_dictionary([b"some words"] * 1000) is None
    assert train_dictionary([b"a" * 10_000] * 10) is None
    noise = random.Random(1)
    assert train_dictionary([noise.randbytes(500) for _ in range(500)]) is not None


@pytest.mark.fast
@pytest.mark.parametrize("row", [(b"x", b"y" * 16), ("x", b""), (None, None), (b"\0" * 2**21, b"")])
def test_a_dictionary_that_is_not_as_written_is_damage(row: tuple[Any, Any]) -> None:
    with pytest.raises(DamageError, match="text_dictionary"):
        codec_of(*row)


def test_an_index_trains_one_on_its_first_texts_and_keeps_it(make_index: MakeIndex) -> None:
    index = make_index()
    few, many, more = stories(20), stories(900, seed=2), stories(900, seed=3)
    index.add(few)
    assert dictionary_of(index) == b""
    index.add(many)
    dictionary = dictionary_of(index)
    assert 8_000 < len(dictionary) <= 32 * 2**10
    index.add(more)
    assert dictionary_of(index) == dictionary
    assert texts_of(index) == dict(few + many + more)
    assert index.check() == []
    assert [hit.key for hit in index.query(many[7][1])] == [many[7][0]]
    stored = sum(len(body) for (body,) in index.sql("SELECT body FROM content"))
    assert stored < 0.75 * sum(len(zstd.compress(text.encode())) for _, text in few + many + more)


@pytest.mark.parametrize("unit", ["token", "char"])
@pytest.mark.parametrize("workers", [1, 2])
def test_tokens_and_one_thread_and_batches_of_one_commit(
    make_index: MakeIndex, unit: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = replace(add_sizes.SIZES, first_documents=500, batch_documents=500)
    monkeypatch.setattr(add_sizes, "SIZES", sizes)
    documents: list[Any] = stories(1200)
    if unit == "token":
        documents = [(key, text.split()) for key, text in documents]
    index = make_index(unit=unit)
    index.add(documents, workers=workers)
    assert dictionary_of(index)
    assert texts_of(index) == dict(documents)
    assert index.check() == []


def test_an_index_without_texts_has_none(make_index: MakeIndex) -> None:
    index = make_index(store_text=False)
    index.add(stories(900))
    assert dictionary_of(index) == b""


def test_a_merge_takes_the_first_dictionary_and_packs_other_texts_anew(
    make_index: MakeIndex, tmp_path: Path
) -> None:
    one, other, target = stories(900), stories(900, seed=2), stories(900, seed=3)
    for name, documents in (("one", one), ("other", other), ("target", target)):
        with Index.create(tmp_path / name, threshold=0.8) as index:
            index.add(documents)
            if name == "one":
                first = dictionary_of(index)
    made = Index.create(tmp_path / "made", threshold=0.8)
    with Index.open(tmp_path / "one") as left, Index.open(tmp_path / "other") as right:
        made.merge(left, right)
    assert dictionary_of(made) == first
    assert texts_of(made) == dict(one + other) and made.check() == []
    with Index.open(tmp_path / "target") as index:
        own = dictionary_of(index)
        index.merge(made)
        assert dictionary_of(index) == own
        assert texts_of(index) == dict(one + other + target) and index.check() == []
    made.close()


def test_pairs_of_two_indexes_read_texts_by_two_dictionaries(tmp_path: Path) -> None:
    left, right = stories(900), stories(900, seed=2)
    with Index.create(tmp_path / "l", threshold=0.8) as here:
        here.add([*left, *((f"copy {key}", text + " end") for key, text in right[:50])])
        with Index.create(tmp_path / "r", threshold=0.8) as there:
            there.add([*right, *((f"copy {key}", text + " end") for key, text in left[:50])])
            pairs = {(pair.key1, pair.key2) for pair in here.join(there)}
    assert pairs == {(key, f"copy {key}") for key, _ in left[:50]} | {
        (f"copy {key}", key) for key, _ in right[:50]
    }


def test_copies_exports_and_a_reindex_have_the_texts(tmp_path: Path) -> None:
    documents = stories(900)
    with Index.create(tmp_path / "a", threshold=0.8) as index:
        index.add(documents)
        index.export(tmp_path / "exported")
        index.copy(tmp_path / "copied")
        index.reindex(tmp_path / "anew", k=3)
        index.compact()
        assert texts_of(index) == dict(documents)
    Index.from_export(tmp_path / "exported", tmp_path / "imported").close()
    for name in ("copied", "anew", "imported"):
        with Index.open(tmp_path / name) as index:
            assert dictionary_of(index)
            assert texts_of(index) == dict(documents) and index.check() == []


def test_a_damaged_dictionary_is_found_and_repair_keeps_what_can_be_read(
    make_index: MakeIndex,
) -> None:
    """Texts that came before it need none; those that need it are gone, and are named as gone."""
    index, few, many = make_index(), stories(20), stories(900, seed=2)
    index.add(few)
    index.add(many)
    index.close()
    change(index.path, "UPDATE text_dictionary SET hash = ?", bytes(16))
    with Index.open(index.path) as again:
        with pytest.raises(DamageError, match="text_dictionary"):
            again.texts([many[0][0]])
        findings = again.check()
    assert any(finding.where == "table text_dictionary" for finding in findings)
    Index.repair(index.path)
    with Index.open(index.path) as sound:
        assert texts_of(sound) == dict(few)
        assert sound.check() == []
