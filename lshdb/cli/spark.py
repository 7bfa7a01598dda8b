"""``lshdb spark``: the same questions about files, on Apache Spark."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import click

from lshdb import IndexNotFoundError, IndexParams, ParameterError
from lshdb.arguments import Only
from lshdb.cli._cells import harmless
from lshdb.cli._command import Argument, option, options
from lshdb.cli._completion import complete_keep
from lshdb.cli._creation_options import creation_options, given_parameters
from lshdb.cli._documents_in import note_short, summary
from lshdb.cli._errors import REJECTED
from lshdb.cli._options import (
    MAX_BUCKET,
    Command,
    linkage_option,
    max_bucket_option,
    spark_options,
)
from lshdb.cli._output import Column, note, print_listing, working
from lshdb.cli._words import counted, described, loss_in_words, measured
from lshdb.errors import hide_credentials
from lshdb.groups.deduplication import field_name
from lshdb.params.options import CreateOptions
from lshdb.tokenizers import given_tokenizer

if TYPE_CHECKING:
    from lshdb.search.loss import Loss

__all__ = ["command"]

UPKEEP = ("compact", "vacuum", "upgrade")
"""What keeps a dataset in shape; it takes no files, and prints a line."""
QUESTIONS = (
    "pairs", "clusters", "dedup", "deduplicate", "neighbors", "rejected", "add", "query", *UPKEEP,
)  # fmt: skip
COLUMNS = {
    "pairs": (
        Column("key1"), Column("key2"), Column("similarity", "similarity"), Column("method"),
    ),
    "clusters": (Column("cluster"), Column("size", "number"), Column("key")),
    "dedup": (
        Column("key"), Column("decision"), Column("kept_key"), Column("similarity", "similarity"),
        Column("method"),
    ),
    "neighbors": (
        Column("key"), Column("rank", "number"), Column("neighbor"),
        Column("similarity", "similarity"), Column("method"),
    ),
    "rejected": (Column("key"), Column("reason", "prose")),
    "query": (
        Column("query"), Column("key"), Column("similarity", "similarity"), Column("method"),
    ),
}  # fmt: skip
_OWN = {
    "pairs": ("verify", "max_bucket", "index", "since"),
    "clusters": ("verify", "max_bucket", "index", "min_size", "linkage"),
    "dedup": ("verify", "max_bucket", "index", "keep", "only", "linkage"),
    "deduplicate": ("verify", "max_bucket", "keep", "mark", "linkage"),
    "neighbors": ("verify", "max_bucket", "top"),
    "rejected": (),
    "add": ("index", "night"),
    "query": ("verify", "index"),
    **dict.fromkeys(UPKEEP, ("index",)),
}
"""Options that are of one question, or of some."""
FOLDER_FORMATS = ("parquet", "csv", "jsonl")
"""What executors write."""


@click.command(
    "spark",
    cls=Command,
    short="index master conf key-field text-field threshold recall keep only since night output",
)
@click.argument(
    "question",
    metavar="QUESTION",
    type=click.Choice(QUESTIONS),
    cls=Argument,
    missing=f"one of {', '.join(QUESTIONS)}",
)
@click.argument("paths", metavar="[FILE]...", nargs=-1)
@option(
    "--index",
    metavar="DATASET",
    help="A dataset to ask, or to add to. add makes it if there is none, query finds the texts of "
    "the files in it, and pairs, clusters and dedup need no files.",
)
@option(
    "--master",
    metavar="URL",
    help="Where Spark runs: local[4], spark://HOST:7077, yarn, k8s://..., or sc://HOST for Spark "
    "Connect.  [default: what spark-submit says, or all cores of this machine]",
)
@option(
    "--conf",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of Spark, such as spark.driver.memory=4g.",
)
@option(
    "--input",
    "input_format",
    group="Input",
    type=click.Choice(["auto", "jsonl", "csv", "tsv", "parquet"]),
    metavar="FORMAT",
    default="auto",
    show_default=True,
    help="Format of the input: {choices}. auto goes by file names.",
)
@option(
    "--quote",
    group="Input",
    metavar="CHAR|none",
    help="Character that quotes cells of CSV and TSV, or none.  [default: double quotes in "
    "CSV; none in TSV, unless its first lines show double quotes]",
)
@option(
    "--key-field",
    group="Input",
    default="id",
    show_default=True,
    metavar="NAME",
    help="Field that names a document.",
)
@option(
    "--text-field",
    group="Input",
    multiple=True,
    metavar="NAME",
    help="Field of the texts, or vectors. Give it again to join several.  [default: text]",
)
@option(
    "--order",
    metavar="NAME",
    help="The field by which one document is older than another.  [default: keys]",
)
@option(
    "--verify",
    type=click.Choice(["none", "signature", "exact"]),
    metavar="HOW",
    help="How to check candidates: {choices}.  [default: exact]",
)
@max_bucket_option(
    "In buckets of more than M documents, join through leaders, and leave out larger groups of "
    "exact copies.  "
    "[default: 1000]"
)
@option(
    "--min-size", type=int, metavar="N", help="For clusters, the fewest documents.  [default: 2]"
)
@linkage_option
@option(
    "--keep",
    metavar="WHICH",
    shell_complete=complete_keep,
    help="For dedup and deduplicate, which to keep: first, last, longest, shortest, field:NAME or "
    "field:-NAME.  [default: first]",
)
@option(
    "--only",
    type=click.Choice(["all", "keep", "drop"]),
    metavar="WHICH",
    help="For dedup, which decisions to list: {choices}.  [default: all]",
)
@option(
    "--mark",
    is_flag=True,
    help="For deduplicate, write all records, with lshdb_keep, lshdb_cluster, lshdb_kept_as and "
    "lshdb_similarity added.",
)
@option(
    "--top",
    type=int,
    metavar="N",
    help="For neighbors, list at most N of each document.  [default: 10]",
)
@option(
    "--since",
    type=int,
    metavar="BATCH",
    help="For pairs of a dataset, list only those with a document of this batch or a later one.",
)
@option("--night", metavar="NAME", help="For add, a name for the batch.")
@options(creation_options, without=["database", "schema", "passages"])
@spark_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    question: str,
    paths: tuple[str, ...],
    *,
    index: str | None,
    master: str | None,
    settings: tuple[str, ...],
    input_format: str,
    quote: str | None,
    key_field: str,
    text_field: tuple[str, ...],
    order: str | None,
    verify: str | None,
    max_bucket: int | str | None,
    min_size: int | None,
    linkage: str,
    keep: str | None,
    only: Only | None,
    mark: bool,
    top: int | None,
    since: int | None,
    night: str | None,
    output_format: str | None,
    folder: str | None,
    **options: Any,
) -> None:
    """Ask a QUESTION about files or a dataset on Apache Spark.

    QUESTION is pairs, clusters, dedup, deduplicate, neighbors or rejected, about files; or with
    --index, add or query, or one without files: compact writes small files as large ones, vacuum
    removes files that no commit of the last week names, upgrade brings a dataset of an older
    format up to date.

    An answer is printed by one process, if it has at most 10 million rows. With --output FOLDER
    the executors write any answer, in no order, and the folder is whole once it has _SUCCESS.
    deduplicate writes the records that are kept, with the columns and the folders of partitions of
    FILE; lines of JSON byte for byte. Records that are no documents are kept.

    dedup and deduplicate keep documents that are verified to be similar to what they drop. With
    --linkage component they keep one document of each connected component, of any size.

    The answers are those of lshdb add and the command of the same name, for documents added in the
    order of their keys. FILE is a file, a folder or a pattern that Spark can read, local or
    elsewhere: JSON Lines, CSV, TSV or Parquet. Needs the extra lshdb[spark], and Java 17 or later.

    DATASET is an index in tables of Parquet under Delta Lake's log, as lshdb export --format delta
    makes it. The options of New index set the parameters of a new one. An existing one must
    have been made with the same values, but a question may ask for another --threshold.

    Exit code 5 means that some rows are no documents; the question rejected lists them.

    \b
    lshdb spark pairs news/*.jsonl --threshold 0.7
    lshdb spark dedup s3a://bucket/crawl.parquet --master yarn --only drop -o s3a://bucket/drops
    lshdb spark deduplicate s3a://bucket/crawl.parquet --master yarn -o s3a://bucket/clean
    lshdb spark clusters news.jsonl --master local[4] --conf spark.driver.memory=8g
    lshdb spark add --index s3a://bucket/news monday/*.jsonl --night monday
    lshdb spark pairs --index s3a://bucket/news --since 7
    """
    values: dict[str, Any] = {
        "verify": verify, "max_bucket": max_bucket, "min_size": min_size, "keep": keep,
        "only": only, "mark": mark or None, "top": top, "index": index, "since": since,
        "night": night,
    }  # fmt: skip
    if ctx.get_parameter_source("linkage") is click.core.ParameterSource.COMMANDLINE:
        values["linkage"] = linkage
    own_options = {name: value for name, value in values.items() if value is not None}
    foreign = sorted(own_options.keys() - _OWN[question])
    if foreign:
        raise click.UsageError(f"--{foreign[0].replace('_', '-')} is not for {question}", ctx)
    own_options.pop("index", None)
    how: dict[str, Any]
    _check_input(ctx, question, index, paths, since)
    _check_output(ctx, question, folder, output_format)
    fields = list(text_field) or ["text"]
    value = None if keep is None else field_name(keep)
    along = [name for name in (order, value) if name is not None]
    parameters = given_parameters(options)
    # Mistakes are told of before Spark starts.
    given_name = given_tokenizer(parameters.get("tokenizer"))
    recorded = {} if given_name is None else {"tokenizer": given_name.recorded}
    params = CreateOptions(**(parameters | recorded)).params()
    import lshdb.spark as on_spark

    # What goes through pandas there is not used here.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    with on_spark.connect(master, _settings(settings)) as session, on_spark.sparks_errors():
        if folder is not None:
            on_spark.check_folder(session, folder)
        if index is not None and not paths:
            if question == "upgrade":
                before, after = on_spark.Index.upgrade(index, spark=session)
                note(
                    f"the dataset has format {after}"
                    if before == after
                    else f"upgraded the dataset from format {before} to {after}"
                )
                return
            stored, threshold = _opened(on_spark.Index, index, session, parameters)
            if question == "vacuum":
                note(f"{counted(len(stored.vacuum()), 'file')} removed")
                return
            if question == "compact":
                with working("Spark", on_spark.running):
                    files = stored.compact()
                note(", ".join(f"{name}: {counted(n, 'file')}" for name, n in files.items()))
                return
            with working("Spark", on_spark.running):
                answer = getattr(stored, question)(threshold=threshold, **own_options)
            _give(question, answer, stored.params, output_format, folder)
            if question == "pairs" and since is None:
                how = {"verify": verify, "max_bucket": max_bucket}
                _note_lost(stored.loss(threshold=threshold, **how), max_bucket)
            return
        reading: dict[str, Any] = {
            "key": key_field, "columns": fields, "along": along,
            "are_texts": params.kind.body == "text", "input_format": input_format, "quote": quote,
        }  # fmt: skip
        records = None
        if question == "deduplicate":
            records = on_spark.FileRecords.read(session, paths, **reading)
        frame = on_spark.read_files(session, paths, **reading) if records is None else records.rows
        text = fields if len(fields) > 1 else fields[0]
        if question == "query":
            stored, threshold = _opened(on_spark.Index, index, session, parameters)
            answer = stored.query(
                frame, key=key_field, text=text, threshold=threshold, **own_options
            )
            _give(question, answer, stored.params, output_format, folder)
            return
        if question == "add":
            stored = _opened_or_made(on_spark.Index, index, session, parameters)
            source = harmless(" ".join(map(hide_credentials, paths)))
            with working("Spark", on_spark.running):
                result = stored.add(
                    frame, key=key_field, text=text, order=order, source=source, **own_options
                )
            note_short(stored.params, result)
            note(summary(result))
            if result.rejected:
                ctx.exit(REJECTED)
            return
        how = {"key": key_field, "text": text, "order": order, "value": value, **parameters}
        for name in {"verify", "max_bucket"} & own_options.keys():
            how[name] = own_options.pop(name)
        answers = on_spark.Answers(frame, **how)
        with working("Spark", on_spark.running):
            answer = getattr(answers, question)(**own_options)
        if records is not None and folder is not None:
            note(f"{counted(records.write(answer, folder), 'row')} in {folder}")
        else:
            _give(question, answer, params, output_format, folder)
        if question == "rejected":
            return
        if question == "pairs":
            _note_lost(answers.loss(), max_bucket)
        elif n_large := answers.large_buckets().count():
            note(
                f"{counted(n_large, 'bucket')} joined through leaders: some pairs were not compared"
            )
        n_rejected = answers.rejected().count()
        if n_rejected:
            note(f"{counted(n_rejected, 'row')} rejected; lshdb spark rejected lists them")
            ctx.exit(REJECTED)


def _note_lost(lost: Loss, max_bucket: int | str | None) -> None:
    """Note how many pairs of documents large buckets and groups of copies hide."""
    if lost.share:
        most = MAX_BUCKET if max_bucket is None else int(max_bucket)
        note(
            f"buckets of more than {most:,} documents were joined through leaders, and larger "
            f"groups of copies left out of pairs; {loss_in_words(lost)}"
        )


def _check_input(
    ctx: click.Context, question: str, index: str | None, paths: tuple[str, ...], since: int | None
) -> None:
    """Raise UsageError for files beside a dataset, and for missing files elsewhere."""
    if question in ("add", "query", *UPKEEP) and index is None:
        raise click.UsageError(f"{question} needs --index DATASET", ctx)
    if index is None or question in ("add", "query"):
        if not paths:
            raise click.UsageError(
                "missing argument FILE...: files, folders or patterns that Spark can read", ctx
            )
        if since is not None:
            raise click.UsageError("--since is for a dataset: it needs --index", ctx)
        return
    if paths:
        raise click.UsageError(
            f"--index asks a dataset, and {paths[0]!r:.80} is a file: leave out one of them", ctx
        )
    for name in ("key_field", "text_field", "order", "input_format", "quote"):
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            option = name.removesuffix("_format").replace("_", "-")
            raise click.UsageError(f"--{option} is for files, and --index asks a dataset", ctx)


def _check_output(
    ctx: click.Context, question: str, folder: str | None, output_format: str | None
) -> None:
    """Raise UsageError for a format that executors do not write, and for a missing folder."""
    if question == "deduplicate":
        if folder is None:
            raise click.UsageError(
                "deduplicate writes files: name a new folder, with --output FOLDER/", ctx
            )
        if output_format is not None:
            raise click.UsageError("deduplicate writes the format of its input: no --format", ctx)
    elif folder is not None and output_format not in (None, *FOLDER_FORMATS):
        raise click.UsageError(
            f"{folder} is a folder, and executors write {', '.join(FOLDER_FORMATS)}; expected one "
            f"of these as --format, not {output_format}",
            ctx,
        )
    elif folder is not None and question in ("add", *UPKEEP):
        raise click.UsageError(f"{question} prints one line: --output names no folder for it", ctx)


def _opened(
    kind: Any, path: str | None, session: Any, parameters: dict[str, Any]
) -> tuple[Any, float | None]:
    """Return the dataset, and the threshold of the question."""
    expected = {name: value for name, value in parameters.items() if name != "threshold"}
    return kind.open(path, spark=session, **expected), parameters.get("threshold")


def _opened_or_made(kind: Any, path: str | None, session: Any, parameters: dict[str, Any]) -> Any:
    """Open the dataset, or make it."""
    try:
        return kind.open(path, spark=session, **parameters)
    except IndexNotFoundError:
        dataset = kind.create(path, spark=session, **parameters)
    note(f"making the dataset {path}: {described(dataset.params)}")
    return dataset


def _settings(settings: tuple[str, ...]) -> dict[str, str]:
    """Return NAME=VALUE as a mapping."""
    by_name = dict(setting.split("=", 1) for setting in settings if "=" in setting)
    wrong = next((setting for setting in settings if "=" not in setting), None)
    if wrong is not None:
        raise ParameterError(f"--conf is {wrong!r:.80}; expected NAME=VALUE")
    return by_name


def _give(
    question: str,
    answer: Any,
    params: IndexParams,
    output_format: str | None,
    folder: str | None,
) -> None:
    """Print an answer, or have it written to a folder."""
    import lshdb.spark as on_spark

    columns = COLUMNS[question]
    names = [column.name for column in columns]
    if folder is not None:
        told_names = [
            "distance" if name == "similarity" and params.kind.is_distance else name
            for name in names
        ]
        with working("Spark", on_spark.running):
            n = on_spark.write_answer(answer.select(*told_names), folder, output_format)
        note(f"{counted(n, 'row')} in {folder}")
        return
    with working("Spark", on_spark.running):
        answer = on_spark.printable(answer)
    if question == "clusters":
        answer = answer.orderBy(answer["size"].desc(), "cluster", "key")
    elif question == "query":
        answer = answer.orderBy("query", answer["similarity"].desc(), "key")
    elif question != "pairs":
        answer = answer.orderBy(*names[:2])
    rows = (tuple(row) for row in answer.select(*names).toLocalIterator())
    words = {"pairs": "pair", "neighbors": "neighbor", "rejected": "row", "query": "hit"}
    word = words.get(question, "document")
    named, told = measured(params, columns, rows) if "similarity" in names else (columns, rows)
    print_listing(
        named, told, output_format, empty=f"no {word}s", count=(word, f"{word}s"),
        says_count=question == "pairs",
    )  # fmt: skip
