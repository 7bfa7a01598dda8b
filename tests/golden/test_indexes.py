"""Indexes of format 1 are refused by everything that reads an index, with a way out.

They were never released. ``answers.json`` has what each answered.
"""

from __future__ import annotations

import io
import sqlite3
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lshdb import FormatError, Index
from lshdb.params.index_params import FORMAT
from lshdb.storage.tables.records import row_checksum

INDEXES = Path(__file__).with_name("indexes")
ARCHIVES = sorted(INDEXES.rglob("*.tar.gz"))


def unpack(archive: Path, folder: Path, name: str = "golden.lshdb") -> Path:
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as packed:
        packed.extractall(folder, filter="data")
    return folder / name


def relabel(path: Path) -> None:
    """Give an index of format 1 today's format number: one of an older schema of today's format."""
    description = path / "index.toml"
    text = description.read_text("utf-8")
    description.write_text(text.replace("format = 1\n", f"format = {FORMAT}\n"), "utf-8")
    with sqlite3.connect(path / "index.db") as database:
        database.execute("UPDATE state SET format = ?", [FORMAT])
        row = database.execute("SELECT * FROM state")
        names, values = [column[0] for column in row.description], row.fetchone()
        if names[-1] == "checksum":
            database.execute("UPDATE state SET checksum = ?", [row_checksum(values[:-1])])
    database.close()


WAYS: dict[str, Callable[[Path], object]] = {
    "open": Index.open,
    "upgrade": Index.upgrade,
    "repair": Index.repair,
}


@pytest.mark.fast
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_an_index_of_format_1_is_refused(archive: Path, way: str, tmp_path: Path) -> None:
    unpack(archive, tmp_path)
    paths = sorted(tmp_path.iterdir())
    assert paths
    for path in paths:
        before = {file: file.read_bytes() for file in path.iterdir()}
        with pytest.raises(FormatError) as caught:
            WAYS[way](path)
        said = f"the index {path} has format 1; this version reads format {FORMAT}"
        assert caught.value.message == said
        assert "new index of the same documents with lshdb add" in str(caught.value.hint)
        assert {file: file.read_bytes() for file in path.iterdir()} == before
