"""docs/format.md: its worked example is computed again."""

from __future__ import annotations

import hashlib
import re

from lshdb.shingling import SPACELESS_RANGES, canonical_content, shingle_hashes
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
        ("signature", ", ".join(f"`{value:08x}`" for value in row[0].tolist())),
        ("bucket keys", ", ".join(f"`{value}`" for value in keys.tolist())),
        ("content band key", f"`{content_keys([digest])[0]}`"),
    ):
        assert f"| {stage} | {value} |" in page
    ranges = {
        tuple(int(end, 16) for end in found)
        for found in re.findall(r"\b([0-9A-F]{4,5})-([0-9A-F]{4,5})\b", page)
    }
    assert ranges == set(SPACELESS_RANGES)
