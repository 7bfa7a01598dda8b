"""Read the tables of a dataset as data frames of Spark, and write data frames as new files.

Spark does not read Delta's log here: it reads the files that the log names, and the driver commits
the files that it writes. Where few rows of a table are looked up, it reads the files that may have
them, by the smallest and largest values in the log. New files go to a folder of their own inside
the folder of the table. Spark's committer moves the output of one attempt of each task there, so a
task that is lost, retried or run twice leaves no further file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lshdb.dataset.commits import Change, Dataset, StoredFile, local_folder
from lshdb.dataset.dataset_tables import FILE_POSTINGS, arrow_schema
from lshdb.dataset.table_files import NewFile, TableWriter, described_file
from lshdb.errors import DamageError
from lshdb.spark.hash_filter import rows_among
from lshdb.spark.session import file_system
from lshdb.spark.signing import mapped

__all__ = ["Frames", "spark_path"]


_TYPES = {
    "int64": "bigint", "string": "string", "binary": "binary", "double": "double",
}  # fmt: skip
_LISTS = "array<string>"
_WRITING = {
    "compression": "zstd",
    "parquet.page.write-checksum.enabled": "true",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_DIFFERENCES = {"parquet.writer.version": "v2", "parquet.enable.dictionary": "false"}
"""Numbers are written as differences: 4.6 bytes a posting of 125,000 documents instead of 5.5."""


def spark_path(path: str) -> str:
    """Return a path that Spark reads the same way for any default file system."""
    return path if "://" in path else f"file://{os.path.abspath(path)}"


def _place(name: str, path: str) -> str:
    """Return the path of a file inside its table, from its path in Spark."""
    return path.rpartition(f"/{name}/")[2]


def _bounds(
    files: Iterable[StoredFile], column: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the smallest and largest values of files; of unknown ones, those of the type."""
    lows = [stored.file.lows.get(column, -(2**63)) for stored in files]
    highs = [stored.file.highs.get(column, 2**63 - 1) for stored in files]
    return np.array(lows, dtype=np.int64), np.array(highs, dtype=np.int64)


