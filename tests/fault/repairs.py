"""Is an index after a repair what it may be? Sound, and every document there or named as lost."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Set
from pathlib import Path
from typing import Any

from lshdb import FormatError, Index, LshdbError, ParameterMismatchError
from tests.conftest import pair_set
from tests.fault.soundness import documents_of, pairs_expected

__all__ = ["damage", "repaired"]


def damage(path: Path) -> None:
    """Damage postings and a signature row; everything can be proved by something else."""
    with contextlib.closing(sqlite3.connect(path / "index.db")) as database, database:
        database.execute("UPDATE band SET b0 = b0 / 2")
    for file in path.glob("signatures*.npy"):
        content = bytearray(file.read_bytes())
        content[-5] ^= 1
        file.write_bytes(content)


def repaired(
    path: Path, documents: dict[str, Any], gone: Set[str] = frozenset()
) -> tuple[str, list[str]]:
    """Check and repair a damaged index: what came of it, and what is wrong with that.

    Parameters
    ----------
    path : Path
        The index is changed.
    documents : dict
        What was in it, key to body.
    gone : set of str
        What an interrupted repair may have put out before.

    Returns
    -------
    outcome : str
        ``sound``, ``repaired``, ``lost`` (some documents) or ``refused``.
    faults : list of str
        None for a good repair.
    """
    was = {
        file.name: file.read_bytes()
        for file in path.iterdir()
        if file.is_file() and file.suffix != ".db-shm"
    }
    try:
        result = Index.repair(path)
    except LshdbError as error:
        return "refused", _refused(path, was, error)
    with Index.open(path) as index:
        faults = [f"{one.where}: {one.what}" for one in index.check()]
        there = documents_of(index)
        if index.params.store_text:
            wrong = [key for key in there if there[key] != documents.get(key)]
            faults += [f"{key} has another text" for key in wrong]
        else:
            there = {key: documents.get(key, "") for key in there}
        missing = documents.keys() - there.keys()
        if len(missing - gone) != len([key for key in result.lost if key not in gone]):
            faults.append(f"missing are {sorted(missing)}, lost {result.lost}")
        named = {key for key in result.lost if key in documents}
        if len(named) < len(result.lost) - 1:  # one bit damages one key at the most
            faults.append(f"missing are {sorted(missing)}, named {result.lost}")
        if pair_set(index, workers=1) != pairs_expected(index, there):
            faults.append("pairs differ from those of an index that saw no damage")
        if index.clusters() is None or index.check():
            faults.append("clusters cannot be found again")
    if result.quarantine is not None:
        faults += _quarantine_faults(path, result.quarantine, documents, missing)
    if not result.findings:
        return "sound", faults
    return "lost" if result.lost else "repaired", faults


def _refused(path: Path, was: dict[str, bytes], error: LshdbError) -> list[str]:
    """What names the parameters is the only thing that may keep an index from being repaired."""
    faults = []
    if not isinstance(error, FormatError | ParameterMismatchError) and not error.hint:
        faults.append(f"refused without a hint: {error.message}")
    for name, content in was.items():
        if not name.startswith(("index.db-", "lock")) and (path / name).read_bytes() != content:
            faults.append(f"refused, and {name} was changed")
    return faults


def _quarantine_faults(
    path: Path, file: Path, documents: dict[str, Any], missing: set[str]
) -> list[str]:
    """What was put out with a proved text can be put back, and is what it was."""
    back = {}
    for line in file.read_text().splitlines():
        record = json.loads(line)
        body = record.get("text", record.get("vector"))
        if body is not None and record["id"] in missing:
            back[record["id"]] = body
    faults = [f"{key} was put out with another text" for key in back if back[key] != documents[key]]
    with Index.open(path) as index:
        index.add(back.items(), workers=1)
        faults += [f"after an add: {one.where}: {one.what}" for one in index.check()]
    file.unlink()
    return faults
