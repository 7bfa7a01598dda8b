"""How a dataset changes: tables one after the other, and the table ``commits`` last.

Each table is a Delta table. A change puts new files into the folders of some tables, commits each
of these tables, and then adds a row to ``commits`` that names the versions of all. A reader takes
the newest row of ``commits`` and reads each table at the version named there. If a change ends
before its row is committed, for whatever reason, nobody reads the versions and files it left.

The next change of such a table starts from the version that ``commits`` names: in one transaction
it removes from the log what the unfinished change added, and adds again what that one removed.

Of two writers at the same time, one wins. Every transaction carries the same application id and is
not retried, so Delta refuses it if the table has changed since it was read. The table ``commits``
decides: whatever both writers did before, one of them fails there.

Decided: :func:`vacuum` keeps, by number, the versions that readers may still use. A program of your
own that removes files has to keep them, too.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson

from lshdb.dataset.dataset_tables import COMMITS, FORMAT, NAMES, arrow_schema, load_delta
from lshdb.dataset.table_files import NewFile, arrow_blocks
from lshdb.errors import (
    DamageError,
    DatabaseError,
    FormatError,
    IndexExistsError,
    IndexNotFoundError,
    LockedError,
)
from lshdb.files.descriptors import sync_file
from lshdb.params.index_params import FORMAT as INDEX_FORMAT
from lshdb.params.index_params import refuse_format
from lshdb.storage.tables.records import as_timestamp, timestamp

__all__ = ["Change", "Commit", "Dataset", "StoredFile", "is_dataset", "local_folder", "vacuum"]

_APPLICATION = "lshdb"
_CONFIGURATION = {
    "delta.enableDeletionVectors": "false",
    "delta.enableExpiredLogCleanup": "false",
}
"""A file has all of its rows or is removed; versions that ``commits`` names stay readable."""
_PLAIN = ("commit_id", "committed_at", "operation", "format")
_JSON = ("index", "parameters", "edges", "counts")
_MOST_VERSIONS = 10_000_000
"""To one that is not there, deltalake counts up from the newest: half a second for so many."""
_NUMBERS = {"signatures": "signature_id", "releases": "release_id"}
"""Columns whose smallest and largest values are in the log, because plans need them."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A row of the table ``commits``: one state of the whole dataset.

    Attributes
    ----------
    commit_id : int
        0 for the first one, then one more each.
    committed_at : str
        The time, as in the table ``batches``.
    operation : str
        What the change did, in a word or a few.
    format : int
        The format number of the dataset.
    index : dict
        Format, uuid, times and versions of the index, and its next doc_id.
    parameters : dict
        Name to value.
    edges : dict or None
        The state of edges and clusters.
    counts : dict
        Rows by table.
    versions : dict
        Versions by table.
    """

    commit_id: int
    committed_at: str
    operation: str
    format: int
    index: dict[str, Any]
    parameters: dict[str, Any]
    edges: dict[str, Any] | None
    counts: dict[str, int]
    versions: dict[str, int]

    def row(self) -> dict[str, Any]:
        """Return the values by column."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            **{name: orjson.dumps(getattr(self, name)).decode() for name in _JSON},
            **{f"{name}_version": self.versions[name] for name in NAMES},
        }

    @classmethod
    def of_row(cls, row: Mapping[str, Any], path: str) -> Commit:
        """Return the commit that a row describes.

        Raises
        ------
        FormatError
            The dataset, or its index, has a format that this version does not read.
        DamageError
            A value is missing or invalid.
        """
        number = row.get("format")
        if type(number) is not int or not 1 <= number <= FORMAT:
            raise FormatError(
                f"the dataset {path} has format {number}, but this version reads {FORMAT}",
                hint="install the lshdb version that wrote it",
            )
        try:
            values = {name: row[name] for name in _PLAIN}
            values |= {name: orjson.loads(row[name]) for name in _JSON}
            values["versions"] = {name: int(row[f"{name}_version"]) for name in NAMES}
            if not all(0 <= version <= _MOST_VERSIONS for version in values["versions"].values()):
                raise ValueError("a version of a table is out of range")
            if any(type(values["counts"][name]) is not int for name in NAMES):
                raise TypeError("counts are whole numbers")
            if not isinstance(values["parameters"], dict):
                raise TypeError("parameters are an object")
            index_format = values["index"]["format"]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DamageError(
                f"{path}/{COMMITS} has missing or invalid entries: {error}",
                hint="use another copy of the dataset",
            ) from error
        if index_format != INDEX_FORMAT:
            raise refuse_format(f"the index of the dataset {path}", index_format)
        return cls(**values)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in a version of a table.

    Attributes
    ----------
    uri : str
        The whole path.
    file : NewFile
        Its description in the log.
    """

    uri: str
    file: NewFile


@dataclass(frozen=True, slots=True)
class Dataset:
    """One state of a dataset.

    Attributes
    ----------
    path : str
        A folder, or a URI that deltalake understands.
    options : mapping
        How deltalake reaches it (``storage_options``).
    commit : Commit
        The state.
    """

    path: str
    options: Mapping[str, str]
    commit: Commit

    @classmethod
    def create(
        cls,
        path: str,
        *,
        index: dict[str, Any],
        parameters: dict[str, Any],
        options: Mapping[str, str] | None = None,
        beside: str = "",
    ) -> Dataset:
        """Create empty tables; the first :meth:`Change.commit` makes them a dataset.

        Parameters
        ----------
        path : str
            A new or empty folder, or a URI.
        index, parameters : dict
            As in :class:`Commit`.
        options : mapping, optional
            How deltalake reaches the path (``storage_options``).
        beside : str
            Name of a file that the folder may hold already.

        Raises
        ------
        IndexExistsError
            The folder holds something else, perhaps from an attempt that was interrupted.
        LshdbError
            deltalake is not installed, or the tables cannot be written.
        """
        delta = load_delta()
        path, options = _without_slash(path), dict(options or {})
        local = local_folder(path)
        if (
            local is not None
            and local.exists()
            and (not local.is_dir() or any(entry.name != beside for entry in local.iterdir()))
        ):
            raise IndexExistsError(
                f"{path} exists already", hint="name a new path, or an empty folder"
            )
        for name in (*NAMES, COMMITS):
            schema = arrow_schema(name, parameters["metric"])
            uri = f"{path}/{name}"
            try:
                delta.DeltaTable.create(
                    uri, schema, configuration=_CONFIGURATION, storage_options=options
                )
            except (delta.exceptions.DeltaError, OSError) as error:
                if delta.DeltaTable.is_deltatable(uri, options):
                    raise IndexExistsError(
                        f"there is a table at {uri} already", hint="name a new path"
                    ) from error
                raise _failed(uri, error) from error
            _sync_log(uri, 0)
        commit = Commit(
            -1, timestamp(), "create", FORMAT, index, parameters, None,
            dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0),
        )  # fmt: skip
        return cls(path, options, commit)

    @classmethod
    def open(cls, path: str, *, options: Mapping[str, str] | None = None) -> Dataset:
        """Open the newest state.

        Raises
        ------
        IndexNotFoundError
            There is no dataset, or its creation was interrupted.
        FormatError, DamageError, DatabaseError
        """
        path, options = _without_slash(path), dict(options or {})
        commit, _ = _newest(path, options)
        if commit is None:
            raise IndexNotFoundError(
                f"the dataset {path} has no commit: making it did not end", hint="remove it"
            )
        return cls(path, options, commit)

    def newest(self) -> Dataset:
        """Return the newest state of the dataset."""
        return Dataset.open(self.path, options=self.options)

    def table(self, name: str) -> Any:
        """Return a table, as :class:`deltalake.DeltaTable`, at the version of this state."""
        return _table(f"{self.path}/{name}", self.options, self.commit.versions[name])

    def files(self, name: str) -> list[StoredFile]:
        """Return the files of a table, in order of path."""
        files = _active(self.table(name))
        self._check_files(name, files.values())
        return [StoredFile(f"{self.path}/{name}/{path}", files[path]) for path in sorted(files)]

    def blocks(self, name: str, stored: StoredFile, *, size: int) -> Iterator[Any]:
        """Read a file of a table; see :func:`lshdb.dataset.table_files.arrow_blocks`."""
        schema, place = self.schema(name), None
        if local_folder(self.path) is None:
            from deltalake.fs import DeltaStorageHandler
            from pyarrow.fs import PyFileSystem

            handler = DeltaStorageHandler(f"{self.path}/{name}", dict(self.options))
            place = PyFileSystem(handler), stored.file.path
        return arrow_blocks(stored.uri, schema, size=size, place=place)

    def segments(self) -> dict[int, list[StoredFile]]:
        """Return the files of each segment of postings, in order of segment.

        Raises
        ------
        DamageError
            The log does not say in which segment a file is.
        """
        segments: dict[int, list[StoredFile]] = {}
        for stored in self.files("postings"):
            low, high = (ends.get("segment", -1) for ends in (stored.file.lows, stored.file.highs))
            if low != high or low < 0:
                raise _foreign_log(f"{self.path}/postings", "has a file of no segment")
            segments.setdefault(low, []).append(stored)
        return dict(sorted(segments.items()))

    def _check_files(self, name: str, files: Iterable[NewFile]) -> None:
        """Raise DamageError if the log has other rows than were committed, or lacks numbers."""
        n_rows, n_committed = sum(file.n_rows for file in files), self.commit.counts[name]
        if n_rows != n_committed:
            raise _foreign_log(
                f"{self.path}/{name}", f"has {n_rows:,} rows; {n_committed:,} are committed"
            )
        column = _NUMBERS.get(name)
        if column is not None and any(
            column not in file.lows or column not in file.highs for file in files if file.n_rows
        ):
            raise _foreign_log(f"{self.path}/{name}", f"has a file without the range of {column}")

    def schema(self, name: str) -> Any:
        """Return the Arrow schema of the files of a table."""
        return arrow_schema(name, self.commit.parameters["metric"])


@dataclass(slots=True)
class Change:
    """A change of a dataset: files to add to its tables, and files to remove from them.

    Attributes
    ----------
    base : Dataset
        The state that the change starts from; it must be the newest when the change commits.
    new : dict
        New files by table.
    gone : dict
        Paths, relative to the table, of files that are no longer read.
    """

    base: Dataset
    new: dict[str, list[NewFile]] = field(default_factory=dict)
    gone: dict[str, set[str]] = field(default_factory=dict)

    def commit(self, operation: str, **state: Any) -> Dataset:
        """Commit the tables, then the whole; return the new state.

        Parameters
        ----------
        operation : str
            What the change does, in a word or a few, for people.
        **state
            Fields of :class:`Commit` that change: ``index``, ``parameters``, ``edges``,
            ``format``. Counts are computed from the files.

        Raises
        ------
        LockedError
            Another writer has committed since the state was opened; nothing has changed.
        DatabaseError
            A table cannot be written; nothing has changed.
        """
        base = self.base.commit
        number = base.commit_id + 1
        if base.format != FORMAT:
            for name in ("postings", COMMITS):
                _renew_columns(self.base, name, number)
        versions, counts = dict(base.versions), dict(base.counts)
        for name in NAMES:
            versions[name], counts[name] = self._commit_table(name, number)
        now = replace(
            base, commit_id=number, committed_at=timestamp(), operation=operation, counts=counts,
            versions=versions, **state,
        )  # fmt: skip
        newest, version = _newest(self.base.path, self.base.options)
        if (newest.commit_id if newest else -1) != base.commit_id:
            raise _overtaken(self.base.path)
        _append(self.base.path, self.base.options, now, version)
        return replace(self.base, commit=now)

    def _commit_table(self, name: str, number: int) -> tuple[int, int]:
        """Commit one table and return its version and its number of rows."""
        from deltalake.transaction import RemoveAction

        uri = f"{self.base.path}/{name}"
        table = _table(uri, self.base.options)
        logged = _active(table)
        committed = self.base.commit.versions[name]
        stay = logged if table.version() == committed else _active(self.base.table(name))
        stay = {path: file for path, file in stay.items() if path not in self.gone.get(name, ())}
        new = self.new.get(name, [])
        now = int(time.time() * 1000)
        actions: list[Any] = [file.action() for path, file in stay.items() if path not in logged]
        actions += [file.action() for file in new]
        actions += [
            RemoveAction(path, True, now, file.size, {})
            for path, file in logged.items()
            if path not in stay
        ]
        version = table.version()
        if actions:
            _commit(uri, table, actions, number)
            version += 1
            _sync_log(uri, version)
        return version, sum(file.n_rows for file in (*stay.values(), *new))


def is_dataset(path: str) -> bool:
    """Return whether the path has the log of a dataset's commits. A URI is taken for one."""
    local = local_folder(path)
    return local is None or (local / COMMITS / "_delta_log").is_dir()


