"""Exports: the same index again, from files that other programs read, or none at all."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import (
    DamageError,
    FormatError,
    Index,
    IndexExistsError,
    InputError,
    LshdbError,
    ParameterError,
)
from lshdb.exchange.importer import read_array
from lshdb.exchange.manifest import describe
from tests.answers import answers, lively_index
from tests.conftest import family_corpus, pair_set

Make = Callable[..., Index]
NEEDS_ARROW = pytest.mark.skipif(
    importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed"
)
FORMATS = ["jsonl", pytest.param("parquet", marks=NEEDS_ARROW)]
WITH_DATASETS = [*FORMATS, "delta"]
STORED = (
    "SELECT * FROM document ORDER BY doc_id",
    "SELECT doc_id, form FROM content ORDER BY doc_id",
    "SELECT * FROM batch",
    "SELECT * FROM signature_block",
    "SELECT * FROM signature_release",
    "SELECT * FROM edge ORDER BY signature1, signature2",
    "SELECT * FROM cluster_member ORDER BY signature_id",
    "SELECT * FROM edge_state",
    "SELECT uuid, created_at, n_signatures, next_doc_id FROM state",
    "SELECT * FROM posting ORDER BY 1, 2, 3",
)


def stored(index: Index) -> list[list[tuple[object, ...]]]:
    return [list(index.sql(statement).rows) for statement in STORED]


@pytest.mark.parametrize("tables", WITH_DATASETS)
@pytest.mark.parametrize("parameters", [{}, {"store_text": False, "num_perm": 96}])
def test_the_index_comes_back(
    make_index: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    parameters: dict[str, Any],
    tables: str,
) -> None:
    index = lively_index(make_index, "a", **parameters)
    index.export(tmp_path / "files", format=tables)
    monkeypatch.setattr("lshdb.exchange.importer._BATCH_DOCUMENTS", 7)
    monkeypatch.setattr("lshdb.exchange.importer._ROW_BYTES", 5_000)
    monkeypatch.setattr("lshdb.dataset.dataset_import._BLOCK_ROWS", 7)
    monkeypatch.setattr("lshdb.dataset.dataset_import._BLOCK_BYTES", 5_000)
    with Index.from_export(tmp_path / "files", tmp_path / "b") as again:
        assert stored(again) == stored(index)
        assert again.check() == []
        assert answers(again) == answers(index)
        assert again.stats().unused_signatures > 0
        new = ("new", "a document that comes in later than all the others")
        for one in (again, index):
            one.add([new, ("copy", index.show("ключ\t1").body or "слово")])
        assert pair_set(again) == pair_set(index)
        assert again.show("new").document.doc_id == index.show("new").document.doc_id
        assert again.check() == []
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "files"]


@pytest.mark.fast
@pytest.mark.parametrize("tables", WITH_DATASETS)
def test_an_empty_index(make_index: Make, tmp_path: Path, tables: str) -> None:
    index = make_index("a", database=f"sqlite:///{tmp_path / 'apart.db'}")
    index.export(tmp_path / "files", format=tables)
    with Index.from_export(
        tmp_path / "files", tmp_path / "b", database="sqlite:///other.db"
    ) as again:
        assert answers(again) == answers(index)
        again.add(family_corpus(1, families=2))
        assert again.check() == []
    assert (tmp_path / "b" / "other.db").exists()


@pytest.mark.parametrize("unit", ["url", "tokenizer"])
def test_no_tokenizer_is_needed(make_index: Make, tmp_path: Path, unit: str) -> None:
    from lshdb import Tokenizer

    words = Tokenizer(str.split, name="words", version="1") if unit == "tokenizer" else None
    index = make_index("a", unit=unit, tokenizer=words)
    index.add([("a", "http://a.example/some/path here"), ("b", ["x.example/some/path here"])])
    with Index.open(index.path) as unnamed:
        unnamed.export(tmp_path / "files")
    with Index.from_export(tmp_path / "files", tmp_path / "b", tokenizer=words) as again:
        assert answers(again) == answers(index)


def test_what_other_programs_read(make_index: Make, tmp_path: Path) -> None:
    """With nothing of lshdb: near-duplicates by a join of the postings."""
    index = lively_index(make_index, "a")
    index.export(tmp_path / "files")
    signatures = np.load(tmp_path / "files" / "signatures.npy", allow_pickle=False)
    postings = np.load(tmp_path / "files" / "postings.npy", allow_pickle=False)
    lines = (tmp_path / "files" / "documents.jsonl").read_text().splitlines()
    documents = [json.loads(line) for line in lines]
    assert signatures.dtype == np.uint16
    assert postings.dtype == np.int64
    assert (np.diff(postings[:, 0]) >= 0).all()
    keys: dict[int, list[str]] = {}
    for document in documents:
        if "signature_id" in document:
            keys.setdefault(document["signature_id"], []).append(document["key"])
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE posting (bucket_key, signature_id)")
    database.executemany("INSERT INTO posting VALUES (?, ?)", postings.tolist())
    joined = database.execute(
        "SELECT DISTINCT one.signature_id, other.signature_id FROM posting AS one "
        "JOIN posting AS other USING (bucket_key) WHERE one.signature_id < other.signature_id"
    ).fetchall()
    database.close()
    candidates = {
        tuple(sorted((a, b))) for one, other in joined for a in keys.get(one, [])
        for b in keys.get(other, [])
    } | {
        tuple(sorted((a, b))) for copies in keys.values() for a in copies for b in copies if a < b
    }  # fmt: skip
    assert candidates == {(a, b) for a, b, _ in pair_set(index, verify="none")}
    manifest = json.loads((tmp_path / "files" / "index.json").read_text())
    assert manifest["counts"]["documents"] == len(documents)
    for name, written in manifest["files"].items():
        data = (tmp_path / "files" / name).read_bytes()
        assert written["blake2b"] == hashlib.blake2b(data, digest_size=32).hexdigest()
    assert sorted(os.listdir(tmp_path / "files")) == sorted([*manifest["files"], "index.json"])


@NEEDS_ARROW
def test_postings_in_parquet(make_index: Make, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    index = lively_index(make_index, "a")
    index.export(tmp_path / "files", format="parquet")
    found = parquet.read_table(tmp_path / "files" / "postings.parquet").to_pydict()
    rows = list(zip(*found.values(), strict=True))
    assert list(found) == ["band", "bucket", "bucket_key", "signature_id"]
    assert [row[2:] for row in rows] == sorted(row[2:] for row in rows)
    expected = list(index.sql("SELECT * FROM posting ORDER BY 1, 2, 3").rows)
    assert sorted((*row[:2], row[3]) for row in rows) == expected


@pytest.fixture
def files(make_index: Make, tmp_path: Path) -> Path:
    lively_index(make_index, "a").export(tmp_path / "files")
    return tmp_path / "files"


@pytest.mark.parametrize("tables", FORMATS)
def test_damage_names_the_file(make_index: Make, tmp_path: Path, tables: str) -> None:
    folder = tmp_path / "files"
    index = lively_index(make_index, "a")
    list(index.clusters())
    index.export(folder, format=tables)
    names = [name for name in os.listdir(folder) if name != "index.json"]
    assert len(names) == 10
    for name in names:
        data = (folder / name).read_bytes()
        flipped = bytearray(data)
        flipped[len(data) // 2] ^= 4
        for damaged in (bytes(flipped), data[:-1], data + b"\n"):
            (folder / name).write_bytes(damaged)
            with pytest.raises(DamageError, match=name.replace(".", r"\.")):
                Index.from_export(folder, tmp_path / "b")
        (folder / name).unlink()
        with pytest.raises(DamageError, match=rf"{name} cannot be read"):
            Index.from_export(folder, tmp_path / "b")
        (folder / name).write_bytes(data)
    assert sorted(os.listdir(tmp_path)) == ["a", "files"]
    Index.from_export(folder, tmp_path / "b").close()


def test_an_export_without_fields_nights_and_cursors_is_as_earlier_versions_read_it(
    make_index: Make, tmp_path: Path
) -> None:
    index = make_index("a", threshold=0.5)
    index.add([("a", "some words that are in it")])
    index.export(tmp_path / "plain")
    manifest = json.loads((tmp_path / "plain" / "index.json").read_text())
    assert manifest["export_format"] == 1
    assert not {"fields.jsonl", "nights.jsonl", "cursors.jsonl"} & manifest["files"].keys()
    index.advance("press")
    index.export(tmp_path / "more")
    manifest = json.loads((tmp_path / "more" / "index.json").read_text())
    assert manifest["export_format"] == 3
    assert manifest["counts"]["cursors"] == 1


def rewrite(folder: Path, name: str, data: bytes) -> None:
    """Change a file and its checksum: what is wrong then must be found by what it says."""
    (folder / name).write_bytes(data)
    manifest = json.loads((folder / "index.json").read_text())
    digest = hashlib.blake2b(data, digest_size=32).hexdigest()
    manifest["files"][name] = {"bytes": len(data), "blake2b": digest}
    (folder / "index.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("documents.jsonl", b'"n_chars":', b'"n_chars":"', r"line 1: not a JSON object"),
        ("documents.jsonl", b'"n_shingles":', b'"n_chars":', r"line 1: n_shingles is missing"),
        ("documents.jsonl", b'"signature_id":', b'"signature_id":999', r"which is missing"),
        ("documents.jsonl", b'"text":"', b'"text":"x', r"is not the exported one"),
        ("documents.jsonl", b'"body_hash":"', b'"body_hash":"zz', r"expected: hash"),
        ("documents.jsonl", b"{", b"\n{", r"line 1: not a JSON object"),
        ("batches.jsonl", b"\n", b"", r"not a JSON object"),
        ("releases.jsonl", b"{", b"[", r"not a JSON object"),
        ("signatures.npy", b"<u2", b"<i2", r"holds <i2"),
        ("signatures.npy", b"NUMPY", b"HUMPY", r"is not a readable \.npy file"),
        ("signatures.npy", b"<u2", b"|O", r"is not a readable \.npy file"),
    ],
)
def test_what_cannot_be_is_refused(
    files: Path, tmp_path: Path, name: str, old: bytes, new: bytes, message: str
) -> None:
    data = (files / name).read_bytes()
    assert old in data
    rewrite(files, name, data.replace(old, new, 1))
    with pytest.raises(DamageError, match=message) as caught:
        Index.from_export(files, tmp_path / "b")
    assert name in str(caught.value)
    assert not (tmp_path / "b").exists()


def test_postings_of_an_export_are_not_trusted(files: Path, tmp_path: Path) -> None:
    """They are cut from the signatures anew."""
    postings = np.load(files / "postings.npy")
    postings[[5, 6]] = postings[[6, 5]]
    np.save(tmp_path / "swapped.npy", postings)
    rewrite(files, "postings.npy", (tmp_path / "swapped.npy").read_bytes())
    with Index.from_export(files, tmp_path / "b") as again:
        assert again.check() == []


@pytest.mark.fast
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"export_format": 4}, FormatError, "has format 4, but this version reads up to 3"),
        ({"export_format": None}, DamageError, "has no export_format"),
        ({"index": {"format": 9}}, FormatError, "has format 9; this version reads format 2"),
        ({"index": {"format": 1}}, FormatError, "has format 1; this version reads format 2"),
        ({"index": {"format": 2}}, DamageError, "missing or invalid"),
        ({"tables": "pickle"}, DamageError, "missing or invalid"),
        ({"counts": {}}, DamageError, "missing or invalid"),
        ({"files": {}}, DamageError, r"does not list documents\.jsonl"),
        ({"parameters": {"bands": 3}}, DamageError, "missing or invalid"),
        ({"edges": {"whatever": 1}}, DamageError, "missing or invalid"),
        ({"more": 1}, DamageError, "missing or invalid"),
    ],
)
def test_manifests_that_say_something_else(
    files: Path, tmp_path: Path, change: dict[str, Any], error: type[LshdbError], message: str
) -> None:
    manifest = json.loads((files / "index.json").read_text())
    (files / "index.json").write_text(json.dumps(manifest | change))
    with pytest.raises(error, match=message):
        Index.from_export(files, tmp_path / "b")


def test_refusals(make_index: Make, tmp_path: Path) -> None:
    index = make_index("a")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    with pytest.raises(ParameterError, match='expected "jsonl", "parquet" or "delta"'):
        index.export(tmp_path / "files", format="csv")
    with pytest.raises(ParameterError, match="inside the index"):
        index.export(index.path / "files")
    with pytest.raises(IndexExistsError, match="something at"):
        index.export(tmp_path / "there")
    with pytest.raises(LshdbError, match="cannot make the export"):
        index.export(tmp_path / "none" / "files")
    with pytest.raises(InputError, match="there is no export at"):
        Index.from_export(tmp_path / "there", tmp_path / "b")
    index.export(tmp_path / "files")
    with pytest.raises(IndexExistsError, match="an index at"):
        Index.from_export(tmp_path / "files", index.path)
    (tmp_path / "files" / "index.json").write_text("{")
    with pytest.raises(DamageError, match="is not JSON"):
        Index.from_export(tmp_path / "files", tmp_path / "b")
    assert sorted(os.listdir(tmp_path)) == ["a", "files", "there"]


def test_without_pyarrow(make_index: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(LshdbError, match="need pyarrow") as caught:
        make_index("a").export(tmp_path / "files", format="parquet")
    assert "[parquet]" in str(caught.value.hint)
    assert os.listdir(tmp_path) == ["a"]


def test_interrupted_there_is_none(
    make_index: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lshdb.phases.phase._SECONDS", 0)
    index = lively_index(make_index, "a")

    def interrupt(documents: int, total: int | None, unit: str) -> None:
        if unit == "documents" and documents >= 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.export(tmp_path / "files", on_progress=interrupt)
    assert os.listdir(tmp_path) == ["a"]
    index.export(tmp_path / "files")
    with pytest.raises(KeyboardInterrupt):
        Index.from_export(tmp_path / "files", tmp_path / "b", on_progress=interrupt)
    assert sorted(os.listdir(tmp_path)) == ["a", "files"]


def test_a_damaged_index_is_not_exported(make_index: Make, tmp_path: Path) -> None:
    """Its export would have good checksums of bad rows."""
    index = lively_index(make_index, "a")
    shutil.copytree(index.path, tmp_path / "damaged")
    with open(tmp_path / "damaged" / "signatures.npy", "r+b") as file:
        file.seek(500)
        file.write(b"????")
    with (
        Index.open(tmp_path / "damaged") as damaged,
        pytest.raises(DamageError, match="rows 0 to"),
    ):
        damaged.export(tmp_path / "files")
    assert sorted(os.listdir(tmp_path)) == ["a", "damaged"]


def test_a_commit_in_the_middle_is_not_in_the_export(
    make_index: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lshdb.phases.phase._SECONDS", 0)
    index = lively_index(make_index, "a")
    before = stored(index)

    def commit(documents: int, total: int | None, unit: str) -> None:
        if unit != "documents" or documents % 10:
            return
        with Index.open(index.path) as other:
            other.add([(f"at {documents}", f"a text that came in after {documents} others")])

    index.export(tmp_path / "files", on_progress=commit)
    with Index.from_export(tmp_path / "files", tmp_path / "b") as again:
        assert stored(again) == before


def test_an_array_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    rows = np.arange(3_000_000, dtype="<u2").reshape(-1, 3)
    np.save(tmp_path / "a.npy", rows)
    blocks = read_array(
        tmp_path / "a.npy", rows.dtype, 3, n_rows=len(rows), block_rows=len(rows) // 2
    )
    assert np.array_equal(next(blocks), rows[: len(rows) // 2])
    os.truncate(tmp_path / "a.npy", 5_000_000)
    with pytest.raises(DamageError, match=r"a\.npy ends before its last row"):
        next(blocks)


@pytest.mark.parametrize("tables", FORMATS)
def test_weights_come_back_as_they_were_written(
    make_index: Make, tmp_path: Path, tables: str
) -> None:
    """Among texts and tokens; whole numbers, fractions and an object without tokens."""
    bodies: dict[str, Any] = {
        "a": {"x": 1, "y": 2.5, "ü": 1e-7}, "b": "words of a text as they are", "c": ["t", "u"],
        "d": {}, "e": {"y": 2.5, "x": 1, "ü": 1e-7},
    }  # fmt: skip
    index = make_index(metric="weighted-jaccard")
    index.add(bodies.items())
    index.export(tmp_path / "files", format=tables)
    with Index.from_export(tmp_path / "files", tmp_path / "b.lshdb") as again:
        assert again.check() == []
        assert {key: again.show(key).body for key in bodies} == bodies
        assert stored(again) == stored(index)
        assert pair_set(again) == pair_set(index) == {("a", "e", 1.0)}


def test_weights_that_are_none_are_refused(make_index: Make, tmp_path: Path) -> None:
    index = make_index(metric="weighted-jaccard")
    index.add([("a", {"x": 1})])
    index.export(tmp_path / "files")
    file, manifest = tmp_path / "files/documents.jsonl", tmp_path / "files/index.json"
    good, said = file.read_bytes(), json.loads(manifest.read_bytes())
    changes = {
        '{\\"x\\":2}': "is not the exported one",
        "[1]": "not a JSON object",
        "{": "not a JSON object",
    }
    for other, message in changes.items():
        file.write_bytes(good.replace(rb"{\"x\":1}", other.encode()))
        assert file.read_bytes() != good
        said["files"]["documents.jsonl"] = describe(file)
        manifest.write_text(json.dumps(said))
        with pytest.raises(DamageError, match=message):
            Index.from_export(tmp_path / "files", tmp_path / "b.lshdb")
