"""Bytes in the world -> a stream of documents: one file per input format."""

from lshdb.documents.keys import MAX_KEY_BYTES, validate_body, validate_key
from lshdb.documents.model import Body, Document, Given, Rejected, given_document
from lshdb.documents.peeking import Peek, peek_documents
from lshdb.documents.reading import MAX_DOCUMENT_BYTES, check_document_limit, read_documents
from lshdb.documents.sources import FORMATS as INPUT_FORMATS

__all__ = [
    "INPUT_FORMATS",
    "MAX_DOCUMENT_BYTES",
    "MAX_KEY_BYTES",
    "Body",
    "Document",
    "Given",
    "Peek",
    "Rejected",
    "check_document_limit",
    "given_document",
    "peek_documents",
    "read_documents",
    "validate_body",
    "validate_key",
]
