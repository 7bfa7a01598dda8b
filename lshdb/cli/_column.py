"""A column of a listing, in a module of its own because tables, Parquet and output all need it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Column"]


class Column(NamedTuple):
    """A column of a listing.

    Attributes
    ----------
    name : str
        Name in the header of CSV and the objects of JSON Lines.
    kind : {"text", "number", "similarity", "prose", "auto"}
        Text is cropped if a table has no room for it. Prose comes last and is folded. Auto is a
        number or text, decided by the values.
    title : str
        Title in a table; the name if empty.
    """

    name: str
    kind: str = "text"
    title: str = ""
