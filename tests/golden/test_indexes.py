"""Indexes that earlier versions wrote open for ever, and answer as they did."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import FormatError, Index
from lshdb.storage.tables.migrations import SCHEMA_REVISION
from tests.golden.make_index import make_documents

INDEXES = Path(__file__).with_name("indexes")
ARCHIVES = sorted(INDEXES.glob("*.tar.gz"))


def unpack(archive: Path, folder: Path, name: str = "golden.lshdb") -> Path:
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as packed:
        packed.extractall(folder, filter="data")
    return folder / name


def answers(index: Index) -> dict[str, Any]:
    """What is asked of each golden index; sorted, similarities to nine digits."""
    one, other = index.show("family0/0"), index.show("日本")
    return {
        "pairs": sorted(
            [*sorted((pair.key1, pair.key2)), round(pair.similarity, 9), pair.method]
            for pair in index.pairs(threshold=0.6)
        ),
        "clusters": [list(found.keys) for found in index.clusters(threshold=0.6)],
        "query": [
            [match.key, round(match.similarity, 9)]
            for match in index.query(str(make_documents()[0][1]), top=5)
        ],
        "content": one.document.content_hash.hex(),
        "shingles": [one.document.n_shingles, other.document.n_shingles],
        "signatures": [row.tolist() for row in read_rows(index, ("family0/0", "tokens", "日本"))],
    }


def read_rows(index: Index, keys: tuple[str, ...]) -> list[np.ndarray]:
    rows = np.load(index.path / "signatures.npy", allow_pickle=False)
    return [rows[index.show(key).document.signature_id] for key in keys]


def test_there_is_an_archive_for_every_schema() -> None:
    known = [f"{number:04d}.tar.gz" for number in range(1, int(SCHEMA_REVISION) + 1)]
    assert [archive.name for archive in ARCHIVES] == known


@pytest.mark.fast
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_an_index_of_every_schema_is_brought_up_to_date(archive: Path, tmp_path: Path) -> None:
    path = unpack(archive, tmp_path)
    revision = archive.name.removesuffix(".tar.gz")
    if revision != SCHEMA_REVISION:
        with pytest.raises(FormatError, match="this version needs"):
            Index.open(path)
    assert Index.upgrade(path) == (revision, SCHEMA_REVISION)
    documents = dict(make_documents())
    documents["family5/2"] = "something else that is like nothing here at all"
    removed = documents.pop("family4/2")
    with Index.open(path) as index:
        assert index.check() == []
        dead = (
            "SELECT count(DISTINCT signature_id) FROM signature_release WHERE signature_id NOT IN "
            "(SELECT signature_id FROM document WHERE signature_id IS NOT NULL)"
        )
        assert next(index.sql(dead).rows) == (2,)
        assert answers(index) == json.loads((INDEXES / "answers.json").read_text("utf-8"))
        for key, body in documents.items():
            assert index.show(key).body == body
        index.add([("family4/2", removed), ("family5/2", documents["family4/1"])])
        assert index.check() == []
        assert ("family4/0", "family4/2") in [(pair.key1, pair.key2) for pair in index.pairs()]
