"""How a dataset changes: tables one after the other, and the table ``commits`` last.

Each table is a Delta table. A change puts new files into the folders of some tables, commits each
of these tables, and then adds a row to ``commits`` that names the versions of all. A reader takes
the newest row of ``commits`` and reads each table at the version named there. So a change that ends
before its row is there, however it ends, leaves versions and files that nobody reads.

The next change of such a table begins from the version that is named: in the same transaction it
takes out of the log what the dead one added, and adds again what that one took out.

One writer at a time wins. Every transaction carries one application id, and is not tried again, so
that Delta refuses it if the table has changed since it was read. For the table ``commits``, that is
what makes one of two writers fail, whatever both did before.

Decided: versions that readers may still use are kept by number when files are removed
(:func:`vacuum`). Whoever removes files with another program has to keep them, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from lshdb.dataset.dataset_tables import COMMITS, FORMAT, NAMES, RANGE, arrow_schema, load_delta
from lshdb.dataset.table_files import NewFile
from lshdb.disksort.descriptors import sync_file
from lshdb.errors import (
    DamageError,
    DatabaseError,
    FormatError,
    IndexExistsError,
    IndexNotFoundError,
    LockedError,
)
from lshdb.params.index_params import FORMAT as INDEX_FORMAT
from lshdb.params.index_params import refuse_format
from lshdb.storage.tables.records import as_timestamp, timestamp

__all__ = ["Change", "Commit", "Dataset", "StoredFile", "is_dataset", "local_folder", "vacuum"]

_APPLICATION = "lshdb"
_CONFIGURATION = {
    "delta.enableDeletionVectors": "false",
    "delta.enableExpiredLogCleanup": "false",
}
"""A file's rows are all there or none, and versions that ``commits`` names can be read."""
_JSON = ("index", "parameters", "edges", "counts")


