"""For the command line: a Spark session, data frames of files, and Spark's errors as our own.

A path is a file, a folder or a pattern, local or on any file system that the session reads
(``hdfs://``, ``s3a://``). A line without a key, or that is not JSON, becomes a row without a key,
which is rejected later.

The JVM of a session that starts here uses its first compiler only. The second one takes the cores
of one machine for some five seconds of a first answer, and the JVM does little of the work. It does
not collect garbage in parallel with the work either, which would cost another second.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Required, TypedDict, Unpack

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkAttributeError, PySparkException
from pyspark.sql import DataFrame, SparkSession

from lshdb.documents.document import Fields
from lshdb.documents.formats.quotes import quotes_of, shows_quotes
from lshdb.documents.io.markers import has_marker_name
from lshdb.errors import InputError, LshdbError, ParameterError
from lshdb.spark.signing import column_of

__all__ = [
    "FileFormat",
    "ReadingOptions",
    "connect",
    "file_system",
    "read_files",
    "read_format",
    "sparks_errors",
    "use_this_python",
]

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
    # A question has 120 pieces of generated code; by default, Spark keeps 100.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # A writing task makes one file, and not one for each of the 200 partitions that may read it.
    "spark.shuffle.sort.bypassMergeThreshold": "1",
    # Encodings of equal values do not shrink hashes, signatures or texts, and looking for them
    # takes a tenth of the time of signing and keeping rows.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # Spark writes down every plan that it runs, with all plans of what is kept in it: 205 MB of
    # text for pairs of ten documents.
    "spark.sql.maxPlanStringLength": "100000",
}
"""Settings that the caller may override."""


_LOGS = {
    "_delta_log/*.json": ("a Delta table", "delta"),
    "metadata/*.metadata.json": ("a table of Apache Iceberg", "iceberg"),
    ".hoodie/hoodie.properties": ("a table of Apache Hudi", "hudi"),
}
"""Files of tables of which other files are only a part; the name of the table, and Spark's."""


@contextlib.contextmanager
def connect(master: str | None, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Start a session and stop it at the end, or use the active one.

    Its JVM is made for a question or two. For hours of work, set Java's own default
    ``-XX:TieredStopAtLevel=4`` in ``spark.driver.extraJavaOptions``, which is up to a third faster.

    Parameters
    ----------
    master : str or None
        As for ``spark-submit``, or ``sc://HOST`` for Spark Connect; by default that of the
        environment, or this machine.
    settings : mapping
        Settings of Spark, by name.

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
    # Java takes a second to start, and this process is idle meanwhile.
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


def use_this_python(session: SparkSession) -> None:
    """Let Spark's tasks on this machine run this Python, unless the user has named another.

    By default they run the ``python3`` of the PATH, which has no lshdb if a notebook runs in an
    environment that is not on it. On a cluster, the user says where Python is.

    Raises
    ------
    LshdbError
        The Python that the user has named for tasks on this machine has no lshdb.
    """
    try:
        context = session.sparkContext
    except PySparkAttributeError:
        return  # a client of Connect
    if not (context.master or "").startswith("local"):
        return
    if "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python"):
        if not _has_lshdb(context.pythonExec):
            raise _no_lshdb(f"Spark's tasks run {context.pythonExec}, which")
    else:
        context.pythonExec = sys.executable


def file_system(session: SparkSession, path: str) -> tuple[Any, Any] | None:
    """Return Spark's file system of a path, and the path as it takes it; None through Connect."""
    try:
        java: Any = session._jvm
    except (AttributeError, PySparkAttributeError):
        return None
    place = java.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()), place


@functools.cache
def _has_lshdb(python: str) -> bool:
    """Return False if a Python certainly has no lshdb."""
    if python == sys.executable:
        return True
    code = "import importlib.util, sys; sys.exit(3 * (importlib.util.find_spec('lshdb') is None))"
    try:
        return subprocess.run([python, "-c", code], check=False).returncode != 3
    except OSError:
        return True  # Spark says that it does not start


def _no_lshdb(which: str) -> LshdbError:
    return LshdbError(
        f"{which} has no lshdb",
        hint="install lshdb on every node, or name a Python that has it: "
        "PYSPARK_PYTHON=environment/bin/python",
    )


def _import_stages() -> None:
    """Import the modules of a question early; errors are left to the question."""
    with contextlib.suppress(ImportError):
        for name in ("lshdb.spark.frame_answers", "pandas"):
            importlib.import_module(name)


