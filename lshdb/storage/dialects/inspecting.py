"""What SQLite says of itself, for whoever checks or salvages a database."""

__all__ = ["INTEGRITY_SQL", "KEYS_BY_INDEX_SQL", "RUN_TABLES_SQL"]

INTEGRITY_SQL = "PRAGMA integrity_check"
"""Rows are findings of the database about itself, or one row ``ok``."""

RUN_TABLES_SQL = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'posting_run_[0-9]*'"
)
"""Names of the posting runs that there are, whether the table ``run`` lists them or not."""

KEYS_BY_INDEX_SQL = "SELECT doc_id, key FROM document INDEXED BY sqlite_autoindex_document_1"
"""Keys without reading the table: the index of a unique column holds them once more."""
