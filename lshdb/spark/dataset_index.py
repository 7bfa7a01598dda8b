"""An index in a dataset: Spark adds documents to it and answers questions from it.

``docs/format-spark.md`` describes the tables. The stages are those of a data frame (``signing.py``
to ``expansion.py``); here, their ids of 16 bytes are the numbers of signatures. The add of a night
reads the keys and hashes of all documents. A question about a night reads the files that have the
postings, signatures and documents of its buckets.

Limits: an unchanged document does not get a new ``last_seen_at``. Sets of tokens cannot be added,
because a data frame has no type for them.
"""

from __future__ import annotations

import functools
import unicodedata
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Unpack

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lshdb import __version__
from lshdb.arguments import (
    Linkage,
    Only,
    Verify,
    check_choice,
    check_items,
    check_key,
    check_whole,
)
from lshdb.dataset.commits import Change, Dataset, vacuum
from lshdb.dataset.dataset_tables import FORMAT as DATASET_FORMAT
from lshdb.errors import FormatError, ParameterError
from lshdb.groups.deduplication import ONLY
from lshdb.groups.listing import LINKAGES
from lshdb.ingest.add_result import AddResult
from lshdb.ingest.remove import RemoveResult
from lshdb.params.index_params import FORMAT, IndexParams, check_expected
from lshdb.params.options import CreateOptions, ExpectedParameters, Parameters, check_parameters
from lshdb.search.loss import Loss
from lshdb.search.verification import choose_method, level_of, warn_beyond
from lshdb.signatures.banding import bucket_keys
from lshdb.spark.cached_frames import persisted
from lshdb.spark.candidate_pairs import candidates, members_of
from lshdb.spark.comparison import Comparison, verified
from lshdb.spark.dataset_add import add_signed, next_batch, release
from lshdb.spark.dataset_frames import Frames
from lshdb.spark.document_graph import DocumentGraph, clusters_of, decisions_of
from lshdb.spark.expansion import distances, expanded
from lshdb.spark.grouping import components, cut
from lshdb.spark.hash_filter import rows_among
from lshdb.spark.large_bucket_pairs import LargeBucketPairs
from lshdb.spark.lost_pairs import lost_pairs
from lshdb.spark.named_jobs import named_job
from lshdb.spark.pairing import bucket_limit, bucket_pairs, ends_of, rows_of, stage_id
from lshdb.spark.session import use_this_python
from lshdb.spark.signing import Recipe, mapped, refuse_passages, signed
from lshdb.spark.spanning_pairs import spanning_pairs
from lshdb.spark.stored_bodies import hashed, other_bodies, stored_bodies, stored_body
from lshdb.storage.tables.records import timestamp
from lshdb.tokenizers import Tokenizer, given_tokenizer

__all__ = ["DatasetIndex", "Index"]


