"""Folders in which Hugging Face keeps a dataset: Arrow files, and JSON that describes them.

``save_to_disk`` writes ``data-00000-of-00002.arrow`` and so on, ``state.json`` and
``dataset_info.json``; for several splits a folder for each, and ``dataset_dict.json`` above them.
``cache-*.arrow`` are results of operations on the rows, which hold the rows once more.

A file of its own, because it is about one program's folders.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from lshdb.arguments import printable
from lshdb.errors import InputError

if TYPE_CHECKING:
    from lshdb.documents.io.source import InputFile

__all__ = ["described_anew", "descriptions_of", "without_descriptions"]

_STATE = "state.json"
_DESCRIPTIONS = {_STATE, "dataset_info.json"}
_SPLITS = "dataset_dict.json"


def without_descriptions(sources: Iterable[InputFile]) -> list[InputFile]:
    """Return sources without what only describes a dataset beside them; named ones all stay."""
    every = list(sources)
    places = {os.path.dirname(source.path) for source in every if source.path.endswith(".arrow")}
    above = {os.path.dirname(place) for place in places}
    return [
        source for source in every if source.is_named or not _describes(source.path, places, above)
    ]


def _describes(path: str, places: set[str], above: set[str]) -> bool:
    folder, name = os.path.split(path)
    if folder in places:
        is_cache = name.startswith("cache-") and name.endswith(".arrow")
        return is_cache or name in _DESCRIPTIONS
    return folder in above and name == _SPLITS


def descriptions_of(paths: Iterable[str]) -> list[str]:
    """Return the files that describe datasets, if all Arrow files of the dataset are given."""
    known_paths = {os.path.abspath(path) for path in paths}
    descriptions: dict[str, None] = {}
    for folder in sorted(
        {os.path.dirname(path) for path in known_paths if path.endswith(".arrow")}
    ):
        described = [os.path.join(folder, name) for name in sorted(_DESCRIPTIONS)]
        try:
            with open(os.path.join(folder, _STATE), "rb") as file:
                state = json.load(file)
            files = {os.path.join(folder, part["filename"]) for part in state["_data_files"]}
        except (OSError, ValueError, KeyError, TypeError):
            continue  # no dataset, and its Arrow files are files like others
        if files <= known_paths and all(map(os.path.isfile, described)):
            above = os.path.join(os.path.dirname(folder), _SPLITS)
            descriptions |= dict.fromkeys([*described, *([above] if os.path.isfile(above) else [])])
    return list(descriptions)


def described_anew(path: str, fields: Mapping[str, str]) -> bytes:
    """Return a description for the dataset with other rows, and perhaps more fields.

    Parameters
    ----------
    fields : mapping of str to str
        Further fields and their types.

    Raises
    ------
    InputError
        It cannot be read.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
        content = json.loads(data)
        if os.path.basename(path) == _STATE:
            # Results of operations are cached by the fingerprint of the rows.
            content["_fingerprint"] = hashlib.sha256(data + os.urandom(16)).hexdigest()[:16]
        elif fields and isinstance(content.get("features"), dict):
            content["features"] |= {
                name: {"dtype": kind, "_type": "Value"} for name, kind in fields.items()
            }
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{printable(path)} does not describe a dataset: {error}") from error
    return json.dumps(content, indent=2).encode()