def vacuum(dataset: Dataset, *, retention_hours: int = 168) -> list[str]:
    """Remove files that no commit of the last hours names; return their paths.

    These are files that were replaced, files of writers that were interrupted, and files that tasks
    of Spark wrote twice. Files younger than the retention stay, because a writer may be about to
    commit them. The files of the newest commit always stay.

    Parameters
    ----------
    dataset : Dataset
        The newest state.
    retention_hours : int
        Longer than any writer or reader takes. With 0 there must be neither.

    Raises
    ------
    LockedError, DatabaseError
        As for :meth:`Change.commit`.
    """
    # First make the newest version of each table the committed one. Otherwise the log says that
    # files of an unfinished change are in use, and that the files which it removed are not.
    dataset = Change(dataset).commit("vacuum")
    oldest = as_timestamp(datetime.now(UTC) - timedelta(hours=retention_hours))
    commits = _table(f"{dataset.path}/{COMMITS}", dataset.options).to_pyarrow_table().to_pylist()
    recent = [row for row in commits if row["committed_at"] >= oldest]
    recent.append(dataset.commit.row())
    removed = []
    for name in NAMES:
        uri = f"{dataset.path}/{name}"
        table = _table(uri, dataset.options)
        arguments: dict[str, Any] = {
            "retention_hours": retention_hours, "enforce_retention_duration": False, "full": True,
            "keep_versions": sorted({row[f"{name}_version"] for row in recent}),
        }  # fmt: skip
        if table.vacuum(dry_run=True, **arguments):
            removed += [f"{name}/{path}" for path in table.vacuum(dry_run=False, **arguments)]
    return sorted(removed)