@dataclass(frozen=True, slots=True)
class Commit:
    """A row of the table ``commits``: one state of the whole dataset.

    Attributes
    ----------
    commit_id : int
        0 for the first one, then one more each.
    committed_at : str
    operation : str
    format : int
        Of the dataset.
    posting_shift : int
        A bucket key shifted right by so many bits is its range.
    index : dict
        Format, uuid, times and versions of the index, and its next doc_id.
    parameters : dict
        Name to value.
    edges : dict or None
        How far edges and clusters had come.
    counts : dict
        Rows by table.
    versions : dict
        Versions by table.
    """

    commit_id: int
    committed_at: str
    operation: str
    format: int
    posting_shift: int
    index: dict[str, Any]
    parameters: dict[str, Any]
    edges: dict[str, Any] | None
    counts: dict[str, int]
    versions: dict[str, int]

    def row(self) -> dict[str, Any]:
        """Return the values by column."""
        names = ("commit_id", "committed_at", "operation", "format", "posting_shift")
        return {
            **{name: getattr(self, name) for name in names},
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
            plain = ("commit_id", "committed_at", "operation", "format", "posting_shift")
            values = {name: row[name] for name in plain}
            values |= {name: orjson.loads(row[name]) for name in _JSON}
            values["versions"] = {name: int(row[f"{name}_version"]) for name in NAMES}
            index_format = values["index"]["format"]
        except (KeyError, TypeError, ValueError) as error:
            raise DamageError(
                f"{path}/{COMMITS} has missing or invalid entries: {error}",
                hint="use another copy of the dataset",
            ) from error
        if index_format != INDEX_FORMAT:
            raise refuse_format(f"the index of the dataset {path}", index_format)
        return cls(**values)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that a version of a table has.

    Attributes
    ----------
    uri : str
        The whole path.
    file : NewFile
        The same as when it was added.
    """

    uri: str
    file: NewFile


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset, and the state of it that is read.

    Attributes
    ----------
    path : str
        A folder, or a URI that deltalake understands.
    options : mapping
        How deltalake reaches it (``storage_options``).
    commit : Commit
        What is read.
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
        posting_shift: int,
        options: Mapping[str, str] | None = None,
        beside: str = "",
    ) -> Dataset:
        """Create empty tables; the first :meth:`Change.commit` makes them a dataset.

        Parameters
        ----------
        path : str
        index, parameters : dict
        posting_shift : int
        options : mapping, optional
        beside : str
            Name of a file that is in the folder already.

        Raises
        ------
        IndexExistsError
            Something is there already, be it what is left of an attempt that did not end.
        LshdbError
            deltalake is not installed, or the tables cannot be written.
        """
        delta = load_delta()
        options = dict(options or {})
        local = local_folder(path)
        if (
            local is not None
            and local.exists()
            and (not local.is_dir() or any(one.name != beside for one in local.iterdir()))
        ):
            raise IndexExistsError(
                f"{path} exists already", hint="name a new path, or an empty folder"
            )
        for name in (*NAMES, COMMITS):
            schema = arrow_schema(name, parameters["metric"])
            uri = f"{path}/{name}"
            try:
                delta.DeltaTable.create(
                    uri,
                    schema,
                    partition_by=[RANGE] if name == "postings" else None,
                    configuration=_CONFIGURATION,
                    storage_options=options,
                )
            except (delta.exceptions.DeltaError, OSError) as error:
                if delta.DeltaTable.is_deltatable(uri, options):
                    raise IndexExistsError(
                        f"there is a table at {uri} already", hint="name a new path"
                    ) from error
                raise _failed(uri, error) from error
            _sync_log(uri, 0)
        commit = Commit(
            -1, timestamp(), "create", FORMAT, posting_shift, index, parameters, None,
            dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0),
        )  # fmt: skip
        return cls(path, options, commit)

    @classmethod
    def open(cls, path: str, *, options: Mapping[str, str] | None = None) -> Dataset:
        """Open the newest state.

        Raises
        ------
        IndexNotFoundError
            There is no dataset, or one whose creation did not end.
        FormatError, DamageError, DatabaseError
        """
        options = dict(options or {})
        commit, _ = _newest(path, options)
        if commit is None:
            raise IndexNotFoundError(
                f"the dataset {path} has no commit: making it did not end", hint="remove it"
            )
        return cls(path, options, commit)

    def newest(self) -> Dataset:
        """Return the same dataset as it is now."""
        return Dataset.open(self.path, options=self.options)

    def table(self, name: str) -> Any:
        """Return a table, as :class:`deltalake.DeltaTable`, at the version that is named."""
        return _table(f"{self.path}/{name}", self.options, self.commit.versions[name])

    def files(self, name: str, *, ranges: Iterable[int] | None = None) -> list[StoredFile]:
        """Return the files of a table, in order of path.

        Parameters
        ----------
        name : str
        ranges : iterable of int, optional
            Of the postings, only the files of these ranges.
        """
        found = _active(self.table(name))
        if ranges is not None:
            wanted = {str(one) for one in ranges}
            found = {path: one for path, one in found.items() if one.partition[RANGE] in wanted}
        return [StoredFile(f"{self.path}/{name}/{path}", found[path]) for path in sorted(found)]

    def schema(self, name: str) -> Any:
        """Return the Arrow schema of the files of a table: without partition columns."""
        import pyarrow as arrow

        whole = arrow_schema(name, self.commit.parameters["metric"])
        return arrow.schema([one for one in whole if one.name != RANGE])


@dataclass(slots=True)
class Change:
    """Files that are to come into the tables of a dataset, and that are to go.

    Attributes
    ----------
    base : Dataset
        The state that the change begins from; it must be the newest when it commits.
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
            In one word or a few, for people.
        **state
            Fields of :class:`Commit` that change: ``index``, ``parameters``, ``edges``,
            ``posting_shift``. Counts follow from the files.

        Raises
        ------
        LockedError
            Another writer has committed since the state was opened; nothing has changed.
        DatabaseError
            A table cannot be written; nothing has changed.
        """
        base = self.base.commit
        number = base.commit_id + 1
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
        active = _active(table)
        named = self.base.commit.versions[name]
        kept = active if table.version() == named else _active(self.base.table(name))
        kept = {path: one for path, one in kept.items() if path not in self.gone.get(name, ())}
        new = self.new.get(name, [])
        now = int(time.time() * 1000)
        actions: list[Any] = [one.action() for path, one in kept.items() if path not in active]
        actions += [one.action() for one in new]
        actions += [
            RemoveAction(path, True, now, one.size, dict(one.partition))
            for path, one in active.items()
            if path not in kept
        ]
        version = table.version()
        if actions:
            _commit(uri, table, actions, number, partitioned=name == "postings")
            version += 1
            _sync_log(uri, version)
        return version, sum(one.n_rows for one in (*kept.values(), *new))


def is_dataset(path: str, options: Mapping[str, str] | None = None) -> bool:
    """Return whether there is a dataset; only looks for the log of its commits."""
    local = local_folder(path)
    if local is not None:
        return (local / COMMITS / "_delta_log").is_dir()
    return bool(load_delta().DeltaTable.is_deltatable(f"{path}/{COMMITS}", dict(options or {})))


def vacuum(dataset: Dataset, *, retention_hours: int = 168) -> list[str]:
    """Remove files that no commit of the last hours names; return their paths.

    These are what replaced files were before, what writers left that did not end, and what tasks
    of Spark wrote twice. Files younger than the retention stay, since a writer may be about to
    commit them. So do those that the newest commit names, however old they are.

    Parameters
    ----------
    dataset : Dataset
        Its newest state.
    retention_hours : int
        No writer and no reader takes longer. With 0 there must be none.

    Raises
    ------
    LockedError, DatabaseError
        As for :meth:`Change.commit`.
    """
    # First the newest version of each table has to be what is named, or the log would have it
    # that files of a dead writer are in use, and that those which it took out are not.
    dataset = Change(dataset).commit("vacuum")
    oldest = as_timestamp(datetime.now(UTC) - timedelta(hours=retention_hours))
    commits = _table(f"{dataset.path}/{COMMITS}", dataset.options).to_pyarrow_table().to_pylist()
    kept = [row for row in commits if row["committed_at"] >= oldest]
    kept.append(dataset.commit.row())
    removed = []
    for name in NAMES:
        uri = f"{dataset.path}/{name}"
        table = _table(uri, dataset.options)
        arguments: dict[str, Any] = {
            "retention_hours": retention_hours, "enforce_retention_duration": False, "full": True,
            "keep_versions": sorted({row[f"{name}_version"] for row in kept}),
        }  # fmt: skip
        if table.vacuum(dry_run=True, **arguments):
            removed += [f"{name}/{path}" for path in table.vacuum(dry_run=False, **arguments)]
    return sorted(removed)


def local_folder(path: str) -> Path | None:
    """Return the folder on this machine, or None for another place."""
    return None if "://" in path else Path(path)


def _sync_log(uri: str, version: int) -> None:
    """Sync a log entry on this machine, and the folder that names it."""
    folder = local_folder(uri)
    if folder is None:
        return
    for place in (folder / "_delta_log" / f"{version:020d}.json", folder / "_delta_log", folder):
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
            f"there is no table {uri}", hint="name a folder that lshdb export --format delta wrote"
        ) from error
    except (delta.exceptions.DeltaError, OSError) as error:
        raise _failed(uri, error) from error


def _active(table: Any) -> dict[str, NewFile]:
    """Return the files of a version of a table, by path."""
    import pyarrow as arrow

    found = {}
    for row in arrow.table(table.get_add_actions(flatten=True)).to_pylist():
        lows, highs = (
            {
                name.removeprefix(kind): value
                for name, value in row.items()
                if name.startswith(kind) and isinstance(value, int)
            }
            for kind in ("min.", "max.")
        )
        partition = {
            name.removeprefix("partition."): str(value)
            for name, value in row.items()
            if name.startswith("partition.")
        }
        found[row["path"]] = NewFile(
            row["path"], row["size_bytes"], row["num_records"], partition, lows, highs
        )
    return found


def _commit(
    uri: str, table: Any, actions: Sequence[Any], number: int, *, partitioned: bool
) -> None:
    """Commit actions to a table as it was read, as its next version."""
    delta = load_delta()
    try:
        table.create_write_transaction(
            list(actions),
            "append",
            table.schema(),
            [RANGE] if partitioned else [],
            commit_properties=_properties(number),
            post_commithook_properties=_hooks(),
        )
    except delta.exceptions.CommitFailedError as error:
        raise _overtaken(uri) from error
    except (delta.exceptions.DeltaError, OSError) as error:
        raise _failed(uri, error) from error


def _properties(number: int) -> Any:
    """Return what makes a transaction fail if the table has changed since it was read."""
    delta = load_delta()
    return delta.CommitProperties(
        app_transactions=[delta.Transaction(_APPLICATION, number)], max_commit_retries=0
    )


def _hooks() -> Any:
    return load_delta().PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


def _newest(path: str, options: Mapping[str, str]) -> tuple[Commit | None, int]:
    """Return the newest commit, if there is one, and the version of ``commits`` that has it."""
    table = _table(f"{path}/{COMMITS}", options)
    last = max((one.highs["commit_id"] for one in _active(table).values()), default=None)
    if last is None:
        return None, table.version()
    found = table.to_pyarrow_table(filters=[("commit_id", "=", last)]).to_pylist()
    return Commit.of_row(found[0], path), table.version()


def _append(path: str, options: Mapping[str, str], commit: Commit, version: int) -> None:
    """Add a row to ``commits``, which must be at that version still."""
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
    return DatabaseError(f"the table {uri} cannot be read or written: {error}")
