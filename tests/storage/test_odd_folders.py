"""An index in a folder whose name is not UTF-8, as other systems have made it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lshdb import Index, IndexExistsError, LshdbError
from tests.cli.conftest import MODULE, environment
from tests.conftest import family_corpus

CORPUS = family_corpus(5, families=12)

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="names are UTF-8 there")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / os.fsdecode(b"caf\xe9 #1?%41")
    folder.mkdir()
    return folder


@pytest.mark.sqlite("Postgres takes the schema's name from the directory")
def test_a_life_in_such_a_folder(folder: Path, tmp_path: Path) -> None:
    path = folder / "x.lshdb"
    with Index.create(path, threshold=0.5) as index, Index.create(tmp_path / "plain") as plain:
        index.add(CORPUS[:30])
        index.add(CORPUS[30:])
        plain.add(CORPUS)
        index.copy(folder / "copy")
        index.export(folder / "export")
        index.reindex(folder / "again", threshold=0.6)
        index.remove([CORPUS[0][0]])
        index.compact()
        index.update_clusters()
        assert index.check() == []
    Index.from_export(folder / "export", folder / "imported").close()
    Index.reband(folder / "copy", threshold=0.6)
    assert Index.repair(path).findings == []
    with Index.open(path) as index, Index.open(folder / "copy") as other:
        assert index.merge(other).added == 1
        assert index.check() == []
        assert list(index.pairs())
        assert index.sql("SELECT count(*) FROM document").rows
    with pytest.raises(IndexExistsError):
        Index.create(path)
    with pytest.raises(LshdbError, match="is not valid UTF-8"):
        Index.create(folder / os.fsdecode(b"\xe9.lshdb"))


@pytest.mark.sqlite("Postgres takes the schema's name from the directory")
def test_the_command_line_in_and_beside_it(folder: Path) -> None:
    (folder / "a.jsonl").write_text('{"id": "a", "text": "some words of a text that is short"}\n')

    def lshdb(*words: str, **options: object) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [*MODULE, *words],
            env=environment(),
            capture_output=True,
            check=False,
            **options,
            timeout=300,
        )
        assert b"Traceback" not in done.stderr
        return done

    assert lshdb("add", "x.lshdb", "a.jsonl", cwd=folder).returncode == 0
    for words in (("add", "{}", "a.jsonl"), ("stats", "{}"), ("show", "{}", "a")):
        for where in ("x.lshdb", str(folder / "x.lshdb")):
            done = lshdb(*(word.format(where) for word in words), cwd=folder)
            assert done.returncode == 0, done.stderr
    done = lshdb("query", str(folder / "none"), "--key", "a")
    assert done.returncode == 1
    assert rb"caf\xe9" in done.stderr