def local_folder(path: str) -> Path | None:
    """Return the path of a folder on this machine; None for a URI."""
    return None if "://" in path else Path(path)


def _without_slash(path: str) -> str:
    """Return a path without slashes at its end, which object stores take for empty names."""
    return path.rstrip("/") or path


def _sync_log(uri: str, version: int) -> None:
    """Sync a log entry on this machine, what it adds, and the folders that name them."""
    folder = local_folder(uri)
    if folder is None:
        return
    entry = folder / "_delta_log" / f"{version:020d}.json"
    actions = map(orjson.loads, entry.read_bytes().splitlines())
    added = [folder / unquote(action["add"]["path"]) for action in actions if "add" in action]
    for place in (*added, *{file.parent for file in added}, entry, entry.parent, folder):
        descriptor = os.open(place, os.O_RDONLY)
        try:
            sync_file(descriptor)
        finally:
            os.close(descriptor)


def _table(uri: str, options: Mapping[str, str], version: int | None = None) -> Any:
    """Open a Delta table at a version, or the newest.

    Raises
    ------
    IndexNotFoundError
        There is no table.
    DatabaseError
        It cannot be read.
    """
    delta = load_delta()
    try:
        return delta.DeltaTable(uri, version=version, storage_options=dict(options))
    except delta.exceptions.TableNotFoundError as error:
        raise IndexNotFoundError(
            f"there is no table {uri}",
            hint="name a folder that lshdb export --format delta or lshdb.spark.Index wrote",
        ) from error
    except (delta.exceptions.DeltaError, OSError) as error:
        raise _failed(uri, error) from error