class DatasetIndex:
    """A persistent near-duplicate index, as a dataset of tables; its public name is ``Index``.

    Use :meth:`create` or :meth:`open`. Every method reads the newest state. Of two writers, the one
    that commits second gets a LockedError, and its change has no effect.

    Attributes
    ----------
    path : str
        The folder, or its URI.
    params : IndexParams
        The parameters.
    """

    def __init__(
        self, spark: SparkSession, dataset: Dataset, tokenizer: Tokenizer | None = None
    ) -> None:
        self._spark = spark
        self._dataset = dataset
        self._tokenizer = tokenizer
        self.path = dataset.path
        self.params = IndexParams(**dataset.commit.parameters)
        refuse_passages(self.params)

    @classmethod
    def create(
        cls,
        path: str,
        *,
        spark: SparkSession | None = None,
        tokenizer: Tokenizer | str | None = None,
        options: Mapping[str, str] | None = None,
        **parameters: Unpack[Parameters],
    ) -> DatasetIndex:
        """Create an empty index.

        Parameters
        ----------
        path : str
            A new or empty folder, or a URI that Spark and deltalake both reach.
        spark : SparkSession, optional
            The active one by default.
        tokenizer : Tokenizer or str, optional
            As for :meth:`lshdb.Index.create`.
        options : mapping, optional
            How deltalake reaches the path (``storage_options``).
        **parameters
            Parameters of :meth:`lshdb.Index.create` by name.

        Raises
        ------
        IndexExistsError
            The folder holds something else.
        ParameterError, DatabaseError
        """
        check_parameters("Index.create", parameters, "spark", "tokenizer", "options")
        split = given_tokenizer(tokenizer)
        recorded = "" if split is None else split.recorded
        params = CreateOptions(**parameters, tokenizer=recorded).params()
        refuse_passages(params)
        index = {
            "format": FORMAT, "uuid": str(uuid.uuid4()), "created_at": timestamp(),
            "library_version": __version__, "unicode_version": unicodedata.unidata_version,
            "next_doc_id": 1, "index_bands": 0,
        }  # fmt: skip
        dataset = Dataset.create(path, index=index, parameters=params.items(), options=options)
        dataset = Change(dataset).commit("create")
        return cls(
            _session(spark), dataset, tokenizer if isinstance(tokenizer, Tokenizer) else None
        )

    @classmethod
    def open(
        cls,
        path: str,
        *,
        spark: SparkSession | None = None,
        tokenizer: Tokenizer | str | None = None,
        options: Mapping[str, str] | None = None,
        **expected: Unpack[ExpectedParameters],
    ) -> DatasetIndex:
        """Open a dataset of :meth:`create` or ``lshdb export --format delta``.

        Parameters
        ----------
        path, spark, tokenizer, options
            As for :meth:`create`.
        **expected
            Parameters that the index must have, by name.

        Raises
        ------
        IndexNotFoundError, FormatError, DamageError, DatabaseError
        ParameterMismatchError
            It has other parameters than those expected.
        """
        dataset = Dataset.open(path, options=options)
        if dataset.commit.format != DATASET_FORMAT:
            raise FormatError(
                f"the dataset {path} has format {dataset.commit.format}; Spark asks and adds to "
                f"format {DATASET_FORMAT}",
                hint=f"lshdb spark upgrade --index {path}",
            )
        split = given_tokenizer(tokenizer)
        required = {**expected, **({} if split is None else {"tokenizer": split.recorded})}
        check_expected(path, IndexParams(**dataset.commit.parameters), required, facts={})
        own = tokenizer if isinstance(tokenizer, Tokenizer) else None
        return cls(_session(spark), dataset, own)

    @classmethod
    def upgrade(
        cls,
        path: str,
        *,
        spark: SparkSession | None = None,
        options: Mapping[str, str] | None = None,
    ) -> tuple[int, int]:
        """Bring a dataset to the present format, in one commit; return both format numbers.

        Postings are written anew, and all other files stay.

        Parameters
        ----------
        path, spark, options
            As for :meth:`create`.

        Raises
        ------
        IndexNotFoundError, FormatError, DamageError, DatabaseError
        LockedError
            Another writer has committed meanwhile; nothing has changed.
        """
        dataset = Dataset.open(path, options=options)
        before = dataset.commit.format
        if before != DATASET_FORMAT:
            change = Change(dataset)
            _write_one_segment(Frames(_session(spark), dataset), change)
            change.commit("upgrade", format=DATASET_FORMAT)
        return before, DATASET_FORMAT

    def add(
        self,
        df: DataFrame,
        *,
        key: str = "id",
        text: str | Sequence[str] = "text",
        order: str | None = None,
        source: str = "",
        night: str = "",
    ) -> AddResult:
        """Add the documents of a data frame, or replace those whose text has changed.

        One commit adds all of them. Rows that are no documents go to the table ``rejected``.

        Parameters
        ----------
        df : DataFrame
            A document in each row.
        key, text : str
            Columns of keys, and of texts or other bodies. Texts of several columns are joined.
        order : str, optional
            The column by which one document is older than another. Of equals, and by default, the
            document with the smaller key is older.
        source, night : str
            Recorded with the batch.

        Raises
        ------
        LockedError
            Another writer has committed meanwhile; repeat the add.
        ParameterError
            A column is missing, or of a type that cannot be read.
        """
        recipe = Recipe(self.params, self._tokenizer)
        rows = signed(df, recipe, key=key, body=text, order=order)
        run = str(uuid.uuid4())
        frames = self._frames()
        try:
            result, self._dataset = add_signed(
                frames, recipe, rows, source=source, night=night, run=run
            )
        finally:
            frames.unstage(run)
        return result

    def remove(self, keys: str | Iterable[str]) -> RemoveResult:
        """Remove documents by key, in one commit.

        Parameters
        ----------
        keys : str or iterable of str
            Their keys.

        Raises
        ------
        LockedError
            Another writer has committed meanwhile; nothing has changed.
        """
        items = check_items("keys", [keys] if isinstance(keys, str) else keys, "a key, or keys")
        names = list(dict.fromkeys(check_key("a key", item) for item in items))
        frames = self._frames()
        rows = frames.spark.createDataFrame([(name,) for name in names], "key string")
        stored = frames.read("documents").select("key", "doc_id", "signature_id")
        run = str(uuid.uuid4())
        try:
            gone = stored.join(sf.broadcast(rows), "key").orderBy("doc_id")
            gone = gone.withColumns(
                {"part": sf.spark_partition_id(), "at": sf.monotonically_increasing_id()}
            )
            gone = frames.staged(gone.withColumn("row_id", sf.col("doc_id")), run)
            removed = {row["key"] for row in gone.select("key").collect()}
            result = RemoveResult(len(removed), [name for name in names if name not in removed])
            if removed:
                batch = next_batch(frames.dataset)
                change = Change(frames.dataset)
                for table in ("documents", "fields"):
                    frames.replace(change, table, gone.select("doc_id"))
                left = gone.where("signature_id IS NOT NULL")
                release(frames, change, left.withColumnRenamed("signature_id", "released"), batch)
                row = batch.row("", {"n_removed": len(removed)})
                change.new["batches"] = frames.write_row("batches", row)
                self._dataset = change.commit("remove")
                result.batches.append(batch.batch_id)
        finally:
            frames.unstage(run)
        return result

    def pairs(
        self,
        *,
        threshold: float | None = None,
        since: int | None = None,
        verify: Verify | None = None,
        max_bucket: int | str | None = None,
    ) -> DataFrame:
        """Return all near-duplicate pairs, each once: key1, key2, similarity, method.

        Parameters
        ----------
        threshold : float, optional
            The lowest similarity; that of the index by default.
        since : int, optional
            Return only pairs with a document of this batch or a later one; read only the postings,
            signatures and texts of the buckets of these documents.
        verify, max_bucket : optional
            As for :func:`lshdb.spark.pairs`.

        Raises
        ------
        ParameterError, TextNotStoredError
        """
        frames = self._frames()
        search = _StateSearch(self, threshold, verify, max_bucket)
        if since is None:
            return search.pairs(_whole(frames), None)
        newest = next_batch(frames.dataset).batch_id - 1
        if type(since) is not int or not 1 <= since <= newest:
            raise ParameterError(
                f"there is no batch {since!r}; the index has {newest}",
                hint="the table batches lists them",
            )
        new = _documents(frames).where(sf.col("batch_id") >= since)
        numbers = cut(new.select("signature_id").distinct())
        keys = frames.rows_having("signatures", numbers).mapInArrow(
            mapped(_keyed_batches, self.params), "bucket_key bigint"
        )
        return search.pairs(_part(frames, keys), (numbers, new.select("key")))

    def clusters(
        self,
        *,
        threshold: float | None = None,
        min_size: int = 2,
        linkage: Linkage = "component",
        verify: Verify | None = None,
        max_bucket: int | str | None = None,
    ) -> DataFrame:
        """Return the clusters of near-duplicate documents: cluster, size, key.

        They are computed from all pairs, not from the stored edges of an exported index.

        Parameters
        ----------
        threshold, verify, max_bucket
            As for :meth:`pairs`.
        min_size, linkage
            As for :func:`lshdb.spark.clusters`.

        Raises
        ------
        ParameterError, TextNotStoredError
        """
        check_choice("linkage", linkage, LINKAGES)
        check_whole("min_size", min_size, 2)
        are_all = linkage != "component"
        graph = self._graph(threshold, verify, max_bucket, are_all=are_all)
        return clusters_of(graph, min_size=min_size, linkage=linkage)

    def dedup(
        self,
        *,
        keep: str = "first",
        only: Only = "all",
        linkage: Linkage = "representative",
        threshold: float | None = None,
        verify: Verify | None = None,
        max_bucket: int | str | None = None,
    ) -> DataFrame:
        """Decide for each document whether to keep it: key, decision, kept_key, similarity, method.

        Parameters
        ----------
        keep : {"first", "last", "longest", "shortest"}
            The document to keep.
        only : {"all", "keep", "drop"}
            Which decisions to return.
        linkage : {"representative", "component"}
            As for :func:`lshdb.spark.dedup`.
        threshold, verify, max_bucket
            As for :meth:`pairs`.

        Raises
        ------
        ParameterError, TextNotStoredError
        """
        check_choice("only", only, ONLY)
        check_choice("keep", keep, ("first", "last", "longest", "shortest"))
        check_choice("linkage", linkage, LINKAGES)
        are_all = linkage != "component"
        graph = self._graph(threshold, verify, max_bucket, are_all=are_all)
        return decisions_of(graph, keep, only, linkage)

    def loss(
        self,
        *,
        threshold: float | None = None,
        verify: Verify | None = None,
        max_bucket: int | str | None = None,
    ) -> Loss:
        """Estimate which share of the near-duplicate pairs ``max_bucket`` hides from :meth:`pairs`.

        Parameters
        ----------
        threshold, verify, max_bucket
            As for :meth:`pairs`.

        Returns
        -------
        Loss
            As of :func:`lshdb.spark.loss`.

        Raises
        ------
        ParameterError, TextNotStoredError
        """
        frames = self._frames()
        search = _StateSearch(self, threshold, verify, max_bucket)
        pairs, hidden = search.candidates(_whole(frames), None)
        documents = _stage_documents(frames.read("documents"))
        return lost_pairs(verified(pairs, hidden.by), documents, hidden)

    def _graph(
        self,
        threshold: float | None,
        verify: Verify | None,
        max_bucket: int | str | None,
        *,
        are_all: bool = True,
    ) -> DocumentGraph:
        """Compute the pairs of the newest state, or enough of them, and their components."""
        frames = self._frames()
        search = _StateSearch(self, threshold, verify, max_bucket)
        pairs, hidden = search.candidates(_whole(frames), None)
        by, documents = hidden.by, persisted(_stage_documents(frames.read("documents")))
        edges = cut(verified(pairs, by)) if are_all else spanning_pairs(pairs, by)
        nodes = components(edges)
        return DocumentGraph(self.params, search.method, documents, edges, nodes, hidden)

    def query(
        self,
        df: DataFrame,
        *,
        key: str = "id",
        text: str | Sequence[str] = "text",
        threshold: float | None = None,
        verify: Verify | None = None,
    ) -> DataFrame:
        """Return the documents that are similar to others: query, key, similarity, method.

        Parameters
        ----------
        df : DataFrame
            A document in each row, with the kind of body that the index holds. Rows that are no
            documents are left out.
        key, text, threshold, verify
            As for :meth:`add` and :meth:`pairs`.

        Returns
        -------
        DataFrame
            For a distance metric also ``distance``.

        Raises
        ------
        ParameterError, TextNotStoredError
        """
        frames = self._frames()
        search = _StateSearch(self, threshold, verify, None)
        rows = signed(df, search.recipe, key=key, body=text)
        rows = persisted(hashed(rows.where("signature_id IS NOT NULL"), search.recipe))
        keys = rows.select(sf.explode("buckets").alias("bucket_key"), "signature_id")
        part = _part(frames, keys.select("bucket_key"))
        postings = part.postings.select(
            "bucket_key", stage_id(sf.col("signature_id")).alias("right")
        )
        hits = keys.withColumnRenamed("signature_id", "left").join(postings, "bucket_key")
        pairs = persisted(hits.select("left", "right").distinct())
        ends = pairs.select(sf.col("right").alias("signature_id")).distinct()
        stored = search.signature_rows(part, ends)
        names = ["signature_id", "signature", "n_chars", "body"]
        compared = persisted(stored.select(*names).unionByName(rows.select(*names)))
        edges = verified(pairs, search.comparison(compared))
        right = part.documents.select(stage_id(sf.col("signature_id")).alias("right"), "key")
        left = rows.select(sf.col("signature_id").alias("left"), sf.col("key").alias("query"))
        similar = edges.select("left", "right", "similarity", sf.lit(search.method).alias("method"))
        similar = similar.join(left, "left").join(right, "right")
        return similar.select("query", "key", "similarity", "method", *distances(self.params))

    def compact(self) -> dict[str, int]:
        """Write the small files of tables as a few large ones; return the number of files by table.

        All postings become one segment. Readers of earlier states still have the old files, which
        :meth:`vacuum` removes. Signatures without a document stay, because numbers of signatures
        have no gaps.

        Raises
        ------
        LockedError
            Another writer has committed meanwhile; nothing has changed.
        """
        frames = self._frames()
        change = Change(frames.dataset)
        for name, order in {"documents": "doc_id", "signatures": "signature_id"}.items():
            rows = frames.read(name).repartitionByRange(order).sortWithinPartitions(order)
            change.new[name] = frames.write(name, rows)
            change.gone[name] = {stored.file.path for stored in frames.dataset.files(name)}
        _write_one_segment(frames, change)
        self._dataset = change.commit("compact")
        return {name: len(files) for name, files in change.new.items()}

    def vacuum(self, *, retention_hours: int = 168) -> list[str]:
        """Remove files that no commit of the last hours names; see ``docs/format-spark.md``."""
        dataset = self._frames().dataset
        removed = vacuum(dataset, retention_hours=retention_hours)
        self._dataset = dataset.newest()
        return removed

    def check(self) -> list[str]:
        """Compare the tables with each other, and return the faults; empty if there are none."""
        frames = self._frames()
        counts = frames.dataset.commit.counts
        faults = [
            f"{name} has {n} rows; {expected} are committed"
            for name, expected in counts.items()
            if (n := frames.read(name).count()) != expected
        ]
        documents, signatures = frames.read("documents"), frames.read("signatures")
        for name, rows in (("key", documents), ("doc_id", documents), ("signature_id", signatures)):
            n = rows.groupBy(name).count().where("count > 1").count()
            if n:
                faults.append(f"{n} values of {name} come twice")
        ids = documents.where("signature_id IS NOT NULL").select("signature_id").distinct()
        n = ids.join(signatures, "signature_id", "left_anti").count()
        if n:
            faults.append(f"{n} signatures of documents are missing")
        expected_postings = signatures.mapInArrow(
            mapped(_posting_batches, self.params), "bucket_key bigint, signature_id bigint"
        )
        postings = frames.read("postings")
        n = postings.where("signature_id < segment").count()
        if n:
            faults.append(f"{n} postings are in the segment of other signatures")
        postings = postings.drop("segment")
        for what, more, less in (
            ("missing", expected_postings, postings),
            ("not cut from a signature", postings, expected_postings),
        ):
            n = more.exceptAll(less).count()
            if n:
                faults.append(f"{n} postings are {what}")
        if self.params.store_text:
            whole = documents.join(signatures, "signature_id", "left")
            if self.params.kind.is_dense:
                whole = whole.where("signature_id IS NOT NULL")  # others have no vector
            body = stored_body(whole.columns).alias("body")
            n = other_bodies(self.params, whole.select("doc_id", body, "body_hash")).count()
            if n:
                faults.append(f"{n} documents have other bodies than those that were added")
        return faults

    def _frames(self) -> Frames:
        """Read the newest state."""
        self._dataset = self._dataset.newest()
        return Frames(self._spark, self._dataset)


