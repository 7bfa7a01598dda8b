"""The manifest ``index.json`` of an export: its contents, and each file's size and checksum."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from lshdb.errors import DamageError, FormatError, InputError, LshdbError, system_hint
from lshdb.exchange.tables import MORE_TABLES, TABLES
from lshdb.files.descriptors import sync_file
from lshdb.files.own_files import open_given

__all__ = [
    "FIELD_FORMAT",
    "MANIFEST",
    "METRIC_FORMAT",
    "TEXT_FORMAT",
    "Manifest",
    "describe",
    "read_manifest",
    "verify_files",
]

TEXT_FORMAT = 1
"""Format number of exports of texts under Jaccard similarity, which earlier versions read."""
METRIC_FORMAT = 2
"""Format number of all other exports; with stored vectors there is a file ``vectors.npy``."""
FIELD_FORMAT = 3
"""Format number of an export, of any metric, with kept fields, nights or cursors."""
MANIFEST = "index.json"
_COUNTED = (*TABLES, "signatures", "postings")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of ``index.json``.

    Attributes
    ----------
    export_format : int
        :data:`TEXT_FORMAT`, :data:`METRIC_FORMAT` or :data:`FIELD_FORMAT`.
    tables : {"jsonl", "parquet"}
        Format of the tables.
    index : dict
        The index's format, uuid, created_at, library_version, unicode_version, next_doc_id,
        index_bands.
    parameters : dict
        Name to value.
    edges : dict or None
        The state of edges and clusters.
    counts : dict
        Rows by table, with ``signatures``, ``postings`` and, if they are kept, ``vectors``.
    files : dict
        Name to ``bytes`` and ``blake2b`` (32 bytes, hexadecimal).
    """

    export_format: int
    tables: str
    index: dict[str, Any]
    parameters: dict[str, Any]
    edges: dict[str, Any] | None
    counts: dict[str, int]
    files: dict[str, dict[str, Any]]

    @property
    def has_more(self) -> bool:
        """Whether there are the tables of kept fields, nights and cursors."""
        return self.export_format == FIELD_FORMAT

    def write(self, folder: Path) -> None:
        """Write the file and sync it."""
        with open(folder / MANIFEST, "xb") as file:
            file.write(orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2) + b"\n")
            file.flush()
            sync_file(file.fileno())


def describe(path: Path) -> dict[str, Any]:
    """Sync a file and return its size and checksum."""
    with open(path, "rb", opener=open_given) as file:
        sync_file(file.fileno())
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32))
        return {"bytes": file.tell(), "blake2b": digest.hexdigest()}


def _advice(folder: Path) -> str:
    if (folder / "index.toml").exists():
        return f"it is an index: lshdb copy {folder} NEW copies it"
    return "name a directory that lshdb export wrote"


def read_manifest(folder: Path) -> Manifest:
    """Read ``index.json``.

    Raises
    ------
    InputError
        The directory holds no export.
    FormatError
        The export has a format that this version does not read.
    DamageError
        The file is not a valid manifest.
    """
    path = folder / MANIFEST
    try:
        with open(path, "rb", opener=open_given) as file:
            entries = orjson.loads(file.read())
    except OSError as error:
        raise InputError(
            f"there is no export at {folder}: {path}: {error.strerror}",
            hint=system_hint(error) or _advice(folder),
        ) from error
    except ValueError as error:
        raise _damage(path, f"is not JSON: {error}") from error
    number = entries.get("export_format") if isinstance(entries, dict) else None
    if type(number) is not int:
        raise _damage(path, "has no export_format")
    if number not in (TEXT_FORMAT, METRIC_FORMAT, FIELD_FORMAT):
        raise FormatError(
            f"the export {folder} has format {number}, but this version reads up to {FIELD_FORMAT}",
            hint="import it with the lshdb version that wrote it"
            if number < TEXT_FORMAT
            else "install a newer lshdb, which wrote it",
        )
    try:
        manifest = Manifest(**entries)
    except TypeError as error:
        raise _damage(path, f"has missing or invalid entries: {error}") from error
    parts = (manifest.index, manifest.parameters, manifest.counts, manifest.files)
    is_good = manifest.tables in ("jsonl", "parquet") and all(isinstance(p, dict) for p in parts)
    counted = (*_COUNTED, *(MORE_TABLES if manifest.has_more else ()))
    if not is_good or any(type(manifest.counts.get(name)) is not int for name in counted):
        raise _damage(path, "has missing or invalid entries")
    return manifest


def verify_files(folder: Path, manifest: Manifest, names: list[str]) -> None:
    """Compare files with the sizes and checksums in the manifest.

    Raises
    ------
    DamageError
        A file is missing or has changed; the error names it.
    LshdbError
        A file cannot be read, for a reason other than damage, such as permissions.
    """
    for name in names:
        expected = manifest.files.get(name)
        if not isinstance(expected, dict):
            raise _damage(folder / MANIFEST, f"does not list {name}")
        try:
            stored = describe(folder / name)
        except OSError as error:
            hint = system_hint(error)
            if hint is not None:
                words = f"{folder / name} cannot be read: {error.strerror}"
                raise LshdbError(words, hint=hint) from error
            raise _damage(folder / name, f"cannot be read: {error.strerror}") from error
        for what in ("bytes", "blake2b"):
            if stored[what] != expected.get(what):
                raise _damage(
                    folder / name, f"has {what} {stored[what]}, expected {expected.get(what)}"
                )


def _damage(path: Path, what: str) -> DamageError:
    return DamageError(f"{path} {what}", hint="export the index again, or use another copy")
