"""The statements that make a new database, as the migrations make it.

Written by ``python -m tests.storage.freeze_schemas``; a module of its own, because only a new index
imports it.
"""

# fmt: off
# ruff: noqa: E501

from __future__ import annotations

__all__ = ["STATEMENTS"]

STATEMENTS: tuple[str, ...] = (
    'CREATE TABLE alembic_version (\n\tversion_num VARCHAR(32) NOT NULL, \n\tCONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)\n)',
    'CREATE TABLE batch (\n\tbatch_id INTEGER NOT NULL, \n\tadd_id INTEGER NOT NULL, \n\tstarted_at TEXT NOT NULL, \n\tfinished_at TEXT NOT NULL, \n\tsource TEXT NOT NULL, \n\tn_added INTEGER NOT NULL, \n\tn_replaced INTEGER NOT NULL, \n\tn_unchanged INTEGER NOT NULL, \n\tn_copies INTEGER NOT NULL, \n\tn_rejected INTEGER NOT NULL, \n\tn_removed INTEGER NOT NULL, \n\tunicode_version TEXT NOT NULL, \n\tchecksum INTEGER DEFAULT 0 NOT NULL, \n\tCONSTRAINT pk_batch PRIMARY KEY (batch_id)\n)',
    'CREATE TABLE cluster_member (\n\tsignature_id INTEGER NOT NULL, \n\tlabel INTEGER NOT NULL, \n\tCONSTRAINT pk_cluster_member PRIMARY KEY (signature_id)\n)',
    'CREATE INDEX ix_cluster_member_label ON cluster_member (label)',
    'CREATE TABLE cursor (\n\tname TEXT NOT NULL, \n\tbatch_id INTEGER NOT NULL, \n\tadvanced_at TEXT NOT NULL, \n\tchecksum INTEGER DEFAULT 0 NOT NULL, \n\tCONSTRAINT pk_cursor PRIMARY KEY (name)\n)',
    'CREATE TABLE edge (\n\tsignature1 INTEGER NOT NULL, \n\tsignature2 INTEGER NOT NULL, \n\tsimilarity FLOAT NOT NULL, \n\tmethod TEXT NOT NULL, \n\tchecksum INTEGER DEFAULT 0 NOT NULL, \n\tCONSTRAINT pk_edge PRIMARY KEY (signature1, signature2), \n\tCONSTRAINT ck_edge_order CHECK (signature1 < signature2)\n)\n WITHOUT ROWID\n\n',
    'CREATE INDEX ix_edge_signature2 ON edge (signature2)',
    'CREATE TABLE edge_state (\n\tedge_state_id INTEGER NOT NULL CONSTRAINT ck_edge_state_single CHECK (edge_state_id = 1), \n\tthreshold FLOAT NOT NULL, \n\tmethod TEXT NOT NULL, \n\tmax_bucket INTEGER NOT NULL, \n\tn_signatures INTEGER NOT NULL, \n\tbatch_id INTEGER NOT NULL, \n\trelease_id INTEGER NOT NULL, \n\thot_buckets INTEGER NOT NULL, \n\thot_pairs INTEGER NOT NULL, \n\trecall_lost FLOAT NOT NULL, \n\tupdated_at TEXT NOT NULL, \n\tchecksum INTEGER DEFAULT 0 NOT NULL, \n\tCONSTRAINT pk_edge_state PRIMARY KEY (edge_state_id)\n)',
    'CREATE TABLE parameter (\n\tname TEXT NOT NULL, \n\tvalue TEXT NOT NULL, \n\tCONSTRAINT pk_parameter PRIMARY KEY (name)\n)',
    'CREATE TABLE segment (\n\tn_signatures INTEGER NOT NULL, \n\tnumber INTEGER NOT NULL, \n\tCONSTRAINT pk_segment PRIMARY KEY (n_signatures)\n)',
    'CREATE TABLE signature_block (\n\tfirst_row INTEGER NOT NULL, \n\tn_rows INTEGER NOT NULL, \n\tcrc32 INTEGER NOT NULL, \n\tvector_crc32 INTEGER, \n\tCONSTRAINT pk_signature_block PRIMARY KEY (first_row)\n)',
    'CREATE TABLE signature_release (\n\trelease_id INTEGER NOT NULL, \n\tsignature_id INTEGER NOT NULL, \n\tbatch_id INTEGER NOT NULL, \n\tCONSTRAINT pk_signature_release PRIMARY KEY (release_id)\n)',
    'CREATE INDEX ix_signature_release_signature_id ON signature_release (signature_id)',
    'CREATE TABLE state (\n\tstate_id INTEGER NOT NULL CONSTRAINT ck_state_single CHECK (state_id = 1), \n\tformat INTEGER NOT NULL, \n\tuuid TEXT NOT NULL, \n\tcreated_at TEXT NOT NULL, \n\tlibrary_version TEXT NOT NULL, \n\tunicode_version TEXT NOT NULL, \n\tsignature_file TEXT NOT NULL, \n\tn_signatures INTEGER NOT NULL, \n\tnext_doc_id INTEGER NOT NULL, \n\tis_distance INTEGER NOT NULL, \n\tindex_bands INTEGER NOT NULL, \n\tchecksum INTEGER DEFAULT 0 NOT NULL, \n\tCONSTRAINT pk_state PRIMARY KEY (state_id)\n)',
    'CREATE TABLE text_dictionary (\n\tdictionary_id INTEGER NOT NULL CONSTRAINT ck_text_dictionary_single CHECK (dictionary_id = 1), \n\thash BLOB NOT NULL, \n\tbody BLOB NOT NULL, \n\tCONSTRAINT pk_text_dictionary PRIMARY KEY (dictionary_id)\n)',
    'CREATE TABLE document (\n\tdoc_id INTEGER NOT NULL, \n\t"key" TEXT NOT NULL, \n\tsignature_id INTEGER, \n\tcontent_hash BLOB NOT NULL, \n\tbody_hash BLOB NOT NULL, \n\tn_shingles INTEGER NOT NULL, \n\tn_chars INTEGER NOT NULL, \n\tsource TEXT NOT NULL, \n\tbatch_id INTEGER NOT NULL, \n\tadded_at TEXT NOT NULL, \n\tlast_seen_at TEXT NOT NULL, \n\tn_unassigned INTEGER, \n\tchecksum INTEGER DEFAULT 0 NOT NULL, \n\tCONSTRAINT pk_document PRIMARY KEY (doc_id), \n\tCONSTRAINT uq_document_key UNIQUE ("key"), \n\tCONSTRAINT fk_document_batch_id_batch FOREIGN KEY(batch_id) REFERENCES batch (batch_id)\n)',
    'CREATE INDEX ix_document_batch_id ON document (batch_id)',
    'CREATE INDEX ix_document_signature_id ON document (signature_id)',
    'CREATE TABLE night (\n\tadd_id INTEGER NOT NULL, \n\tname TEXT NOT NULL, \n\tchecksum INTEGER DEFAULT 0 NOT NULL, \n\tCONSTRAINT pk_night PRIMARY KEY (add_id), \n\tCONSTRAINT fk_night_add_id_batch FOREIGN KEY(add_id) REFERENCES batch (batch_id)\n)',
    'CREATE TABLE unfinished_add (\n\tadd_id INTEGER NOT NULL, \n\tCONSTRAINT pk_unfinished_add PRIMARY KEY (add_id), \n\tCONSTRAINT fk_unfinished_add_add_id_batch FOREIGN KEY(add_id) REFERENCES batch (batch_id)\n)',
    "CREATE TABLE content (\n\tdoc_id INTEGER NOT NULL, \n\tform TEXT NOT NULL CONSTRAINT ck_content_form CHECK (form IN ('text', 'tokens')), \n\tbody BLOB NOT NULL, \n\tCONSTRAINT pk_content PRIMARY KEY (doc_id), \n\tCONSTRAINT fk_content_doc_id_document FOREIGN KEY(doc_id) REFERENCES document (doc_id)\n)",
    'CREATE TABLE kept_field (\n\tdoc_id INTEGER NOT NULL, \n\tfields TEXT NOT NULL, \n\tchecksum INTEGER DEFAULT 0 NOT NULL, \n\tCONSTRAINT pk_kept_field PRIMARY KEY (doc_id), \n\tCONSTRAINT fk_kept_field_doc_id_document FOREIGN KEY(doc_id) REFERENCES document (doc_id)\n)',
    'CREATE VIEW new_document AS SELECT document.doc_id, document.key, document.signature_id, lower(hex(document.content_hash)) AS content_hash, lower(hex(document.body_hash)) AS body_hash, document.n_shingles, document.n_chars, document.source, document.batch_id, document.added_at, document.last_seen_at, document.n_unassigned FROM document WHERE batch_id >= (SELECT coalesce((SELECT min(other.add_id) FROM night JOIN night AS other ON other.name = night.name WHERE night.add_id = changed.add_id), changed.add_id) FROM (SELECT max(add_id) AS add_id FROM batch WHERE n_removed = 0 AND (n_added > 0 OR n_replaced > 0 OR (SELECT min(own.batch_id) FROM document AS own WHERE own.batch_id >= batch.batch_id) = batch.batch_id)) AS changed)',
    'CREATE VIEW cursor_document AS SELECT "cursor".name AS cursor_name, document.doc_id, document.key, document.signature_id, lower(hex(document.content_hash)) AS content_hash, lower(hex(document.body_hash)) AS body_hash, document.n_shingles, document.n_chars, document.source, document.batch_id, document.added_at, document.last_seen_at, document.n_unassigned FROM "cursor" JOIN document ON document.batch_id > "cursor".batch_id',
    'CREATE VIEW document_field AS SELECT document.key, document.doc_id, field.key AS name, field.value FROM kept_field JOIN document ON document.doc_id = kept_field.doc_id CROSS JOIN json_each(kept_field.fields) AS field',
    "CREATE VIEW neighbor AS SELECT document.key, other.key AS neighbor, edge.similarity, edge.method, CASE WHEN (SELECT is_distance FROM state) = 1 THEN 0.0 - edge.similarity END AS distance FROM document JOIN edge ON edge.signature1 = document.signature_id JOIN document AS other ON other.signature_id = edge.signature2 UNION ALL SELECT document.key, other.key AS neighbor, edge.similarity, edge.method, CASE WHEN (SELECT is_distance FROM state) = 1 THEN 0.0 - edge.similarity END AS distance FROM document JOIN edge ON edge.signature2 = document.signature_id JOIN document AS other ON other.signature_id = edge.signature1 UNION ALL SELECT document.key, other.key AS neighbor, (SELECT 1.0 - is_distance FROM state) AS similarity, 'exact' AS method, CASE WHEN (SELECT is_distance FROM state) = 1 THEN 0.0 END AS distance FROM document JOIN document AS other ON other.signature_id = document.signature_id AND other.doc_id <> document.doc_id",
    'CREATE VIEW cluster AS SELECT labelled.key AS label, document.key, document.doc_id, document.signature_id FROM cluster_member JOIN document ON document.signature_id = cluster_member.signature_id JOIN document AS labelled ON labelled.doc_id = cluster_member.label',
    "INSERT INTO alembic_version VALUES ('0001')",
)
