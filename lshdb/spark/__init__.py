"""The same questions on Apache Spark: data frame in, data frame out. Public names, nothing else.

The stages call the code of one machine (``shingling/``, ``signatures/``, ``search/``) on batches of
Arrow columns where the data lies. Spark sorts, joins and moves what they need.

A name is imported on first use, because pyspark is an extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lshdb.arrays import limit_blas

if TYPE_CHECKING:  # the same names for type checkers; a test compares the two
    from lshdb.spark.cached_frames import release as release
    from lshdb.spark.dataset_index import Index as Index
    from lshdb.spark.frame_answers import Answers as Answers
    from lshdb.spark.frame_answers import clusters as clusters
    from lshdb.spark.frame_answers import dedup as dedup
    from lshdb.spark.frame_answers import deduplicate as deduplicate
    from lshdb.spark.frame_answers import large_buckets as large_buckets
    from lshdb.spark.frame_answers import loss as loss
    from lshdb.spark.frame_answers import neighbors as neighbors
    from lshdb.spark.frame_answers import pairs as pairs
    from lshdb.spark.frame_answers import rejected as rejected
    from lshdb.spark.named_jobs import running as running
    from lshdb.spark.session import connect as connect
    from lshdb.spark.session import read_files as read_files
    from lshdb.spark.session import sparks_errors as sparks_errors
    from lshdb.spark.written_folders import FileRecords as FileRecords
    from lshdb.spark.written_folders import check_folder as check_folder
    from lshdb.spark.written_folders import printable as printable
    from lshdb.spark.written_folders import write_answer as write_answer

limit_blas()  # an executor unpickles functions of the modules below, by their names

_HOMES = {
    "cached_frames": "release",
    "dataset_index": "Index",
    "frame_answers": (
        "Answers clusters dedup deduplicate large_buckets loss neighbors pairs rejected"
    ),
    "named_jobs": "running",
    "session": "connect read_files sparks_errors",
    "written_folders": "FileRecords check_folder printable write_answer",
}
"""Module to the public names that it holds."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME_OF)  # pyright: ignore[reportUnsupportedDunderAll]  # noqa: PLE0605


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    try:
        home = importlib.import_module(f"{__name__}.{_HOME_OF[name]}")
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in (
            "pyspark",
            "pyarrow",
            "py4j",
            "pandas",
            "deltalake",
        ):
            raise
        from lshdb.errors import ParameterError, install_command

        raise ParameterError(
            f"lshdb.spark needs {error.name}, which is not installed",
            hint=install_command("spark"),
        ) from error
    value = getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
