"""Rows of a data frame -> signed documents: bodies, signatures and bucket keys, batch by batch.

Each batch of Arrow columns goes through the stages of an add (``ingest/batch.py``): texts that the
kernel takes are hashed, normalised and signed together; other bodies are signed step by step. A row
that is no document gets a reason instead of a signature, and no row ends the job.

The id of a signature is the content hash of 16 bytes, which is computed from the text alone. So
documents of one content share a signature without a look-up, on any executor. Two of 1e9 different
contents have the same hash with probability 1.5e-21.

Columns of signed rows:

``key`` string, ``body`` as in the input, ``place`` (of any type that Spark orders; null without
``order``), ``value`` binary (sorts like the values; null for none, and without ``value``),
``n_chars`` and ``n_shingles`` bigint, ``signature_id`` binary (16 bytes; null for a body without
shingles), ``signature`` binary (row_words words of 16 bits, little-endian), ``buckets``
array<bigint> (one bucket key for each band), ``reason`` string (null for a document).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from lshdb.documents.document import (
    MAX_DOCUMENT_BYTES,
    MAX_KEY_BYTES,
    shown_names,
)
from lshdb.documents.formats.column_sizes import small_batches
from lshdb.documents.formats.column_values import json_values
from lshdb.documents.formats.columns import NOT_UTF_8, Unreadable, keys_of, text_values
from lshdb.documents.formats.columns import bodies_of as column_bodies
from lshdb.documents.formats.objects import JOINT
from lshdb.documents.values import order_key
from lshdb.errors import ParameterError
from lshdb.groups.deduplication import cannot_compare
from lshdb.ingest.add import n_chars_of
from lshdb.ingest.batch import PERSON_OF_TEXTS
from lshdb.params.index_params import IndexParams
from lshdb.signatures.banding import bucket_keys
from lshdb.signatures.families import family_of
from lshdb.signatures.family import Family
from lshdb.storage.tables.bodies import hash_body, raw_body
from lshdb.tokenizers import Tokenizer, splitter

__all__ = [
    "ID_BYTES",
    "Recipe",
    "binaries",
    "bodies_of",
    "column_name",
    "column_of",
    "gathered",
    "mapped",
    "order_keys",
    "refuse_passages",
    "signed",
    "spread",
]

ID_BYTES = 16
SIGNED = [
    "key", "body", "place", "value", "n_chars", "n_shingles", "signature_id", "signature",
    "buckets", "reason",
]  # fmt: skip

_BODIES = (
    st.StringType, st.ArrayType, st.MapType, st.StructType, st.BinaryType, st.NullType,
)  # fmt: skip
_LONG = 2**20
"""A batch with a longer text (characters) is signed step by step, from its contents."""
_GROWING = 2**21
"""Longer texts (bytes) may be too long once normalised, so they are checked one by one."""


@dataclass(frozen=True)
class Recipe:
    """How executors sign and compare rows: small, and the same for every task.

    Attributes
    ----------
    params : IndexParams
        The parameters of signatures.
    tokenizer : Tokenizer or None
        The caller's own tokenizer, which Spark ships; installed ones are found by name.
    """

    params: IndexParams
    tokenizer: Tokenizer | None = None

    def family(self) -> Family:
        """Return the family of hash functions, cached in each process."""
        if self.tokenizer is None:
            return _family_of(self.params)
        return family_of(self.params, splitter(self.params.tokenizer, self.tokenizer))


def refuse_passages(params: IndexParams) -> None:
    """Raise ParameterError for windows of documents: Spark takes documents whole."""
    if params.window is not None:
        raise ParameterError(
            "passages are windows of documents, which lshdb cuts on one machine; Spark takes "
            "documents whole",
            hint="leave passages out, or add the documents with lshdb add --passages",
        )


@functools.lru_cache(maxsize=8)
def _family_of(params: IndexParams) -> Family:
    split = splitter(params.tokenizer) if params.tokenizer else None
    return family_of(params, split)


def signed(
    df: DataFrame,
    recipe: Recipe,
    *,
    key: str = "id",
    body: str | Sequence[str] = "text",
    order: str | None = None,
    value: str | None = None,
) -> DataFrame:
    """Return a signed row for each row, or the reason why it is rejected.

    Repeated keys are found later (``document_rows.py``).

    Parameters
    ----------
    df : DataFrame
        The rows of the caller.
    recipe : Recipe
        How to sign them.
    key : str
        Column of strings or whole numbers.
    body : str or sequence of str
        Column of the bodies; texts of several are joined, with a blank line between.
    order : str, optional
        Column by which one document is older than another.
    value : str, optional
        A further column, which becomes ``value``: bytes that sort like its values
        (:func:`lshdb.documents.values.order_key`).

    Raises
    ------
    ParameterError
        A column is missing, or of a type that cannot be read.

    Notes
    -----
    Lazy. One task holds a few megabytes of bodies at a time; 10 to 20 us a KB of text.
    """
    names = [body] if isinstance(body, str) else list(body)
    along = {"place": order, "value": value}
    types = _column_types(df, [key, *names, *filter(None, along.values())])
    if not _may_be_key(types[key]):
        raise ParameterError(
            f"the column {key!r} is of type {types[key].simpleString()}; expected strings, whole "
            "numbers or binary values that are UTF-8 as keys",
            hint=f"cast it: df.withColumn({key!r}, df[{key!r}].cast('string'))",
        )
    kind = types[names[0]] if len(names) == 1 else st.StringType()
    if not isinstance(kind, _BODIES):
        raise ParameterError(
            f"the column {names[0]!r} is of type {kind.simpleString()}; expected strings, arrays, "
            "maps, structures or binary values as bodies",
            hint="name the column of the texts, or vectors, with text=",
        )
    if value is not None and not _has_order(types[value]):
        raise cannot_compare(f"field:{value}", f"it is of type {types[value].simpleString()}")
    bodies = column_of(df, names[0]) if len(names) == 1 else _joined(df, names)
    if not recipe.params.kind.is_dense and _as_texts(kind) != kind:
        kind = _as_texts(kind)
        bodies = bodies.cast(kind)
    rows = df.select(
        column_of(df, key).cast("string").alias("key"),
        bodies.alias("body"),
        *(
            (sf.lit(None).cast("boolean") if name is None else column_of(df, name)).alias(alias)
            for alias, name in along.items()
        ),
    )
    schema = st.StructType(
        [
            st.StructField("key", st.StringType()),
            st.StructField("body", kind),
            st.StructField("place", st.BooleanType() if order is None else types[order]),
            st.StructField("value", st.BinaryType()),
            st.StructField("n_chars", st.LongType()),
            st.StructField("n_shingles", st.LongType()),
            st.StructField("signature_id", st.BinaryType()),
            st.StructField("signature", st.BinaryType()),
            st.StructField("buckets", st.ArrayType(st.LongType(), False)),
            st.StructField("reason", st.StringType()),
        ]
    )
    return rows.mapInArrow(mapped(_signed_batches, recipe), schema)


def _column_types(df: DataFrame, names: Sequence[str]) -> dict[str, st.DataType]:
    """Return the types of all columns.

    Raises
    ------
    ParameterError
        ``df`` is no data frame, or lacks one of the columns.
    """
    if not hasattr(df, "mapInArrow"):
        raise ParameterError(
            f"the documents are of type {type(df).__name__}; expected a data frame of Spark",
            hint="spark.createDataFrame makes one; lshdb.deduplicate takes tables in memory",
        )
    types = {field.name: field.dataType for field in df.schema.fields}
    missing = [repr(name) for name in names if name not in types]
    if missing:
        raise ParameterError(
            f"the data frame has no column {' and no '.join(missing)}; the columns are: "
            f"{shown_names(df.columns)}",
            hint="name the columns with key= and text=",
        )
    return types


def _has_order(kind: st.DataType) -> bool:
    """Return False if the values of a type certainly cannot be compared."""
    nested = (st.ArrayType, st.MapType, st.StructType, st.VariantType, st.YearMonthIntervalType)
    return not isinstance(kind, (*nested, st.CalendarIntervalType))


def _may_be_key(kind: st.DataType) -> bool:
    if isinstance(kind, st.DecimalType):
        return kind.scale == 0
    return isinstance(kind, st.StringType | st.IntegralType | st.BinaryType)


def _as_texts(kind: st.DataType) -> st.DataType:
    """Return a type with strings instead of binary values, also within arrays and maps.

    Spark does not change the bytes; a row whose bytes are not UTF-8 is rejected later.
    """
    if isinstance(kind, st.BinaryType):
        return st.StringType()
    if isinstance(kind, st.ArrayType):
        return st.ArrayType(_as_texts(kind.elementType), kind.containsNull)
    if isinstance(kind, st.MapType):
        return st.MapType(_as_texts(kind.keyType), kind.valueType, kind.valueContainsNull)
    return kind


def column_name(name: str) -> str:
    """Return a name quoted for Spark."""
    return "`" + name.replace("`", "``") + "`"


def column_of(df: DataFrame, name: str) -> Column:
    """Return a column by its name."""
    return df[column_name(name)]


def _joined(df: DataFrame, names: Sequence[str]) -> Column:
    texts = [column_of(df, name).cast("string") for name in names]
    filled = [sf.when(text != "", text) for text in texts]
    return sf.when(sf.coalesce(*texts).isNotNull(), sf.concat_ws(JOINT, *filled))


def mapped(
    function: Callable[..., Iterator[pa.RecordBatch]], *arguments: Any
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow``, with its first arguments bound."""
    return functools.partial(function, *arguments)


