"""Options and arguments that several commands share, so that they mean the same everywhere.

The library decides whether a value makes sense (``ParameterError``, exit code 2); only checks that
do not need it are here.

The commands on stored verified pairs also do the same with the values of their options first:
:func:`update_edges`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lshdb import Index, ReadOnlyError
from lshdb.arguments import MEASURES
from lshdb.cli._command import Command, complete_files, index_argument, option, options
from lshdb.cli._completion import complete_input_fields, complete_kept_fields, complete_since
from lshdb.cli._help import OUTPUT
from lshdb.cli._output import (
    FORMATS,
    note,
    working,
    write_header,
    write_to,
    write_to_either,
)
from lshdb.cli._words import counted, loss_in_words
from lshdb.documents.document import MAX_DOCUMENT_BYTES
from lshdb.documents.registry import INPUT_FORMATS

if TYPE_CHECKING:
    from lshdb import EdgeState
    from lshdb.arguments import Verify
    from lshdb.transient.transient_index import TransientIndex

__all__ = [
    "FOLDERS",
    "LINKING",
    "READING",
    "Command",
    "agreement_options",
    "conflict_option",
    "decisions_options",
    "document_limit_option",
    "folder_options",
    "format_option",
    "index_argument",
    "input_options",
    "keep_fields_option",
    "linkage_option",
    "linking_options",
    "listing_options",
    "lock_option",
    "max_bucket_option",
    "memory_for",
    "memory_option",
    "new_pairs_options",
    "page_or_record_options",
    "record_options",
    "require_body",
    "search_options",
    "seconds",
    "since_option",
    "spark_options",
    "update_edges",
    "vector_option",
    "workers_option",
]


MAX_BUCKET = 1000
"""The cap on buckets if none was ever given."""

Function = TypeVar("Function", bound=Callable[..., Any])


def seconds(value: Any) -> float:
    """Parse a number of seconds: at least 0; ``inf`` means no limit."""
    number = click.FLOAT.convert(value, None, None)
    if not number >= 0:
        raise click.BadParameter(f"{number:g} is not a number of seconds from 0 on")
    return float(number)


def format_option(text: str) -> Callable[[Function], Function]:
    """Return the option for an output format, and its short form for JSON Lines."""
    return options(
        # Eager: the file's name is looked at with it.
        option(
            "--format",
            "output_format",
            type=click.Choice(FORMATS),
            metavar="FORMAT",
            is_eager=True,
            help=text,
        ),
        option(
            "--json", "as_json", is_flag=True, expose_value=False, help="Short for --format jsonl."
        ),
        title=OUTPUT,
    )


def _listing(
    *names: str,
    help: str,
    formats: Sequence[str] = FORMATS,
    default: str = "table on a terminal, and tsv elsewhere",
    listed: str = "the output",
    to_folders: bool = False,
) -> Callable[[Function], Function]:
    """Return the options for a listing that the option of these names writes to a file.

    With ``to_folders``, it may name a folder, which the command gets as ``folder``.
    """
    return options(
        format_option(
            f"Format of {listed}: {{choices}}. parquet needs the extra lshdb[parquet]. A "
            "spreadsheet reads a key that begins with = + - or @ as a formula.  [default: as the "
            f"name of {names[-1]} says; else {default}]"
        ),
        option(
            "--header",
            is_flag=True,
            expose_value=False,
            callback=write_header,
            help="Begin tsv with a line of names.",
        ),
        option(
            *names,
            *(["folder"] if to_folders else []),
            metavar="FILE|FOLDER" if to_folders else "FILE",
            expose_value=to_folders,
            callback=functools.partial(
                write_to_either if to_folders else write_to, formats=formats
            ),
            shell_complete=complete_files,
            help=help,
        ),
        title=OUTPUT,
    )


listing_options = _listing(
    "-o",
    "--output",
    help="Write to FILE, which is replaced once all is written; - is standard output.",
)
spark_options = _listing(
    "-o",
    "--output",
    help="Write to FILE, which is replaced once all is written; - is standard output. A name "
    "without an ending, with / at its end, or with ://, is that of a new FOLDER, in which the "
    "executors of Spark write Parquet, or csv or jsonl by --format, and _SUCCESS last.",
    to_folders=True,
)
new_pairs_options = _listing(
    "-o",
    "--output",
    help="Write the pairs, or without --pairs the summary, to FILE, which is replaced once all is "
    "written; - is standard output.",
    listed="the pairs, or without --pairs of the summary, otherwise a line on standard error",
)
decisions_options = _listing(
    "--decisions",
    help="Write the list of decisions to FILE, which is replaced once all is written.  "
    "[default: standard output, or no list where files are written]",
)
record_options = _listing(
    "-o",
    "--output",
    help="Write to FILE, which is replaced once all is written; - is standard output.",
    default="table",
)
page_or_record_options = _listing(
    "-o",
    "--output",
    help="Write to FILE, which is replaced once all is written; - is standard output. A name "
    "that ends in .html is that of a page.",
    formats=(*FORMATS, "html"),
    default="table",
)


def conflict_option(*more: str, text: str = "") -> Callable[[Function], Function]:
    """Return the option for keys that exist; with more ways than usual, and what those do."""
    return option(
        "--on-conflict",
        type=click.Choice(["replace", "skip", "error", *more]),
        metavar="WHAT",
        default="replace",
        show_default=True,
        help=f"If a key comes with another text: {{choices}}.{text}",
    )


workers_option = option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads that sign and compare.  [default: one per core]",
)
lock_option = option(
    "--lock-timeout",
    type=seconds,
    metavar="SECONDS",
    default=60,
    show_default=True,
    help="How long to wait while another process writes to the index.",
)


def _max_bucket(value: str) -> int | str:
    try:
        return value if value == "none" else int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor none") from None


def max_bucket_option(text: str) -> Callable[[Function], Function]:
    """Return the option for the largest bucket whose pairs are all compared."""
    return option("--max-bucket", type=_max_bucket, metavar="M|none", help=text)


def _bytes(_ctx: click.Context, _param: click.Parameter, mebibytes: float) -> int:
    if not 1 <= mebibytes <= 2**40:
        raise click.BadParameter(f"expected MiB from 1 on, and it is {mebibytes:g}")
    return int(mebibytes * 2**20)


memory_option = option(
    "--memory",
    type=float,
    callback=_bytes,
    default=256,
    show_default=True,
    metavar="MIB",
    help="Memory for comparing pairs and texts.",
)


def _batch(value: str) -> int | str:
    try:
        return int(value)
    except ValueError:
        return value  # the library knows the other forms


def since_option(text: str, *names: str, default: str = "") -> Callable[[Function], Function]:
    """Return the option for what counts as new; the help of the option begins with the text."""
    return option(
        *(names or ("--since",)),
        type=_batch,
        metavar="WHEN",
        shell_complete=complete_since,
        help=f"{text} WHEN is a batch's number; last, the last add that changed something, with "
        "the other adds of its night; @NAME, what that cursor has not seen; a date (2026-01-31); "
        f"or a time ago (8h, 7d).{default}",
    )


_threshold_option = option(
    "--threshold",
    type=float,
    metavar="T",
    help="Lowest similarity, or largest distance, that counts.  [default: the index's]",
)
search_options = options(
    _threshold_option,
    option(
        "--verify",
        type=click.Choice(["none", "signature", "exact"]),
        metavar="HOW",
        help="How to check candidates: {choices}.  [default: exact if texts or vectors are "
        "stored, else signature; none if the signatures are on another host]",
    ),
)
measure_option = option(
    "--measure",
    type=click.Choice(list(MEASURES)),
    metavar="WHAT",
    default="similarity",
    show_default=True,
    help="What to measure: {choices}. Containment lists what contains a text, and which share: of "
    "the shingles of the query, or of the first document of a pair, how many the other document "
    "has. All texts are compared, and none is missed.",
)
below_option = option(
    "--below",
    type=float,
    metavar="S",
    help="List only what is less similar than S, or farther than S for a distance: close, but not "
    "a copy. Not with --verify none.",
)
linkage_option = option(
    "--linkage",
    type=click.Choice(["component", "representative"]),
    metavar="WHAT",
    default="component",
    show_default=True,
    help="What makes a cluster: {choices}. component keeps chains of similar documents together; "
    "representative cuts them, so that every member is similar to the document that names the "
    "cluster.",
)


def _separated(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the names of fields in an option that may be given several times."""
    names = [name.strip() for name in ",".join(values).split(",")]
    return tuple(dict.fromkeys(filter(None, names)))


