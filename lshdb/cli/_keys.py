"""Keys on the command line, which may be copied from a listing.

A key is looked up as it stands. If no document has it, and it could be what a listing writes for
another key, with a backslash as ``\\\\`` and a tab as ``\\t``, that one is looked up. Only for
commands that read: ``remove KEY`` takes a key as it stands. Several commands use this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lshdb import Index

if TYPE_CHECKING:
    from lshdb import TransientIndex

__all__ = ["document_key"]

_Key = TypeVar("_Key", str, "str | None")


def document_key(index: Index | TransientIndex, key: _Key) -> _Key:
    """Return the key of the document that the user means; an unknown key unchanged."""
    if key is None or "\\" not in key or key in index:
        return key
    from lshdb.documents.written_keys import unescaped

    try:
        meant = unescaped(key)
    except ValueError:
        return key
    return meant if meant in index else key
