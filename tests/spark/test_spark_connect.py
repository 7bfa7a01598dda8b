"""Everything works through a client of Spark Connect, which has no context and no RDDs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lshdb import Index
from tests.docs.blocks import ROOT
from tests.spark.connect_client import CORPUS

pytest.importorskip("grpc_status")


@pytest.mark.long
def test_a_client_gets_the_lines_of_one_machine(tmp_path: Path) -> None:
    asked = ["session", "pairs", "clusters", "kept", "added", "pairs of the index", "hits"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_client", str(tmp_path), *asked],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("session") == "pyspark.sql.connect.session"
    with Index.create(tmp_path / "one.lshdb", threshold=0.5) as one:
        one.add(CORPUS)
        pairs = sorted([p.key1, p.key2, p.similarity, p.method] for p in one.pairs())
        expected = {
            "pairs": pairs,
            "clusters": sorted([c.label, len(c.keys), k] for c in one.clusters() for k in c.keys),
            "kept": sorted([each.key] for each in one.dedup() if each.keep),
            "added": len(CORPUS),
            "pairs of the index": pairs,
            "hits": sorted(
                [CORPUS[0][0], hit.key, hit.similarity, hit.method]
                for hit in one.query(CORPUS[0][1], top=99)
            ),
        }
        assert found == {name: expected[name] for name in asked[1:]}
        assert pairs