class _Part(NamedTuple):
    """What a question reads of a state.

    Attributes
    ----------
    postings : DataFrame
        ``bucket_key`` and ``signature_id`` of signatures with a document.
    documents : DataFrame
        Documents with a signature: those of these postings, and perhaps others.
    signatures : DataFrame
        The same of signatures.
    """

    postings: DataFrame
    documents: DataFrame
    signatures: DataFrame


def _whole(frames: Frames) -> _Part:
    """Return all of a state."""
    return _live(frames, frames.read("postings"), _documents(frames), frames.read("signatures"))


def _part(frames: Frames, keys: DataFrame) -> _Part:
    """Read what some buckets touch, cut from what it was read by.

    Parameters
    ----------
    frames : Frames
        The tables.
    keys : DataFrame
        A column ``bucket_key``.
    """
    with named_job(frames.spark, "reading buckets"):
        postings = cut(frames.rows_having("postings", cut(keys.distinct())))
        numbers = cut(postings.select("signature_id").distinct())
    documents = persisted(frames.rows_having("documents", numbers), in_memory=False)
    return _live(frames, postings, documents, frames.rows_having("signatures", numbers))


def _live(
    frames: Frames, postings: DataFrame, documents: DataFrame, signatures: DataFrame
) -> _Part:
    """Leave out the postings of signatures without a document."""
    postings = postings.select("bucket_key", "signature_id")
    if frames.dataset.commit.counts["releases"]:
        live = documents.select("signature_id").distinct()
        postings = postings.join(live, "signature_id", "left_semi")
    return _Part(postings, documents, signatures)


