"""Read documents from files, pipes and Python objects: one module per input format.

What reads is imported when it is first asked for (PEP 562): a query for one text reads no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lshdb.documents.document import (
    MAX_DOCUMENT_BYTES,
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

if TYPE_CHECKING:
    from lshdb.documents.blocks import (
        DocumentBlock,
        DocumentStream,
        Item,
        body_weight,
        in_blocks,
    )
    from lshdb.documents.frames import Table
    from lshdb.documents.io.folders import WalkCounts
    from lshdb.documents.read import Peek, check_document_limit, peek_documents, read_documents
    from lshdb.documents.registry import INPUT_FORMATS
    from lshdb.documents.written_keys import LONGEST_KEY_LINES, json_key, unescaped

__all__ = [
    "INPUT_FORMATS",
    "LONGEST_KEY_LINES",
    "MAX_DOCUMENT_BYTES",
    "MAX_KEY_BYTES",
    "Body",
    "Document",
    "DocumentBlock",
    "DocumentStream",
    "Given",
    "Item",
    "Peek",
    "Rejected",
    "Table",
    "WalkCounts",
    "body_weight",
    "check_document_limit",
    "given_document",
    "in_blocks",
    "json_fields",
    "json_key",
    "peek_documents",
    "read_documents",
    "unescaped",
    "validate_body",
    "validate_key",
]

_HOMES = {
    "DocumentBlock": "blocks",
    "DocumentStream": "blocks",
    "Item": "blocks",
    "body_weight": "blocks",
    "in_blocks": "blocks",
    "INPUT_FORMATS": "registry",
    "LONGEST_KEY_LINES": "written_keys",
    "Peek": "read",
    "Table": "frames",
    "WalkCounts": "io.folders",
    "check_document_limit": "read",
    "json_key": "written_keys",
    "peek_documents": "read",
    "read_documents": "read",
    "unescaped": "written_keys",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value  # asked for once
    return value
