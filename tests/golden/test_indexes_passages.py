"""Indexes of passages that earlier versions wrote open for ever."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lshdb import Index
from lshdb.storage.tables.migrations import SCHEMA_REVISION
from tests.golden.make_index_passages import DOCUMENTS, FOLDER, answers
from tests.golden.test_indexes import unpack

ARCHIVES = sorted(FOLDER.glob("*.tar.gz"))


def test_there_is_an_archive_for_every_schema_since_there_are_passages() -> None:
    known = [f"{number:04d}.tar.gz" for number in range(6, int(SCHEMA_REVISION) + 1)]
    assert [archive.name for archive in ARCHIVES] == known


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_an_index_of_passages(archive: Path, tmp_path: Path) -> None:
    path = unpack(archive, tmp_path)
    assert Index.upgrade(path) == (archive.name.removesuffix(".tar.gz"), SCHEMA_REVISION)
    with Index.open(path, passages=(20, 10), threshold=0.3) as index:
        assert index.check() == []
        # Through JSON, which has lists alone.
        found = json.loads(json.dumps(answers(index)))
        assert found == json.loads((FOLDER / "answers.json").read_text("utf-8"))
        again = index.add(DOCUMENTS.items())
        assert (again.added, again.replaced, again.stale) == (0, 0, 0)
        changed = index.add([("a", DOCUMENTS["a#0-9"])])
        assert changed.stale and index.check() == []
