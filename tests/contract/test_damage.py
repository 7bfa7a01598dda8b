"""Rows that are not what was written are found, and made good or named, on either database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index, LshdbError
from lshdb.storage.dialects import database_of
from lshdb.storage.place.directory import IndexDirectory
from tests.answers import answers
from tests.conftest import family_corpus
from tests.contract.conftest import Both, Place
from tests.postgres import PostgresUrl, drop_schemas
from tests.raw import change, rows_of

DAMAGE: dict[str, tuple[str, tuple[object, ...]]] = {
    "fewer signatures": ("UPDATE state SET n_signatures = 7", ()),
    "far too many": ("UPDATE state SET n_signatures = 1000000000000", ()),
    "another file": ("UPDATE state SET signature_file = 'sygnatures.npy'", ()),
    "another uuid": ("UPDATE state SET uuid = 'x', format = 9", ()),
    "a block's checksum": ("UPDATE signature_block SET crc32 = 5", ()),
    "postings gone": ("DELETE FROM band WHERE signature_id % 2 = 0", ()),
    "postings of nobody": ("UPDATE band SET signature_id = 999 WHERE signature_id = 3", ()),
    "other buckets": ("UPDATE band SET b1 = 5 WHERE signature_id = 3", ()),
    "no bucket": ("UPDATE band SET b1 = NULL WHERE signature_id = 3", ()),
    "an edge": ("UPDATE edge SET similarity = 0.9", ()),
    "a cluster": ("UPDATE cluster_member SET label = 1", ()),
    "a text of nobody": ("INSERT INTO content VALUES (777, 'text', ?)", (b"x",)),
    "another's signature": ("UPDATE document SET signature_id = 1 WHERE key = 'u001'", ()),
    "lengths": ("UPDATE document SET n_chars = 1, n_shingles = 2 WHERE key = 'u001'", ()),
    "a source": ("UPDATE document SET source = 'z' WHERE key = 'u001'", ()),
    "a row's checksum": ("UPDATE document SET checksum = 1 WHERE key = 'u001'", ()),
    "a hash": ("UPDATE document SET content_hash = ? WHERE key = 'tokens'", (b"\0",)),
    "a text": ("UPDATE content SET body = ? WHERE doc_id = 9", (b"\0",)),
    "a text gone": ("DELETE FROM content WHERE doc_id = 9", ()),
    "another form": ("UPDATE content SET form = 'text' WHERE form = 'tokens'", ()),
    "a batch": ("UPDATE batch SET n_added = 3 WHERE batch_id = 1", ()),
    "no batch": ("DELETE FROM batch WHERE batch_id = 2", ()),
    "edges that say too much": ("UPDATE edge_state SET n_signatures = 1000", ()),
    "a parameter": ("UPDATE parameter SET value = '5.5' WHERE name = 'k'", ()),
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, postgres_url: PostgresUrl) -> Iterator[Both]:
    """Two small indexes with copies, tokens, replaced documents and clusters."""
    found = Both(tmp_path_factory.mktemp("sound"), postgres_url.lshdb)
    corpus = family_corpus(5, families=3)
    for place in found.places:
        with place.create("a", threshold=0.5) as index:
            index.add(corpus[:10])
            more = [("same", corpus[3][1]), ("empty", ""), ("tokens", ["a", "b"])]
            index.add([*corpus[10:], *more, (corpus[1][0], "new")])
            index.update_clusters()
    yield found
    drop_schemas(postgres_url, found.places[1].schemas)


def damaged(sound: Both, both: Both, name: str) -> None:
    for source, target in zip(sound.places, both.places, strict=True):
        with Index.open(source.folder / "a") as index:
            index.copy(target.folder / "a", **target.database())
        statement, parameters = DAMAGE[name]
        change(target.folder / "a", statement, *parameters)


def tried(path: Path, do: Callable[[], Any]) -> Any:
    """What comes of it, where it fails the error without the name of the database."""
    try:
        return do()
    except LshdbError as error:
        said = f"{error.message}; {error.hint}"
        database = database_of(IndexDirectory(path).read_description().place, path)
        for name in (str(database), database.short_name):
            said = said.replace(name, "DATABASE")
        return type(error).__name__, said


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.long(when=lambda name: list(DAMAGE).index(name) % 3)
def test_it_is_found_and_made_good_alike(sound: Both, both: Both, name: str) -> None:
    damaged(sound, both, name)

    def check(place: Place) -> Any:
        path = place.folder / "a"

        def found() -> Any:
            with Index.open(path) as index:
                return sorted((one.kind, one.affected) for one in index.check())

        return tried(path, found)

    def repair(place: Place) -> Any:
        path = place.folder / "a"

        def mended() -> Any:
            result = Index.repair(path)
            records = result.quarantine.read_text().splitlines() if result.quarantine else []
            reasons = sorted((line["id"], line["reason"]) for line in map(json.loads, records))
            with Index.open(path) as index:
                counts = result.documents, result.signed, result.lost, len(result.batches)
                return counts, reasons, answers(index)

        return tried(path, mended)

    assert both.same(check)
    both.same(repair)


def test_a_damaged_row_is_named_by_who_reads_it(sound: Both, both: Both) -> None:
    damaged(sound, both, "a text")

    def ask(place: Place) -> Any:
        path = place.folder / "a"
        ((key,),) = rows_of(path, "SELECT key FROM document WHERE doc_id = ?", 9)
        with Index.open(path) as index:
            return [
                tried(path, lambda: index.show(key)),
                tried(path, lambda: len(list(index.pairs(verify="none")))),
            ]

    both.same(ask)