def _fields_named(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Return names of fields; an option without one would let every pair count."""
    names = _separated(ctx, param, values)
    if values and not names:
        raise click.BadParameter("it names no field; expected names of kept fields, as year,doi")
    return names


agreement_options = options(
    option(
        "--agree",
        multiple=True,
        callback=_fields_named,
        metavar="NAME,...",
        shell_complete=complete_kept_fields,
        help="Skip a pair if both documents have one of these kept fields and the values differ. "
        "Case, punctuation and white space do not count, and pages 123-9 are 123-129.",
    ),
    option(
        "--differ",
        multiple=True,
        callback=_fields_named,
        metavar="NAME,...",
        shell_complete=complete_kept_fields,
        help="List only pairs of which both documents have one of these kept fields and the "
        "values differ.",
    ),
)
linking_options = options(
    _threshold_option,
    option(
        "--verify",
        type=click.Choice(["signature", "exact"]),
        metavar="HOW",
        help="How to verify pairs: {choices}. Another method than the last one finds all pairs "
        "again.  "
        "[default: as before; exact where texts are stored]",
    ),
    max_bucket_option(
        "In buckets of more than M documents, join through leaders instead of comparing all "
        "pairs; none compares all. The value stays in force until you give another, which finds "
        "all pairs again.  [default: as before; 1000]"
    ),
    memory_option,
    option(
        "--no-update",
        is_flag=True,
        help="Answer from the pairs found before, and write nothing.",
    ),
    lock_option,
)
LINKING = ("threshold", "verify", "max_bucket", "memory", "no_update", "lock_timeout")
"""Arguments of ``update_edges`` that :func:`linking_options` adds."""


def memory_for(index: Index | TransientIndex, memory: int) -> int:
    """Return what ``--memory`` says, or where it was not given, the usual memory of the index."""
    if isinstance(index, Index):
        return memory
    from lshdb.transient.transient_index import MEMORY

    source = click.get_current_context().get_parameter_source("memory")
    is_given = source is not click.core.ParameterSource.DEFAULT
    return memory if is_given else MEMORY


def update_edges(
    index: Index | TransientIndex,
    *,
    threshold: float | None,
    verify: Verify | None,
    max_bucket: int | str | None,
    memory: int,
    no_update: bool,
    lock_timeout: float,
    workers: int | None = None,
    words: str = "comparing new documents",
) -> None:
    """Update verified pairs and clusters, and note the pairs that were not compared.

    Where the index may not be written to, what is stored has to do.
    """
    if no_update:
        if verify is not None or max_bucket is not None:
            raise click.UsageError(
                "--verify and --max-bucket find pairs again; --no-update does not"
            )
        state = index.edge_state()
    else:
        try:
            with working(words):
                state = index.update_clusters(
                    threshold=threshold,
                    verify=verify,
                    max_bucket=max_bucket,
                    memory=memory_for(index, memory),
                    workers=workers,
                    lock_timeout=lock_timeout,
                )
        except ReadOnlyError as error:
            if verify is not None or max_bucket is not None or not isinstance(index, Index):
                raise
            state = _stored_before(index, error)
    if state is None:
        return
    if max_bucket is None and state.max_bucket != MAX_BUCKET:
        cap = "none" if state.max_bucket is None else f"{state.max_bucket}"
        note(
            f"an earlier --max-bucket {cap} is still in force; "
            f"give --max-bucket {MAX_BUCKET} for the default, or another number or none"
        )
    if state.hot_buckets:
        note(
            f"{counted(state.hot_buckets, 'bucket')} of more than "
            f"{state.max_bucket:,} documents {'was' if state.hot_buckets == 1 else 'were'} "
            f"joined through leaders; {state.hot_pairs:,} of their pairs were not compared there; "
            f"{loss_in_words(index.loss(threshold=threshold))}"
        )
        curve = index.params.curve
        if threshold is not None and curve.level(threshold) > state.threshold:
            note(
                f"documents of those buckets were joined at {curve.value(state.threshold):g}; at "
                f"{threshold:g} they may fall into more clusters than they should"
            )


def _stored_before(index: Index, error: ReadOnlyError) -> EdgeState:
    """Return the state of the stored pairs, and note what they cover.

    Raises
    ------
    ReadOnlyError
        There are none.
    """
    state = index.edge_state()
    if state is None:
        raise ReadOnlyError(
            f"{error.message}; no pairs were found before",
            hint=f"ask a user who may write there to run lshdb clusters {index.path}, or copy the "
            f"index to a place of yours: lshdb copy {index.path} DEST",
        ) from error
    later = [batch.batch_id for batch in index.batches() if batch.batch_id > state.batch_id]
    what = ""
    if later:
        numbers = f"batch {later[0]}" if len(later) == 1 else f"batches {later[0]} to {later[-1]}"
        what = f"; the documents of {numbers} are not compared"
    note(
        f"{index.path} may not be written to: these are the pairs found on "
        f"{state.updated_at[:16]} UTC{what}"
    )
    return state


def _vector(value: str) -> Any:
    """Parse numbers or weights as JSON; return anything else unchanged, as bits."""
    if not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"{value[:80]!r} is not valid JSON: {error}") from error


def vector_option(purpose: str) -> Callable[[Function], Function]:
    """Return the option that takes a vector, bits or weights."""
    return option(
        "--vector",
        type=_vector,
        metavar="VALUE",
        help=f"{purpose}: a JSON array of numbers; bits as 0s and 1s or hexadecimal digits; "
        "weights as a JSON object.",
    )


def require_body(
    index: Index | TransientIndex, *, text: str | None, vector: Any, place: str | None = None
) -> None:
    """Refuse a text for an index of vectors, and a vector for one of texts.

    Parameters
    ----------
    index : Index or TransientIndex
    text, vector : any
        What was given, or None.
    place : str, optional
        What messages call the index; its path by default.

    Raises
    ------
    click.UsageError
    """
    body, place = index.params.kind.body, place or str(index.path)
    is_tokens = isinstance(vector, list) and all(isinstance(token, str) for token in vector)
    ctx = click.get_current_context()
    if vector is not None and body == "text" and not is_tokens:
        raise click.UsageError(
            f"--vector is for vectors, bits and weights, and {place} holds texts: give --text",
            ctx,
        )
    if isinstance(vector, str) and body == "vector":
        raise click.UsageError(
            f"--vector is {vector!r:.80}; expected numbers as JSON, such as '[0.5, -1, 2]'", ctx
        )
    if text is not None and body == "vector":
        raise click.UsageError(
            f"--text is for texts, and {place} holds vectors: give --vector", ctx
        )


def _delimiter(value: str) -> str:
    return "\t" if value in ("tab", "\\t") else value


document_limit_option = option(
    "--max-document-bytes",
    type=click.IntRange(min=1),
    default=MAX_DOCUMENT_BYTES,
    show_default=True,
    metavar="N",
    help="Reject a line, record, text file or row of more than N bytes, decompressed. It is never "
    "held in memory.",
)
input_options = options(
    option(
        "--key-field",
        metavar="NAME",
        shell_complete=complete_input_fields,
        help="Field that names a document: a column, or an array of an .npz.  [default: id]",
    ),
    option(
        "--text-field",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_input_fields,
        help="Field to compare. Give it again to join several, with a blank line between.  "
        "[default: text; weights for weighted-jaccard if there is no text]",
    ),
    option(
        "--vector-field",
        metavar="NAME",
        shell_complete=complete_input_fields,
        help="Field that holds vectors or bits.  [default: vector; in an .npz its only "
        "two-dimensional array]",
    ),
    option(
        "--row-keys",
        is_flag=True,
        help="Name records by file and line, as news.csv:17, instead of by a field.",
    ),
    option(
        "--keys",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="File with the keys of the rows of one .npy, .npz, Parquet or Arrow file. It has one "
        "key per line, as TSV has it, with a backslash as \\\\; or it is a .jsonl of strings or "
        "of objects with key, or a .npy.  [default: row numbers from 0, after the file's name if "
        "there are several files]",
    ),
    option(
        "--input",
        "input_format",
        type=click.Choice(INPUT_FORMATS),
        metavar="FORMAT",
        default="auto",
        show_default=True,
        help="Format of the input: {choices}. auto goes by file names. text reads each file as "
        "one text, whatever it looks like. urls reads lists of URLs, one per line; each host is a "
        "document.",
    ),
    option(
        "--delimiter",
        type=_delimiter,
        metavar="CHAR",
        help="Character between the cells of CSV, such as ';', '|' or tab.  [default: ,]",
    ),
    option(
        "--quote",
        metavar="CHAR|none",
        help="Character that quotes cells of CSV and TSV, or none.  [default: double quotes in "
        "CSV; none in TSV, unless the file shows double quotes]",
    ),
    option(
        "--encoding",
        metavar="NAME",
        help="Encoding of texts, CSV, TSV and JSON Lines, such as latin-1, cp1252 or utf-16.  "
        "[default: UTF-8, or UTF-16 or UTF-32 if the file begins with its byte order mark]",
    ),
    document_limit_option,
    title="Input",
)
READING = (
    "key_field", "text_field", "vector_field", "keys", "row_keys", "delimiter", "encoding",
    "quote", "max_document_bytes",
)  # fmt: skip
"""Arguments of ``read_documents`` that :func:`input_options` adds besides the format."""

FOLDERS = ("hidden", "gitignore", "include", "exclude", "relative", "strip_prefix")
"""Arguments of ``read_documents`` that :func:`folder_options` adds."""
folder_options = options(
    option(
        "--hidden",
        is_flag=True,
        help="Also read hidden files and folders, whose names begin with a dot.",
    ),
    option(
        "--no-gitignore",
        "gitignore",
        flag_value=False,
        is_flag=True,
        default=True,
        help="Also read files that a .gitignore leaves out.",
    ),
    option(
        "--include",
        multiple=True,
        metavar="GLOB",
        help="In folders and patterns, read only files that match GLOB, written as in a "
        ".gitignore: '*.py', 'src/'. Give it again for several.",
    ),
    option(
        "--exclude",
        multiple=True,
        metavar="GLOB",
        help="In folders and patterns, leave out files and folders that match GLOB. Give it again "
        "for several.",
    ),
    option(
        "--relative",
        is_flag=True,
        help="Name files by their paths inside the folder, not by the paths as you gave them.",
    ),
    option(
        "--strip-prefix",
        metavar="PREFIX",
        help="Take these leading folders off keys of paths.",
    ),
    title="Input",
)
keep_fields_option = options(
    option(
        "--keep-fields",
        multiple=True,
        callback=_separated,
        metavar="NAME,...",
        shell_complete=complete_input_fields,
        help="Store these fields, too, for SQL, listings and --agree. They do not count for the "
        "similarity.",
    ),
    title="Input",
)
