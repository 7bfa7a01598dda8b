"""The file with documents that could not be kept: JSON Lines, made when the first is written.

A line has ``id`` and, if it is proved, ``text`` or ``vector``: fields of ``lshdb add``, which puts
such a document back. ``reason`` says why it is out; ``unproved_text``, ``unproved_vector`` and
``row`` are what was found of the rest, as it was found.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import orjson

from lshdb.disksort.descriptors import sync_file
from lshdb.storage.place.directory import sync_directory

__all__ = ["Quarantine"]


class Quarantine:
    """A file beside the index; a context manager that removes it unless it is kept.

    Parameters
    ----------
    index : Path
        The file is ``<index>.quarantine-<time>.jsonl``, in the same folder.

    Attributes
    ----------
    keys : list of str
        Keys of the documents in it; ``?`` for an unknown key.
    path : Path or None
        None while there are none.
    """

    def __init__(self, index: Path) -> None:
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        self._place = index.with_name(f"{index.name}.quarantine-{now}.jsonl")
        self._file: IO[bytes] | None = None
        self.keys: list[str] = []
        self.path: Path | None = None

    def __enter__(self) -> Quarantine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()
        if self.path is not None and kind is not None:
            self.path.unlink(missing_ok=True)

    def put(self, key: str | None, reason: str, **known: Any) -> None:
        """Write one document.

        Parameters
        ----------
        key : str or None
        reason : str
            Why it is out.
        **known
            More fields; bytes are written as hexadecimal digits, None is left out.
        """
        if self._file is None:
            self._file, self.path = open(self._place, "xb"), self._place  # noqa: SIM115
        fields = {name: value for name, value in known.items() if value is not None}
        record = {"id": key, **fields, "reason": reason}
        self._file.write(orjson.dumps(record, default=_shown) + b"\n")
        self.keys.append(key if key is not None else "?")

    def keep(self) -> None:
        """Make the file durable: its documents are about to leave the index."""
        if self._file is not None:
            self._file.flush()
            sync_file(self._file.fileno())
            sync_directory(self._place.parent)


def _shown(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)
