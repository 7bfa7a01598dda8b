"""Passages in a listing, as ``pairs --by document``, ``query`` and ``explain`` show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import click

from lshdb.cli._cells import harmless
from lshdb.cli._output import Column, RowBlock

if TYPE_CHECKING:
    from lshdb import Passage, PassageSearch

__all__ = [
    "passage_blocks",
    "passage_columns",
    "passage_rows",
    "refuse_options",
    "shown_passages",
]

_NUMBERS = ("start", "end", "words")
_EXCERPT = 60
"""Characters of the beginning of a passage, and as many of its end."""


def passage_columns(*, with_text: bool, is_query: bool = False) -> tuple[Column, ...]:
    """Return the columns of a listing of passages."""
    names = [f"{name}{number}" for number in (1, 2) for name in ("key", *_NUMBERS)]
    titles = {"key1": "query"} if is_query else {}
    columns = [
        Column(name, "text" if name.startswith("key") else "number", titles.get(name, ""))
        for name in names
    ]
    columns += [Column("similarity", "similarity"), Column("method")]
    return (*columns, *[Column("text1"), Column("text2")] * with_text)


def passage_rows(passages: Iterable[Passage], *, with_text: bool) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a listing of passages."""
    for passage in passages:
        row = astuple(passage)
        yield row if with_text else row[:-2]


def passage_blocks(passages: PassageSearch, *, with_text: bool) -> Iterator[RowBlock]:
    """Yield the rows of a listing of passages as columns."""
    for block in passages.columns():
        columns = block.values()
        yield RowBlock(columns if with_text else columns[:-2], len(block))


def shown_passages(passages: Iterable[Passage]) -> str:
    """Describe passages for people: their places in both documents, and an excerpt."""
    return "\n".join(_shown(passage) for passage in passages)


def _shown(passage: Passage) -> str:
    first = f"{passage.start1:,}-{passage.end1:,} ({passage.words1:,} words)"
    second = f"{passage.start2:,}-{passage.end2:,} ({passage.words2:,} words)"
    return f"{first} and {second}, {passage.similarity:.6f}: {_excerpt(passage.text1 or '')}"


def _excerpt(text: str) -> str:
    """Return the beginning and the end of a passage in one line."""
    line = harmless(" ".join(text.split()))
    return (
        line
        if len(line) <= 2 * _EXCERPT + 5
        else f"{line[:_EXCERPT].rstrip()} ... {line[-_EXCERPT:].lstrip()}"
    )


def refuse_options(ctx: click.Context, why: str, **options: Any) -> None:
    """Raise UsageError for the first option that has a value; passages do not support it."""
    for name, value in options.items():
        if value not in (None, False, ()):
            raise click.UsageError(f"--{name.replace('_', '-')} {why}", ctx)
