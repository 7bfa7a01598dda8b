"""docs/format.md: its worked example is computed again."""

from __future__ import annotations

import hashlib
import re

from lshdb.shingling import (
    SPACELESS_RANGES,
    canonical_content,
    normalise,
    shingle_hashes,
    split_words,
)
from lshdb.shingling.words import IGNORABLE_RANGES
from lshdb.signatures import sign
from lshdb.signatures.banding import bucket_keys, content_keys
from tests.docs.blocks import ROOT


def test_format_page_and_its_example() -> None:
    """The worked example of docs/format.md is computed again."""
    page = (ROOT / "docs" / "format.md").read_text()
    content = canonical_content("To be, or  not TO be!")
    digest = hashlib.blake2b(str(content).encode(), digest_size=16, person=b"text").digest()
    hashes = shingle_hashes(content, unit="word", k=2, bag=False)
    row = sign([hashes], scheme="fss", num_perm=8, seed=1)
    keys = bucket_keys(row, bands=2, rows=3)[0]
    for stage, value in (
        ("canonical content", f"`{content}`"),
        ("content hash", f"`{digest.hex()}`"),
        ("hashes, sorted", ", ".join(f"`{value:016x}`" for value in hashes.tolist())),
        ("signature", ", ".join(f"`{value:04x}`" for value in row[0].tolist())),
        ("bucket keys", ", ".join(f"`{value}`" for value in keys.tolist())),
        ("content band key", f"`{content_keys([digest])[0]}`"),
    ):
        assert f"| {stage} | {value} |" in page
    several = {(first, last) for first, last in IGNORABLE_RANGES if first != last}
    assert _ranges(page) == {*SPACELESS_RANGES, *several}
    (row,) = re.findall(r"\| `ignorable` \|.*: (.*) \|", page)
    points = [part.partition("-") for part in row.split(", ")]
    assert [(int(low, 16), int(high or low, 16)) for low, _, high in points] == list(
        IGNORABLE_RANGES
    )


def _ranges(text: str) -> set[tuple[int, ...]]:
    return {
        tuple(int(end, 16) for end in found)
        for found in re.findall(r"\b([0-9A-F]{4,5})-([0-9A-F]{4,5})\b", text)
    }


def test_the_table_of_words_is_what_is_cut() -> None:
    page = (ROOT / "docs" / "concepts" / "words.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (`[^|]+`) \|$", page, re.MULTILINE)
    table = [(text, words) for _, text, words in rows if not text.startswith("`")]
    assert len(table) >= 25
    for text, words in table:
        assert split_words(normalise(text)) == words.strip("`").split("` `"), text