def gathered(rows: DataFrame, *names: str, order: Sequence[Column | str] = ()) -> DataFrame:
    """Bring the rows of each group to one task, and sort them there, for ``mapInArrow``.

    ``repartition("root")`` is not enough. Spark leaves it out if the rows are partitioned by that
    column already, such as by a join. Then it may still change how it reads the input of the join,
    because ``mapInArrow`` itself asks for no distribution, and a group comes to several tasks. No
    row is partitioned by a hash of hashes already.

    Parameters
    ----------
    rows : DataFrame
        The rows.
    *names : str
        The columns whose values a group has in common.
    order : sequence of Column or str, optional
        How to sort, such that a group stays together; by default, by ``names``.
    """
    return rows.repartition(sf.xxhash64(*names)).sortWithinPartitions(*(order or names))


def _signed_batches(recipe: Recipe, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    family = recipe.family()
    for batch in small_batches(pa, batches):
        yield _signed_batch(family, batch)


def _signed_batch(family: Family, batch: pa.RecordBatch) -> pa.RecordBatch:
    n = batch.num_rows
    keys, bodies = batch.column("key"), batch.column("body")
    reasons, values, sizes = _readable(family, keys, bodies)
    if any(NOT_UTF_8 in reason for reason in reasons if reason is not None):
        keys, bodies = _without_wrong(keys, bodies, reasons)
    good = np.array([reason is None for reason in reasons], dtype=bool)
    hashes, rows, counts = _signatures(family, values)
    filled = np.zeros(n, dtype=bool)
    filled[good] = counts > 0
    has_shingles = counts > 0
    n_shingles, n_chars = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    n_shingles[good], n_chars[good] = counts, sizes
    rows = rows[has_shingles]
    keys_of_rows = bucket_keys(rows, **family.params.cut)
    ids = np.frombuffer(b"".join(hashes), dtype=np.uint8).reshape(-1, ID_BYTES)[has_shingles]
    return pa.RecordBatch.from_arrays(
        [
            keys,
            bodies,
            batch.column("place"),
            order_keys(batch.column("value")),
            pa.array(n_chars),
            pa.array(n_shingles),
            spread(binaries(ids), filled),
            spread(binaries(rows.astype("<u2", copy=False)), filled),
            spread(_lists(keys_of_rows), filled),
            pa.array(reasons, pa.string()),
        ],
        names=SIGNED,
    )


def order_keys(values: pa.Array) -> pa.Array:
    """Return values as bytes that sort like them."""
    if values.null_count == len(values):
        return pa.nulls(len(values), pa.binary())
    return pa.array(map(order_key, json_values(pa, values)), pa.binary())


def _readable(
    family: Family, keys: pa.Array, bodies: pa.Array
) -> tuple[list[str | None], list[Any], list[int]]:
    """Return the reason why each row is no document, or None; bodies and sizes of documents."""
    if family.takes_texts and pa.types.is_string(bodies.type) and _are_utf_8(keys):
        wrong = _wrong_keys(keys)
        too_long = pc.fill_null(pc.greater(pc.binary_length(bodies), _GROWING), False)
        doubtful = pc.or_(pc.or_(wrong, pc.is_null(bodies)), too_long)
        if not doubtful.true_count:
            texts = text_values(pa, bodies)
            if set(map(type, texts)) == {str}:
                return [None] * len(texts), texts, list(map(len, texts))
    reasons: list[str | None] = []
    good: list[Any] = []
    for (_, reason), body in zip(keys_of(pa, keys), bodies_of(bodies), strict=True):
        if reason is None and isinstance(body, Unreadable):
            reason = f"the body {body.reason}"
        if reason is None and body is None:
            reason = "the body is null"
        if reason is None:
            reason = _too_long(body) or family.refusal(body)
        reasons.append(reason)
        if reason is None:
            good.append(body)
    if family.params.kind.is_dense:
        return reasons, good, [family.params.dim] * len(good)
    return reasons, good, list(map(n_chars_of, good))


def _are_utf_8(texts: pa.Array) -> bool:
    """Return whether all texts are UTF-8: a string of Spark may have any bytes."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _without_wrong(
    keys: pa.Array, bodies: pa.Array, reasons: list[str | None]
) -> tuple[pa.Array, pa.Array]:
    """Return keys and bodies with null for unreadable keys, and for bodies of rejected rows."""
    shown = [None if reason else key for (key, reason) in keys_of(pa, keys)]
    places = pa.array(
        [number if reason is None else None for number, reason in enumerate(reasons)], pa.int64()
    )
    return pa.array(shown, pa.string()), bodies.take(places)


def _wrong_keys(keys: pa.Array) -> pa.Array:
    """Return whether each key may be invalid: null, empty, long, or with a NUL."""
    length = pc.binary_length(keys)
    odd = pc.or_(pc.equal(length, 0), pc.greater(length, MAX_KEY_BYTES))
    return pc.fill_null(pc.or_(odd, pc.match_substring(keys, "\0")), True)


def _too_long(body: Any) -> str | None:
    size = body.nbytes if isinstance(body, np.ndarray) else len(body)
    if size <= MAX_DOCUMENT_BYTES:
        return None
    return f"the body has at least {size:,} bytes, more than the limit of {MAX_DOCUMENT_BYTES:,}"


def _signatures(
    family: Family, bodies: list[Any]
) -> tuple[list[bytes], NDArray[np.uint16], NDArray[np.int64]]:
    """Return content hash, signature row and number of shingles of each accepted body."""
    is_plain = family.takes_texts and all(
        type(body) is str and len(body) <= _LONG for body in bodies
    )
    if is_plain:
        texts = family.sign_texts(bodies, PERSON_OF_TEXTS)
        return texts.hashes, texts.rows, texts.counts
    contents = family.contents(bodies)
    rows, counts = family.sign_contents(contents)
    return [hash_body(*raw_body(content)) for content in contents], rows, counts


def bodies_of(column: pa.Array) -> list[Any]:
    """Return the bodies of a column: texts, tokens, weights, vectors or bits; None for null."""
    return column_bodies(pa, column, is_dense=True)  # texts are no binary values here: _as_texts


def binaries(rows: NDArray[Any]) -> pa.Array:
    """Return the rows of an array as binary values, without an object for each."""
    data = np.ascontiguousarray(rows)
    n, width = len(data), data.nbytes // max(1, len(data))
    ends = np.arange(n + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def _lists(rows: NDArray[np.int64]) -> pa.Array:
    n, width = rows.shape
    ends = np.arange(n + 1, dtype=np.int32) * np.int32(width)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(rows.reshape(-1)))


def spread(values: pa.Array, filled: NDArray[np.bool_]) -> pa.Array:
    """Return the values at the filled places, and null at the others."""
    if filled.all():
        return values
    places = np.where(filled, np.cumsum(filled) - 1, 0)
    return values.take(pa.array(places, pa.int64(), mask=~filled))
