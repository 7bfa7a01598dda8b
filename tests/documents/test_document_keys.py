"""Keys and bodies: what is good, and the reason where it is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lshdb.documents
from lshdb.documents.document import (
    MAX_KEY_BYTES,
    validate_body,
    validate_key,
)

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    "key", ["a", "0", " ", "line\nfeed", "é", "日本", "\U0001f600", "../x", "k" * 1024]
)
def test_good_keys(key: str) -> None:
    assert validate_key(key) is None


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ("", "empty"),
        ("a\0b", "NUL at character 2"),
        ("ab\ud800", "lone surrogate at character 3"),
        ("\udcff", "lone surrogate"),
        ("k" * 1025, "1,025 bytes"),
        (7, "type int"),
        (None, "type NoneType"),
    ],
)
def test_bad_keys(key: str, word: str) -> None:
    assert word in (validate_key(key) or "")


def test_the_limit_of_a_key_counts_bytes_not_characters() -> None:
    assert MAX_KEY_BYTES == 1024
    assert validate_key("é" * 512) is None
    assert "1,025 bytes" in (validate_key("é" * 512 + "a") or "")
    assert validate_key("é" * 513) is not None


@pytest.mark.parametrize(
    "body", ["", "text", "nul \0 is fine", "\U0001f600", [], ["a", ""], ("a", "b")]
)
def test_good_bodies(body: object) -> None:
    assert validate_body(body) is None


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("a\ud800", "lone surrogate at character 2"),
        (["a", 1], "token 2 is of type int"),
        (["a", "\udfff"], "token 2 holds a lone surrogate"),
        (None, "type NoneType"),
        (b"bytes", "type bytes"),
        (("a", 1), "token 2 is of type int"),
        ({"a": 1}, "type dict"),
    ],
)
def test_bad_bodies(body: object, word: str) -> None:
    assert word in (validate_body(body) or "")


def test_importing_the_package_loads_no_reader() -> None:
    code = """
import sys, types
package = types.ModuleType("lshdb")
package.__path__ = [sys.argv[1]]
sys.modules["lshdb"] = package
before = set(sys.modules)
import lshdb.documents
heavy = {"orjson", "csv", "gzip", "zlib", "glob", "numpy", "backports.zstd", "compression.zstd",
         "zstandard"}
print(sorted(heavy & (set(sys.modules) - before)))
"""
    root = Path(lshdb.documents.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
