"""``lshdb query``: what is similar to a text, to a document of the index, or to many texts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import click

from lshdb import Answer, Document, Hit, Index, Rejected, read_documents
from lshdb.arguments import Verify
from lshdb.cli._command import completed
from lshdb.cli._errors import REJECTED
from lshdb.cli._options import (
    Command,
    index_argument,
    input_options,
    listing_options,
    search_options,
    vector_option,
)
from lshdb.cli._output import Column, is_terminal, note, print_listing
from lshdb.cli._rejections import Rejections
from lshdb.cli._words import element_in_words, measured, note_unverified

__all__ = ["command"]

COLUMNS = (
    Column("query_key", title="query"),
    Column("key"),
    Column("similarity", "similarity"),
    Column("method"),
)
TEXT_KEY = "text"
VECTOR_KEY = "vector"
"""These stand for a query's key if the query comes from an option."""


@click.command("query", cls=Command)
@index_argument
@click.argument("files", metavar="[FILE...]", nargs=-1, shell_complete=completed("file"))
@click.option("--text", metavar="TEXT", help="Query this text.")
@vector_option("Query this vector")
@click.option("--key", metavar="KEY", help="Query a document of the index; it is not listed.")
@click.option(
    "--top", type=int, default=10, show_default=True, metavar="N", help="Most answers per query."
)
@click.option(
    "--recall",
    type=float,
    metavar="P",
    help="Find each of the nearest documents with this probability, however near they are: also "
    "look into buckets next to the query's own.  [default: only the query's own]",
)
@click.option(
    "--probe-limit",
    is_flag=False,
    flag_value=0,
    type=click.IntRange(min=0),
    metavar="[N]",
    help="Stop after N compared candidates, far ones included; without a number, twice the number "
    "of bands.  [default: never]",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads for many queries.  [default: one per core; 1 for standard input, so that each "
    "query is answered as it comes]",
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
    recall: float | None,
    probe_limit: int | None,
    workers: int | None,
    threshold: float | None,
    verify: Verify | None,
    vector: Any,
    input_format: str,
    output_format: str | None,
    **reading: Any,
) -> None:
    """List the documents of INDEX that are most similar to each query, best first.

    Queries are one of: --text, --vector, --key, FILE... (as for add), or JSON Lines on standard
    input. With unit url, the text is a list of URLs, one per line, and so are files and standard
    input.

    \b
    lshdb query news.lshdb --text "the quick brown fox jumps over the lazy dog"
    lshdb query news.lshdb --key article-17 --top 3
    lshdb query news.lshdb tonight.jsonl --format jsonl
    lshdb query points.lshdb --vector '[0.5, -1, 2]' --recall 0.95
    """
    given = [text is not None, vector is not None, key is not None, bool(files)]
    sources = sum(given)
    if sources > 1:
        raise click.UsageError("give one of FILE..., --text, --vector and --key", ctx)
    if not sources and is_terminal(sys.stdin):
        raise click.UsageError(
            "nothing to query: give --text, --vector, --key or FILE..., or pipe in JSON Lines", ctx
        )
    rejections = Rejections()
    search: dict[str, Any] = {"top": top, "threshold": threshold, "verify": verify}
    if recall is not None or probe_limit is not None:
        limit = False if probe_limit is None else probe_limit or True
        search |= {"recall": recall, "probe_limit": limit}
    effort = _Effort(recall)
    with Index.open(index_path) as index:
        rows: Iterable[tuple[object, ...] | None]
        if text is not None:
            hits = effort.of(index.query(text, **search))
            rows = _rows(TEXT_KEY, hits)
            _note_empty(index, "text", text, hits)
        elif vector is not None:
            hits = effort.of(index.query(vector, **search))
            rows = _rows(VECTOR_KEY, hits)
            _note_empty(index, "vector", vector, hits)
        elif key is not None:
            rows = _rows(key, effort.of(index.query(key=key, **search)))
        else:
            paths = files or ("-",)
            items = read_documents(
                paths,
                input_format=input_format,
                fallback="urls" if index.params.unit == "url" else None,
                body=index.params.kind.body,
                dim=index.params.dim or None,
                **reading,
            )
            if workers is None and "-" in paths:
                workers = 1
            usable = _usable(items, index, rejections)
            answers = index.query_many(usable, workers=workers, **search)
            rows = _streamed(answers, effort, is_live="-" in paths and workers == 1)
        if recall is None:
            note_unverified(index, threshold, verify)
        print_listing(
            *measured(index.params, COLUMNS, rows),
            output_format,
            empty="no document is that similar",
        )
        effort.say()
    rejections.end()
    if rejections.count:
        note(f"{rejections.count:,} rejected; the other queries were answered")
        ctx.exit(REJECTED)


class _Effort:
    """What the answers say about how they were found, added up over all queries."""

    def __init__(self, wanted: float | None) -> None:
        self._wanted = wanted
        self._answers = self._cut = self._short = 0
        self._checked = self._left = 0
        self._least = 1.0

    def of(self, hits: list[Hit]) -> list[Hit]:
        """Take note of an answer, and return it."""
        if isinstance(hits, Answer):
            self._answers += 1
            self._checked += hits.checked
            self._cut += hits.left > 0
            self._left += hits.left
            if self._wanted is not None and hits.recall is not None:
                self._short += hits.recall < self._wanted
                self._least = min(self._least, hits.recall)
        return hits

    def say(self) -> None:
        """Say what was cut off, and where the recall was not reached."""
        of_many = f" of {self._answers:,} queries" if self._answers > 1 else ""
        if self._cut:
            note(
                f"stopped at the probe limit{f' in {self._cut:,}' if of_many else ''}{of_many}: "
                f"compared {self._checked:,} of the {self._checked + self._left:,} candidates met"
            )
        if self._short:
            where = f"in {self._short:,}{of_many} " if of_many else ""
            note(
                f"recall {self._wanted:g} was not reached {where}with the existing buckets: "
                "a document exactly as similar as the last one listed was found with "
                f"probability {self._least:.4f}{' in the worst case' if of_many else ''}, nearer "
                "ones more likely; an index with more bands, or fewer rows, reaches more"
            )


def _rows(query_key: str, hits: Iterable[Hit]) -> Iterator[tuple[object, ...]]:
    return ((query_key, hit.key, hit.similarity, hit.method) for hit in hits)


def _streamed(
    answers: Iterable[tuple[str, list[Hit]]], effort: _Effort, *, is_live: bool
) -> Iterator[tuple[object, ...] | None]:
    """Yield all rows, with a pause after each answer if the next query may take long to come."""
    for query_key, hits in answers:
        yield from _rows(query_key, effort.of(hits))
        if is_live:
            yield None


def _note_empty(index: Index, name: str, body: Any, hits: list[Hit]) -> None:
    """Say why nothing is similar to a query that has nothing to compare."""
    if not hits and not index.count_shingles(body):
        note(
            f"the {name} has no {element_in_words(index.params)} to compare, so nothing is "
            "similar to it"
        )


def _usable(
    items: Iterable[Document | Rejected], index: Index, rejections: Rejections
) -> Iterator[Document]:
    """Yield the documents of the input; report and count what is not one."""
    is_text = index.params.kind.body == "text"  # the reader has refused all bad texts already
    for item in items:
        reason = None
        if isinstance(item, Document) and not is_text:
            reason = index.refusal(item.body)
        if isinstance(item, Document) and reason is not None:
            item = Rejected(item.source or f"key {item.key!r}", reason)
        if isinstance(item, Document):
            yield item
        else:
            rejections.add(item)
