"""A session of Spark and data frames of files, for the command line; and Spark's errors as ours.

Paths are Spark's: local or of any file system that the session reads (``hdfs://``, ``s3a://``),
files, folders and patterns. A line that is no JSON, or has no key, becomes a row without a key,
which is rejected later like any other.

The JVM of a session that begins here stops at its first compiler. The second one takes the cores of
one machine for some five seconds of a first answer, and most of the work is not the JVM's. Nor does
it collect garbage beside the work, which costs a first answer another second.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lshdb.documents.document import Fields
from lshdb.documents.formats.quotes import quotes_of, shows_quotes
from lshdb.errors import InputError, LshdbError, ParameterError
from lshdb.spark.signing import column_of

__all__ = ["connect", "read_files", "sparks_errors"]

_SUFFIXES = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv",
    ".parquet": "parquet",
}  # fmt: skip
_LOOK_LINES = 2000
_COMPRESSED = (".gz", ".bz2", ".zst", ".zstd", ".lz4", ".xz")
_OPTIONS = "SPARK_SUBMIT_OPTS"
"""Options of the JVM; those of ``spark.driver.extraJavaOptions`` come behind them, and win."""
_QUICK = "-XX:TieredStopAtLevel=1"
_COLLECTOR = "-XX:+UseParallelGC"
_OTHER_OPTIONS = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
"""Variables from which Java takes options by itself."""
_SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # A sixth to a third fewer bytes between executors than by lz4, for a fiftieth of the time.
    "spark.io.compression.codec": "zstd",
    # A question has 120 pieces of generated code, which the 100 places that Spark has do not hold.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # One file a task that writes, and not one for each of the 200 partitions that may read it.
    "spark.shuffle.sort.bypassMergeThreshold": "1",
    # Hashes, signatures and texts come no smaller by encodings of equal values; looking takes a
    # tenth of the time in which rows are signed and kept.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}
"""Where the caller says nothing else."""


@contextlib.contextmanager
def connect(master: str | None, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Give a session, and stop it at the end if it was not there before.

    Its JVM is one for a question or two. For hours of work, give ``-XX:TieredStopAtLevel=4`` in
    ``spark.driver.extraJavaOptions``, which is Java's own default, and up to a third faster.

    Parameters
    ----------
    master : str or None
        As for ``spark-submit``, or ``sc://HOST`` for Spark Connect; by default what the
        surroundings say, or this machine.
    settings : mapping
        Spark's configuration, by name.

    Raises
    ------
    LshdbError
        Spark does not start.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    before = SparkSession.getActiveSession()
    builder = SparkSession.builder.appName("lshdb")
    if master is not None and master.startswith("sc://"):
        builder = builder.remote(master)
    elif master is not None:
        builder = builder.master(master)
    for name, value in (_SETTINGS | dict(settings)).items():
        builder = builder.config(name, value)
    # Java takes a second to begin, in which nothing is to be done here.
    threading.Thread(target=_import_stages, daemon=True).start()
    try:
        with _quick_jvm(settings):
            session = builder.getOrCreate()
    except (PySparkException, OSError) as error:
        raise LshdbError(
            f"Spark does not start: {_line(error)}",
            hint="Spark needs Java 17 or later: set JAVA_HOME, or install it",
        ) from error
    try:
        yield session
    finally:
        if session is not before:
            session.stop()


def _import_stages() -> None:
    """Import what a question needs; whoever asks one says what is missing."""
    with contextlib.suppress(ImportError):
        for name in ("lshdb.spark.frame_answers", "pandas"):
            importlib.import_module(name)


@contextlib.contextmanager
def _quick_jvm(settings: Mapping[str, str]) -> Iterator[None]:
    """Have a JVM that is started meanwhile begin quickly, by the collector that was chosen."""
    before = os.environ.get(_OPTIONS)
    options = [_QUICK] if _names_collector(settings) else [_QUICK, _COLLECTOR]
    os.environ[_OPTIONS] = " ".join([*options, before or ""]).strip()
    try:
        yield
    finally:
        if before is None:
            del os.environ[_OPTIONS]
        else:
            os.environ[_OPTIONS] = before


def _names_collector(settings: Mapping[str, str]) -> bool:
    """Return whether a garbage collector is chosen already: Java refuses to begin with two."""
    texts = [value for name, value in settings.items() if name.endswith("JavaOptions")]
    texts += [os.environ.get(name, "") for name in (_OPTIONS, *_OTHER_OPTIONS)]
    home = os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)
    folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(home, "conf")
    with (
        contextlib.suppress(OSError),
        open(os.path.join(folder, "spark-defaults.conf"), encoding="utf-8", errors="replace") as it,
    ):
        texts.append(it.read())
    return any(re.search(r"\+Use\w*GC\b", text) for text in texts)


@contextlib.contextmanager
def sparks_errors() -> Iterator[None]:
    """Turn the errors of Spark's jobs into errors of this library.

    Raises
    ------
    LshdbError
    """
    try:
        yield
    except PySparkException as error:
        raise LshdbError(
            f"Spark failed: {_line(error)}",
            hint="its log has more: give --conf spark.log.level=WARN",
        ) from error


def read_files(
    session: SparkSession,
    paths: Sequence[str],
    *,
    key: str,
    columns: Sequence[str],
    along: Sequence[str] = (),
    are_texts: bool = True,
    input_format: str = "auto",
    quote: str | None = None,
) -> DataFrame:
    """Return the rows of files of one format as a data frame.

    Parameters
    ----------
    session : SparkSession
    paths : sequence of str
    key : str
    columns : sequence of str
        Of the texts.
    along : sequence of str
        Other columns, whose types are found by reading JSON Lines once more.
    are_texts : bool
        Whether bodies are texts; other types are found as well.
    input_format : {"auto", "jsonl", "csv", "tsv", "parquet"}
        Auto goes by the names.
    quote : str, optional
        As for :func:`lshdb.read_documents`. Whether TSV has quotes is judged by its first lines.

    Raises
    ------
    InputError
        There is no such file, or it is of another format, or a Delta table.
    ParameterError
        The names say nothing, or name several formats.
    """
    form = _format_of(paths) if input_format == "auto" else input_format
    try:
        if form == "parquet":
            _refuse_delta_tables(session, paths)
            return session.read.parquet(*paths)
        if form in ("csv", "tsv"):
            separator = "," if form == "csv" else "\t"
            quotes = _quotes_of(session, paths, form, quote)
            return session.read.csv(
                list(paths), header=True, sep=separator, quote=quotes, escape=quotes,
                multiLine=bool(quotes),
            )  # fmt: skip
        if along or not are_texts:
            inferred = session.read.json(list(paths))
            texts = (key, *columns) if are_texts else (key,)
            names = [name for name in texts if name in inferred.columns]
            cast = {name: column_of(inferred, name).cast("string") for name in names}
            return inferred.withColumns(cast)
        schema = ", ".join(f"`{name}` string" for name in dict.fromkeys([key, *columns]))
        return session.read.schema(schema).json(list(paths))
    except PySparkException as error:
        raise InputError(f"the input cannot be read: {_line(error)}") from error


def _refuse_delta_tables(session: SparkSession, paths: Sequence[str]) -> None:
    """Refuse folders that hold rows which the table has no more.

    Raises
    ------
    InputError
    """
    for path in paths:
        if os.path.isfile(path):
            continue
        try:
            session.read.text(f"{path.rstrip('/')}/_delta_log/*.json").schema  # noqa: B018
        except PySparkException:
            continue  # there is no such log
        raise InputError(
            f"{path} is a Delta table, and its files hold rows that it has no more",
            hint="read it as a data frame, by spark.read.format('delta'), and give that to "
            "lshdb.spark",
        )


def _quotes_of(session: SparkSession, paths: Sequence[str], form: str, quote: str | None) -> str:
    """Return what quotes cells; empty if nothing does."""
    fields = Fields(quote=quote)
    fields.check()
    if quote is not None or form == "csv":
        return quotes_of(form, fields).character
    lines = [row[0].encode() for row in session.read.text(list(paths)).limit(_LOOK_LINES).collect()]
    return '"' if shows_quotes(b"\n".join(lines), is_whole=len(lines) < _LOOK_LINES) else ""


def _format_of(paths: Sequence[str]) -> str:
    found = set()
    for path in paths:
        name = path.rstrip("/")
        while name.endswith(_COMPRESSED):
            name = name.rpartition(".")[0]
        found.add(_SUFFIXES.get(os.path.splitext(name)[1].lower(), ""))
    if len(found) == 1 and found != {""}:
        return found.pop()
    raise ParameterError(
        "the names of the input do not tell one format of all",
        hint="give --input jsonl, csv, tsv or parquet",
    )


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:500]
