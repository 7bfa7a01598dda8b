"""What the shell offers for a value: names that stand in the index, words, pages, fields of files.

Decided: a completion is silent. What cannot be read, an index that is not there or a database that
does not answer, offers nothing, because whoever presses Tab has not asked for an answer yet.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from lshdb import Index

__all__ = [
    "complete_cursors",
    "complete_input_fields",
    "complete_keep",
    "complete_kept_fields",
    "complete_since",
]

Completion = Callable[[click.Context, click.Parameter, str], list[str]]


def _silent(values: Callable[[click.Context, str], Iterable[str]]) -> Completion:
    """Return a completion that offers those of some values that go on as the word begins."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        offered: dict[str, None] = {}
        with contextlib.suppress(Exception):  # whatever is wrong is said when the command runs
            for value in values(ctx, incomplete):
                offered[value] = None
        return [value for value in offered if value.startswith(incomplete)]

    return complete


@contextlib.contextmanager
def _index(ctx: click.Context) -> Iterator[Index]:
    from lshdb import Index

    path = ctx.params.get("index_path") or next(iter(ctx.params.get("places") or ()), "")
    path = path or os.environ.get("LSHDB_INDEX", "")
    with Index.open(path) as index:
        yield index


def _kept_fields(ctx: click.Context, _incomplete: str) -> Iterator[str]:
    with _index(ctx) as index:
        yield from index.field_names()


def _several(ctx: click.Context, incomplete: str) -> Iterator[str]:
    """Offer a kept field after those that stand before a comma."""
    before = incomplete.rpartition(",")[0]
    for name in _kept_fields(ctx, incomplete):
        yield f"{before},{name}" if before else name


def _cursors(ctx: click.Context, _incomplete: str) -> Iterator[str]:
    with _index(ctx) as index:
        yield from (cursor.name for cursor in index.cursors())


def _since(ctx: click.Context, incomplete: str) -> Iterator[str]:
    yield "last"
    for name in _cursors(ctx, incomplete):
        yield f"@{name}"


def _keep(ctx: click.Context, incomplete: str) -> Iterator[str]:
    yield from ("first", "last", "longest", "shortest", "field:", "field:-")
    sign = "field:-" if incomplete.startswith("field:-") else "field:"
    for fields in (_kept_fields, _input_fields):
        with contextlib.suppress(Exception):
            yield from (f"{sign}{name}" for name in fields(ctx, incomplete))


def _input_fields(ctx: click.Context, _incomplete: str) -> Iterator[str]:
    from lshdb.groups.rewrite_plan import field_names

    names = ("paths", "files", "places", "index_path")
    values: Any = (ctx.params.get(name) or () for name in names)
    paths = [path for value in values for path in ([value] if isinstance(value, str) else value)]
    yield from field_names(next(path for path in paths if os.path.isfile(path)))


complete_kept_fields = _silent(_several)
"""Kept fields of the index, also several with commas between."""
complete_cursors = _silent(_cursors)
complete_since = _silent(_since)
complete_keep = _silent(_keep)
complete_input_fields = _silent(_input_fields)
"""Fields of the first record of the first file."""
