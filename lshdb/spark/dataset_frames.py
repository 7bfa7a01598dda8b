"""Read the tables of a dataset as data frames of Spark, and write data frames as new files.

Spark does not read Delta's log here: it reads the files that the log names, and the driver commits
the files that it writes. New files go to a folder of their own inside the folder of the table.
Spark's committer moves the output of one attempt of each task there, so a task that is lost,
retried or run twice leaves no further file.
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
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from lshdb.dataset.commits import Change, Dataset, StoredFile, local_folder
from lshdb.dataset.dataset_tables import RANGE, arrow_schema
from lshdb.dataset.table_files import NewFile, TableWriter, described_file
from lshdb.errors import DamageError
from lshdb.spark.signing import mapped

__all__ = ["Frames", "spark_path", "stage_id"]

_TYPES = {
    "int64": "bigint", "int32": "int", "string": "string", "binary": "binary", "double": "double",
}  # fmt: skip
_LISTS = "array<string>"
_WRITING = {
    "compression": "zstd",
    "parquet.page.write-checksum.enabled": "true",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


def spark_path(path: str) -> str:
    """Return a path that Spark reads the same way for any default file system."""
    return path if "://" in path else f"file://{os.path.abspath(path)}"


def stage_id(number: Column) -> Column:
    """Return the number of a signature as an id of 16 bytes, for the stages; in the same order."""
    return sf.to_binary(sf.lpad(sf.hex(number), 32, "0"), sf.lit("hex"))


def _place(name: str, path: str) -> str:
    """Return the path of a file inside its table, from its path in Spark."""
    return path.rpartition(f"/{name}/")[2]


def _partition(path: str) -> dict[str, str]:
    """Return the range in a path of postings."""
    value = path.partition(f"{RANGE}=")[2].partition("/")[0]
    return {RANGE: value} if value else {}


def _place_batches(
    lows: NDArray[np.int64], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the places of the files that hold numbers, by the first number of each file."""
    for batch in batches:
        numbers = batch.column("signature_id").to_numpy()
        places = np.unique(np.searchsorted(lows, numbers, side="right") - 1)
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

    def read(self, name: str, *, ranges: Iterable[int] | None = None) -> DataFrame:
        """Return a table; for postings, optionally only some ranges."""
        return self._read_files(name, self.dataset.files(name, ranges=ranges))

    def postings_of(self, keys: DataFrame) -> DataFrame:
        """Return the postings of buckets; read only their ranges.

        Parameters
        ----------
        keys : DataFrame
            A column ``bucket_key``; read twice.
        """
        shift = self.dataset.commit.posting_shift
        ranges = keys.select(sf.shiftright("bucket_key", shift).alias(RANGE)).distinct().collect()
        postings = self.read("postings", ranges=[row[RANGE] for row in ranges])
        return postings.join(keys.select("bucket_key").distinct(), "bucket_key", "left_semi")

    def signatures_of(self, numbers: DataFrame) -> DataFrame:
        """Return the rows of signatures; read only their files.

        Parameters
        ----------
        numbers : DataFrame
            A column ``signature_id``; read twice.
        """
        files = sorted(
            self.dataset.files("signatures"), key=lambda stored: stored.file.lows["signature_id"]
        )
        if len(files) > 1:
            lows = np.array([stored.file.lows["signature_id"] for stored in files], dtype=np.int64)
            places = numbers.select("signature_id").mapInArrow(
                mapped(_place_batches, lows), "at bigint"
            )
            files = [files[row["at"]] for row in places.distinct().collect()]
        rows = self._read_files("signatures", files)
        return rows.join(numbers.select("signature_id").distinct(), "signature_id", "left_semi")

    def write(self, name: str, rows: DataFrame) -> list[NewFile]:
        """Write rows as new files of a table, and describe them; they are not committed yet."""
        names = self._names(name)
        folder = f"{self.dataset.path}/{name}/spark-{uuid.uuid4()}"
        if name == "postings":
            shift = self.dataset.commit.posting_shift
            rows = rows.withColumn(RANGE, sf.shiftright("bucket_key", shift))
            rows = rows.repartition(RANGE).sortWithinPartitions(RANGE, *names)
            writer = rows.select(*names, RANGE).write.partitionBy(RANGE)
        else:
            writer = rows.select(*names).write
        writer.options(**_WRITING).parquet(spark_path(folder))
        return self._described(name, folder)

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
                rest = self._read_files(name, touched).join(gone, "doc_id", "left_anti")
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
        from pyarrow.fs import FileSystem

        with contextlib.suppress(OSError):
            system, path = FileSystem.from_uri(folder)
            system.delete_dir(path)

    def _columns(self, name: str) -> dict[str, str]:
        """Return the columns of a table's files, and their types."""
        schema = arrow_schema(name, self.dataset.commit.parameters["metric"])
        kinds = {field.name: _TYPES.get(str(field.type), _LISTS) for field in schema}
        return {key: kind for key, kind in kinds.items() if key != RANGE}

    def _names(self, name: str) -> list[str]:
        return list(self._columns(name))

    def _schema(self, name: str) -> str:
        return ", ".join(f"`{key}` {kind}" for key, kind in self._columns(name).items())

    def _read_files(self, name: str, files: Iterable[StoredFile]) -> DataFrame:
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

    def _described(self, name: str, folder: str) -> list[NewFile]:
        """Return descriptions for the log of the files in a folder, except empty ones."""
        table = local_folder(f"{self.dataset.path}/{name}")
        if table is not None:
            paths = sorted(Path(folder).rglob("*.parquet"))
            names = [path.relative_to(table).as_posix() for path in paths]
            files = [described_file(table, path, _partition(path)) for path in names]
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
            files.append(NewFile(path, row["size"], row["n"], _partition(path), lows, highs))
        return sorted(files, key=lambda file: file.path)
