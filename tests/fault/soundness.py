"""Is an index after a fault what it may be? Opened, checked, compared, asked and written to."""

from __future__ import annotations

import functools
import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from lshdb import FormatError, Index, IndexNotFoundError, LshdbError
from lshdb.storage.rowfiles import layouts as blocks
from tests.conftest import pair_set
from tests.fault.steps import BLOCK_ROWS, EXPORTED, State, new_body

__all__ = ["documents_of", "faults_of", "faults_of_export", "pairs_expected"]


def documents_of(index: Index) -> dict[str, Any]:
    """Every document, key to body; bits as hexadecimal digits."""
    if index.params.kind.is_dense:
        keys = [key for (key,) in index.sql("SELECT key FROM document").rows]
        return {key: index.show(key).plain_body for key in keys}
    with index._store.reading() as snapshot:
        return {key: snapshot.body(doc_id) for doc_id, key in list(snapshot.document_keys())}


@functools.cache
def _empty(parameters: str) -> tuple[tempfile.TemporaryDirectory[str], Path]:
    """An empty index, to be copied: making one takes ten times as long. The folder goes last."""
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "empty.lshdb"
    Index.create(path, **json.loads(parameters)).close()
    return folder, path


@functools.lru_cache(maxsize=64)
def _pairs_of(documents: str, parameters: str) -> frozenset[tuple[str, str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        path = shutil.copytree(_empty(parameters)[1], Path(folder) / "plain.lshdb")
        with Index.open(path) as index:
            index.add(json.loads(documents).items(), workers=1)
            return frozenset(pair_set(index, workers=1))


def pairs_expected(index: Index, documents: dict[str, Any]) -> frozenset[tuple[str, str, float]]:
    """The pairs of an index that was made of these documents at once, and never saw a fault."""
    of_kind = ("metric", "dim") if index.params.kind.is_dense else ("k",)
    names = ("threshold", "num_perm", "bands", "rows", "store_text", *of_kind)
    parameters = {name: getattr(index.params, name) for name in names}
    return _pairs_of(json.dumps(documents, sort_keys=True), json.dumps(parameters))


def faults_of(
    path: Path,
    allowed: list[State],
    *,
    asks: bool = False,
    writes: bool = False,
    may_be_old: bool = False,
    may_be_damaged: bool = False,
    block_rows: int = BLOCK_ROWS,
) -> list[str]:
    """What is wrong with an index after a fault; nothing for a sound one.

    Parameters
    ----------
    path : Path
    allowed : list of State
        What it may hold.
    asks : bool
        Also compare the answer of ``pairs``.
    writes : bool
        Also add documents, look again, and remove them.
    may_be_old : bool
        Whether the index may have format 1; it is brought up to date then.
    may_be_damaged : bool
        Whether the index may be damaged; it is repaired then, and must have lost nothing.
    block_rows : int
        Signature rows under one CRC-32 there.
    """
    try:
        if may_be_damaged:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(blocks, "BLOCK_ROWS", block_rows)
                lost = Index.repair(path, workers=1).lost
            if lost:
                return [f"the repair lost {lost}"]
        with Index.open(path) as index:
            return _look(index, allowed, asks=asks, writes=block_rows if writes else None)
    except IndexNotFoundError as error:
        return [] if None in allowed else [f"there is no index: {error.message}"]
    except FormatError as error:
        if not may_be_old or "has format 1; this version reads" not in error.message:
            return [f"{type(error).__name__}: {error.message}"]
        Index.upgrade(path)
        return faults_of(path, allowed, asks=asks, writes=writes, block_rows=block_rows)
    except LshdbError as error:
        return [f"{type(error).__name__}: {error.message}"]


def faults_of_export(folder: Path) -> list[str]:
    """An export is there whole or not at all; the index that is made of it is looked at too."""
    if not (folder / EXPORTED).exists():
        return []
    try:
        Index.from_export(folder / EXPORTED, folder / "imported.lshdb").close()
    except LshdbError as error:
        return [f"an export that is not whole: {error.message}"]
    with Index.open(folder / "imported.lshdb") as index:
        return [f"of the export: {finding}" for finding in index.check()]


def _look(index: Index, allowed: list[State], *, asks: bool, writes: int | None) -> list[str]:
    found = [f"{finding.where}: {finding.what}" for finding in index.check()]
    documents = documents_of(index)
    if documents not in allowed:
        found += [_difference(documents, state) for state in allowed]
    if asks and not found and pair_set(index, workers=1) != pairs_expected(index, documents):
        found.append("pairs differ from those of an index that saw no fault")
    if writes is not None and not found:
        more = {f"more{number}": f"some words that are new{number}" for number in range(12)}
        if index.params.kind.is_dense:
            rng = random.Random(len(documents))
            more = {key: new_body(rng, {"dim": index.params.dim}) for key in more}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "BLOCK_ROWS", writes)
            index.add(more.items(), workers=1)
        after = _look(index, [documents | more], asks=False, writes=None)
        found += [f"after an add: {one}" for one in after]
    return found


def _difference(documents: dict[str, Any], state: State) -> str:
    if state is None:
        return f"there is an index, of {len(documents)} documents; expected none"
    lost = sorted(state.keys() - documents.keys())
    more = sorted(documents.keys() - state.keys())
    other = sorted(key for key in state.keys() & documents.keys() if state[key] != documents[key])
    return (
        f"of {len(state)} documents lost {lost[:5]}, not expected {more[:5]}, "
        f"with other texts {other[:5]}"
    )
