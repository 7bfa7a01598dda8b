"""``index.toml`` is read as TOML, whether by the short way or by ``tomllib``."""

from __future__ import annotations

import tomllib
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lshdb import Index
from lshdb.storage.place.directory import IndexDirectory, read_toml

pytestmark = pytest.mark.fast

PIECES = st.sampled_from([
    "format = 1", "[parameters]", "[other]", "# said", "a = 0.8", "a = 08", "b = 1e5", "c = true",
    'd = "x"', 'd = "a\\"b"', 'e = "\\u00e9"', 'e = "é # ="', "f = .5", "f = 5.", "g = -1", "a=1",
    "h = 1_000", "i = []", "'j' = 1", "k.l = 1", "m = ", " n = 1", "o = 1 # why", "parameters = 1",
    'p = "a" "b"', 'q = """x"""', "r = ٣", "é = 1", "s = 1\r", 't = "\x00"', "# \x01", "1 = 2", "",
    "u = 0", "v = 00", "w = 0.0", "x = 123456789012345678901234567890", "y = nan", 'z = ""',
])  # fmt: skip


def said(read: Any, text: str) -> Any:
    try:
        return read(text)
    except ValueError:
        return "refused"


@given(st.lists(PIECES, max_size=6).map("\n".join) | st.text(max_size=20))
def test_any_text_is_read_as_tomllib_reads_it(text: str) -> None:
    found, expected = said(read_toml, text), said(tomllib.loads, text)
    assert repr(found) == repr(expected)


def test_what_lshdb_writes_takes_the_short_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Index.create(tmp_path / "x.lshdb").close()
    text = (tmp_path / "x.lshdb" / "index.toml").read_text("utf-8")
    expected = tomllib.loads(text)
    monkeypatch.setattr("tomllib.loads", None)
    assert read_toml(text) == expected


def test_it_is_read_in_the_memory_that_it_takes(tmp_path: Path) -> None:
    """Every open reads it, and so does the cleaning up after memory ran out."""
    Index.create(tmp_path / "x.lshdb").close()
    directory = IndexDirectory(tmp_path / "x.lshdb")
    directory.read_description()  # what it imports is there
    tracemalloc.start()
    try:
        directory.read_description()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2**20
