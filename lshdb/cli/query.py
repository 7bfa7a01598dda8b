"""``lshdb query``: what is similar to a text, to a document of the index, or to many texts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import click

from lshdb import Document, Hit, Index, Rejected, read_documents
from lshdb.cli._describing import UNIT_NAMES
from lshdb.cli._errors import REJECTED
from lshdb.cli._options import index_argument, input_options, listing_options, search_options
from lshdb.cli._output import Column, is_terminal, note, print_listing
from lshdb.cli._searching import note_recall

__all__ = ["command"]

COLUMNS = (
    Column("query_key", title="query"),
    Column("key"),
    Column("similarity", "similarity"),
    Column("method"),
)
TEXT_KEY = "text"
VECTOR_KEY = "vector"
"""These stand in the place of a query's key where the query is an option's value."""


def _vector(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Any:
    """Numbers or weights as JSON; anything else stands for bits as it is."""
    if value is None or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"{value[:80]!r} is not valid JSON: {error}") from error


@click.command("query", short_help="Find the documents most similar to a text or a key.")
@index_argument
@click.argument("files", metavar="[FILE...]", nargs=-1)
@click.option("--text", metavar="TEXT", help="Query this text.")
@click.option(
    "--vector",
    callback=_vector,
    metavar="VALUE",
    help="Query this vector: a JSON array of numbers; bits as 0s and 1s or hexadecimal digits; "
    "weights as a JSON object.",
)
@click.option("--key", metavar="KEY", help="Query a document of the index, itself left out.")
@click.option(
    "--top", type=int, default=10, show_default=True, metavar="N", help="Most answers a query."
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads for many queries.  [default: one a core; 1 where standard input is read, so that "
    "each query is answered as it comes]",
)
@search_options
@input_options
@listing_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    index_path: str,
    files: tuple[str, ...],
    *,
    text: str | None,
    key: str | None,
    top: int,
    workers: int | None,
    threshold: float | None,
    verify: str | None,
    vector: Any,
    input_format: str,
    output_format: str | None,
    **reading: Any,
) -> None:
    """The documents of INDEX that are most similar to each query, best first.

    Queries are one of: --text, --vector, --key, FILE... (as for add), or JSON Lines on standard
    input. For an index of unit url the text is a list of URLs, one a line, and so are files and
    standard input.

    \b
    lshdb query news.lshdb --text "the quick brown fox jumps over the lazy dog"
    lshdb query news.lshdb --key article-17 --top 3
    lshdb query news.lshdb tonight.jsonl --format jsonl
    lshdb query points.lshdb --vector '[0.5, -1, 2]'
    """
    given = [text is not None, vector is not None, key is not None, bool(files)]
    sources = sum(given)
    if sources > 1:
        raise click.UsageError("give one of FILE..., --text, --vector and --key", ctx)
    if not sources and is_terminal(sys.stdin):
        raise click.UsageError(
            "nothing to query: give --text, --vector, --key or FILE..., or pipe JSON Lines in", ctx
        )
    n_rejected = 0

    def count_rejected(_: Rejected) -> None:
        nonlocal n_rejected
        n_rejected += 1

    search: dict[str, Any] = {"top": top, "threshold": threshold, "verify": verify}
    with Index.open(index_path) as index:
        rows: Iterable[tuple[object, ...] | None]
        if text is not None:
            rows = _rows(TEXT_KEY, index.query(text, **search))
            if not index.count_shingles(text):
                unit = UNIT_NAMES[index.params.unit]
                note(f"the text has no {unit} to compare, so nothing is similar to it")
        elif vector is not None:
            rows = _rows(VECTOR_KEY, index.query(vector, **search))
        elif key is not None:
            rows = _rows(key, index.query(key=key, **search))
        else:
            paths = files or ("-",)
            items = read_documents(
                paths,
                input_format=input_format,
                fallback="urls" if index.params.unit == "url" else None,
                body=index.params.kind.body,
                **reading,
            )
            if workers is None and "-" in paths:
                workers = 1
            answers = index.query_many(_usable(items, count_rejected), workers=workers, **search)
            rows = _streamed(answers, is_live="-" in paths and workers == 1)
        note_recall(index, threshold, verify)
        print_listing(COLUMNS, rows, output_format, empty="no document is that similar")
    if n_rejected:
        note(f"{n_rejected:,} rejected; the other queries were answered")
        ctx.exit(REJECTED)


def _rows(query_key: str, hits: Iterable[Hit]) -> Iterator[tuple[object, ...]]:
    return ((query_key, hit.key, hit.similarity, hit.method) for hit in hits)


def _streamed(
    answers: Iterable[tuple[str, list[Hit]]], *, is_live: bool
) -> Iterator[tuple[object, ...] | None]:
    """All rows; after each answer a pause, where the next query may be long in coming."""
    for query_key, hits in answers:
        yield from _rows(query_key, hits)
        if is_live:
            yield None


def _usable(items: Iterable[Document | Rejected], count: Any) -> Iterator[Document]:
    """The documents among the input; what is none is reported and counted."""
    for item in items:
        if isinstance(item, Document):
            yield item
        else:
            note(f"{item.source}: {item.reason}")
            count(item)
