"""Compaction and other bands: the same answers from less, or other, on disk."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import DamageError, Index, ParameterError
from lshdb.storage.place.directory import IndexDirectory
from tests.conftest import family_corpus, pair_set
from tests.raw import change

Make = Callable[..., Index]
CORPUS = family_corpus(5, families=25)
TEXTS = dict(CORPUS)


def answers(index: Index) -> dict[str, Any]:
    """What an index says, by key: no number of it may differ between two ways to the same."""
    return {
        "pairs": pair_set(index),
        "clusters": {(one.label, *sorted(one.keys)) for one in index.clusters()},
        "low": {(one.label, *sorted(one.keys)) for one in index.clusters(threshold=0.5)},
        "query": [(match.key, match.similarity) for match in index.query(CORPUS[9][1])],
        "buckets": buckets(index),
    }


def buckets(index: Index) -> dict[tuple[int, int], tuple[str, ...]]:
    """Keys of documents by band and bucket."""
    found: dict[tuple[int, int], list[str]] = {}
    rows = index.sql(
        "SELECT band, bucket, key FROM posting JOIN document USING (signature_id)"
    ).rows
    for band, bucket, key in rows:
        found.setdefault((band, bucket), []).append(key)
    return {place: tuple(sorted(keys)) for place, keys in found.items()}


def files(index: Index) -> set[str]:
    """Names of the files of an index, without those of its database."""
    names = [path.name for path in index.path.iterdir() if not path.name.startswith("index.db")]
    return {name[:8] if name.startswith("orders.") else name for name in names}


def test_a_compacted_index_answers_as_before_and_as_one_made_of_the_rest(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.setattr("lshdb.storage.rowfiles.layouts.BLOCK_ROWS", 8)
    monkeypatch.setattr("lshdb.maintain.renumber._ROWS", 5)
    index = make_index()
    for start in range(0, len(CORPUS), 40):
        index.add(CORPUS[start : start + 40])
    index.add([(key, text + " and more") for key, text in CORPUS[1::9]])
    list(index.clusters(threshold=0.5))
    index.remove([key for key, _ in CORPUS[::4]])
    before = answers(index)
    stats = index.stats()
    assert stats.unused_signatures > 30
    assert stats.reclaimable_bytes >= stats.unused_signatures * 256
    result = index.compact()
    assert result.dropped == stats.unused_signatures
    assert result.signatures == stats.signatures - stats.unused_signatures
    if pytestconfig.getoption("--database") == "sqlite":  # Postgres keeps free pages for later rows
        assert result.bytes_after < result.bytes_before
    assert files(index) == {"index.toml", "lock", "orders.1", "signatures.1.npy"}
    assert answers(index) == before
    assert index.check() == []
    after = index.stats()
    assert (after.signatures, after.unused_signatures) == (result.signatures, 0)
    assert after.documents == stats.documents
    files_of_rows = after.signature_bytes + after.order_bytes
    assert result.bytes_after == files_of_rows + after.database_bytes + after.log_bytes
    matrix = np.load(index.path / "signatures.1.npy", mmap_mode="r", allow_pickle=False)
    assert matrix.shape == (result.signatures, 128)
    # A life that goes on: a copy of what stayed, what was removed before, something new.
    more = [("copy", TEXTS["f001-1"].upper()), CORPUS[0], ("other", "words of no family at all")]
    index.add(more)
    made = make_index("made.lshdb")
    made.add((key, index.show(key).body) for (key,) in index.sql(_KEYS).rows)
    assert answers(index) == answers(made)
    assert index.stats().exact_copies == made.stats().exact_copies


_KEYS = "SELECT key FROM document ORDER BY doc_id"


@pytest.mark.parametrize("max_bucket", [1000, 2])
def test_clusters_that_were_behind_are_cut_all_the_same(make_index: Make, max_bucket: int) -> None:
    """A compaction takes away the numbers by which an update would know what is gone."""
    index, other = make_index(), make_index("other.lshdb")
    for one in (index, other):
        one.add(CORPUS)
        one.update_clusters(threshold=0.4, max_bucket=max_bucket)
        members = sorted((cluster.keys for cluster in one.clusters()), key=len)[-12:]
        one.remove([sorted(keys)[0] for keys in members])
        one.remove([sorted(keys)[-1] for keys in members[::2]])
        one.add([("f003-1", "something else entirely, which no other text resembles")])
    index.compact()
    assert index.check() == []
    for each in (index, other):
        each.update_clusters(threshold=0.4, max_bucket=max_bucket)
    assert answers(index)["clusters"] == answers(other)["clusters"]
    low = [
        {(one.label, *one.keys) for one in each.clusters(threshold=0.4)} for each in (index, other)
    ]
    assert low[0] == low[1]
    assert index.check() == []


def test_nothing_to_drop_leaves_the_file(make_index: Make) -> None:
    index = make_index()
    result = index.compact()
    assert (result.signatures, result.dropped) == (0, 0)
    for start in range(0, len(CORPUS), 30):
        index.add(CORPUS[start : start + 30])
    before = answers(index)
    os.utime(index.path / "signatures.npy", (1, 1))
    index.compact()
    assert (index.path / "signatures.npy").stat().st_mtime == 1
    assert answers(index) == before
    index.remove(list(TEXTS))
    assert index.compact().signatures == 0
    index.add(CORPUS)
    assert answers(index)["buckets"] == before["buckets"]


def test_a_reader_goes_on_with_the_state_that_it_sees(make_index: Make) -> None:
    index = make_index()
    index.add(CORPUS)
    expected = [*index.pairs()]
    with Index.open(index.path) as reader:
        begun = reader.pairs()
        first = next(begun)
        index.remove([key for key, _ in CORPUS[::2]])
        index.compact()
        index.add([("new", TEXTS["f001-1"])])
        index.remove([key for key, _ in CORPUS[1::4]])
        index.compact()
        assert [first, *begun] == expected
        assert pair_set(reader) == pair_set(index)


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE document SET n_chars = n_chars + 1 WHERE doc_id = 50", "table document"),
        ("UPDATE edge SET similarity = similarity - 0.01", "table edge "),
        ("UPDATE edge_state SET hot_pairs = 1", "table edge_state"),
        (None, r"rows 0 to \d+ of the signature file"),
    ],
)
def test_damage_is_found_before_it_is_sealed(
    tmp_path: Path, statement: str | None, what: str
) -> None:
    path = tmp_path / "a.lshdb"
    with Index.create(path) as index:
        index.add(CORPUS)
        list(index.clusters())
        index.remove(["u000"])
    if statement:
        change(path, statement)
    else:
        data = bytearray((path / "signatures.npy").read_bytes())
        data[-600] ^= 4
        (path / "signatures.npy").write_bytes(data)
    with Index.open(path) as index:
        before = list(index.sql("SELECT n_signatures FROM state").rows)
        with pytest.raises(DamageError, match=what):
            index.compact()
        assert list(index.sql("SELECT n_signatures FROM state").rows) == before
        assert index.check() != []
    (path / "signatures.1.npy").unlink(missing_ok=True)


KILLED = """
import os, sys
from lshdb import Index
from lshdb.maintain import rewrite
from lshdb.storage.place import directory
from lshdb.storage.rowfiles import row_file
from lshdb.storage.transactions import changes, writer
where, path = sys.argv[1:3]
def die(*_, **__):
    os.kill(os.getpid(), 9)
