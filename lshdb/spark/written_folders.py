"""Answers and clean rows -> folders of files, which the executors write.

Spark's committer collects the output of one attempt of each task below ``_temporary``, moves it to
its place when all tasks have ended, and writes ``_SUCCESS`` last. So a folder without ``_SUCCESS``
is not whole. What a job that ended early has left, which is nothing but ``_temporary``, is removed
by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Unpack

import pyarrow as pa
from pyspark.sql import Column, DataFrame, DataFrameWriter, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from lshdb.documents.formats.passthrough import MARKS
from lshdb.errors import InputError, ParameterError
from lshdb.spark.cached_frames import persisted
from lshdb.spark.named_jobs import counted_rows, named_job
from lshdb.spark.session import FileFormat, ReadingOptions, file_system, read_format
from lshdb.spark.signing import column_name, mapped

__all__ = ["FileRecords", "check_folder", "printable", "write_answer"]

MOST_PRINTED = 10_000_000
"""One process prints so many rows in a minute or two, and the executors of a cluster wait."""

_LINE = "lshdb_line"
_COMMITTER = {
    # The other algorithm moves files to their place as their tasks end.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "true",
}
_CSV = {"header": "true", "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
_LEFT = "_temporary"


def check_folder(session: SparkSession, path: str) -> None:
    """Raise InputError if there is anything at a path but what an unfinished job has left.

    Parameters
    ----------
    session : SparkSession
        Knows the file system.
    path : str
        A folder to write, as Spark names it.

    Raises
    ------
    InputError
    """
    reached = file_system(session, path)
    if reached is None:
        return  # a client of Connect: the server refuses a folder that exists
    system, place = reached
    if not system.exists(place):
        return
    names = [status.getPath().getName() for status in system.listStatus(place)]
    if system.getFileStatus(place).isFile() or any(name != _LEFT for name in names):
        raise InputError(
            f"{path} exists already and is not empty",
            hint="name a new folder, or remove this one",
        )
    system.delete(place, True)


def printable(rows: DataFrame) -> DataFrame:
    """Compute an answer that one process will print, and return it.

    Raises
    ------
    ParameterError
        It has more than ``MOST_PRINTED`` rows.
    """
    answer = persisted(rows)
    n = counted_rows(answer, "answering", "rows")
    if n > MOST_PRINTED:
        raise ParameterError(
            f"the answer has {n:,} rows, and one process prints {MOST_PRINTED:,} at most",
            hint="name a folder, and the executors write them: --output FOLDER/",
        )
    return answer


def write_answer(rows: DataFrame, path: str, output_format: str | None = None) -> int:
    """Write an answer to a new folder; return the number of rows.

    Parameters
    ----------
    rows : DataFrame
        The answer, which is written in any order.
    path : str
        The folder, on any file system that the session reaches.
    output_format : {"parquet", "csv", "jsonl"}, optional
        Parquet by default. CSV has six decimals, as on one machine.

    Raises
    ------
    InputError
        There is something at the path.
    """
    if output_format == "csv":
        cells = _with_decimals(rows)
        return _written(cells, path, lambda to: to.options(**_CSV, escape='"').csv(path))
    if output_format == "jsonl":
        return _written(rows, path, lambda to: to.option("ignoreNullFields", "false").json(path))
    return _written(rows, path, lambda to: to.parquet(path))


def _with_decimals(rows: DataFrame) -> DataFrame:
    """Return rows whose similarities have six decimals, as one machine writes them.

    Spark's own formats round halves another way: 1 / 128 would be 0.007813.
    """
    fields = [
        st.StructField(field.name, st.StringType()) if field.dataType == st.DoubleType() else field
        for field in rows.schema.fields
    ]
    if fields == rows.schema.fields:
        return rows
    return rows.mapInArrow(mapped(_decimal_batches), st.StructType(fields))


def _decimals(value: float | None) -> str | None:
    return None if value is None else f"{value:.6f}"


def _decimal_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = [
            pa.array(map(_decimals, column.to_pylist()), pa.string())
            if pa.types.is_float64(column.type)
            else column
            for column in batch.columns
        ]
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _written(
    rows: DataFrame,
    path: str,
    write: Callable[[DataFrameWriter], None],
    partitions: Sequence[str] = (),
) -> int:
    check_folder(rows.sparkSession, path)
    seen = Observation()
    writer = rows.observe(seen, sf.count("*").alias("n")).write.options(**_COMMITTER)
    with named_job(rows.sparkSession, "answering into a folder") as counts:
        write(writer.partitionBy(*partitions) if partitions else writer)
        counts["rows"] = int(seen.get["n"])
    return counts["rows"]


@dataclass(frozen=True, slots=True)
class FileRecords:
    """The records of files of one format, to be written again without some of them.

    Attributes
    ----------
    rows : DataFrame
        All columns of the files, and those of partitions. Of JSON Lines, the fields that are asked
        for, and each line as it is.
    format : FileFormat
        How the files are written.
    """

    rows: DataFrame
    format: FileFormat

    @classmethod
    def read(
        cls, session: SparkSession, paths: Sequence[str], **how: Unpack[ReadingOptions]
    ) -> FileRecords:
        """Read files; parameters and errors are those of :func:`lshdb.spark.read_files`."""
        frame, form = read_format(session, paths, **how)
        if form.name != "jsonl":
            return cls(frame, form)
        lines = session.read.option("lineSep", "\n").text(list(paths))
        fields = sf.from_json("value", frame.schema).alias("fields")
        names = [name for name in lines.columns if name != "value"]  # of partitions
        asked = [
            sf.col(f"fields.{column_name(name)}").alias(name)
            for name in frame.columns
            if name not in names
        ]
        rows = lines.select(sf.col("value").alias(_LINE), fields, *map(column_name, names))
        return cls(rows.select(_LINE, *asked, *map(column_name, names)), form)

    def write(self, rows: DataFrame, path: str) -> int:
        """Write some of the records to a new folder, and return their number.

        Lines of JSON are written byte for byte, and marked ones with further fields; others have
        the columns that they had. Folders of partitions are those of the input.

        Parameters
        ----------
        rows : DataFrame
            Some of :attr:`rows`, which may have marks.
        path : str
            The folder.

        Raises
        ------
        InputError
            There is something at the path.
        """
        parts = self._partitions()
        if self.format.name == "parquet":
            return _written(rows, path, lambda to: to.parquet(path), parts)
        if self.format.name == "jsonl":
            is_marked = MARKS[0] in rows.columns
            line = _marked(rows) if is_marked else sf.col(_LINE)
            lines = rows.select(line.alias("value"), *map(column_name, parts))
            return _written(lines, path, lambda to: to.option("lineSep", "\n").text(path), parts)
        quote = self.format.quote
        cells = {**_CSV, "sep": self.format.separator, "quote": quote, "escape": quote}
        return _written(rows, path, lambda to: to.options(**cells).csv(path), parts)

    def _partitions(self) -> list[str]:
        """Return the columns of the input's folders, such as ``date=2026-01-01``."""
        folders = next(iter(self.rows.inputFiles()), "").split("/")[:-1]
        names = [folder.partition("=")[0] for folder in folders if "=" in folder]
        return [name for name in names if name in self.rows.columns]


def _marked(rows: DataFrame) -> Column:
    """Return lines of JSON with marks as further fields; what is no object has none."""
    line = sf.col(_LINE)
    marks = sf.to_json(sf.struct(*MARKS), {"ignoreNullFields": "false"})
    is_marked = sf.get_json_object(line, f"$.{MARKS[0]}").isNotNull()
    refused = sf.raise_error(sf.lit(f"a line has a field {MARKS[0]!r} already: it is marked"))
    opened = sf.regexp_replace(line, r"\}\s*$", "")
    end = sf.regexp_extract(line, r"\}(\s*)$", 1)
    comma = sf.when(opened.rlike(r"^\s*\{\s*$"), "").otherwise(",")
    is_object = sf.try_parse_json(line).isNotNull() & line.rlike(r"^\s*\{")
    return (
        sf.when(is_marked, refused.cast("string"))
        .when(is_object, sf.concat(opened, comma, sf.substr(marks, sf.lit(2)), end))
        .otherwise(line)
    )