def _write_one_segment(frames: Frames, change: Change) -> None:
    """Write all postings anew, as one segment."""
    files = frames.dataset.files("postings")
    n = sum(stored.file.n_rows for stored in files)
    postings = frames.read_files("postings", files)
    change.new["postings"] = frames.write_postings(postings, segment=0, n=n)
    change.gone["postings"] = {stored.file.path for stored in files}


class _StateSearch:
    """A search of one state: its level, its method, and its limit on buckets."""

    def __init__(
        self,
        index: DatasetIndex,
        threshold: float | None,
        verify: Verify | None,
        max_bucket: int | str | None,
    ) -> None:
        self.most = bucket_limit(max_bucket)
        self.params = index.params
        self.recipe = Recipe(index.params, index._tokenizer)
        self.method = choose_method(verify, index.params)
        self.level = level_of(index.params, threshold)
        if self.method != "none":
            warn_beyond(index.params, self.level)

    def signature_rows(self, part: _Part, ends: DataFrame) -> DataFrame:
        """Return ``signature_id``, ``signature``, ``n_chars`` and ``body`` of signatures.

        Parameters
        ----------
        part : _Part
            What has them.
        ends : DataFrame
            A column ``signature_id``, of ids of 16 bytes, each once; read twice.
        """
        ids = {"signature_id": stage_id(sf.col("signature_id"))}
        texts = rows_among(part.documents.withColumns(ids), "signature_id", ends)
        texts = texts.join(ends, "signature_id", "left_semi").dropDuplicates(["signature_id"])
        rows = rows_among(part.signatures.withColumns(ids), "signature_id", ends)
        joined = texts.join(rows, "signature_id")
        body = stored_body(joined.columns).alias("body")
        return joined.select("signature_id", sf.col("row").alias("signature"), "n_chars", body)

    def comparison(self, rows: DataFrame) -> Comparison:
        """Return the comparison of pairs of signatures by their rows."""
        read = functools.partial(stored_bodies, self.params)
        return Comparison(rows, self.recipe, self.method, self.level, read)

    def candidates(self, part: _Part, new: DataFrame | None) -> tuple[DataFrame, LargeBucketPairs]:
        """Return candidate pairs of signatures, and the finder of pairs in large buckets.

        Parameters
        ----------
        part : _Part
            What is searched.
        new : DataFrame, optional
            A column ``signature_id``; return only pairs with one of these signatures.
        """
        ids = stage_id(sf.col("signature_id")).alias("signature_id")
        named = part.postings.withColumnRenamed("bucket_key", "bucket")
        shared = bucket_pairs(named, max_bucket=self.most)
        ends = ends_of(shared.pairs())
        if shared.counts.large:
            ends = ends.unionByName(members_of(shared).select("signature_id"))
        ends = persisted(ends.distinct())
        by = self.comparison(persisted(self.signature_rows(part, ends), in_memory=False))
        pairs = candidates(shared, by)
        if new is not None:
            pairs = persisted(_with_new(pairs, "left", "right", new.select(ids).toDF("new")))
        return pairs, LargeBucketPairs(shared, by, self.most)

    def pairs(self, part: _Part, new: tuple[DataFrame, DataFrame] | None) -> DataFrame:
        """Return pairs of documents.

        Parameters
        ----------
        part : _Part
            What is searched.
        new : tuple of DataFrame, optional
            Signatures, and keys; return only pairs with one of each.
        """
        pairs, hidden = self.candidates(part, None if new is None else new[0])
        pairs = expanded(
            verified(pairs, hidden.by), _stage_documents(part.documents), self.params,
            method=self.method, max_bucket=self.most,
        )  # fmt: skip
        return pairs if new is None else _with_new(pairs, "key1", "key2", new[1].toDF("new"))


