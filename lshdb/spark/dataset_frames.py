"""The tables of a dataset as data frames of Spark, and data frames as new files of a table.

Spark knows nothing of Delta's log here: it reads the files that the log names, and what it writes
is committed by the driver. New files come into a folder of their own inside their table, by Spark's
committer, which moves the output of one attempt of each task there. So a task that is lost, retried
or done twice leaves no file that would be found.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from lshdb.dataset.commits import Change, Dataset, StoredFile, local_folder
from lshdb.dataset.dataset_tables import RANGE, arrow_schema
from lshdb.dataset.table_files import NewFile, TableWriter, described_file

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
    """Return a path as Spark understands it, whatever its default file system is."""
    return path if "://" in path else f"file://{os.path.abspath(path)}"


def stage_id(number: Column) -> Column:
    """Return the number of a signature as an id of 16 bytes, as the stages have; in its order."""
    return sf.to_binary(sf.lpad(sf.hex(number), 32, "0"), sf.lit("hex"))


def _place(name: str, path: str) -> str:
    """Return the path of a file inside its table from the one that Spark gives."""
    return path.rpartition(f"/{name}/")[2]


def _partition(path: str) -> dict[str, str]:
    """Return the range in a path of postings."""
    value = path.partition(f"{RANGE}=")[2].partition("/")[0]
    return {RANGE: value} if value else {}


@dataclass(frozen=True, slots=True)
class Frames:
    """The tables of one state of a dataset.

    Attributes
    ----------
    spark : SparkSession
    dataset : Dataset
    """

    spark: SparkSession
    dataset: Dataset

    def read(self, name: str, *, ranges: Iterable[int] | None = None) -> DataFrame:
        """Return a table, or of the postings only some ranges."""
        return self._read_files(name, self.dataset.files(name, ranges=ranges))

    def postings_of(self, keys: DataFrame) -> DataFrame:
        """Return the postings of some buckets; reads only the ranges in which they lie.

        Parameters
        ----------
        keys : DataFrame
            A column ``bucket_key``; read twice.
        """
        shift = self.dataset.commit.posting_shift
        met = keys.select(sf.shiftright("bucket_key", shift).alias(RANGE)).distinct().collect()
        postings = self.read("postings", ranges=[row[RANGE] for row in met])
        return postings.join(keys.select("bucket_key").distinct(), "bucket_key", "left_semi")

    def signatures_of(self, numbers: DataFrame) -> DataFrame:
        """Return the rows of some signatures; reads only the files in which they lie.

        Parameters
        ----------
        numbers : DataFrame
            A column ``signature_id``; read twice.
        """
        files = sorted(
            self.dataset.files("signatures"), key=lambda one: one.file.lows["signature_id"]
        )
        if len(files) > 1:
            lows = sf.array(*(sf.lit(one.file.lows["signature_id"]) for one in files))
            at = sf.size(sf.filter(lows, lambda low: low <= sf.col("signature_id"))) - 1
            met = numbers.select(at.alias("at")).distinct().collect()
            files = [files[row["at"]] for row in met]
        rows = self._read_files("signatures", files)
        return rows.join(numbers.select("signature_id").distinct(), "signature_id", "left_semi")

    def write(self, name: str, rows: DataFrame) -> list[NewFile]:
        """Write rows as new files of a table, and describe them; no log names them yet."""
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
        """Take rows out of a table, and put others in; files without such rows stay as they are.

        Parameters
        ----------
        change : Change
        name : str
            A table with a column ``doc_id``.
        gone : DataFrame
            A column ``doc_id``; read twice.
        new : DataFrame, optional
        """
        files = {one.file.path: one for one in self.dataset.files(name)}
        made = [] if new is None else self.write(name, new)
        if files:
            rows = self.read(name).select("doc_id", sf.col("_metadata.file_path").alias("path"))
            met = rows.join(gone, "doc_id", "left_semi").select("path").distinct().collect()
            touched = [files[_place(name, row["path"])] for row in met]
            if touched:
                kept = self._read_files(name, touched).join(gone, "doc_id", "left_anti")
                made += self.write(name, kept.sort("doc_id"))
                change.gone.setdefault(name, set()).update(one.file.path for one in touched)
        change.new.setdefault(name, []).extend(made)

    def staged(self, rows: DataFrame, run: str) -> DataFrame:
        """Write rows beside the tables and read them again: they are fixed from then on."""
        folder = spark_path(f"{self.dataset.path}/_staging/{run}/{uuid.uuid4()}")
        rows.write.parquet(folder)
        return self.spark.read.schema(rows.schema).parquet(folder)

    def unstage(self, run: str) -> None:
        """Remove what was staged under a name; what stays behind harms nobody."""
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
        kinds = {one.name: _TYPES.get(str(one.type), _LISTS) for one in schema}
        return {key: kind for key, kind in kinds.items() if key != RANGE}

    def _names(self, name: str) -> list[str]:
        return list(self._columns(name))

    def _schema(self, name: str) -> str:
        return ", ".join(f"`{key}` {kind}" for key, kind in self._columns(name).items())

    def _read_files(self, name: str, files: Iterable[StoredFile]) -> DataFrame:
        paths = [spark_path(one.uri) for one in files]
        if not paths:
            return self.spark.createDataFrame([], self._schema(name))
        return self.spark.read.schema(self._schema(name)).parquet(*paths)

    def _described(self, name: str, folder: str) -> list[NewFile]:
        """Return what the log will say of the files in a folder; empty ones are left out."""
        table = local_folder(f"{self.dataset.path}/{name}")
        if table is not None:
            paths = sorted(Path(folder).rglob("*.parquet"))
            names = [path.relative_to(table).as_posix() for path in paths]
            files = [described_file(table, one, _partition(one)) for one in names]
            return [one for one in files if one.n_rows]
        return self._described_elsewhere(name, folder)

    def _described_elsewhere(self, name: str, folder: str) -> list[NewFile]:
        """Return the same by a job of Spark."""
        numbers = [key for key, kind in self._columns(name).items() if kind == "bigint"]
        found = self.spark.read.schema(self._schema(name)).parquet(spark_path(folder))
        files = found.groupBy(
            sf.col("_metadata.file_path").alias("path"), sf.col("_metadata.file_size").alias("size")
        ).agg(
            sf.count("*").alias("n"),
            *(sf.min(one).alias(f"min {one}") for one in numbers),
            *(sf.max(one).alias(f"max {one}") for one in numbers),
        )
        made = []
        for row in files.collect():
            path = _place(name, row["path"])
            lows: dict[str, Any] = {one: row[f"min {one}"] for one in numbers}
            lows = {one: low for one, low in lows.items() if low is not None}
            highs = {one: row[f"max {one}"] for one in lows}
            made.append(NewFile(path, row["size"], row["n"], _partition(path), lows, highs))
        return sorted(made, key=lambda one: one.path)
