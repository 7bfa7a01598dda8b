"""The vector file: what is in it, and that every change of an index takes it along."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import DamageError, Index, ParameterMismatchError, TextNotStoredError
from lshdb.errors import SignaturesElsewhereError
from lshdb.exchange.manifest import describe
from lshdb.storage.rowfiles import row_file
from lshdb.storage.rowfiles.layouts import HEADER_BYTES
from lshdb.storage.transactions.writer import Writer
from tests.conftest import pair_set
from tests.raw import change

Make = Callable[..., Index]
DIM = 50
BANDS = {"bands": 8, "rows": 4}
KINDS: dict[str, dict[str, Any]] = {
    "cosine": {"metric": "cosine", "threshold": 0.9, **BANDS},
    "float16": {"metric": "l2", "threshold": 2.0, "dtype": "float16", **BANDS},
    "float64": {"metric": "l1", "threshold": 8.0, "dtype": "float64", **BANDS},
    "uint8": {"metric": "l1", "threshold": 9.0, "dtype": "uint8", **BANDS},
    "hamming": {"metric": "hamming", "threshold": 2, **BANDS},
    "jaccard-bits": {"metric": "jaccard-bits", "threshold": 0.8, **BANDS},
}
FEW = ("cosine", "jaccard-bits")
EMPTY = "0" * DIM


def is_bits(kind: str) -> bool:
    return kind in ("hamming", "jaccard-bits")


def bodies(kind: str, n: int = 30) -> dict[str, Any]:
    """Pairs that are alike, a copy, and for bits one of which none is set."""
    rng = np.random.default_rng(5)
    if is_bits(kind):
        bits = rng.integers(0, 2, (n, DIM), dtype=np.uint8)
        bits = np.repeat(bits, 2, axis=0)
        bits[1::2, 3] ^= 1
        found: list[Any] = ["".join(map(str, row)) for row in bits.tolist()] + [EMPTY]
    else:
        numbers = np.repeat(rng.uniform(1, 200, (n, DIM)).round(), 2, axis=0)
        numbers[1::2, 3] += 1
        numbers[0::2] *= 1 if kind == "uint8" else -1
        numbers[1::2] *= 1 if kind == "uint8" else -1
        found = [row.tolist() for row in numbers]
    found.append(found[4])
    return {f"v{number:02d}": body for number, body in enumerate(found)}


def grown(make_index: Make, kind: str, name: str = "a.lshdb", **more: Any) -> Index:
    """An index of several batches, with replaced and removed documents."""
    index = make_index(name, dim=DIM, **KINDS[kind], **more)
    items = list(bodies(kind).items())
    index.add(items[:25])
    index.add(items[25:])
    index.add([("v02", items[8][1]), ("v07", items[-2][1])])
    index.remove(["v05", "v10", "v11"])
    return index


def vectors_of(index: Index) -> np.ndarray:
    (path,) = index.path.glob("vectors*.npy")
    return np.load(path, allow_pickle=False)


def row_of(index: Index, key: str) -> Any:
    return vectors_of(index)[index.show(key).document.signature_id]


def row_files(index: Index) -> list[str]:
    names = sorted(path.name for path in index.path.glob("*.npy"))
    return [name for name in names if not name.startswith("orders.")]


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


def findings(index: Index, **options: Any) -> str:
    return "; ".join(f"{one.kind}: {one.where}: {one.what}" for one in index.check(**options))


@pytest.mark.parametrize("kind", KINDS)
def test_row_i_is_the_vector_of_signature_i(make_index: Make, kind: str) -> None:
    index = grown(make_index, kind)
    given = bodies(kind)
    stored = vectors_of(index)
    signatures = np.load(index.path / "signatures.npy", allow_pickle=False)
    assert len(stored) == len(signatures) == index.stats().signatures
    assert signatures.shape[1] == index.params.row_words
    dtype = {"cosine": "float32", "float16": "float16", "float64": "float64"}.get(kind, "uint8")
    assert stored.dtype == dtype
    assert stored.shape[1] == (7 if is_bits(kind) else DIM)
    for key in ("v00", "v30", "v59"):
        row = row_of(index, key)
        if is_bits(kind):
            assert "".join(map(str, np.unpackbits(row)[:DIM].tolist())) == given[key]
        else:
            assert row.tolist() == given[key]
        shown = index.show(key)
        assert np.array_equal(shown.body, row)
        plain = row.tobytes().hex() if is_bits(kind) else row.tolist()
        assert shown.plain_body == plain
    assert index.show("v02").document.signature_id == index.show("v08").document.signature_id
    assert index.stats().vector_bytes == HEADER_BYTES + stored.nbytes
    assert list(index.sql("SELECT count(*) FROM content").rows) == [(0,)]
    assert len(pair_set(index)) > 20
    index.add([("again", index.show("v00").plain_body)])
    assert index.show("again").copies == ("v00",)


def test_minus_zero_is_zero(make_index: Make) -> None:
    index = make_index(metric="l2", threshold=1.0, dim=3)
    index.add([("a", [0.0, -0.0, 1.0]), ("b", [-0.0, 0.0, 1.0])])
    assert not np.signbit(vectors_of(index)).any()
    assert index.show("a").copies == ("b",)


def test_bits_of_which_none_is_set_have_no_row(make_index: Make) -> None:
    index = make_index(dim=DIM, **KINDS["jaccard-bits"])
    index.add([("none", EMPTY), ("one", "1" + EMPTY[1:])])
    shown = index.show("none")
    assert (shown.document.signature_id, shown.document.n_shingles) == (None, 0)
    assert shown.plain_body == "00" * 7
    assert len(vectors_of(index)) == 1


@pytest.mark.parametrize("kind", FEW)
def test_without_vectors_there_is_no_file(make_index: Make, kind: str) -> None:
    index = grown(make_index, kind, store_text=False)
    assert not list(index.path.glob("vectors*"))
    assert index.show("v00").body is None
    assert index.stats().vector_bytes == 0
    assert {pair.method for pair in index.pairs()} == {"signature"}
    with pytest.raises(TextNotStoredError):
        list(index.pairs(verify="exact"))
    index.compact()
    assert not list(index.path.glob("vectors*"))
    assert list(index.sql("SELECT DISTINCT vector_crc32 FROM signature_block").rows) == [(None,)]


@pytest.mark.parametrize("kind", FEW)
def test_a_compaction_and_other_bands_take_vectors_along(
    make_index: Make, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lshdb.storage.rowfiles.layouts.BLOCK_ROWS", 8)
    index = grown(make_index, kind)
    index.remove([f"v{number:02d}" for number in range(40, 56)])
    before = pair_set(index)
    rows = {key: row_of(index, key).tolist() for key in ("v00", "v30", "v39")}
    assert index.stats().reclaimable_bytes > 16 * (index.params.row_words * 2 + rows_bytes(index))
    result = index.compact()
    assert result.dropped > 16
    assert row_files(index) == ["signatures.1.npy", "vectors.1.npy"]
    assert len(vectors_of(index)) == result.signatures
    assert {key: row_of(index, key).tolist() for key in rows} == rows
    assert pair_set(index) == before
    index.add([("new", bodies(kind)["v41"])])
    Index.reband(index.path, recall=0.9)
    with Index.open(index.path) as again:
        assert again.check() == []
        assert again.params.width == index.params.width
        assert pair_set(again) <= before


def rows_bytes(index: Index) -> int:
    return int(vectors_of(index)[0].nbytes)


@pytest.mark.parametrize("kind", FEW)
def test_a_merge_takes_vectors_over(make_index: Make, kind: str) -> None:
    index = grown(make_index, kind)
    into = make_index("into.lshdb", dim=DIM, **KINDS[kind])
    into.add([("first", bodies(kind)["v30"])])
    assert into.merge(index).added == index.stats().documents
    for key in ("v00", "v30", "v59"):
        assert row_of(into, key).tolist() == row_of(index, key).tolist()
    assert into.show("v30").copies == ("first",)
    slots = index.params.num_perm  # there are more by default where signatures are all there is
    without = make_index("without.lshdb", dim=DIM, store_text=False, num_perm=slots, **KINDS[kind])
    without.merge(index)
    assert not list(without.path.glob("vectors*"))
    with pytest.raises(TextNotStoredError, match=r"stores vectors, and .* made with --no-vectors"):
        into.merge(without)
    other = make_index("other.lshdb", dim=DIM + 1, **KINDS[kind])
    with pytest.raises(ParameterMismatchError, match="dim"):
        other.merge(index)


def test_a_damaged_vector_is_not_merged_nor_exported_nor_compacted(
    make_index: Make, tmp_path: Path
) -> None:
    """Written anew it would get a new checksum."""
    index = grown(make_index, "cosine")
    into = make_index("into.lshdb", dim=DIM, **KINDS["cosine"])
    flip(index.path / "vectors.npy", -5)
    for change_it in (
        lambda: into.merge(index),
        lambda: index.export(tmp_path / "files"),
        index.compact,
        lambda: index.reindex(tmp_path / "b.lshdb", seed=3),
    ):
        with pytest.raises(DamageError, match="vector"):
            change_it()
    assert into.stats().documents == 0
    assert not (tmp_path / "files").exists() and not (tmp_path / "b.lshdb").exists()
    flip(index.path / "vectors.npy", -5)


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_comes_back(
    make_index: Make, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lshdb.exchange.importer._ROW_BYTES", 5_000)
    index = grown(make_index, kind)
    index.export(tmp_path / "files")
    manifest = json.loads((tmp_path / "files/index.json").read_bytes())
    assert manifest["export_format"] == 2
    assert manifest["counts"]["vectors"] == manifest["counts"]["signatures"]
    exported = np.load(tmp_path / "files/vectors.npy", allow_pickle=False)
    assert np.array_equal(exported, vectors_of(index))
    with Index.from_export(tmp_path / "files", tmp_path / "b.lshdb") as again:
        assert again.check() == []
        assert np.array_equal(vectors_of(again), vectors_of(index))
        assert pair_set(again) == pair_set(index)
    with Index.open(tmp_path / "b.lshdb") as again:
        assert again.reindex(tmp_path / "c.lshdb", seed=9).added
    with Index.open(tmp_path / "c.lshdb") as other:
        assert other.check() == []
        assert other.params.dtype == index.params.dtype
        assert np.array_equal(row_of(other, "v00"), row_of(index, "v00"))


def test_an_export_of_texts_has_the_format_that_it_had(make_index: Make, tmp_path: Path) -> None:
    make_index().export(tmp_path / "files")
    manifest = json.loads((tmp_path / "files/index.json").read_bytes())
    assert manifest["export_format"] == 1
    assert "vectors" not in manifest["counts"]


def test_damage_in_an_export_is_named(make_index: Make, tmp_path: Path) -> None:
    grown(make_index, "cosine").export(tmp_path / "files")
    file, manifest = tmp_path / "files/vectors.npy", tmp_path / "files/index.json"
    said = json.loads(manifest.read_bytes())
    flip(file, -5)
    with pytest.raises(DamageError, match=r"vectors\.npy has blake2b"):
        Index.from_export(tmp_path / "files", tmp_path / "b.lshdb")
    said["files"]["vectors.npy"] = describe(file)
    manifest.write_text(json.dumps(said))
    with pytest.raises(DamageError, match="the vector of 'v07' is not the exported one"):
        Index.from_export(tmp_path / "files", tmp_path / "b.lshdb")
    for count in (None, 3):
        said["counts"]["vectors"] = count
        if count is None:
            del said["counts"]["vectors"]
        manifest.write_text(json.dumps(said))
        with pytest.raises(DamageError, match=r"vectors\.npy"):
            Index.from_export(tmp_path / "files", tmp_path / "b.lshdb")
    assert not (tmp_path / "b.lshdb").exists()


def test_a_copy_has_the_vectors(make_index: Make, tmp_path: Path) -> None:
    index = grown(make_index, "cosine")
    index.compact()
    index.copy(tmp_path / "b.lshdb")
    with Index.open(tmp_path / "b.lshdb") as copy:
        assert copy.check() == []
        assert np.array_equal(vectors_of(copy), vectors_of(index))
        assert pair_set(copy) == pair_set(index)


def test_every_flipped_bit_of_a_vector_is_found(make_index: Make) -> None:
    index = grown(make_index, "cosine")
    path = index.path / "vectors.npy"
    for place in range(HEADER_BYTES, path.stat().st_size, 997):
        flip(path, place)
        assert "vectors: vectors.npy, rows 0 to" in findings(index)
        assert findings(index, quick=True).count("vectors: ") == 1
        flip(path, place)
    assert findings(index) == ""


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE signature_block SET vector_crc32 = 5", "vectors: vectors.npy, rows 0 to"),
        ("UPDATE signature_block SET vector_crc32 = NULL", "has no CRC-32 of vectors"),
        (
            "UPDATE document SET signature_id = 3 WHERE key = 'v09'",
            "vectors.npy, row 3: the vector",
        ),
    ],
)
@pytest.mark.parametrize("quick", [True, False])
def test_what_does_not_go_together_is_found(
    make_index: Make, statement: str, expected: str, quick: bool
) -> None:
    index = grown(make_index, "cosine")
    with Index.open(index.path) as other:
        change(index.path, statement)
        assert (expected in findings(other, quick=quick)) == (not quick or "block" in statement)
    Index.repair(index.path)
    with Index.open(index.path) as other:
        assert other.check() == []


def test_a_checksum_of_vectors_that_are_not_kept_is_found(make_index: Make) -> None:
    index = make_index()
    index.add([("a", "some words")])
    change(index.path, "UPDATE signature_block SET vector_crc32 = 5")
    assert "has one of vectors; none are kept" in findings(index)
    change(index.path, "UPDATE signature_block SET vector_crc32 = NULL")


@pytest.mark.sqlite("with a database elsewhere the files may be on another host")
def test_a_vector_file_that_is_missing_cut_or_anothers_is_damage(
    make_index: Make, tmp_path: Path
) -> None:
    index = grown(make_index, "cosine")
    other = make_index("other.lshdb", dim=DIM, **KINDS["cosine"])
    other.add((key, [-each for each in body]) for key, body in bodies("cosine").items())
    path, kept = index.path / "vectors.npy", tmp_path / "kept.npy"
    path.rename(kept)
    with pytest.raises(DamageError, match=r"the vector file .*vectors\.npy is not there"):
        Index.open(index.path)
    shutil.copy(kept, path)
    with open(path, "r+b") as file:
        file.truncate(5_000)
    with pytest.raises(DamageError, match=r"vector file .* is 5000 bytes long"):
        Index.open(index.path)
    np.save(path, np.load(kept).astype(np.float64))
    with pytest.raises(DamageError, match=r"vector file .*<f8.*rows of 50 float32 \(<f4\)"):
        Index.open(index.path)
    shutil.copy(other.path / "vectors.npy", path)
    with Index.open(index.path) as opened:
        with pytest.raises(DamageError, match=r"of the vector file .* have CRC-32"):
            list(opened.pairs())
        with pytest.raises(DamageError, match=r"of the vector file .* have CRC-32"):
            opened.query(bodies("cosine")["v00"])
    shutil.copy(kept, path)


@pytest.mark.parametrize("kind", FEW)
def test_a_repair_keeps_every_vector_that_is_still_its_documents(
    make_index: Make, kind: str
) -> None:
    """Though all are in one block, whose CRC-32 is wrong."""
    index = grown(make_index, kind)
    documents = index.stats().documents
    (lost,) = index.show("v30").copies or ("v30",)
    place = HEADER_BYTES + rows_bytes(index) * index.show("v30").document.signature_id
    pairs = {pair for pair in pair_set(index) if lost not in pair[:2]}
    flip(index.path / "vectors.npy", place)
    with Index.open(index.path) as damaged, pytest.raises(DamageError):
        damaged.show("v30")
    result = Index.repair(index.path)
    assert result.lost == [lost]
    assert (result.documents, result.signed) == (documents - 1, 0)
    assert result.quarantine is not None
    record = json.loads(result.quarantine.read_text())
    assert record["reason"] == "its vector is not the one written"
    assert "vector" not in record and len(record["unproved_vector"]) in (DIM, 14)
    with Index.open(index.path) as again:
        assert again.check() == []
        assert pair_set(again) == pairs
    assert row_files(index) == ["signatures.1.npy", "vectors.1.npy"]


@pytest.mark.parametrize("kind", KINDS)
def test_signatures_are_made_again_from_vectors(make_index: Make, kind: str) -> None:
    index = grown(make_index, kind)
    documents, pairs = index.stats().documents, pair_set(index)
    flip(index.path / "signatures.npy", -3)
    change(index.path, "UPDATE document SET content_hash = body_hash, n_chars = 3 WHERE doc_id = 9")
    result = Index.repair(index.path)
    assert (result.lost, result.documents) == ([], documents)
    assert result.signed
    with Index.open(index.path) as again:
        assert again.check() == []
        assert pair_set(again) == pairs


def test_a_row_that_names_another_signature_is_proved_by_its_vector(make_index: Make) -> None:
    index = grown(make_index, "cosine")
    before = index.show("v20").document.signature_id
    change(index.path, "UPDATE document SET signature_id = 3 WHERE key = 'v20'")
    assert Index.repair(index.path).lost == []
    with Index.open(index.path) as again:
        assert again.show("v20").document.signature_id is not None
        assert row_of(again, "v20").tolist() == bodies("cosine")["v20"]
    assert before != 3


def test_all_vectors_are_gone(make_index: Make) -> None:
    index = grown(make_index, "cosine")
    (index.path / "vectors.npy").unlink()
    result = Index.repair(index.path)
    assert (result.documents, len(result.lost)) == (0, len(bodies("cosine")) - 3)
    with Index.open(index.path) as again:
        assert again.check() == []
        again.add(bodies("cosine").items())


def test_on_a_host_without_the_files(make_index: Make, tmp_path: Path) -> None:
    """Vectors lie where the signatures do; what needs neither is answered."""
    index = grown(make_index, "cosine", "here.lshdb", database="sqlite:///../shared.db")
    path = tmp_path / "there.lshdb"
    path.mkdir()
    shutil.copy(index.path / "index.toml", path)
    with Index.open(path) as there:
        assert not there.has_signatures
        assert {pair.method for pair in there.pairs()} == {"none"}
        for ask in (
            lambda: list(there.pairs(verify="exact")),
            lambda: there.query(bodies("cosine")["v00"], verify="exact"),
            lambda: there.show("v00"),
            lambda: there.add([("new", bodies("cosine")["v00"])]),
            there.check,
        ):
            with pytest.raises(SignaturesElsewhereError):
                ask()
        assert there.stats().documents == index.stats().documents
        assert there.remove(["v00"]) or True
    shutil.copy(index.path / "signatures.npy", path)
    with pytest.raises(DamageError, match=r"the vector file .*there.lshdb/vectors\.npy is not"):
        Index.open(path)


def test_rows_that_are_none_of_the_file_are_refused(make_index: Make) -> None:
    """Nothing is written: a row of another width would move all after it."""
    index = make_index(dim=DIM, **KINDS["cosine"])
    rows = np.zeros((2, index.params.row_words), dtype=np.uint16)
    good = np.zeros((2, DIM), dtype=np.float32)
    size = (index.path / "signatures.npy").stat().st_size
    with Writer(index._store, lock_timeout=1.0) as writer:
        for vectors in (None, good[:1], good[:, :-1], good.astype(np.float64), good[0]):
            with pytest.raises(ValueError), writer.transaction() as transaction:
                transaction.append_signatures(rows, vectors)
        with pytest.raises(ValueError), writer.transaction() as transaction:
            transaction.append_signatures(rows[:, :-1], good)
    assert (index.path / "signatures.npy").stat().st_size == size


def test_a_checksum_that_is_missing_is_not_written_on(make_index: Make) -> None:
    index = grown(make_index, "cosine")
    change(index.path, "UPDATE signature_block SET vector_crc32 = NULL")
    with pytest.raises(DamageError, match="the last checksum of signatures"):
        index.add([("new", [1.0] * DIM)])
    with pytest.raises(DamageError, match="expected none"), Index.open(index.path) as again:
        list(again.pairs())
    Index.repair(index.path)


def test_large_vectors_are_read_in_parts_of_a_block(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    index = grown(make_index, "cosine")
    pairs = pair_set(index)
    monkeypatch.setattr(row_file, "PIECE_BYTES", 700)
    assert index.check() == []
    flip(index.path / "vectors.npy", HEADER_BYTES + 3)
    for change_it in (index.compact, lambda: index.export(tmp_path / "files")):
        with pytest.raises(DamageError, match="rows 0 to 59 of the vector file"):
            change_it()
    flip(index.path / "vectors.npy", HEADER_BYTES + 3)
    index.compact()
    assert index.check() == []
    assert pair_set(index) == pairs


def test_a_vector_file_left_over_is_removed_by_the_next_writer(make_index: Make) -> None:
    index = grown(make_index, "cosine")
    for name in ("vectors.1.npy", "vectors.7.npy", "signatures.7.npy"):
        begun = (index.path / f"{name.partition('.')[0]}.npy").read_bytes()
        (index.path / name).write_bytes(begun[: len(begun) // 2])
    (index.path / "signatures.8.npy").write_bytes(b"")  # killed before its first byte
    (index.path / "signatures.9.npy").write_bytes(b"somebody's own")
    (index.path / "vectors.old.npy").write_bytes(b"not ours")
    index.add([("new", [1.0] * DIM)])
    assert row_files(index) == [
        "signatures.9.npy", "signatures.npy", "vectors.npy", "vectors.old.npy",
    ]  # fmt: skip
    notes: list[str] = []
    index.check(on_note=notes.append)
    assert any("vectors.old.npy is not a file of the index" in note for note in notes)
