"""Indexes of vectors, bits and weights that earlier versions wrote open for ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import Index
from lshdb.storage.tables.migrations import SCHEMA_REVISION
from tests.golden.make_index_families import FOLDER, SETTINGS, make_bodies
from tests.golden.test_indexes import unpack

ARCHIVES = sorted(FOLDER.glob("*.tar.gz"))


def answers(index: Index, metric: str) -> dict[str, Any]:
    """What is asked of each; sorted, similarities to nine digits."""
    body = dict(make_bodies(metric))["family0/0"]
    held: dict[str, Any] = {}
    if (index.path / "vectors.npy").exists():
        rows = np.load(index.path / "vectors.npy", allow_pickle=False)
        held["vectors"] = [rows[at].tolist() for at in ids(index)]
    rows = np.load(index.path / "signatures.npy", allow_pickle=False)
    return {
        "pairs": sorted(
            [*sorted((pair.key1, pair.key2)), round(pair.similarity, 9), pair.method]
            for pair in index.pairs()
        ),
        "clusters": [list(found.keys) for found in index.clusters()],
        "query": [
            [match.key, round(match.similarity, 9)]
            for match in index.query(body, top=5, recall=0.9)
        ],
        "signatures": [rows[at].tolist() for at in ids(index)],
        **held,
    }


def ids(index: Index) -> list[int]:
    found = (index.show(key).document.signature_id for key in ("family0/0", "family3/1"))
    return [number for number in found if number is not None]


def test_there_is_an_archive_for_every_schema_since_there_are_vectors() -> None:
    known = [f"{number:04d}.tar.gz" for number in range(4, int(SCHEMA_REVISION) + 1)]
    assert [archive.name for archive in ARCHIVES] == known


@pytest.mark.parametrize("metric", SETTINGS)
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_an_index_of_every_family(archive: Path, metric: str, tmp_path: Path) -> None:
    path = unpack(archive, tmp_path, f"{metric}.lshdb")
    assert Index.upgrade(path) == (archive.name.removesuffix(".tar.gz"), SCHEMA_REVISION)
    bodies = dict(make_bodies(metric))
    removed = bodies.pop("family4/2")
    with Index.open(path) as index:
        assert index.check() == []
        expected = json.loads((FOLDER / "answers.json").read_text("utf-8"))[metric]
        assert answers(index, metric) == expected
        index.add([("family4/2", removed), ("family5/2", bodies["family4/1"])])
        assert index.check() == []
        assert ("family4/1", "family4/2") in [(pair.key1, pair.key2) for pair in index.pairs()]
        counts = index.add(bodies.items())
        assert (counts.unchanged, counts.replaced) == (17, 1)
