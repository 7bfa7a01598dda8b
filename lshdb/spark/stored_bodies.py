"""Convert bodies to and from the columns of a dataset's tables, and hash them.

The tables ``documents`` and ``signatures`` have a column for each kind of body: a text, tokens, the
JSON of weights, and the bytes of a vector. A body has a value in one of them. Here these columns
are the fields of one structure, so that every stage takes one column of bodies for any metric.

Lists and sets of tokens share a column. The hash of the body tells them apart, as it does when a
dataset is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from lshdb.arrays import sorted_texts
from lshdb.ingest.batch import hash_bodies, hash_texts
from lshdb.params.index_params import IndexParams
from lshdb.signatures.family import Family
from lshdb.spark.signing import Recipe, bodies_of, mapped, spread
from lshdb.storage.rowfiles.layouts import row_layouts
from lshdb.storage.tables.bodies import hash_body, raw_body

__all__ = ["hashed", "other_bodies", "stored_bodies", "stored_body"]

_BODY = (
    st.StructType()
    .add("text", st.StringType())
    .add("tokens", st.ArrayType(st.StringType()))
    .add("weights", st.StringType())
    .add("vector", st.BinaryType())
    .add("hash", st.StringType())
)
"""``hash`` is the hash of tokens, in hexadecimal digits; null for other bodies."""
_ARROW = {
    "text": pa.string(), "tokens": pa.list_(pa.string()), "weights": pa.string(),
    "vector": pa.binary(), "hash": pa.string(),
}  # fmt: skip


def hashed(signed: DataFrame, recipe: Recipe) -> DataFrame:
    """Convert the bodies of signed rows, and add ``body_hash`` and ``content_hash``.

    Parameters
    ----------
    signed : DataFrame
        As :func:`lshdb.spark.signing.signed` returns it.
    recipe : Recipe
        How the rows were signed.

    Returns
    -------
    DataFrame
        ``body`` is a structure with the fields ``text``, ``tokens``, ``weights`` and ``vector``;
        hashes are hexadecimal digits. All three columns are null for rows that are no documents.
    """
    schema = st.StructType()
    for field in signed.schema.fields:
        schema.add(field.name, _BODY if field.name == "body" else field.dataType)
    schema.add("body_hash", st.StringType()).add("content_hash", st.StringType())
    return signed.mapInArrow(mapped(_hashed_batches, recipe), schema)


def stored_body(columns: Iterable[str]) -> Column:
    """Return the body of a row of tables, as :func:`stored_bodies` reads it.

    Parameters
    ----------
    columns : iterable of str
        The columns of the row: ``body_hash``, and those of ``text``, ``tokens``, ``weights`` and
        ``vector`` that the index keeps.
    """
    present = {name: sf.col(name) for name in columns}
    if "tokens" in present:
        present["hash"] = sf.when(present["tokens"].isNotNull(), present["body_hash"])
    fields = ((field.name, field.dataType) for field in _BODY.fields)
    return sf.struct(
        *(present.get(name, sf.lit(None)).cast(kind).alias(name) for name, kind in fields)
    )


def stored_bodies(params: IndexParams, column: pa.StructArray) -> list[Any]:
    """Return the bodies in a column of :func:`hashed` or :func:`stored_body`."""
    if params.kind.is_dense:
        dtype = row_layouts(params)[-1].dtype
        return [np.frombuffer(row, dtype) for row in column.field("vector").to_pylist()]
    texts: list[Any] = column.field("text").to_pylist()
    if not column.field("text").null_count:
        return texts
    fields = (column.field(name).to_pylist() for name in ("tokens", "weights", "hash"))
    rows = zip(texts, *fields, strict=True)
    return [_token_body(*values) if text is None else text for text, *values in rows]


def _token_body(tokens: list[str] | None, weights: str | None, digest: str | None) -> Any:
    if tokens is None:
        return None if weights is None else orjson.loads(weights)
    is_list = hash_body(*raw_body(tokens)).hex() == digest
    return tokens if is_list else frozenset(tokens)


def other_bodies(params: IndexParams, documents: DataFrame) -> DataFrame:
    """Return (doc_id) of the documents whose body does not have its hash.

    Parameters
    ----------
    params : IndexParams
        The parameters of the index.
    documents : DataFrame
        ``doc_id``, ``body``, ``body_hash``.
    """
    return documents.select("doc_id", "body", "body_hash").mapInArrow(
        mapped(_other_batches, params), "doc_id bigint"
    )


def _other_batches(
    params: IndexParams, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        bodies = stored_bodies(params, batch.column("body"))
        digests = [digest.hex() for digest in hash_bodies(bodies).hashes]
        is_other = np.array(digests) != np.array(batch.column("body_hash").to_pylist())
        yield batch.select(["doc_id"]).filter(pa.array(is_other))


def _hashed_batches(recipe: Recipe, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    family = recipe.family()
    for batch in batches:
        is_good = batch.column("reason").is_null().to_numpy(zero_copy_only=False)
        good = pa.array(np.flatnonzero(is_good))
        column = batch.column("body").take(good)
        bodies, hashes = _hashed(family, column)
        contents = [
            hash_body(*raw_body(family.content(body))) if signature_id is None else signature_id
            for body, signature_id in zip(
                bodies, batch.column("signature_id").take(good).to_pylist(), strict=True
            )  # without shingles there is no signature
        ]
        digests = pa.array([digest.hex() for digest in hashes], pa.string())
        new_columns = {
            "body": _as_stored(family, column, bodies, digests),
            "body_hash": digests,
            "content_hash": pa.array([digest.hex() for digest in contents], pa.string()),
        }
        names = [*batch.schema.names, "body_hash", "content_hash"]
        columns = [
            spread(new_columns[name], is_good) if name in new_columns else batch.column(name)
            for name in names
        ]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _hashed(family: Family, column: pa.Array) -> tuple[list[Any], list[bytes]]:
    """Return accepted bodies as they are stored, and their hashes.

    A vector is stored as its content. The tokens of a map of Spark come in any order: they are
    sorted here, so that equal weights always have the same hash.
    """
    bodies = bodies_of(column)
    if family.params.kind.is_dense:
        bodies = family.contents(bodies)
    elif _are_weights(column):
        bodies = [{token: body[token] for token in sorted_texts(body)} for body in bodies]
    elif pa.types.is_string(column.type):
        return bodies, hash_texts(bodies).hashes
    return bodies, hash_bodies(bodies).hashes


def _are_weights(column: pa.Array) -> bool:
    return bool(pa.types.is_map(column.type) or pa.types.is_struct(column.type))


def _as_stored(
    family: Family, column: pa.Array, bodies: list[Any], digests: pa.Array
) -> pa.StructArray:
    """Return the accepted bodies of a column in the fields of :data:`_BODY`."""
    fields: dict[str, Any] = {}
    if family.params.kind.is_dense:
        fields["vector"] = pa.array([raw_body(body)[1] for body in bodies], pa.binary())
    elif pa.types.is_string(column.type):
        fields["text"] = column
    elif _are_weights(column):
        fields["weights"] = pa.array([raw_body(body)[1].decode() for body in bodies], pa.string())
    else:
        fields["tokens"], fields["hash"] = pa.array(bodies, _ARROW["tokens"]), digests
    arrays = [
        fields[name] if name in fields else pa.nulls(len(bodies), kind)
        for name, kind in _ARROW.items()
    ]
    return pa.StructArray.from_arrays(arrays, names=list(_ARROW))