def _active(table: Any) -> dict[str, NewFile]:
    """Return the files of a version of a table, by path."""
    import pyarrow as arrow

    uri, files = table.table_uri, {}
    for row in arrow.table(table.get_add_actions(flatten=True)).to_pylist():
        lows, highs = (
            {
                name.removeprefix(kind): value
                for name, value in row.items()
                if name.startswith(kind) and isinstance(value, int)
            }
            for kind in ("min.", "max.")
        )
        _check_path(uri, row["path"], row["num_records"])
        files[row["path"]] = NewFile(
            row["path"], row["size_bytes"], row["num_records"], lows, highs
        )
    return files


def _check_path(uri: str, path: str, n_rows: object) -> None:
    """Raise DamageError for a path that leaves its table, or a file of unknown size."""
    plain = unquote(path).replace("\\", "/")
    if plain.startswith("/") or ":" in plain.split("/")[0] or ".." in plain.split("/"):
        raise _foreign_log(uri, f"names {path!r:.200}, which is outside of the table")
    if type(n_rows) is not int or n_rows < 0:
        raise _foreign_log(uri, f"does not say how many rows {path!r:.200} has")


def _foreign_log(uri: str, what: str) -> DamageError:
    return DamageError(
        f"the log of the table {uri} {what}",
        hint="something else than lshdb wrote it: use another copy of the dataset",
    )


