"""Folders in which Hugging Face keeps a dataset: Arrow files, and JSON that describes them.

``save_to_disk`` writes ``data-00000-of-00002.arrow`` and so on, ``state.json`` and
``dataset_info.json``; for several splits a folder for each, and ``dataset_dict.json`` above them.
``cache-*.arrow`` are results of operations on the rows, which hold the rows once more.

A file of its own, because it is about one program's folders.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lshdb.documents.io.sources import Source

__all__ = ["without_descriptions"]

_DESCRIPTIONS = {"state.json", "dataset_info.json"}
_SPLITS = "dataset_dict.json"


def without_descriptions(sources: Iterable[Source]) -> list[Source]:
    """Return sources without what only describes a dataset beside them; named ones all stay."""
    every = list(sources)
    places = {os.path.dirname(one.path) for one in every if one.path.endswith(".arrow")}
    above = {os.path.dirname(place) for place in places}
    return [one for one in every if one.is_named or not _describes(one.path, places, above)]


def _describes(path: str, places: set[str], above: set[str]) -> bool:
    folder, name = os.path.split(path)
    if folder in places:
        is_cache = name.startswith("cache-") and name.endswith(".arrow")
        return is_cache or name in _DESCRIPTIONS
    return folder in above and name == _SPLITS
