"""All that a query asks of the database, in one statement: one way to the server and back.

The statement is its own transaction, so what it gives is of one state. The runs that count are
those in ``run`` at that moment, so its text, and with it the prepared plan, is always the same.
LATERAL and OFFSET 0 keep the order: from the runs to their partitions, from the candidates to their
documents, from the first document of each to its text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from lshdb.storage.dialects.postgresql.session import STATE_COLUMNS
from lshdb.storage.dialects.reading import Answer

__all__ = ["ask"]

_MOST_CANDIDATES = 256
"""More are not answered at once: most of them will not pass the first look at their signatures."""

_ASK_SQL = f"""
WITH hit AS MATERIALIZED (
    SELECT found.signature_id FROM run CROSS JOIN LATERAL (
        SELECT signature_id FROM stored_posting
        WHERE stored_posting.run_id = run.run_id AND bucket_key = ANY($1) OFFSET 0
    ) AS found
), candidate AS MATERIALIZED (
    SELECT signature_id, count(*) AS n_buckets FROM hit GROUP BY signature_id
), counted AS MATERIALIZED (
    SELECT count(*) <= {_MOST_CANDIDATES} AS is_few FROM candidate
)
SELECT {STATE_COLUMNS},
    (SELECT is_few FROM counted), one.signature_id, one.n_buckets, one.doc_id, one.key,
    one.batch_id, one.form, one.body, one.n_chars
FROM state LEFT JOIN (
    SELECT candidate.signature_id, candidate.n_buckets, document.doc_id, document.key,
        document.batch_id, content.form, content.body, document.n_chars
    FROM candidate LEFT JOIN LATERAL (
        SELECT doc_id, key, batch_id, n_chars, row_number() OVER (ORDER BY doc_id) AS place
        FROM document WHERE document.signature_id = candidate.signature_id OFFSET 0
    ) AS document ON true LEFT JOIN LATERAL (
        SELECT form, body FROM content
        WHERE content.doc_id = document.doc_id AND document.place = 1 AND $2::bool OFFSET 0
    ) AS content ON true
    WHERE (SELECT is_few FROM counted)
) AS one ON true
"""


def ask(
    connection: psycopg.Connection[Any], keys: NDArray[np.int64], *, with_bodies: bool
) -> Answer | None:
    """What lies in some buckets; None where that is too much to be answered at once.

    Parameters
    ----------
    connection : psycopg.Connection
        With no transaction open.
    keys : ndarray of int64, shape (n,)
        Distinct bucket keys.
    with_bodies : bool
        Also the texts of the candidates.

    Raises
    ------
    psycopg.Error
        The database failed.
    """
    cursor = psycopg.RawCursor(connection)
    cursor.execute(_ASK_SQL, (np.sort(keys), with_bodies), prepare=True, binary=True)
    rows: list[Any] = cursor.fetchall()
    if not rows or not rows[0][5]:
        return None
    answer = Answer(rows[0][:5], {}, {}, {})
    for row in rows:
        signature_id, n_buckets, doc_id, key, batch_id, form, body, n_chars = row[6:]
        if signature_id is None:
            break
        answer.postings[signature_id] = n_buckets
        documents = answer.documents.setdefault(signature_id, [])
        if doc_id is not None:
            documents.append((doc_id, key, batch_id))
        if form is not None:
            answer.bodies[signature_id] = (form, body, n_chars, doc_id)
    return answer