def _commit(uri: str, table: Any, actions: Sequence[Any], number: int) -> None:
    """Commit actions to a table as it was read, as its next version."""
    delta = load_delta()
    try:
        table.create_write_transaction(
            list(actions),
            "append",
            table.schema(),
            [],
            commit_properties=_properties(number),
            post_commithook_properties=_hooks(),
        )
    except delta.exceptions.CommitFailedError as error:
        raise _overtaken(uri) from error
    except (delta.exceptions.DeltaError, OSError) as error:
        raise _failed(uri, error) from error


def _properties(number: int) -> Any:
    """Return properties by which a transaction fails if the table has changed since it was read."""
    delta = load_delta()
    return delta.CommitProperties(
        app_transactions=[delta.Transaction(_APPLICATION, number)], max_commit_retries=0
    )


def _hooks() -> Any:
    return load_delta().PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


def _newest(path: str, options: Mapping[str, str]) -> tuple[Commit | None, int]:
    """Return the newest commit, or None, and the newest version of the table ``commits``."""
    try:
        table = _table(f"{path}/{COMMITS}", options)
    except IndexNotFoundError as error:
        raise IndexNotFoundError(
            f"there is no dataset at {path}: {error.message}", hint=error.hint
        ) from error
    files = _active(table).values()
    if any("commit_id" not in file.highs for file in files):
        raise _foreign_log(f"{path}/{COMMITS}", "has a file without the range of commit_id")
    last = max((file.highs["commit_id"] for file in files), default=None)
    if last is None:
        return None, table.version()
    try:
        row, *_ = table.to_pyarrow_table(filters=[("commit_id", "=", last)]).to_pylist()
    except (ValueError, TypeError, NotImplementedError) as error:  # Arrow's derive from these
        raise DamageError(
            f"{path}/{COMMITS} has no row of commit {last} that can be read: {error}",
            hint="use another copy of the dataset",
        ) from error
    return Commit.of_row(row, path), table.version()


def _renew_columns(base: Dataset, name: str, number: int) -> None:
    """Give a table of an older format the columns of the present one, in a transaction of its own.

    Earlier versions keep theirs. Rows of ``commits`` stay, and other rows are written later.
    """
    delta = load_delta()
    uri = f"{base.path}/{name}"
    table = _table(uri, base.options)
    version = table.version() + 1
    schema = arrow_schema(name, base.commit.parameters["metric"])
    rows = schema.empty_table()
    if name == COMMITS:
        rows = table.to_pyarrow_table(columns=schema.names).cast(schema)
    try:
        delta.write_deltalake(
            table, rows, mode="overwrite", schema_mode="overwrite", partition_by=[],
            configuration=_CONFIGURATION, commit_properties=_properties(number),
            post_commithook_properties=_hooks(),
        )  # fmt: skip
    except delta.exceptions.CommitFailedError as error:
        raise _overtaken(base.path) from error
    except (delta.exceptions.DeltaError, OSError) as error:
        raise _failed(uri, error) from error
    _sync_log(uri, version)


def _append(path: str, options: Mapping[str, str], commit: Commit, version: int) -> None:
    """Add a row to the table ``commits``, which must still be at this version."""
    import pyarrow as arrow

    delta = load_delta()
    uri = f"{path}/{COMMITS}"
    try:
        delta.write_deltalake(
            _table(uri, options, version),
            arrow.Table.from_pylist([commit.row()], schema=arrow_schema(COMMITS)),
            mode="append",
            commit_properties=_properties(commit.commit_id),
            post_commithook_properties=_hooks(),
        )
    except delta.exceptions.CommitFailedError as error:
        raise _overtaken(path) from error
    except (delta.exceptions.DeltaError, OSError) as error:
        raise _failed(uri, error) from error
    _sync_log(uri, version + 1)


def _overtaken(path: str) -> LockedError:
    return LockedError(
        f"another writer has changed {path} meanwhile; nothing of this change is in the dataset",
        hint="repeat it",
    )


def _failed(uri: str, error: Exception) -> DatabaseError:
    words = re.sub(r"\x1b\[\d*m|↳|<.*", "", str(error).replace("\\x1b", "\x1b"), flags=re.DOTALL)
    return DatabaseError(f"the table {uri} cannot be read or written: {' '.join(words.split())}")
