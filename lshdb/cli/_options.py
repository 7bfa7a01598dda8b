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
from lshdb.cli._command import Command, complete_files, index_argument, options
from lshdb.cli._output import FORMATS, note, working, write_header, write_to
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
    "memory_option",
    "new_pairs_options",
    "page_or_listing_options",
    "require_body",
    "search_options",
    "seconds",
    "since_option",
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
        click.option(
            "--format", "output_format", type=click.Choice(FORMATS), is_eager=True, help=text
        ),
        click.option(
            "--json", "as_json", is_flag=True, expose_value=False, help="Short for --format jsonl."
        ),
    )


def _listing(
    *names: str, help: str, formats: Sequence[str] = FORMATS, listed: str = ""
) -> Callable[[Function], Function]:
    """Return the options for a listing that the option of these names writes to a file."""
    return options(
        format_option(
            f"Output format{listed}; parquet needs the extra lshdb[parquet]. A "
            "spreadsheet reads a key that begins with = + - or @ as a formula.  [default: what "
            f"the name of {names[-1]} says; table on a terminal; tsv otherwise]"
        ),
        click.option(
            "--header",
            is_flag=True,
            expose_value=False,
            callback=write_header,
            help="Begin tsv with a line of names.",
        ),
        click.option(
            *names,
            metavar="FILE",
            expose_value=False,
            callback=functools.partial(write_to, formats=formats),
            shell_complete=complete_files,
            help=help,
        ),
    )


listing_options = _listing(
    "-o",
    "--output",
    help="Write to FILE, which is replaced when all is written; - is standard output.",
)
new_pairs_options = _listing(
    "-o",
    "--output",
    help="Write the pairs, or without --pairs the summary, to FILE, which is replaced when all is "
    "written; - is standard output.",
    listed=" of the pairs or, without --pairs, of the summary, which is otherwise a line on "
    "standard error",
)
decisions_options = _listing(
    "--decisions",
    help="Write the list of decisions to FILE, which is replaced when all is written.  "
    "[default: standard output, or no list where files are written]",
)
page_or_listing_options = _listing(
    "-o",
    "--output",
    help="Write to FILE, which is replaced when all is written; - is standard output. A name "
    "that ends in .html is that of a page.",
    formats=(*FORMATS, "html"),
)


def conflict_option(*more: str, text: str = "") -> Callable[[Function], Function]:
    """Return the option for keys that exist; with more ways than usual, and what those do."""
    return click.option(
        "--on-conflict",
        type=click.Choice(["replace", "skip", "error", *more]),
        default="replace",
        show_default=True,
        help=f"What to do if a key exists with another text.{text}",
    )


