"""``lshdb query``: what is similar to a text, to a document of the index, or to many texts."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from lshdb import Document, Hits, Index, InputError, Rejected
from lshdb.arguments import Measure, Verify
from lshdb.cli._command import IndexArgument, complete_files, complete_folders, is_index, option
from lshdb.cli._completion import complete_kept_fields
from lshdb.cli._contents import Named, contents_options, with_contents
from lshdb.cli._errors import REJECTED
from lshdb.cli._keys import document_key
from lshdb.cli._options import (
    FOLDERS,
    READING,
    Command,
    below_option,
    folder_options,
    input_options,
    listing_options,
    measure_option,
    require_body,
    search_options,
    vector_option,
)
from lshdb.cli._output import Column, is_terminal, note, print_listing
from lshdb.cli._rejections import RejectionNotes
from lshdb.cli._words import counted, element_in_words, measured, note_unverified, units_in_words
from lshdb.shingling import URL_UNITS, word_spans

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from lshdb import Passage, TransientIndex

__all__ = ["command"]

COLUMNS = (
    Column("query_key", title="query"),
    Column("key"),
    Column("similarity", "similarity"),
    Column("method"),
)
NAMED = (Named("key", "text", "fields"),)
VOTES = (
    Column("query_key", title="query"),
    Column("value"),
    Column("share", "similarity"),
    Column("documents", "number"),
    Column("method"),
)
TEXT_KEY = "text"
VECTOR_KEY = "vector"
"""These stand for a query's key if the query comes from an option."""


def _top(value: str) -> int | None:
    try:
        return None if value == "all" else int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor all") from None


