"""``stats`` takes a few reads at any size; what needs a pass is counted where it is asked for."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lshdb import Index
from lshdb.cli._group import cli
from lshdb.maintain import stats as stats_module
from tests.conftest import family_corpus
from tests.raw import raw
from tests.storage.test_readers import statements

COUNTED = {
    "shared_buckets", "largest_bucket", "bucket_pairs", "edges", "clusters", "clustered_documents",
}  # fmt: skip
CORPUS = family_corpus(5)[:60]


def filled(index: Index) -> Index:
    """Copies, an empty document, removed documents, and signatures that lost and found one."""
    index.add([*CORPUS, ("copy", CORPUS[7][1]), ("empty", ""), ("back", CORPUS[2][1])])
    index.update_clusters(threshold=0.5)
    index.remove([CORPUS[0][0], CORPUS[1][0], CORPUS[7][0], CORPUS[9][0]])
    index.add([("again", CORPUS[9][1]), (CORPUS[3][0], "another text for the same key, at length")])
    return index


def fields_of(stats: Any) -> dict[str, Any]:
    return {field.name: getattr(stats, field.name) for field in dataclasses.fields(stats)}


def test_nothing_else_differs_where_nothing_is_counted(make_index: Callable[..., Index]) -> None:
    index = filled(make_index())
    counted, quick = (fields_of(index.stats(count=count)) for count in (True, False))
    assert {name for name, value in quick.items() if value != counted[name]} == COUNTED
    assert {quick[name] for name in COUNTED} == {None}
    assert counted["clusters"] > 3
    assert fields_of(index.stats()) == counted
    (row,) = index.sql(
        "SELECT count(*), count(*) - count(signature_id), "
        "count(signature_id) - count(DISTINCT signature_id), count(DISTINCT signature_id) "
        "FROM document"
    ).rows
    names = ("documents", "empty_documents", "exact_copies")
    assert tuple(quick[name] for name in names) == tuple(row[:3])
    assert quick["signatures"] - quick["unused_signatures"] == row[3] < quick["signatures"]


def test_a_large_index_is_counted_when_asked(
    make_index: Callable[..., Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    index = filled(make_index())
    monkeypatch.setattr(stats_module, "COUNTED_SIGNATURES", index.stats().signatures - 1)
    assert index.stats().clusters is None
    assert index.stats(max_bucket=3).clusters == index.stats(count=True).clusters

    def shown(*options: str) -> str:
        return CliRunner().invoke(cli, ["stats", str(index.path), *options]).stdout

    table = shown("--format", "table")
    assert table.count("not counted; --count counts them") == len(COUNTED)
    for options, missing in (((), COUNTED), (("--count",), set()), (("--no-count",), COUNTED)):
        values = json.loads(shown(*options, "--format", "jsonl"))
        assert {name for name in COUNTED if values[name] is None} == missing


@pytest.mark.sqlite("looks at its plans")
@pytest.mark.parametrize("question", ["stats", "batches", "cursors", "__len__"])
def test_no_table_that_grows_is_read_from_end_to_end(tmp_path: Path, question: str) -> None:
    options = {"count": False} if question == "stats" else {}
    with filled(Index.create(tmp_path / "a")) as index, raw(index.path) as execute:
        ask = partial(getattr(index, question), **options)
        ask()
        asked = [each for each in statements(index, ask) if each.startswith("SELECT")]
        plans = [execute(f"EXPLAIN QUERY PLAN {each}").fetchall() for each in asked]
    steps = [step for plan in plans for *_, step in plan]
    scanned = {step.split()[1] for step in steps if step.startswith("SCAN")}
    assert ("cursor" if question == "cursors" else "batch") in scanned
    assert not scanned & {"band", "document", "content", "edge", "cluster_member"}, steps
