"""An index stores the signatures and bucket keys that were written down, on either database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import Index
from lshdb.params.bucket_layout import N_BUCKETS, keys_from
from tests.contract.conftest import DATABASES, Place
from tests.golden.make_vectors import SIGNATURES, describe_keys, describe_signature
from tests.golden.test_vectors import VECTORS
from tests.postgres import PostgresUrl, drop_schemas


@pytest.mark.parametrize("database", DATABASES)
def test_what_is_stored_is_what_was_written_down(
    tmp_path: Path, postgres_url: PostgresUrl, database: str
) -> None:
    place = Place(database, tmp_path, postgres_url.lshdb)
    shingling = {"unit": "word", "k": 5, "bag": False}
    for number, (scheme, seed, num_perm, bands, rows) in enumerate(SIGNATURES):
        signing = {
            "scheme": scheme, "seed": seed, "num_perm": num_perm, "bands": bands, "rows": rows,
        }  # fmt: skip
        expected = {
            vector["name"]: signature
            for vector in VECTORS
            for entry in vector["shinglings"]
            for signature in entry.get("signatures", [])
            if all(entry[name] == value for name, value in shingling.items())
            and all(signature[name] == value for name, value in signing.items())
        }
        assert expected
        bodies = {vector["name"]: vector["body"] for vector in VECTORS}
        # A text with a NUL is refused by an index; what it signs is shown without one.
        with place.create(f"{number}.lshdb", threshold=0.5, **shingling, **signing) as index:
            result = index.add(bodies.items())
            stored = _stored(index)
            assert index.check() == []
        compared = expected.keys() & stored.keys()
        assert len(compared) >= len(expected) - result.rejected > 10
        for name in compared:
            for wanted, value in stored[name].items():
                assert expected[name][wanted] == value, (name, signing, wanted)
    drop_schemas(postgres_url, place.schemas)


def _stored(index: Index) -> dict[str, Any]:
    """Signature and bucket keys of each document, as the vectors describe them."""
    signatures = np.load(index.path / "signatures.npy", allow_pickle=False)
    found: dict[str, Any] = {}
    statement = "SELECT key, signature_id, band, bucket FROM document_bucket ORDER BY key, band"
    keys: dict[tuple[str, int], list[int]] = {}
    for key, signature_id, band, bucket in index.sql(statement).rows:
        bucket_key = keys_from(int(band), int(bucket) & (N_BUCKETS - 1))
        keys.setdefault((key, signature_id), []).append(bucket_key)
    for (key, signature_id), buckets in keys.items():
        row = signatures[signature_id].tolist()
        found[key] = describe_signature(row) | describe_keys(buckets)
    return found
