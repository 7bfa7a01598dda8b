"""Tables of which a folder's files are only a part of the truth: Delta Lake, and by name others.

Files of a Delta table stay after their rows were deleted or rewritten, and lie there before they
are committed. Its log, ``_delta_log``, says which ones are the table. So the Parquet files of such
a folder are those that the log names now.

The log is replayed from its first commit or from a whole checkpoint, as the protocol describes it.
What cannot be told by files alone is refused, by name: rows deleted by a deletion vector, columns
whose names are in the log alone, and features of readers that are not known here. So are tables of
Apache Iceberg and Apache Hudi, whose metadata are not read here.

Columns by which a table is partitioned are not in its files, and so no fields.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson

from lshdb.arguments import printable
from lshdb.documents.document import system_reason
from lshdb.documents.io.folders import FoundFile, WalkCounts

__all__ = ["is_delta_table", "without_stale_files"]

_LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(
    r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9a-f-]{36})?\.(parquet|json)"
)
_FEATURES = {
    "appendOnly", "checkConstraints", "columnMapping", "deletionVectors", "timestampNtz",
    "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck",
}  # fmt: skip
"""Features that a reader of the files may ignore, or that are checked one by one."""
_NEWEST_READER = 3
_ELSEWHERE = "write it as Parquet or JSON Lines with the program that made it"


class _UnreadableError(Exception):
    """A table cannot be read by its files; the message says why."""


def is_delta_table(path: str) -> bool:
    """Return whether a folder is a Delta table."""
    return os.path.isdir(os.path.join(path, _LOG))


def without_stale_files(
    root: str, files_found: Sequence[FoundFile], counts: WalkCounts
) -> list[FoundFile]:
    """Leave out files in a table's folder that are not part of the table.

    Parameters
    ----------
    root : str
        The folder in which they were found.
    files_found : sequence of FoundFile
    counts : WalkCounts
        What is left out is counted here.

    Returns
    -------
    list of FoundFile
        A table that cannot be read by its files is one, with a problem.
    """
    root = os.path.abspath(root)
    if not is_delta_table(root) and not any(file.path.endswith(".parquet") for file in files_found):
        return list(files_found)
    homes = _Homes()
    tables: dict[str, dict[str, FoundFile] | FoundFile] = {}
    current: list[FoundFile] = []

    def content(table: str, kind: str) -> dict[str, FoundFile] | FoundFile:
        if table not in tables:
            tables[table] = read = _read(table, kind)
            if isinstance(read, FoundFile):
                current.append(read)
        return tables[table]

    for file in files_found:
        table, kind = homes.of(os.path.dirname(file.path))
        live = content(table, kind) if kind else None
        if live is None:
            current.append(file)
        elif isinstance(live, dict):
            is_live = live.pop(os.path.abspath(file.path), None) is not None
            if is_live or not file.path.endswith(".parquet"):
                current.append(file)
            else:
                counts.leave("stale")
    if is_delta_table(root):
        content(root, "Delta")
    for table, files in tables.items():
        if isinstance(files, dict):
            current += _others(table, files, root)
    return current


class _Homes:
    """Knows for each folder the table that it belongs to."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}

    def of(self, folder: str) -> tuple[str, str]:
        """Return the folder of the table, and its kind; empty if there is none."""
        folder = os.path.abspath(folder)
        chain = []
        while folder not in self._known:
            chain.append(folder)
            kind = _kind(folder)
            above = os.path.dirname(folder)
            if kind or above == folder:
                self._known[folder] = (folder, kind)
                break
            folder = above
        home = self._known[folder]
        self._known |= dict.fromkeys(chain, home)
        return home


def _kind(folder: str) -> str:
    if is_delta_table(folder):
        return "Delta"
    if os.path.isdir(os.path.join(folder, ".hoodie")):
        return "Hudi"
    try:
        names = os.listdir(os.path.join(folder, "metadata"))
    except OSError:
        return ""
    return "Iceberg" if any(name.endswith(".metadata.json") for name in names) else ""


def _read(table: str, kind: str) -> dict[str, FoundFile] | FoundFile:
    """Return the files of a table by their paths, or the table with its problem."""
    try:
        if kind != "Delta":
            raise _UnreadableError(f"is a table of Apache {kind}")
        return _live_files(table)
    except _UnreadableError as error:
        return FoundFile(table, problem=f"{error}, which is not read by its files: {_ELSEWHERE}")


def _others(table: str, live: dict[str, FoundFile], root: str) -> Iterator[FoundFile]:
    """Yield the files of a table that are missing, or in another folder."""
    for path, file in live.items():
        is_inside = os.path.commonpath([path, table]) == table
        is_missing = not os.path.lexists(path) and os.path.commonpath([path, root]) == root
        if is_missing or not is_inside:
            yield file