workers_option = click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads that sign and compare.  [default: one per core]",
)
lock_option = click.option(
    "--lock-timeout",
    type=seconds,
    metavar="SECONDS",
    default=60.0,
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
    return click.option("--max-bucket", type=_max_bucket, metavar="M|none", help=text)


def _bytes(_ctx: click.Context, _param: click.Parameter, mebibytes: float) -> int:
    if not 1 <= mebibytes <= 2**40:
        raise click.BadParameter(f"{mebibytes:g} MiB is not at least 1")
    return int(mebibytes * 2**20)


memory_option = click.option(
    "--memory",
    type=float,
    callback=_bytes,
    default=256,
    show_default=True,
    metavar="MIB",
    help="Memory for pairs and texts under verification.",
)


def _batch(value: str) -> int | str:
    try:
        return int(value)
    except ValueError:
        return value  # the library knows the other forms


def since_option(text: str, *names: str) -> Callable[[Function], Function]:
    """Return the option for what counts as new; the help of the option begins with the text."""
    return click.option(
        *(names or ("--since",)),
        type=_batch,
        metavar="WHEN",
        help=f"{text} WHEN is a batch's number; last, the last add that changed something, with "
        "the other adds of its night; @NAME, what that cursor has not seen; a date (2026-01-31); "
        "or a time ago (8h, 7d).",
    )


_threshold_option = click.option(
    "--threshold",
    type=float,
    metavar="T",
    help="Lowest similarity, or largest distance.  [default: the index's]",
)
search_options = options(
    _threshold_option,
    click.option(
        "--verify",
        type=click.Choice(["none", "signature", "exact"]),
        help="How to check candidates.  [default: exact if texts or vectors are stored, else "
        "signature; none if the signatures are on another host]",
    ),
)
measure_option = click.option(
    "--measure",
    type=click.Choice(list(MEASURES)),
    default="similarity",
    show_default=True,
    help="With containment, list what contains a text, and which share: of the shingles of the "
    "query, or of the first document of a pair, how many the other document has. All texts are "
    "compared, and none is missed.",
)
below_option = click.option(
    "--below",
    type=float,
    metavar="S",
    help="List only what is less similar than S, or for a distance farther than S: close, but "
    "not a copy. Not with --verify none.",
)
linkage_option = click.option(
    "--linkage",
    type=click.Choice(["component", "representative"]),
    default="component",
    show_default=True,
    help="component keeps chains of similar documents together; representative cuts them so "
    "that every member is similar to the document that names the cluster.",
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
    click.option(
        "--agree",
        multiple=True,
        callback=_fields_named,
        metavar="NAME,...",
        help="Leave out pairs of which one of these kept fields is there on both sides and "
        "differs. Case, punctuation and white space do not count, and pages 123-9 are 123-129.",
    ),
    click.option(
        "--differ",
        multiple=True,
        callback=_fields_named,
        metavar="NAME,...",
        help="Only pairs of which one of these kept fields is there on both sides and differs.",
    ),
)
linking_options = options(
    _threshold_option,
    click.option(
        "--verify",
        type=click.Choice(["signature", "exact"]),
        help="How to verify pairs. A method other than the last one finds all pairs again.  "
        "[default: as before; exact where texts are stored]",
    ),
    max_bucket_option(
        "Join the documents of larger buckets through leaders instead of comparing all their "
        "pairs; none compares all. The value holds until you give another, which finds all "
        "pairs again.  [default: as before; 1000]"
    ),
    memory_option,
    click.option(
        "--no-update",
        is_flag=True,
        help="Answer from the pairs found before, and write nothing.",
    ),
    lock_option,
)
LINKING = ("threshold", "verify", "max_bucket", "memory", "no_update", "lock_timeout")
"""Arguments of ``update_edges`` that :func:`linking_options` adds."""


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
            with working("comparing new documents"):
                state = index.update_clusters(
                    threshold=threshold,
                    verify=verify,
                    max_bucket=max_bucket,
                    memory=memory,
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
            f"{error.message}: no pairs were found before",
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
    return click.option(
        "--vector",
        type=_vector,
        metavar="VALUE",
        help=f"{purpose}: a JSON array of numbers; bits as 0s and 1s or hexadecimal digits; "
        "weights as a JSON object.",
    )


def require_body(index: Index, *, text: str | None, vector: Any) -> None:
    """Refuse a text for an index of vectors, and a vector for one of texts.

    Raises
    ------
    click.UsageError
    """
    body = index.params.kind.body
    is_tokens = isinstance(vector, list) and all(isinstance(token, str) for token in vector)
    ctx = click.get_current_context()
    if vector is not None and body == "text" and not is_tokens:
        raise click.UsageError(
            f"--vector is for vectors, bits and weights, and {index.path} holds texts: give --text",
            ctx,
        )
    if isinstance(vector, str) and body == "vector":
        raise click.UsageError(
            f"--vector is {vector!r:.80}; expected numbers as JSON, such as '[0.5, -1, 2]'", ctx
        )
    if text is not None and body == "vector":
        raise click.UsageError(
            f"--text is for texts, and {index.path} holds vectors: give --vector", ctx
        )


def _delimiter(value: str) -> str:
    return "\t" if value in ("tab", "\\t") else value


document_limit_option = click.option(
    "--max-document-bytes",
    type=click.IntRange(min=1),
    default=MAX_DOCUMENT_BYTES,
    show_default=True,
    metavar="N",
    help="Largest line, CSV record, text file or row, decompressed. A larger one is rejected "
    "and never held in memory.",
)
input_options = options(
    click.option(
        "--key-field",
        metavar="NAME",
        help="Field, column or array of an .npz that holds a document's key.  [default: id]",
    ),
    click.option(
        "--text-field",
        multiple=True,
        metavar="NAME",
        help="Field or column that holds its text, or its weights. Given several times, the texts "
        "are joined in that order, with a blank line between.  [default: text; for "
        "weighted-jaccard weights if there is no text]",
    ),
    click.option(
        "--vector-field",
        metavar="NAME",
        help="Field, column or array of an .npz that holds its vector or bits.  [default: vector; "
        "in an .npz the only two-dimensional array]",
    ),
    click.option(
        "--row-keys",
        is_flag=True,
        help="Make keys of the path and the number of the line, row or record, as news.csv:17, for "
        "records without keys of their own.",
    ),
    click.option(
        "--keys",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="Keys for the rows of one .npy, .npz, Parquet or Arrow file: one per line as TSV has "
        "it, with a backslash as \\\\; a .jsonl of strings or of objects with key; or a .npy.  "
        "[default: row numbers from 0, after the file's name if there are several files]",
    ),
    click.option(
        "--input",
        "input_format",
        type=click.Choice(INPUT_FORMATS),
        default="auto",
        show_default=True,
        help="Input format; auto goes by file names. text reads each file as one text, whatever "
        "it looks like. urls reads lists of URLs, one per line; each host is a document.",
    ),
    click.option(
        "--delimiter",
        type=_delimiter,
        metavar="CHAR",
        help="Character between the cells of CSV: ';', '|', tab.  [default: ,]",
    ),
    click.option(
        "--quote",
        metavar="CHAR|none",
        help="Character that quotes the cells of CSV and TSV, or none.  [default: double quotes in "
        "CSV; none in TSV, unless the file shows double quotes]",
    ),
    click.option(
        "--encoding",
        metavar="NAME",
        help="Encoding of texts, CSV, TSV and JSON Lines: latin-1, cp1252, utf-16.  [default: "
        "UTF-8, or UTF-16 or UTF-32 if the file begins with its byte order mark]",
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
    click.option(
        "--hidden",
        is_flag=True,
        help="In folders: also read files and folders whose names begin with a dot.",
    ),
    click.option(
        "--no-gitignore",
        "gitignore",
        flag_value=False,
        is_flag=True,
        default=True,
        help="In folders: also read what .gitignore files name.",
    ),
    click.option(
        "--include",
        multiple=True,
        metavar="GLOB",
        help="In folders and patterns: read only files that match, as in a .gitignore: '*.py', "
        "'src/'. May be given several times.",
    ),
    click.option(
        "--exclude",
        multiple=True,
        metavar="GLOB",
        help="In folders and patterns: leave out files and folders that match. May be given "
        "several times.",
    ),
    click.option(
        "--relative",
        is_flag=True,
        help="Make keys of paths relative to the folder given.  [default: as given]",
    ),
    click.option(
        "--strip-prefix",
        metavar="PREFIX",
        help="Take these first components off keys of paths.",
    ),
    title="Input",
)
keep_fields_option = options(
    click.option(
        "--keep-fields",
        multiple=True,
        callback=_separated,
        metavar="NAME,...",
        help="Fields or columns that are stored with the document, for SQL, listings and "
        "--agree; they do not count for the similarity.",
    ),
    title="Input",
)
