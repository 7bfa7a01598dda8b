"""Statements about the views that pages show; a module of its own, beside what makes the views.

Pages run them as a user would: through :meth:`lshdb.Index.sql`, or through Datasette.
"""

from __future__ import annotations

from lshdb.storage.tables.records import time_of_document

__all__ = [
    "BUCKETS_OF_KEY",
    "BUCKET_KEYS",
    "CLUSTERS_RANKED",
    "CLUSTER_EDGES",
    "CLUSTER_KEYS",
    "CLUSTER_LABEL",
    "CLUSTER_LEVELS",
    "CLUSTER_MEMBERS",
    "CLUSTER_NUMBER",
    "CLUSTER_OF_KEY",
    "CLUSTER_UPDATE",
    "COUNT_INDEX_TABLES",
    "DOCUMENT",
    "DOCUMENT_FIELDS",
    "DOCUMENT_ORIGIN",
    "FIRST_KEYS",
    "INDEX_TABLES",
    "LENGTHS",
    "NEIGHBORS",
    "SIGNATURE_KEY",
    "STATE_READ",
]

INDEX_TABLES = (
    "document", "content", "state", "edge_state", "neighbor", "cluster", "document_field",
)  # fmt: skip
"""Tables and views by which a database of SQLite is known to be an index."""
COUNT_INDEX_TABLES = (
    f"SELECT count(*) FROM sqlite_master WHERE name IN ({', '.join(map(repr, INDEX_TABLES))})"
)

LENGTHS = "SELECT CAST(n_chars AS BIGINT) FROM document WHERE key IN (:key1, :key2)"
CLUSTER_OF_KEY = (
    "SELECT label, (SELECT count(*) FROM cluster AS other WHERE other.label = own.label) "
    "FROM cluster AS own WHERE key = :key"
)
"""Label and size of the cluster of a key."""
STATE_READ = (
    "SELECT uuid, signature_file, n_signatures, next_doc_id, "
    "(SELECT max(batch_id) FROM batch), (SELECT max(release_id) FROM signature_release), "
    "(SELECT updated_at FROM edge_state) FROM state"
)
"""What is another row after every commit that changes documents, buckets or clusters."""
CLUSTERS_RANKED = (
    "SELECT label, count(*), max(batch_id) FROM cluster_member "
    "JOIN document ON document.signature_id = cluster_member.signature_id "
    "GROUP BY label HAVING count(*) > 1 ORDER BY count(*) DESC, label"
)
"""Of each cluster: its number, how many documents it has, and the last batch of these."""
CLUSTER_LEVELS = (
    "SELECT label, min(similarity), max(similarity) FROM edge "
    "JOIN cluster_member ON cluster_member.signature_id = edge.signature1 GROUP BY label"
)
CLUSTER_NUMBER = (
    "SELECT label FROM cluster_member "
    "JOIN document ON document.signature_id = cluster_member.signature_id WHERE key = :key"
)
CLUSTER_MEMBERS = (
    "SELECT key, document.signature_id, source, batch_id FROM cluster_member "
    "JOIN document ON document.signature_id = cluster_member.signature_id "
    "WHERE label = :label ORDER BY doc_id LIMIT :most"
)
CLUSTER_EDGES = (
    "SELECT signature1, signature2, similarity FROM edge "
    "JOIN cluster_member ON cluster_member.signature_id = edge.signature1 "
    "WHERE label = :label LIMIT :most"
)
CLUSTER_KEYS = "SELECT key FROM cluster WHERE label = :label ORDER BY doc_id LIMIT :most"
BUCKET_KEYS = (
    "SELECT key FROM document_bucket WHERE band = :band AND bucket = :bucket "
    "ORDER BY doc_id LIMIT :most"
)
BUCKETS_OF_KEY = "SELECT band, bucket FROM document_bucket WHERE key = :key"
SIGNATURE_KEY = (
    "SELECT key FROM document WHERE signature_id = :signature_id ORDER BY doc_id LIMIT 1"
)

DOCUMENT = (
    "SELECT document.doc_id, key, n_chars, n_shingles, source, batch_id, "
    f"{time_of_document('added_at')} AS added_at, "
    f"{time_of_document('last_seen_at')} AS last_seen_at, "
    "substr(text(doc_id), 1, :most) AS body, signature_id FROM document WHERE key = :key"
)
DOCUMENT_ORIGIN = (
    f"SELECT {time_of_document('added_at')} AS added_at, source FROM document WHERE key = :key"
)
FIRST_KEYS = "SELECT key FROM document ORDER BY doc_id LIMIT 2"
DOCUMENT_FIELDS = "SELECT name, value FROM document_field WHERE doc_id = :doc_id"
NEIGHBORS = (
    "SELECT neighbor, similarity, method, distance FROM neighbor WHERE key = :key "
    "ORDER BY similarity DESC, neighbor LIMIT :most"
)
CLUSTER_LABEL = "SELECT label FROM cluster WHERE key = :key"
CLUSTER_UPDATE = "SELECT updated_at FROM edge_state"