if where == "rows":
    write = row_file.RowFile.write
    row_file.RowFile.write = lambda *a, **named: (write(*a, **named), die())
elif where == "commit":
    changes.WriteTransaction.seal = die
elif where == "removal":
    rewrite.clear_generations = die
elif where == "renaming":
    directory.IndexDirectory.settle_description = die
elif where == "vacuum":
    writer.Writer.vacuum = die
if sys.argv[3] == "compact":
    Index.open(path).compact()
else:
    Index.reband(path, threshold=0.5)
"""


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        *itertools.product(("compact", "reband"), ("rows", "commit", "removal", "vacuum")),
        ("reband", "renaming"),
    ],
)
def test_killed_it_is_as_before_or_as_after(make_index: Make, where: str, kind: str) -> None:
    index = make_index()
    index.add(CORPUS)
    index.remove([key for key, _ in CORPUS[::3]])
    before = answers(index)["pairs"]
    command = [sys.executable, "-c", KILLED, where, str(index.path), kind]
    assert subprocess.run(command, check=False).returncode == -9
    is_done = where in ("removal", "renaming", "vacuum")
    with Index.open(index.path) as again:
        assert again.check() == []
        assert again.params.threshold == (0.5 if is_done and kind == "reband" else 0.8)
        assert (again.stats().unused_signatures == 0) == is_done
        assert pair_set(again, threshold=0.8) >= before
        again.add([CORPUS[0]])
        assert files(again) == {
            "index.toml",
            "lock",
            "orders.1" if is_done else "orders.0",
            "signatures.1.npy" if is_done else "signatures.npy",
        }
    with Index.open(index.path) as again:
        again.compact()
        assert again.check() == []


def test_other_bands_are_those_of_an_index_made_with_them(make_index: Make) -> None:
    index = make_index(num_perm=256)
    index.add(CORPUS)
    list(index.clusters())
    index.remove([key for key, _ in CORPUS[::4]])
    for given in (
        {"threshold": 0.5},
        {"recall": 0.9},
        {"bands": 200, "rows": 1},
        {"threshold": 0.9, "recall": 0.95},
    ):
        before = index.params
        result = Index.reband(index.path, **given)
        index.query("x")  # it opens itself again
        assert index.params == result.params != before
        index.close()
        index = Index.open(index.path)
        assert index.params == result.params != before
        assert index.check() == []
        assert files(index) == {"index.toml", "lock", "orders.1", "signatures.1.npy"}
        keys = ("threshold", "bands", "rows")
        made = make_index(
            f"{'-'.join(given)}.lshdb",
            num_perm=256,
            **{name: getattr(index.params, name) for name in keys},
        )
        made.add((key, index.show(key).body) for (key,) in index.sql(_KEYS).rows)
        assert answers(made) == answers(index)
        if "recall" not in given and "bands" not in given:
            assert index.params.recall == before.recall
    index.close()


def test_a_reband_that_says_nothing_or_cannot_be(make_index: Make) -> None:
    index = make_index(num_perm=16, recall=0.9)
    with pytest.raises(ParameterError, match="no parameter for the bands"):
        Index.reband(index.path)
    with pytest.raises(ParameterError):
        Index.reband(index.path, threshold=0.9, bands=16, rows=2)
    assert files(index) == {"index.toml", "lock", "signatures.npy"}
    assert index.query("x") == []


def test_whoever_opens_it_in_the_middle_finds_the_description_that_counts(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = make_index()
    index.add(CORPUS[:20])
    settle, seen = IndexDirectory.settle_description, []

    def opened(directory: IndexDirectory) -> None:
        with Index.open(index.path) as between:
            seen.append(between.params.threshold)
        old = IndexDirectory.read_next_description

        def renamed_meanwhile(self: IndexDirectory) -> None:
            monkeypatch.setattr(IndexDirectory, "read_next_description", old)
            settle(self)

        monkeypatch.setattr(IndexDirectory, "read_next_description", renamed_meanwhile)
        with Index.open(index.path) as between:
            seen.append(between.params.threshold)

    monkeypatch.setattr(IndexDirectory, "settle_description", opened)
    Index.reband(index.path, threshold=0.5)
    assert seen == [0.5, 0.5]
    copy = index.path.with_name("copy.lshdb")
    with Index.open(index.path) as again:
        again.copy(copy)
    with Index.open(copy) as copied:
        assert copied.params.threshold == 0.5
        assert copied.check() == []
