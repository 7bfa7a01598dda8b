"""Read documents from files, pipes and Python objects: one module per input format."""

from lshdb.documents.document import (
    MAX_KEY_BYTES,
    Body,
    Document,
    Given,
    Rejected,
    given_document,
    json_fields,
    validate_body,
    validate_key,
)
from lshdb.documents.formats.registry import INPUT_FORMATS
from lshdb.documents.frames import Table
from lshdb.documents.io.folders import WalkCounts
from lshdb.documents.read import (
    MAX_DOCUMENT_BYTES,
    Peek,
    check_document_limit,
    peek_documents,
    read_documents,
)

__all__ = [
    "INPUT_FORMATS",
    "MAX_DOCUMENT_BYTES",
    "MAX_KEY_BYTES",
    "Body",
    "Document",
    "Given",
    "Peek",
    "Rejected",
    "Table",
    "WalkCounts",
    "check_document_limit",
    "given_document",
    "json_fields",
    "peek_documents",
    "read_documents",
    "validate_body",
    "validate_key",
]