def _place_batches(
    lows: NDArray[np.int64], highs: NDArray[np.int64], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the places of the files that may hold numbers, by the first and last of each file."""
    for batch in batches:
        numbers = np.sort(batch.column(0).to_numpy())
        starts, ends = np.searchsorted(numbers, lows), np.searchsorted(numbers, highs, "right")
        places = np.flatnonzero(starts < ends)
        yield pa.RecordBatch.from_arrays([pa.array(places)], names=["at"])


@dataclass(frozen=True, slots=True)
class Frames:
    """The tables of one state of a dataset.

    Attributes
    ----------
    spark : SparkSession
        Reads and writes them.
    dataset : Dataset
        The state.
    """

    spark: SparkSession
    dataset: Dataset

    def read(self, name: str) -> DataFrame:
        """Return a table."""
        return self.read_files(name, self.dataset.files(name))

    def read_files(self, name: str, files: Iterable[StoredFile]) -> DataFrame:
        """Return the rows of some files of a table."""
        paths = [spark_path(stored.uri) for stored in files]
        if not paths:
            return self.spark.createDataFrame([], self._schema(name))
        try:
            return self.spark.read.schema(self._schema(name)).parquet(*paths)
        except AnalysisException as error:
            raise DamageError(
                f"a file of the table {self.dataset.path}/{name} is missing: "
                f"{str(error).partition(' SQLSTATE')[0]}",
                hint="another program has removed it, such as Delta's own vacuum: ask again, and "
                "if it stays missing, use another copy of the dataset",
            ) from error

    def rows_having(self, name: str, values: DataFrame) -> DataFrame:
        """Return the rows of a table that have one of some numbers; read no file without them.

        Parameters
        ----------
        name : str
            The table.
        values : DataFrame
            Numbers, in a column of the same name as that of the table; read three times.
        """
        (column,) = values.columns
        files = self.dataset.files(name)
        bounds = _bounds(files, column)
        wanted = values.where(sf.col(column).isNotNull())
        places = wanted.mapInArrow(mapped(_place_batches, *bounds), "at bigint")
        rows = self.read_files(name, [files[row["at"]] for row in places.distinct().collect()])
        return rows_among(rows, column, wanted).join(wanted, column, "left_semi")

    def write(self, name: str, rows: DataFrame, **options: str) -> list[NewFile]:
        """Write rows as new files of a table, and describe them; they are not committed yet."""
        folder = f"{self.dataset.path}/{name}/spark-{uuid.uuid4()}"
        writer = rows.select(*self._names(name)).write.options(**_WRITING, **options)
        writer.parquet(spark_path(folder))
        return self._described(name, folder)

    def write_postings(self, rows: DataFrame, *, segment: int, n: int) -> list[NewFile]:
        """Write postings as the files of a segment; their ranges of keys do not overlap.

        Parameters
        ----------
        rows : DataFrame
            ``bucket_key`` and ``signature_id``; read twice if there are several files.
        segment : int
            The smallest signature_id that the segment may hold.
        n : int
            The number of postings.
        """
        names = ("bucket_key", "signature_id")
        ranges = rows.select(*names).repartitionByRange(-(-n // FILE_POSTINGS) or 1, *names)
        ordered = ranges.sortWithinPartitions(*names)
        numbered = ordered.withColumn("segment", sf.lit(segment).cast("bigint"))
        return self.write("postings", numbered, **_DIFFERENCES)

    def write_row(self, name: str, row: Mapping[str, Any]) -> list[NewFile]:
        """Write one row as a file of a table."""
        table = local_folder(f"{self.dataset.path}/{name}")
        if table is None:
            rows = self.spark.createDataFrame([tuple(row.values())], self._schema(name))
            return self.write(name, rows.coalesce(1))
        writer = TableWriter(table, self.dataset.schema(name))
        writer.write_rows([tuple(row.values())])
        writer.close()
        return writer.files

    def replace(
        self, change: Change, name: str, gone: DataFrame, new: DataFrame | None = None
    ) -> None:
        """Remove rows from a table and add others; files without removed rows stay as they are.

        Parameters
        ----------
        change : Change
            Gets the files to add and to remove.
        name : str
            A table with a column ``doc_id``.
        gone : DataFrame
            The rows to remove: a column ``doc_id``; read twice.
        new : DataFrame, optional
            The rows to add.
        """
        files = {stored.file.path: stored for stored in self.dataset.files(name)}
        new_files = [] if new is None else self.write(name, new)
        if files:
            rows = self.read(name).select("doc_id", sf.col("_metadata.file_path").alias("path"))
            paths = rows.join(gone, "doc_id", "left_semi").select("path").distinct().collect()
            touched = [files[_place(name, row["path"])] for row in paths]
            if touched:
                rest = self.read_files(name, touched).join(gone, "doc_id", "left_anti")
                new_files += self.write(name, rest.sort("doc_id"))
                change.gone.setdefault(name, set()).update(stored.file.path for stored in touched)
        change.new.setdefault(name, []).extend(new_files)

    def staged(self, rows: DataFrame, run: str) -> DataFrame:
        """Write rows beside the tables and return the stored rows, which do not change."""
        folder = spark_path(f"{self.dataset.path}/_staging/{run}/{uuid.uuid4()}")
        rows.write.parquet(folder)
        return self.spark.read.schema(rows.schema).parquet(folder)

    def unstage(self, run: str) -> None:
        """Remove the rows staged under a name; errors are ignored, as leftovers do no harm."""
        folder = f"{self.dataset.path}/_staging/{run}"
        if "://" not in folder:
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(folder))
            return
        with contextlib.suppress(Py4JJavaError):
            if reached := file_system(self.spark, folder):
                system, place = reached
                system.delete(place, True)
                system.delete(place.getParent(), False)  # unless others have rows there
                return
        from pyarrow.fs import FileSystem

        with contextlib.suppress(OSError, ValueError):  # of schemes that only Spark knows
            system, path = FileSystem.from_uri(folder)
            system.delete_dir(path)

    def _columns(self, name: str) -> dict[str, str]:
        """Return the columns of a table's files, and their types."""
        schema = arrow_schema(name, self.dataset.commit.parameters["metric"])
        return {field.name: _TYPES.get(str(field.type), _LISTS) for field in schema}

    def _names(self, name: str) -> list[str]:
        return list(self._columns(name))

    def _schema(self, name: str) -> str:
        return ", ".join(f"`{key}` {kind}" for key, kind in self._columns(name).items())

    def _described(self, name: str, folder: str) -> list[NewFile]:
        """Return descriptions for the log of the files in a folder, except empty ones."""
        table = local_folder(f"{self.dataset.path}/{name}")
        if table is not None:
            paths = sorted(Path(folder).rglob("*.parquet"))
            names = [path.relative_to(table).as_posix() for path in paths]
            files = [described_file(table, path) for path in names]
            return [file for file in files if file.n_rows]
        return self._described_by_spark(name, folder)

    def _described_by_spark(self, name: str, folder: str) -> list[NewFile]:
        """Describe the files of a folder that only Spark reaches."""
        numbers = [key for key, kind in self._columns(name).items() if kind == "bigint"]
        rows = self.spark.read.schema(self._schema(name)).parquet(spark_path(folder))
        groups = rows.groupBy(
            sf.col("_metadata.file_path").alias("path"), sf.col("_metadata.file_size").alias("size")
        ).agg(
            sf.count("*").alias("n"),
            *(sf.min(column).alias(f"min {column}") for column in numbers),
            *(sf.max(column).alias(f"max {column}") for column in numbers),
        )
        files = []
        for row in groups.collect():
            path = _place(name, row["path"])
            lows: dict[str, Any] = {column: row[f"min {column}"] for column in numbers}
            lows = {column: low for column, low in lows.items() if low is not None}
            highs = {column: row[f"max {column}"] for column in lows}
            files.append(NewFile(path, row["size"], row["n"], lows, highs))
        return sorted(files, key=lambda file: file.path)