def _stage_documents(documents: DataFrame) -> DataFrame:
    """Return documents with the columns of the stages; an older one has a smaller ``place``."""
    ids = sf.when(sf.col("signature_id").isNotNull(), stage_id(sf.col("signature_id")))
    return documents.select(
        ids.alias("signature_id"), "key", sf.col("doc_id").alias("place"),
        sf.lit(None).cast("boolean").alias("value"), "n_chars",
    )  # fmt: skip


def _with_new(pairs: DataFrame, left: str, right: str, new: DataFrame) -> DataFrame:
    """Return the pairs with a new end: a value of the column ``new``."""
    lefts = new.select(sf.col("new").alias(left), sf.lit(True).alias("_left_is_new"))
    rights = new.select(sf.col("new").alias(right), sf.lit(True).alias("_right_is_new"))
    marked = pairs.join(lefts, left, "left").join(rights, right, "left")
    return marked.where("_left_is_new OR _right_is_new").select(*pairs.columns)


def _documents(frames: Frames) -> DataFrame:
    """Return the documents that have a signature."""
    return frames.read("documents").where("signature_id IS NOT NULL")


def _session(spark: SparkSession | None) -> SparkSession:
    session = SparkSession.builder.getOrCreate() if spark is None else spark
    use_this_python(session)
    return session


def _keyed_batches(
    params: IndexParams, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the bucket keys of signatures."""
    for batch in batches:
        keys = bucket_keys(rows_of(batch.column("row"), params), **params.cut)
        yield pa.RecordBatch.from_arrays([pa.array(keys.reshape(-1))], names=["bucket_key"])


def _posting_batches(
    params: IndexParams, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the postings of signatures."""
    for batch in batches:
        keys = bucket_keys(rows_of(batch.column("row"), params), **params.cut)
        ids = np.repeat(batch.column("signature_id").to_numpy(), params.bands)
        yield pa.RecordBatch.from_arrays(
            [pa.array(keys.reshape(-1)), pa.array(ids)], names=["bucket_key", "signature_id"]
        )


Index = DatasetIndex
"""The public name: ``lshdb.spark.Index``."""