def _live_files(table: str) -> dict[str, FoundFile]:
    live: dict[tuple[str, str], dict[str, Any]] = {}
    for path in _log_files(os.path.join(table, _LOG)):
        for action in _actions(path):
            if (added := action.get("add")) is not None:
                live[_identity(added)] = added
            elif (removed := action.get("remove")) is not None:
                live.pop(_identity(removed), None)
            _check(action)
    files = {}
    for path, vector in live:
        if vector:
            raise _UnreadableError("is a Delta table with deletion vectors")
        place = _place(table, path)
        files[place] = _found(place)
    return files


def _identity(action: dict[str, Any]) -> tuple[str, str]:
    vector = action.get("deletionVector") or {}
    parts = (vector.get(name) for name in ("storageType", "pathOrInlineDv", "offset"))
    path = action.get("path")
    if not isinstance(path, str):
        raise _UnreadableError("is a Delta table whose log names a file without a path")
    return path, "/".join(map(str, filter(None, parts)))


def _place(table: str, path: str) -> str:
    """Return the path of a file that the log names, by a URL that is relative or not."""
    parts = urlsplit(path)
    if parts.scheme in ("", "file"):
        return os.path.normpath(os.path.join(table, unquote(parts.path if parts.scheme else path)))
    raise _UnreadableError(f"is a Delta table with files elsewhere ({printable(path)[:80]})")


def _found(path: str) -> FoundFile:
    try:
        status = os.stat(path)
    except OSError as error:
        reason = f"is in the log of its Delta table, and cannot be read: {system_reason(error)}"
        return FoundFile(path, problem=reason)
    return FoundFile(path, status.st_size if stat.S_ISREG(status.st_mode) else 0)


def _log_files(log: str) -> list[str]:
    """Return the files of the log that make up the current table, in order."""
    try:
        names = os.listdir(log)
    except OSError as error:
        raise _UnreadableError(f"is a Delta table whose log cannot be read ({error})") from error
    commits = {int(match[1]): match[0] for match in map(_COMMIT.fullmatch, names) if match}
    checkpoints: dict[int, list[re.Match[str]]] = {}
    for match in filter(None, map(_CHECKPOINT.fullmatch, names)):
        checkpoints.setdefault(int(match[1]), []).append(match)
    last = max([*commits, *checkpoints], default=-1)
    for version in (*sorted(checkpoints, reverse=True), -1):
        whole = [] if version < 0 else _whole_checkpoint(checkpoints[version])
        rest = range(version + 1, last + 1)
        is_start = bool(whole) if version >= 0 else last >= 0
        if is_start and all(number in commits for number in rest):
            names = [*whole, *(commits[number] for number in rest)]
            return [os.path.join(log, name) for name in names]
    raise _UnreadableError("is a Delta table whose log is not whole")


def _whole_checkpoint(matches: list[re.Match[str]]) -> list[str]:
    """Return the files of one complete checkpoint of a version; empty if there is none."""
    single = [match[0] for match in matches if match[2] is None]
    if single:
        return single[:1]
    parts = sorted(match[0] for match in matches)
    return parts if len(parts) == int(matches[0][3]) else []


def _actions(path: str) -> Iterator[dict[str, Any]]:
    """Yield the actions of a file of the log and of its side files."""
    try:
        for action in _parquet(path) if path.endswith(".parquet") else _lines(path):
            side = action.get("sidecar")
            if side is None:
                yield action
            else:
                yield from _parquet(os.path.join(os.path.dirname(path), "_sidecars", side["path"]))
    except _UnreadableError:
        raise
    except Exception as error:  # of JSON, of pyarrow, or of the file
        raise _UnreadableError(
            f"is a Delta table whose log cannot be read ({printable(os.path.basename(path))}: "
            f"{printable(' '.join(str(error).split()))[:200]})"
        ) from error


def _lines(path: str) -> Iterator[dict[str, Any]]:
    with open(path, "rb") as file:
        for line in file:
            if not line.isspace():
                action = orjson.loads(line)
                if not isinstance(action, dict):
                    raise ValueError("a line is no object")
                yield action


def _parquet(path: str) -> Iterator[dict[str, Any]]:
    from pyarrow import parquet

    actions = ("add", "remove", "protocol", "metaData", "sidecar")
    with parquet.ParquetFile(path) as file:
        names = [name for name in file.schema_arrow.names if name in actions]
        for batch in file.iter_batches(columns=names):
            for row in batch.to_pylist():
                yield {name: value for name, value in row.items() if value is not None}


def _check(action: dict[str, Any]) -> None:
    """Refuse a table that its files alone do not tell."""
    protocol = action.get("protocol") or {}
    unknown = set(protocol.get("readerFeatures") or ()) - _FEATURES
    if unknown or (protocol.get("minReaderVersion") or 0) > _NEWEST_READER:
        names = ", ".join(sorted(unknown)) or f"version {protocol['minReaderVersion']}"
        raise _UnreadableError(f"is a Delta table with features of readers ({printable(names)})")
    settings = (action.get("metaData") or {}).get("configuration") or {}
    mode = dict(settings).get("delta.columnMapping.mode", "none")
    if mode != "none":
        raise _UnreadableError(f"is a Delta table with columns mapped by {mode}")
