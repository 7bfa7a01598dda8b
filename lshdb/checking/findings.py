"""What a check says: a finding names what is wrong, where, what it affects and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lshdb.errors import LshdbError
from lshdb.storage.snapshot import Snapshot

__all__ = ["Finding", "counted", "documents_affected"]

_KEYS_NAMED = 3
_REPAIR = "run lshdb check --repair, or restore the index from a copy"
_ADVICE = {
    "database": f"{_REPAIR}; find out what the disk has, as others of its files may be damaged",
    "signatures": f"{_REPAIR}; rows are made again from texts, or proved by their postings",
    "vectors": f"{_REPAIR}; documents whose vector cannot be proved are moved into a file",
    "document": f"{_REPAIR}; what cannot be proved is moved into a file",
    "text": f"{_REPAIR}; documents without their text are moved into a file",
    "edge": f"{_REPAIR}; edges are found again when clusters are asked for",
    "cluster": f"{_REPAIR}; clusters are found again when they are asked for",
}
"""By kind; for others ``_REPAIR``."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it was written.

    Attributes
    ----------
    kind : str
        What is damaged: ``database``, ``header`` (of a row file), ``signatures``, ``vectors``,
        ``block`` (checksums of rows), ``run``, ``posting``, ``bucket size``, ``document``,
        ``text``, ``batch``, ``state``, ``release``, ``edge``, ``cluster`` or ``count``.
    where : str
        File with rows and bytes, or table with the row.
    what : str
        What was found and what was expected.
    affected : str
        Keys of documents, or how many there are of what; what cannot be trusted.
    """

    kind: str
    where: str
    what: str
    affected: str

    @property
    def advice(self) -> str:
        """What to do next."""
        return _ADVICE.get(self.kind, _REPAIR)


def counted(n: int, what: str) -> str:
    """A number with what is counted, in the plural where it is."""
    return f"{n:,} {what}{'s' * (n != 1)}"


def documents_affected(snapshot: Snapshot, condition: str, parameters: tuple[Any, ...]) -> str:
    """Number and first keys of the documents under a condition on the table ``document``.

    Parameters
    ----------
    snapshot : Snapshot
    condition : str
        For ``WHERE``; one that an index answers.
    parameters : tuple
    """
    try:
        (count,) = snapshot.execute(
            f"SELECT count(*) FROM document WHERE {condition}", parameters
        ).fetchone()
        keys = snapshot.execute(
            f"SELECT key FROM document WHERE {condition} LIMIT {_KEYS_NAMED + 1}", parameters
        ).fetchall()
    except LshdbError:
        return "documents that cannot be read"
    if not count:
        return "no document"
    names = [str(key) for (key,) in keys[:_KEYS_NAMED]] + ["..."] * (len(keys) > _KEYS_NAMED)
    return f"{counted(count, 'document')}: {', '.join(names)}"
