"""``lshdb pairs``: list all near-duplicate pairs, or those since a batch."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import click

from lshdb import Index, LeftOut, Pair, PairSearch
from lshdb.arguments import Measure, Verify
from lshdb.cli._command import option
from lshdb.cli._contents import Named, contents_options, with_contents
from lshdb.cli._index_or_files import file_options, index_or_files, opened_index
from lshdb.cli._long_work import prompt_interrupts
from lshdb.cli._options import (
    Command,
    agreement_options,
    below_option,
    listing_options,
    max_bucket_option,
    measure_option,
    memory_for,
    memory_option,
    search_options,
    since_option,
    workers_option,
)
from lshdb.cli._output import Blocks, Column, note, print_listing
from lshdb.cli._passages import passage_blocks, passage_columns, refuse_options
from lshdb.cli._words import (
    counted,
    loss_in_words,
    measured,
    note_unfinished,
    note_unverified,
    pair_rows,
)
from lshdb.cli.cursors import advance_option, advancing

__all__ = ["COLUMNS", "command", "list_new_pairs"]

COLUMNS = (
    Column("key1"),
    Column("key2"),
    Column("similarity", "similarity"),
    Column("method"),
)


NAMED = (Named("key1", "text1", "fields1"), Named("key2", "text2", "fields2"))
BY_DIRECTORY = (Column("directory1"), Column("directory2"), Column("pairs", "number"))


@click.command(
    "pairs",
    cls=Command,
    short="since advance threshold below agree sort limit text-field row-keys "
    "with-text json output",
)
@index_or_files
@since_option("List only pairs with a document that came in since WHEN.")
@advance_option
@max_bucket_option(
    "Leave out buckets, and groups of exact copies, of more than M documents. A note says how "
    "many pairs that may be.  [default: leave out none]"
)
@agreement_options
@memory_option
@measure_option
@below_option
@search_options
@option(
    "--cross",
    nargs=2,
    metavar="PREFIX PREFIX",
    help="List only pairs with one key under each of these two folders. A PREFIX may also be a "
    "beginning of keys that ends in a sign such as / or :.",
)
@option(
    "--ignore-same-path",
    is_flag=True,
    help="With --cross, leave out pairs whose keys are the same after their prefixes.",
)
@option(
    "--by",
    type=click.Choice(["document"]),
    metavar="document",
    help="List the passages that documents share, of an index made with --passages. Windows side "
    "by side are one line, with the offsets of both passages in characters.",
)
@option(
    "--by-directory",
    is_flag=True,
    help="Count the pairs between each two folders of keys instead, most pairs first. Memory holds "
    "a line for each two folders.",
)
@option(
    "--sort",
    type=click.Choice(["similarity"]),
    metavar="similarity",
    help="List the most similar pairs first. They are sorted in a temporary file, and listed when "
    "all are found.",
)
@option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Write at most N lines. With --sort and --by-directory, these are the first of all.",
)
@contents_options
@listing_options
@workers_option
@file_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    places: tuple[str, ...],
    *,
    since: int | str | None,
    advance: bool,
    threshold: float | None,
    below: float | None,
    measure: Measure,
    verify: Verify | None,
    max_bucket: int | str | None,
    memory: int,
    agree: tuple[str, ...],
    differ: tuple[str, ...],
    cross: tuple[str, str] | None,
    ignore_same_path: bool,
    by: str | None,
    by_directory: bool,
    sort: str | None,
    limit: int | None,
    with_text: bool,
    with_fields: bool,
    workers: int | None,
    output_format: str | None,
    **options: Any,
) -> None:
    """List all pairs of near-duplicate documents of INDEX, or of FILEs, in no particular order.

    Pairs are written as they are found. Exact copies are pairs at similarity 1. Standard error says
    how many there were.

    Files, folders, patterns, URLs and - for standard input need no index: temporary files stand in
    for one, with the same answer. The options under Input and New index are those of lshdb add, and
    --threshold is the index's. Files of records without a field id have path and row number as
    keys.

    \b
    lshdb pairs news.jsonl
    lshdb pairs src/ --include '*.py' --threshold 0.7
    lshdb pairs news.lshdb
    lshdb pairs news.lshdb --since last --format jsonl
    lshdb pairs news.lshdb --threshold 0.6 --below 0.95
    lshdb pairs news.lshdb --since @press --advance > new.tsv
    lshdb pairs references.lshdb --agree doi,year
    lshdb pairs trees.lshdb --cross linux-6.1 linux-6.6 --ignore-same-path
    lshdb pairs trees.lshdb --by-directory --limit 20
    lshdb pairs press.lshdb --measure containment --threshold 0.9
    lshdb pairs essays.lshdb --by document --with-text
    """
    if advance and limit is not None:
        raise click.UsageError("--advance would pass over what --limit leaves out", ctx)
    if ignore_same_path and cross is None:
        raise click.UsageError(
            "--ignore-same-path compares paths below two prefixes, and --cross is not given", ctx
        )
    if sort is not None and by_directory:
        raise click.UsageError("--by-directory lists the most pairs first; leave out --sort", ctx)
    if by_directory and (with_text or with_fields):
        raise click.UsageError("--by-directory lists no documents to show the contents of", ctx)
    if by is not None:
        refuse_options(
            ctx,
            "does not go with --by document, which lists passages",
            below=below, measure=None if measure == "similarity" else measure,
            verify=None if verify == "exact" else verify, agree=agree, differ=differ, cross=cross,
            ignore_same_path=ignore_same_path, by_directory=by_directory, sort=sort,
            with_fields=with_fields,
        )  # fmt: skip
    with (
        prompt_interrupts(),
        opened_index(
            ctx,
            places,
            options,
            threshold=threshold,
            workers=workers,
            lasting=("since", "advance", "by"),
        ) as (index, code),
        advancing(index, since, advance=advance) as answered,
    ):
        if by is not None and isinstance(index, Index):
            shared = index.passages(
                threshold=threshold, since=since, max_bucket=max_bucket, memory=memory,
                limit=limit, with_text=with_text,
            )  # fmt: skip
            note_unfinished(index, since)
            n = print_listing(
                passage_columns(with_text=with_text),
                passage_blocks(shared, with_text=with_text),
                output_format,
                empty="no passages",
                count=("passage", "passages"),
                says_count=True,
            )
            _say_limit(n, limit)
            _note_left_out(shared.left_out, None)
            answered(shared)
            return
        pairs = index.pairs(
            threshold=threshold, below=below, verify=verify, since=since, max_bucket=max_bucket,
            memory=memory_for(index, memory), workers=workers, agree=agree, differ=differ,
            cross=cross, ignore_same_path=ignore_same_path, measure=measure,
            limit=None if sort or by_directory else limit,
        )  # fmt: skip
        note_unverified(index, threshold, verify)
        note_unfinished(index, since)
        columns: Sequence[Column] = COLUMNS
        rows: Blocks = pair_rows(pairs)
        if by_directory:
            is_ordered = cross is not None or measure == "containment"
            columns, rows = BY_DIRECTORY, _directories(pairs, is_ordered=is_ordered)
        elif sort is not None:
            rows = _sorted(pairs)
        if limit is not None and (by_directory or sort is not None):
            rows = islice(rows, limit)
        if not by_directory:
            columns, rows = measured(index.params, columns, rows, measure)
            columns, rows = with_contents(
                index, columns, rows, NAMED, with_text=with_text, with_fields=with_fields
            )
        count = ("line", "lines") if by_directory else ("pair", "pairs")
        _print_pairs(pairs, columns, rows, output_format, limit=limit, count=count)
        answered(pairs)
    if code:
        ctx.exit(code)


def list_new_pairs(
    index: Index,
    since: int | str,
    output_format: str | None,
    *,
    advance: bool,
    lock_timeout: float,
) -> None:
    """List what ``lshdb pairs --since`` does without other options, and move the cursor."""
    with (
        prompt_interrupts(),
        advancing(index, since, advance=advance, lock_timeout=lock_timeout) as answered,
    ):
        pairs = index.pairs(since=since)
        note_unfinished(index, since)
        columns, rows = measured(index.params, COLUMNS, pair_rows(pairs))
        _print_pairs(pairs, columns, rows, output_format)
        answered(pairs)


def _print_pairs(
    pairs: PairSearch,
    columns: Sequence[Column],
    rows: Blocks,
    output_format: str | None,
    *,
    limit: int | None = None,
    count: tuple[str, str] = ("pair", "pairs"),
) -> None:
    """Print a list, and say what it leaves out."""
    n = print_listing(columns, rows, output_format, empty="no pairs", count=count, says_count=True)
    _say_limit(n, limit)
    _note_left_out(pairs.left_out, pairs)


def _say_limit(n: int, limit: int | None) -> None:
    if n == limit:
        note(f"--limit {limit} ended the list; there may be more")


def _sorted(pairs: Iterable[Pair]) -> Iterator[tuple[Any, ...]]:
    """Yield the most similar first; one search has one method."""
    from lshdb.disksort.sorted_rows import Ranked

    method = ""
    with Ranked() as ranked:
        for pair in pairs:
            ranked.put(pair.key1, pair.key2, pair.similarity)
            method = pair.method
        for key1, key2, similarity in ranked:
            yield key1, key2, similarity, method


def _directories(pairs: Iterable[Pair], *, is_ordered: bool) -> Iterator[tuple[Any, ...]]:
    """Yield pairs of folders with the number of their pairs, the most first."""
    counts: Counter[tuple[str, str]] = Counter()
    for pair in pairs:
        folder1, folder2 = os.path.dirname(pair.key1) or ".", os.path.dirname(pair.key2) or "."
        counts[(folder1, folder2) if is_ordered or folder1 <= folder2 else (folder2, folder1)] += 1
    for folders, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        yield *folders, count


def _note_left_out(left_out: LeftOut, search: PairSearch | None) -> None:
    if left_out.buckets:
        note(
            f"left out: {counted(left_out.buckets, 'bucket')} of more than "
            f"{left_out.max_bucket:,} documents, "
            f"with {counted(left_out.pairs, 'candidate pair')}"
        )
    if left_out.copy_groups:
        note(
            f"left out: {counted(left_out.copy_groups, 'group')} of more than "
            f"{left_out.max_bucket:,} exact copies, "
            f"with {counted(left_out.copy_pairs, 'pair')}"
        )
    if search is not None and (left_out.buckets or left_out.copy_groups):
        note(loss_in_words(search.loss))