@contextlib.contextmanager
def _quick_jvm(settings: Mapping[str, str]) -> Iterator[None]:
    """Set options for a JVM that starts meanwhile: a quick start, and a collector unless chosen."""
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
    """Return whether the user has chosen a garbage collector: Java does not start with two."""
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
        A job failed.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if "No module named 'lshdb'" in str(error):
            raise _no_lshdb("the Python that Spark's executors run") from error
        line = _line(error)
        hint = _store_hint(line) or "its log has more: give --conf spark.log.level=WARN"
        raise LshdbError(f"Spark failed: {line}", hint=hint) from error


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The format of files: ``jsonl``, ``csv``, ``tsv`` or ``parquet``, and how cells are cut."""

    name: str
    separator: str = ""
    quote: str = ""


def read_files(
    session: SparkSession, paths: Sequence[str], **how: Unpack[ReadingOptions]
) -> DataFrame:
    """Return the rows of files of one format as a data frame.

    Parameters
    ----------
    session : SparkSession
        Reads the files.
    paths : sequence of str
        Files, folders and patterns.
    **how
        What is read, and how: see :class:`ReadingOptions`.

    Raises
    ------
    InputError
        A file is missing, has another format, or is a table of Delta, Iceberg or Hudi.
    ParameterError
        The names tell no format, or several.
    """
    return read_format(session, paths, **how)[0]


class ReadingOptions(TypedDict, total=False):
    """How files are read.

    Attributes
    ----------
    key : str
        The column of the keys.
    columns : sequence of str
        The columns of the texts.
    along : sequence of str
        Further columns. For their types, JSON Lines are read once more.
    are_texts : bool
        Whether bodies are texts. For other bodies, JSON Lines are also read once more.
    input_format : {"auto", "jsonl", "csv", "tsv", "parquet"}
        ``auto`` goes by the names of the files.
    quote : str, optional
        As for :func:`lshdb.read_documents`. Without it, the first lines of TSV decide.
    """

    key: Required[str]
    columns: Required[Sequence[str]]
    along: Sequence[str]
    are_texts: bool
    input_format: str
    quote: str | None


def read_format(
    session: SparkSession, paths: Sequence[str], **how: Unpack[ReadingOptions]
) -> tuple[DataFrame, FileFormat]:
    """Return the rows of files, as :func:`read_files`, and the format of the files."""
    input_format, are_texts = how.get("input_format", "auto"), how.get("are_texts", True)
    key, columns, along = how["key"], how["columns"], how.get("along", ())
    _refuse_unread(paths)
    form = _format_of(paths) if input_format == "auto" else input_format
    try:
        if form == "parquet":
            _refuse_tables(session, paths)
            return session.read.parquet(*paths), FileFormat(form)
        if form in ("csv", "tsv"):
            separator = "," if form == "csv" else "\t"
            quotes = _quotes_of(session, paths, form, how.get("quote"))
            cells = session.read.csv(
                list(paths), header=True, sep=separator, quote=quotes, escape=quotes,
                multiLine=bool(quotes),
            )  # fmt: skip
            return cells, FileFormat(form, separator, quotes)
        if along or not are_texts:
            inferred = session.read.json(list(paths))
            texts = (key, *columns) if are_texts else (key,)
            names = [name for name in texts if name in inferred.columns]
            cast = {name: column_of(inferred, name).cast("string") for name in names}
            return inferred.withColumns(cast), FileFormat(form)
        schema = ", ".join(f"`{name}` string" for name in dict.fromkeys([key, *columns]))
        return session.read.schema(schema).json(list(paths)), FileFormat(form)
    except (PySparkException, Py4JJavaError) as error:
        line = _line(error)
        raise InputError(f"the input cannot be read: {line}", hint=_store_hint(line)) from error


def _refuse_unread(paths: Sequence[str]) -> None:
    """Raise InputError for files that Spark passes over although they are named."""
    for path in paths:
        name = os.path.basename(path)
        is_file = os.path.isfile(path) or ("://" in path and "." in name[1:])
        if is_file and (has_marker_name(name) or name.startswith(".")):
            raise InputError(
                f"{path}: Spark passes over files whose names begin with _ or .",
                hint="rename the file, or name its folder if it is one",
            )


def _refuse_tables(session: SparkSession, paths: Sequence[str]) -> None:
    """Raise InputError for a table with a log: its files hold rows that it has no more."""
    for path in paths:
        if os.path.isfile(path):
            continue
        for log, (table, name) in _LOGS.items():
            try:
                session.read.text(f"{path.rstrip('/')}/{log}").schema  # noqa: B018
            except PySparkException:
                continue  # there is no such log
            raise InputError(
                f"{path} is {table}, and its files hold rows that it has no more",
                hint=f"read it as a data frame, by spark.read.format({name!r}), and give that to "
                "lshdb.spark",
            )


def _quotes_of(session: SparkSession, paths: Sequence[str], form: str, quote: str | None) -> str:
    """Return the character that quotes cells; empty for none."""
    fields = Fields(quote=quote)
    fields.check()
    if quote is not None or form == "csv":
        return quotes_of(form, fields).character
    lines = [row[0].encode() for row in session.read.text(list(paths)).limit(_LOOK_LINES).collect()]
    return '"' if shows_quotes(b"\n".join(lines), is_whole=len(lines) < _LOOK_LINES) else ""


def _format_of(paths: Sequence[str]) -> str:
    formats = set()
    for path in paths:
        name = path.rstrip("/")
        while name.endswith(_COMPRESSED):
            name = name.rpartition(".")[0]
        formats.add(_SUFFIXES.get(os.path.splitext(name)[1].lower(), ""))
    if len(formats) == 1 and formats != {""}:
        return formats.pop()
    raise ParameterError(
        "the names of the input do not tell one format of all",
        hint="give --input jsonl, csv, tsv or parquet",
    )


def _store_hint(line: str) -> str | None:
    """Return what to do if Spark has no classes for a kind of URL."""
    if not re.search(r"FileSystem not found|No FileSystem for scheme", line):
        return None
    return (
        "Spark needs a package for such URLs, and names those of S3 s3a://, not s3://. Give --conf "
        "spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION, with Spark's version of Hadoop"
    )


def _line(error: Exception) -> str:
    if isinstance(error, Py4JJavaError):  # its own first line names a method of Java
        return str(error.java_exception.toString()).strip().partition("\n")[0][:500]
    return str(error).strip().partition("\n")[0][:500]