def _complete_place(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the first argument: a folder, or with --in a file of queries."""
    complete = complete_files if ctx.params.get("searched") else complete_folders
    return complete(ctx, param, incomplete)


class QueryCommand(Command):
    """A command with the options of a new index, if it needs them: they take longer than a query.

    It needs them for ``--in``, and where they are shown.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._few_params = [*self.params]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, some of which may bring options."""
        words = {arg.partition("=")[0] for arg in args}
        needs_all = ctx.resilient_parsing or bool(words & {"--in", "-h", "--help"})
        self.params = [*self._few_params, *(_options_of_files() if needs_all else ())]
        return super().parse_args(ctx, args)


def _options_of_files() -> list[click.Parameter]:
    from lshdb.cli._index_or_files import searched_file_options

    def options() -> None: ...

    searched_file_options(options)
    params: list[click.Parameter] = options.__click_params__  # type: ignore[attr-defined]
    return params[::-1]


@click.command(
    "query",
    cls=QueryCommand,
    short="text key in top threshold recall vote measure text-field with-text json output",
)
@click.argument(
    "index_path",
    metavar="INDEX",
    cls=IndexArgument,
    required=False,
    missing="the folder of an index, such as news.lshdb, or --in FILE to search files without one",
    shell_complete=_complete_place,
)
@click.argument("files", metavar="[FILE...]", nargs=-1, shell_complete=complete_files)
@option("--text", metavar="TEXT", help="Find what is similar to this text.")
@vector_option("Find what is near this vector")
@option(
    "--key",
    metavar="KEY",
    help="Find what is similar to this document of the index, which is not listed itself.",
)
@option(
    "--in",
    "searched",
    multiple=True,
    metavar="FILE",
    shell_complete=complete_files,
    help="Search FILE instead of an index: a file, folder, pattern, URL, or - for standard input. "
    "Repeat it for several. The first argument is then a file of queries, too.",
)
@option(
    "--top",
    type=_top,
    default="10",
    show_default=True,
    metavar="N|all",
    help="List at most N documents for each query. A note says how many were left out.",
)
@option(
    "--vote",
    metavar="FIELD",
    shell_complete=complete_kept_fields,
    help="List the values of this kept field instead, with their shares of the votes. Each answer "
    "votes with the weight of its similarity.",
)
@option(
    "--recall",
    type=float,
    metavar="P",
    help="Find each of the nearest documents with this probability, however far they are. Other "
    "buckets are searched, too, or all signatures are compared, or where these cannot tell, all "
    "texts; with 1 always all texts.  [default: only the query's own buckets]",
)
@option(
    "--probe-limit",
    is_flag=False,
    flag_value=0,
    type=click.IntRange(min=0),
    metavar="[N]",
    help="Compare at most N candidates. Without a number: twice the number of bands.  [default: "
    "all]",
)
@option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads for many queries.  [default: one per core; 1 for standard input, so that each "
    "query is answered as it comes]",
)
@measure_option
@below_option
@search_options
@input_options
@folder_options
@contents_options
@listing_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    index_path: str | None,
    files: tuple[str, ...],
    *,
    text: str | None,
    key: str | None,
    searched: tuple[str, ...],
    top: int | None,
    vote: str | None,
    recall: float | None,
    probe_limit: int | None,
    workers: int | None,
    threshold: float | None,
    below: float | None,
    measure: Measure,
    verify: Verify | None,
    vector: Any,
    input_format: str,
    with_text: bool,
    with_fields: bool,
    output_format: str | None,
    **options: Any,
) -> None:
    """List the documents of INDEX that are most similar to each query, best first.

    Queries are one of: --text, --vector, --key, FILE... (as for add), or JSON Lines on standard
    input. With unit url, the text is a list of URLs, one per line, and so are files and standard
    input.

    With --in FILE no index is needed: temporary files stand in for one, with the same answer. The
    options under Input are those of FILE and of the queries, and --threshold is the index's.

    In an index of passages, a query is cut into windows as documents are. Each line is a passage of
    the query and where it recurs, with offsets in characters, in the order of the query.

    \b
    lshdb query news.lshdb --text "the council voted to close"
    lshdb query news.lshdb --key article-17 --top 3
    lshdb query news.lshdb tonight.jsonl --format jsonl
    lshdb query news.lshdb tonight.jsonl --top 5 --vote topic
    lshdb query books.lshdb passage.txt --measure containment --threshold 0.8
    lshdb query points.lshdb --vector '[0.5, -1, 2]' --recall 0.95
    lshdb query --in archive.jsonl tonight.jsonl
    """
    for place in (*searched, *([index_path] if searched and index_path else ())):
        if os.path.isdir(place) and is_index(place):
            raise click.UsageError(
                f"{place} is an index, and --in is for files without one: leave out --in", ctx
            )
    if searched and index_path is not None:
        files = (index_path, *files)
    elif not searched and index_path is None:
        raise click.MissingParameter(ctx=ctx, param=ctx.command.params[0])
    has_source = [text is not None, vector is not None, key is not None, bool(files)]
    sources = sum(has_source)
    if sources > 1:
        raise click.UsageError("give only one of FILE..., --text, --vector and --key", ctx)
    if not sources and is_terminal(sys.stdin):
        raise click.UsageError(
            "nothing to query: give --text, --vector, --key or FILE..., or pipe in JSON Lines", ctx
        )
    if vote is not None and (with_text or with_fields):
        raise click.UsageError("--vote lists no documents to show the contents of", ctx)
    if "-" in searched and (not sources or "-" in files):
        raise click.UsageError("standard input is searched: give the queries in another way", ctx)
    rejections = RejectionNotes()
    search: dict[str, Any] = {
        "top": top, "threshold": threshold, "below": below, "verify": verify, "measure": measure,
    }  # fmt: skip
    if recall is not None or probe_limit is not None:
        limit = False if probe_limit is None else probe_limit or True
        search |= {"recall": recall, "probe_limit": limit}
    effort = _Effort(recall, top, measure, is_nearest="recall" in search)
    reading = {name: options[name] for name in (*READING, *FOLDERS)}
    with _opened(
        index_path, searched, {**options, "input_format": input_format}, threshold, workers
    ) as (index, code):
        require_body(index, text=text, vector=vector, place=searched[0] if searched else None)
        if key is not None:
            key = document_key(index, key)
        if index.params.window is not None and isinstance(index, Index):
            from lshdb.cli._passages import refuse_options

            refuse_options(
                ctx,
                "is about whole documents, and the index keeps passages of them",
                vector=vector, vote=vote, recall=recall, probe_limit=probe_limit, below=below,
                measure=None if measure == "similarity" else measure,
                verify=None if verify == "exact" else verify, with_fields=with_fields,
                top=ctx.get_parameter_source("top") is not ParameterSource.DEFAULT,
            )  # fmt: skip
            _list_passages(
                index, files, rejections, text=text, key=key, with_text=with_text,
                threshold=threshold, workers=workers, output_format=output_format,
                input_format=input_format, **reading,
            )  # fmt: skip
            _say_rejected(ctx, rejections, code)
            return
        rows: Iterable[tuple[object, ...] | None]
        listed: Callable[[str, Hits], Iterator[tuple[object, ...]]] = _rows
        ballot = None if vote is None else _Ballot(index, vote)
        if ballot is not None:
            listed = ballot.rows
        if text is not None:
            hits = effort.of(index.query(text, **search))
            rows = listed(TEXT_KEY, hits)
            _note_short(index, "text", text, hits)
        elif vector is not None:
            hits = effort.of(index.query(vector, **search))
            rows = listed(VECTOR_KEY, hits)
            _note_short(index, "vector", vector, hits)
        elif key is not None:
            rows = listed(key, effort.of(index.query(key=key, **search)))
        else:
            from lshdb import read_documents

            paths = files or ("-",)
            _require_files(index, files)
            items = read_documents(
                paths,
                input_format=input_format,
                fallback="urls" if index.params.unit in URL_UNITS else None,
                body=index.params.kind.body,
                dim=index.params.dim or None,
                on_note=note,
                **reading,
            )
            if workers is None and "-" in paths:
                workers = 1
            usable = _usable(items, index, rejections)
            answers = index.query_many(usable, workers=workers, **search)
            rows = _streamed(answers, effort, listed, is_live="-" in paths and workers == 1)
        if recall is None:
            note_unverified(index, threshold, verify)
        if ballot is not None:
            print_listing(VOTES, rows, output_format)
        else:
            print_listing(
                *with_contents(
                    index,
                    *measured(index.params, COLUMNS, rows, measure),
                    NAMED,
                    with_text=with_text,
                    with_fields=with_fields,
                ),
                output_format,
            )
        effort.say(index)
        if ballot is not None:
            ballot.say()
    _say_rejected(ctx, rejections, code)


@contextlib.contextmanager
def _opened(
    path: str | None,
    searched: tuple[str, ...],
    options: dict[str, Any],
    threshold: float | None,
    workers: int | None,
) -> Iterator[tuple[Index | TransientIndex, int]]:
    """Open the index, or read the files that are searched; also yield the exit code."""
    if path is not None and not searched:
        with Index.open(path) as index:
            yield index, 0
        return
    from lshdb.cli._index_or_files import files_as_index
    from lshdb.cli._long_work import prompt_interrupts

    with (
        prompt_interrupts(),
        files_as_index(searched, options, threshold=threshold, workers=workers) as opened,
    ):
        yield opened


def _say_rejected(ctx: click.Context, rejections: RejectionNotes, code: int) -> None:
    rejections.end()
    if rejections.count:
        note(f"{rejections.count:,} rejected; the other queries were answered")
        code = REJECTED
    if code:
        ctx.exit(code)


def _list_passages(
    index: Index,
    files: tuple[str, ...],
    rejections: RejectionNotes,
    *,
    text: str | None,
    key: str | None,
    with_text: bool,
    threshold: float | None,
    workers: int | None,
    output_format: str | None,
    **reading: Any,
) -> None:
    """List which passages of each query recur where, in an index of passages."""
    from lshdb.cli._passages import passage_columns, passage_rows

    options: dict[str, Any] = {"threshold": threshold, "with_text": with_text, "workers": workers}

    def found() -> Iterator[Passage]:
        if text is not None or key is not None:
            yield from index.query_passages(text, key=key, **options)
            return
        from lshdb import read_documents

        _require_files(index, files)
        items = read_documents(files or ("-",), body="text", on_note=note, **reading)
        for query in _usable(items, index, rejections):
            if not isinstance(query.body, str):
                reason = "the body is not a text, and passages are looked for of texts"
                rejections.add(Rejected(query.source or f"key {query.key!r}", reason))
                continue
            for passage in index.query_passages(query.body, **options):
                yield replace(passage, key1=query.key)

    n = print_listing(
        passage_columns(with_text=with_text, is_query=True),
        passage_rows(found(), with_text=with_text),
        output_format,
    )
    if not n:
        note("no passage of it recurs in the index")


class _Effort:
    """Counts over all queries: unanswered, truncated, and compared with less than --recall."""

    def __init__(
        self, recall: float | None, top: int | None, measure: Measure, *, is_nearest: bool
    ) -> None:
        self._recall, self._top, self._is_nearest = recall, top, is_nearest
        self._is_part = measure == "containment"
        self._queries = self._unanswered = self._truncated = self._left_out = 0
        self._answers = self._cut = self._short = self._unknown = 0
        self._checked = self._left = 0
        self._least = 1.0

    def of(self, hits: Hits) -> Hits:
        """Count an answer, and return it."""
        self._queries += 1
        self._unanswered += not hits
        self._truncated += hits.truncated > 0
        self._left_out += hits.truncated
        if self._is_nearest:
            self._take_note(hits)
        return hits

    def _take_note(self, hits: Hits) -> None:
        from lshdb import NearestHits  # not needed by most queries, and neither is what it imports

        if isinstance(hits, NearestHits):
            self._answers += 1
            self._checked += hits.checked
            self._cut += hits.left > 0
            self._left += hits.left
            if self._recall is not None and not hits.left:
                self._unknown += hits.recall is None
                self._short += hits.recall is not None and hits.recall < self._recall
                self._least = min(self._least, 1.0 if hits.recall is None else hits.recall)

    def say(self, index: Index | TransientIndex) -> None:
        """Note unanswered queries, hits that were left out, and recall that was not reached."""
        if not self._queries:
            note("the input has no query")
        elif self._unanswered:
            self._say_unanswered(index)
        if self._truncated and self._queries == 1 and self._is_part:
            more = counted(self._left_out, "more document contains", "more documents contain")
            note(f"{more} that much of it, left out by --top {self._top}; --top all lists all")
        elif self._truncated and self._queries == 1:
            note(
                f"{counted(self._left_out, 'more document is', 'more documents are')} that similar "
                f"and left out by --top {self._top}; --top all lists all"
            )
        elif self._truncated:
            have = "has" if self._truncated == 1 else "have"
            note(
                f"{self._truncated:,} of {self._queries:,} queries {have} more answers than --top "
                f"{self._top}: {self._left_out:,} are left out; --top all lists all"
            )
        of_many = f" of {self._answers:,} queries" if self._answers > 1 else ""
        if self._cut:
            note(
                f"stopped at the probe limit{f' in {self._cut:,}' if of_many else ''}{of_many}: "
                f"compared {self._checked:,} of the {self._checked + self._left:,} candidates met"
            )
        if self._short:
            where = f"in {self._short:,}{of_many} " if of_many else ""
            note(
                f"recall {self._recall:g} was not reached {where}by what was compared: "
                "a document exactly as similar as the last one listed was found with "
                f"probability {self._least:.4f}{' in the worst case' if of_many else ''}, nearer "
                "ones more likely; ask for fewer with --top, or give a --threshold"
            )
        if self._unknown:
            where = f" in {self._unknown:,}{of_many}" if of_many else ""
            note(
                f"fewer than --top {self._top} share a slot{where}; documents that share less than "
                "signatures show are not listed, so what recall was reached is not known"
            )

    def _say_unanswered(self, index: Index | TransientIndex) -> None:
        if not len(index):
            note("the index is empty, so nothing is similar; lshdb add fills it")
        elif self._queries == 1:
            what = "contains that much of it" if self._is_part else "is that similar"
            note(f"no document {what}")
        else:
            have = "has" if self._unanswered == 1 else "have"
            note(f"{self._unanswered:,} of {self._queries:,} queries {have} no answer")


def _require_files(index: Index | TransientIndex, files: tuple[str, ...]) -> None:
    """Raise InputError for a missing file; the hint says how to query a text or a key."""
    is_there = any(os.path.lexists(path) for path in files)
    for path in files:
        is_pattern = path == "-" or "://" in path or any(sign in path for sign in "*?[")
        if is_pattern or os.path.lexists(path):
            continue
        option = "--key" if path in index else "--text"
        if option == "--key" or index.params.kind.body == "text":
            import shlex

            what = "document of that key" if option == "--key" else "text"
            words = path if option == "--key" or is_there else " ".join(files)
            raise InputError(
                f"{path}: no such file",
                hint=f"to query the {what}: {option} {shlex.quote(words)}",
            )


def _rows(query_key: str, hits: Hits) -> Iterator[tuple[object, ...]]:
    return ((query_key, hit.key, hit.similarity, hit.method) for hit in hits)


class _Ballot:
    """Votes of the answers on a field, and how many answers had none."""

    def __init__(self, index: Index | TransientIndex, field: str) -> None:
        self._index, self._field = index, field
        self._answers = self._silent = 0
        index.vote([], field)  # a field that no document has is refused before the work

    def rows(self, query_key: str, hits: Hits) -> Iterator[tuple[object, ...]]:
        """Return the rows of one answer."""
        votes = self._index.vote(hits, self._field)
        self._answers += bool(hits)
        self._silent += bool(hits) and not votes
        return ((query_key, vote.value, vote.share, vote.documents, vote.method) for vote in votes)

    def say(self) -> None:
        """Say which queries have answers without a vote."""
        if self._silent:
            of = f"of {self._silent:,} queries " if self._answers > 1 else ""
            note(f"the documents found {of}have no field {self._field!r}, so no value is listed")


def _streamed(
    answers: Iterable[tuple[str, Hits]],
    effort: _Effort,
    listed: Callable[[str, Hits], Iterator[tuple[object, ...]]],
    *,
    is_live: bool,
) -> Iterator[tuple[object, ...] | None]:
    """Yield all rows; after each answer a pause, if the next query may be long in coming."""
    for query_key, hits in answers:
        yield from listed(query_key, effort.of(hits))
        if is_live:
            yield None


def _note_short(index: Index | TransientIndex, name: str, body: Any, hits: Hits) -> None:
    """Explain the answer to a query without shingles, or with a single one."""
    params = index.params
    n_shingles = 0 if hits and params.kind.is_dense else hits.n_shingles
    if not hits and not n_shingles:
        note(
            f"the {name} has no {element_in_words(params)} to compare, so nothing is similar to it"
        )
    elif (
        n_shingles == 1 and isinstance(body, str) and params.unit == "word" and not word_spans(body)
    ):
        note(f"the {name} has no word, so only texts that are the same are similar to it")
    elif n_shingles == 1 and params.kind.body == "text" and isinstance(body, str) and params.k > 1:
        note(
            f"the text has one shingle ({counted(params.k, *units_in_words(params))} or fewer), so "
            "only texts of the same shingle are similar to it"
        )


def _usable(
    items: Iterable[Document | Rejected], index: Index | TransientIndex, rejections: RejectionNotes
) -> Iterator[Document]:
    """Yield the documents of the input; report and count rejections."""
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
