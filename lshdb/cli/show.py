"""``lshdb show``: show a document with everything stored about it."""

from __future__ import annotations

from typing import Any

import click

from lshdb import Index, ShownDocument
from lshdb.cli._command import Argument
from lshdb.cli._keys import document_key
from lshdb.cli._options import Command, index_argument, record_options
from lshdb.cli._output import print_record

__all__ = ["command"]

_COPIES_SHOWN = 10
_NUMBERS_SHOWN = 100


@click.command("show", cls=Command)
@index_argument
@click.argument("key", metavar="KEY", cls=Argument, missing="the key of a document")
@record_options
def command(index_path: str, key: str, *, output_format: str | None) -> None:
    """Show the document KEY of INDEX, with its text or vector and its exact copies.

    tsv and csv write one field per line; jsonl writes one object.

    \b
    lshdb show news.lshdb article-17
    lshdb show news.lshdb article-17 --json
    lshdb show news.lshdb article-17 --output article.json
    """
    with Index.open(index_path) as index:
        shown = index.show(document_key(index, key))
    print_record(_fields(shown), output_format, shown=_in_table(shown))


def _fields(shown: ShownDocument) -> dict[str, Any]:
    document = shown.document
    return {
        "key": document.key,
        "doc_id": document.doc_id,
        "signature_id": document.signature_id,
        "content_hash": document.content_hash,
        "body_hash": document.body_hash,
        "n_shingles": document.n_shingles,
        "n_chars": document.n_chars,
        "source": document.source,
        "batch_id": document.batch_id,
        "added_at": document.added_at,
        "last_seen_at": document.last_seen_at,
        "copies": shown.copies,
        **({"fields": shown.fields} if shown.fields else {}),
        _body_name(shown): shown.plain_body,
    }


def _in_table(shown: ShownDocument) -> dict[str, str]:
    copies = list(shown.copies[:_COPIES_SHOWN])
    more = len(shown.copies) - len(copies)
    texts = {
        "signature_id": "none: no token"
        if shown.document.signature_id is None
        else str(shown.document.signature_id),
        "copies": "\n".join([*copies, f"and {more:,} more"] if more else copies) or "none",
    }
    if shown.fields:
        texts["fields"] = "\n".join(f"{name}: {value}" for name, value in shown.fields.items())
    name, body = _body_name(shown), shown.plain_body
    if body is None:
        texts[name] = "not stored"
    elif name == "vector" and isinstance(body, list):
        rest = len(body) - _NUMBERS_SHOWN
        numbers = [f"{number:g}" for number in body[:_NUMBERS_SHOWN]]
        texts[name] = " ".join([*numbers, f"and {rest:,} more"] if rest > 0 else numbers)
    elif isinstance(body, list):
        texts[name] = " | ".join(body)
    elif isinstance(shown.body, frozenset):
        texts[name] = " | ".join(body["set"])
    return texts


def _body_name(shown: ShownDocument) -> str:
    """Return the name of the body's field, here and in the input of ``lshdb add``."""
    return "vector" if shown.params.kind.is_dense else "text"
