"""What Spark, Hadoop and Dask write beside their data, which is no data.

A job leaves ``_SUCCESS``, ``_started_7``, ``_committed_7``, ``_metadata``, ``_spark_metadata/``,
``_temporary/`` or ``_delta_log/`` beside its files, and ``hadoop fs -put`` names a file
``x._COPYING_`` until all of it is there. These programs pass over each name that begins with ``_``
(but not ``_year=2026``, a partition), and whatever lies below it.

Decided: so it is here, in folders of records. In folders of texts, such names are documents like
others, but for a few that only jobs write: the posts of a website lie in ``_posts``. A folder
counts as one of records if files with the endings of records are as many as texts; of files below
such names, only texts with an ending count then. A name that is given is read whatever it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from lshdb.documents.io.folders import (
    FoundFile,
    WalkCounts,
    ending_of,
    format_of_name,
    kind_of_name,
)

__all__ = ["has_marker_name", "is_part", "marker_of", "without_markers"]

_UNFINISHED = "._COPYING_"
_OF_PROGRAMS = (".crc", _UNFINISHED.lower())
_PART = re.compile(r"part[-.]|.*-\d{5,}-of-\d{5,}|.*-\d{12}(?:\.|$)", re.IGNORECASE)
_JOB_ENDED = re.compile(r"_SUCCESS|_(?:started|committed)_\d+|_spark_metadata")


def has_marker_name(name: str) -> bool:
    """Return whether Spark and Hadoop pass over a file or folder of this name."""
    return (name.startswith("_") and "=" not in name) or name.endswith(_UNFINISHED)


def is_part(path: str, jobs: dict[str, bool]) -> bool:
    """Return whether a file is one of many that a job wrote, by its name or by what lies beside.

    Parameters
    ----------
    jobs : dict of str to bool
        Whether a job has written to a folder, for those that were looked at; filled in.
    """
    folder, name = os.path.split(path)
    if _PART.match(name):
        return True
    if folder not in jobs:
        try:
            jobs[folder] = any(map(_JOB_ENDED.fullmatch, os.listdir(folder or os.curdir)))
        except OSError:
            jobs[folder] = False
    return jobs[folder]


def without_markers(
    root: str, files: Sequence[FoundFile], counts: WalkCounts, *, are_records: bool
) -> list[FoundFile]:
    """Return the files below a folder of records, without marker files.

    Parameters
    ----------
    root : str
        The folder; names in it count, and not its own.
    files : sequence of FoundFile
    counts : WalkCounts
        What is left out is counted here.
    are_records : bool
        Whether the caller says that they are records.
    """
    markers = [marker_of(file.path, root) for file in files]
    if not any(markers):
        return list(files)
    if not (are_records or _holds_records(files, markers)):
        markers = [file if file and _is_of_job(file) else None for file in markers]
    for _ in filter(None, dict.fromkeys(markers)):
        counts.leave("markers")
    return [file for file, marker in zip(files, markers, strict=True) if marker is None]


def _is_of_job(path: str) -> bool:
    return _JOB_ENDED.fullmatch(os.path.basename(path)) is not None


def marker_of(path: str, root: str) -> str | None:
    """Return the first part of a path below the root that is a marker; None if none is."""
    start = len(root.rstrip("/")) + 1 if root else 0
    end = start
    for name in path[start:].split("/"):
        end += len(name) + 1
        if has_marker_name(name):
            return path[: end - 1]
    return None


def _holds_records(files: Sequence[FoundFile], markers: Sequence[str | None]) -> bool:
    n_records = n_texts = 0
    n_least = 0 if any(map(_is_of_job, filter(None, markers))) else 1
    for file, marker in zip(files, markers, strict=True):
        ending = ending_of(file.path)
        n_records += marker is None and format_of_name(file.path) is not None
        n_texts += kind_of_name(file.path) == "text" and ending not in ("", *_OF_PROGRAMS)
    return n_records >= max(n_texts, n_least)
