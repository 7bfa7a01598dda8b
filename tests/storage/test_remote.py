"""An index directory with ``index.toml`` alone: what SQL answers without the signature file."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click.testing
import numpy as np
import pytest

from lshdb import (
    DamageError,
    Index,
    SignaturesElsewhereError,
    TextNotStoredError,
    UncheckedWarning,
)
from lshdb.cli._group import COMMANDS, cli
from lshdb.disksort import sorted_numbers
from lshdb.search import candidates, pairs
from lshdb.search.verification import signed_anew
from tests.conftest import family_corpus, pair_set

CORPUS = family_corpus(5, families=9, size=6)
MORE = [(f"{key}-again", f"{text} and more") for key, text in CORPUS[::9]]

Pair_ = Callable[..., tuple[Index, Index]]


def description_alone(index: Index, path: Path) -> Path:
    """What another host has of an index."""
    path.mkdir()
    shutil.copy(index.path / "index.toml", path)
    return path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A folder with an index and its database beside it, made once; to be copied."""
    folders: dict[str, Path] = {}

    def build(**parameters: Any) -> Path:
        name = str(parameters)
        if name not in folders:
            folders[name] = folder = tmp_path_factory.mktemp("hosts")
            parameters = {"threshold": 0.5, "database": "sqlite:///../shared.db", **parameters}
            with Index.create(folder / "here.lshdb", **parameters) as index:
                index.add(CORPUS)
                index.add([(CORPUS[2][0], CORPUS[40][1]), (CORPUS[7][0], "quite another " * 8)])
                index.remove([CORPUS[1][0]])
                index.add(MORE)
                description_alone(index, folder / "there.lshdb")
        return folders[name]

    return build


@pytest.fixture
def hosts(built: Callable[..., Path], tmp_path: Path) -> Iterator[Pair_]:
    """One index, as the host that writes it has it, and as another one has it."""
    with contextlib.ExitStack() as opened:

        def make(**parameters: Any) -> tuple[Index, Index]:
            folder = shutil.copytree(built(**parameters), tmp_path / "hosts")
            here, there = (
                opened.enter_context(Index.open(folder / f"{name}.lshdb"))
                for name in ("here", "there")
            )
            return here, there

        yield make


def hits(found: list[Any]) -> list[tuple[str, float, str]]:
    return [(hit.key, round(hit.similarity, 9), hit.method) for hit in found]


@pytest.mark.parametrize("verify", ["none", "exact"])
@pytest.mark.parametrize("parameters", [{}, {"bands": 200, "rows": 1, "num_perm": 256}])
def test_queries(hosts: Pair_, verify: str, parameters: dict[str, Any]) -> None:
    here, there = hosts(**parameters)
    question: dict[str, Any] = {"verify": verify, "top": None}
    texts = [*CORPUS[::7], ("new", "none of all these"), ("empty", "")]
    n_found = 0
    for key, text in texts:
        found = hits(there.query(text, **question))
        assert found == hits(here.query(text, **question))
        n_found += len(found)
        if key in {"new", "empty"} or key == CORPUS[7][0]:
            continue
        assert hits(there.query(key=key, **question)) == hits(here.query(key=key, **question))
    assert n_found > len(texts)
    for workers in (1, 3):
        many = [
            [
                (key, hits(found))
                for key, found in index.query_many(texts, workers=workers, **question)
            ]
            for index in (here, there)
        ]
        assert many[0] == many[1]


@pytest.mark.parametrize("verify", ["none", "exact"])
@pytest.mark.parametrize("signing_cost", [0, 10**9])
def test_pairs(
    hosts: Pair_, verify: str, signing_cost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = hosts()
    monkeypatch.setattr(pairs, "_SIGNING_COST", signing_cost)
    for question in ({}, {"since": 2}, {"since": "last"}, {"since": 1}, {"memory": 2**20}):
        expected = pair_set(here, verify=verify, **question)
        assert pair_set(there, verify=verify, **question) == expected
        assert expected
    assert pair_set(there, verify=verify, workers=2) == pair_set(here, verify=verify)
    lower = {"verify": verify, "threshold": 0.9}
    assert pair_set(there, **lower) == pair_set(here, **lower)
    assert {pair.method for pair in there.pairs(verify=verify)} == {verify}


def test_pairs_that_do_not_fit_into_memory(hosts: Pair_, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = hosts()
    monkeypatch.setattr(sorted_numbers, "_BYTES_A_PAIR", 2**12)
    monkeypatch.setattr(sorted_numbers, "_LEAST_BLOCK", 7)
    monkeypatch.setattr(candidates, "BLOCK_PAIRS", 100)
    spilt: list[int] = []
    spill = sorted_numbers.PairTally._spill

    def counted(self: sorted_numbers.PairTally) -> None:
        spilt.append(self._n_held)
        spill(self)

    monkeypatch.setattr(sorted_numbers.PairTally, "_spill", counted)
    assert pair_set(there, verify="none", memory=2**20) == pair_set(here, verify="none")
    assert len(spilt) > 1


@pytest.mark.parametrize(("since", "signing_cost"), [(None, 0), (4, 0), (4, 10**9)])
def test_pairs_of_small_buckets(
    hosts: Pair_, since: int | None, signing_cost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = hosts()
    monkeypatch.setattr(pairs, "_SIGNING_COST", signing_cost)
    most = 3
    # Copies share a signature, so one of them speaks for all.
    spokesmen = here.sql(
        "SELECT signature_id, min(key) FROM document WHERE signature_id >= 0 GROUP BY 1"
    )
    key_of = {number: str(key) for number, key in spokesmen.rows}
    newer = here.sql(f"SELECT key FROM document WHERE batch_id >= {since or 0}")
    new = {key for (key,) in newer.rows}
    buckets: dict[object, set[str]] = {}
    for band, bucket, number in here.sql("SELECT * FROM posting").rows:
        if number in key_of:
            buckets.setdefault((band, bucket), set()).add(key_of[number])
    shared = Counter(
        pair
        for members in buckets.values()
        if len(members) <= most
        for pair in itertools.combinations(sorted(members), 2)
        if not new.isdisjoint(pair)
    )
    bands, rows = here.params.bands, here.params.rows
    expected = {(*pair, round((n / bands) ** (1 / rows), 9)) for pair, n in shared.items()}
    search = there.pairs(verify="none", max_bucket=most, since=since)
    found = {
        (*sorted((pair.key1, pair.key2)), round(pair.similarity, 9))
        for pair in search
        if {pair.key1, pair.key2} <= set(key_of.values())
    }
    assert found == expected
    with_rows = here.pairs(verify="none", max_bucket=most, since=since)
    list(with_rows)
    assert search.left_out == with_rows.left_out
    assert search.left_out.buckets > 0


def test_without_texts(hosts: Pair_) -> None:
    here, there = hosts(store_text=False)
    assert not there.has_signatures
    assert pair_set(there) == pair_set(here, verify="none")
    assert pair_set(there, since="last") == pair_set(here, since="last", verify="none")
    text = CORPUS[3][1]
    assert hits(there.query(text)) == hits(here.query(text, verify="none"))
    with pytest.raises(SignaturesElsewhereError, match="this index has none"):
        there.query(key=CORPUS[3][0])
    with pytest.raises(SignaturesElsewhereError):
        there.explain(CORPUS[3][0], CORPUS[4][0])
    with pytest.raises(TextNotStoredError):
        there.query(text, verify="exact")


def test_signed_anew(hosts: Pair_) -> None:
    here, there = hosts()
    with here._store.reading() as snapshot, there._store.reading() as other:
        ids = np.setdiff1d(np.arange(snapshot.n_signatures), snapshot.edges.dead())[::-1]
        rows = signed_anew(other, there._family, ids)
        assert np.array_equal(rows, snapshot.signatures[ids])


def test_nothing_is_merged_before_a_refusal(hosts: Pair_, make_index: Callable[..., Index]) -> None:
    here, there = hosts()
    into = make_index(threshold=0.5)
    with pytest.raises(SignaturesElsewhereError):
        into.merge(here, there)
    assert into.stats().documents == 0


def test_nothing_is_exported_before_a_refusal(hosts: Pair_, tmp_path: Path) -> None:
    here, there = hosts()
    told: list[tuple[int, int | None, str]] = []
    with pytest.raises(SignaturesElsewhereError):
        there.export(tmp_path / "files", on_progress=lambda *call: told.append(call))
    assert not told
    here.export(tmp_path / "files", on_progress=lambda *call: told.append(call))
    assert told


def test_by_signature_is_refused(hosts: Pair_) -> None:
    _, there = hosts()
    assert {hit.method for hit in there.query(CORPUS[3][1])} == {"exact"}
    with pytest.raises(SignaturesElsewhereError, match="verification by signature"):
        there.query(CORPUS[3][1], verify="signature")
    with pytest.raises(SignaturesElsewhereError, match="verification by signature"):
        list(there.pairs(verify="signature"))


def test_explanation_and_stored_edges(hosts: Pair_) -> None:
    here, there = hosts()
    keys = CORPUS[20][0], CORPUS[21][0]
    assert there.explain(*keys) == here.explain(*keys)
    assert there.explain(keys[0], body="") == here.explain(keys[0], body="")
    with pytest.raises(SignaturesElsewhereError):
        list(there.clusters())
    expected = [list(here.clusters()), list(here.neighbors()), list(here.dedup())]
    assert [
        list(there.clusters(update=False)),
        list(there.neighbors(update=False)),
        list(there.dedup(update=False)),
    ] == expected
    # Nothing is behind, so nothing is to be written.
    assert list(there.clusters()) == expected[0]


def test_the_other_host_goes_on(hosts: Pair_) -> None:
    """What the host that writes does is seen at the next question, a compaction too."""
    here, there = hosts()
    there.remove([CORPUS[30][0]])
    assert pair_set(here) == pair_set(there)
    assert here.check() == []
    assert here.compact().dropped
    assert (here.path / "signatures.1.npy").exists()
    assert pair_set(there) == pair_set(here)
    here.add([("later", CORPUS[31][1])])
    assert "later" in {hit.key for hit in there.query(CORPUS[31][1])}
    assert sorted(path.name for path in there.path.iterdir()) == ["index.toml", "lock"]


def test_missing_beside_the_database_is_damage(make_index: Callable[..., Index]) -> None:
    index = make_index(database="sqlite:///inner.db")
    index.add(CORPUS[:9])
    rows = index.path / "signatures.npy"
    kept = rows.rename(rows.with_suffix(".kept"))
    with pytest.raises(DamageError, match="is not there"):
        Index.open(index.path)
    kept.rename(rows)


def test_lost_on_the_host_that_writes(hosts: Pair_) -> None:
    """Repaired once something says that the file belongs there, and refused before."""
    here, _ = hosts()
    expected = pair_set(here)
    here.close()
    (here.path / "signatures.npy").unlink()
    with pytest.raises(SignaturesElsewhereError):
        Index.repair(here.path)
    (here.path / "signatures.npy").touch()
    with pytest.raises(DamageError):
        Index.open(here.path)
    assert Index.repair(here.path).signed
    with Index.open(here.path) as index:
        assert pair_set(index) == expected


WORKS = {
    "remove": ["{there}", "f001-0"],
    "expire": ["{there}", "--older-than", "1d"],
    "query": ["{there}", "--key", "f002-0"],
    "pairs": ["{there}", "--since", "last"],
    "clusters": ["{there}", "--no-update"],
    "dedup": ["{there}", "--no-update"],
    "neighbors": ["{there}", "--no-update"],
    "recall": ["{there}", "--sample", "all"],
    "tune": ["{there}"],
    "report": ["{there}", "--no-update", "--output", "{made}.html"],
    "plot": ["similarity", "{there}", "--output", "{made}.svg"],
    "explain": ["{there}", "f002-0", "f002-1"],
    "contract": ["{there}", "{links}", "--no-update"],
    "show": ["{there}", "f002-0"],
    "stats": ["{there}"],
    "batches": ["{there}"],
    "cursors": ["{there}", "press", "--set", "now"],
    "sql": ["{there}", "SELECT count(*) FROM document_bucket"],
    "reindex": ["{there}", "{made}", "--threshold", "0.7"],
    "upgrade": ["{there}"],
}
REFUSES = {
    "add": ["{there}", "{documents}"],
    "clusters": ["{there}"],
    "dedup": ["{there}"],
    "neighbors": ["{there}"],
    "report": ["{there}", "--output", "{made}.html"],
    "contract": ["{there}", "{links}"],
    "join": ["{there}", "{here}"],
    "check": ["{there}"],
    "compact": ["{there}"],
    "reband": ["{there}", "--threshold", "0.7"],
    "copy": ["{there}", "{made}"],
    "merge": ["{here}", "{there}"],
    "export": ["{there}", "-o", "{made}"],
}
ALSO_WORKS = {
    "neighbors": ["{there}", "--recall", "1"],
    "query": ["{there}", "--key", "f002-0", "--recall", "1"],
    "pairs": ["{there}", "--measure", "containment"],
}
ALSO_REFUSES = {
    "merge": ["{there}", "{here}"],
    "check": ["{there}", "--repair"],
    "query": ["{there}", "--key", "f002-0", "--verify", "signature"],
    "pairs": ["{there}", "--verify", "signature"],
}
MAKES_ONE = {"init", "import", "demo"}
NEEDS_NONE = {"guide", "serve", "spark"}


@pytest.fixture
def call(hosts: Pair_, tmp_path: Path) -> Callable[..., click.testing.Result]:
    here, _ = hosts()
    folder = here.path.parent
    (tmp_path / "links").write_text("f002-0\tf002-1\n")
    (tmp_path / "more.jsonl").write_text(json.dumps({"id": "x", "text": "a text"}) + "\n")
    names = {name: folder / f"{name}.lshdb" for name in ("here", "there", "made")}
    names |= {"links": tmp_path / "links", "documents": tmp_path / "more.jsonl"}

    def run(command: str, arguments: list[str]) -> click.testing.Result:
        if "--no-update" in arguments:
            list(here.clusters())
        words = [command, *(each.format_map(names) for each in arguments)]
        return click.testing.CliRunner().invoke(cli, words, catch_exceptions=False)

    return run


def test_every_command_is_told_of() -> None:
    assert {*WORKS, *REFUSES, *MAKES_ONE, *NEEDS_NONE} == set(COMMANDS)


@pytest.mark.parametrize(
    ("command", "arguments"), [*WORKS.items(), *ALSO_WORKS.items()], ids=lambda each: str(each)
)
def test_commands_that_work(
    call: Callable[..., click.testing.Result], command: str, arguments: list[str]
) -> None:
    result = call(command, arguments)
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize(
    ("command", "arguments"), [*REFUSES.items(), *ALSO_REFUSES.items()], ids=lambda each: str(each)
)
def test_commands_that_refuse(
    call: Callable[..., click.testing.Result], tmp_path: Path, command: str, arguments: list[str]
) -> None:
    before = sorted(tmp_path.rglob("*"))
    result = call(command, arguments)
    assert result.exit_code == 1, result.output
    assert "needs the signatures" in result.stderr
    assert "hint: " in result.stderr
    # Nothing was made or begun; the lock file of the index that is merged into is always there.
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("texts", [True, False])
def test_what_a_cap_hides_is_estimated_from_texts_or_bounded(hosts: Pair_, texts: bool) -> None:
    here, there = hosts(store_text=texts)
    here.update_clusters(max_bucket=2)
    answer = there.dedup(update=False)
    with pytest.warns(UncheckedWarning):
        assert len(list(answer)) == here.stats().documents
    assert answer.unchecked is not None and not (texts and answer.unchecked.high > 10**6)
    seen, true = there.loss(), here.loss()
    assert true is not None and (seen is not None) == texts
    if seen is not None:
        assert seen.low <= true.share <= seen.high
